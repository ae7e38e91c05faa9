//! Children whose own children leave their group and outlive them. In a process of its own, as others' tests would find them too.

use std::process::Command;
use std::time::Duration;

use supervise::{Cancel, Ended, Limits, Observed, Reason, run};

fn watch(script: &str, quiet: Duration) -> Observed {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let limits = Limits { quiet, ..Limits::default() };
    run(command, b"", &limits, &Cancel::new().unwrap(), &mut |_| {})
}

/// How many of each name were left, none of which survived.
#[track_caller]
fn check(script: &str, names: &[&str]) {
    let seen = watch(script, Duration::MAX);
    assert!(matches!(seen.ended, Ended::Exited(0)), "{script}: {seen:?}");
    let mut found: Vec<&str> = seen.left_behind.iter().map(|p| p.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, names, "{script}");
    for process in &seen.left_behind {
        assert!(!process.survived, "{script}: {seen:?}");
        assert!(
            !std::path::Path::new(&format!("/proc/{}", process.pid)).exists(),
            "{script}: {seen:?}"
        );
    }
}

#[test]
fn who_left_the_group_is_found_and_ended() {
    check("setsid sleep 600 >/dev/null 2>&1 </dev/null & exit 0", &["sleep"]);
    check(
        "setsid sh -c 'sleep 601 & sleep 602 & exit 0' >/dev/null 2>&1 </dev/null & exit 0",
        &["sleep", "sleep"],
    );
    check("setsid sleep 0.05 >/dev/null 2>&1 </dev/null & exit 0", &[]);
    check("exit 0", &[]);
    // One that somebody suspended is no silent one.
    let seen = watch("kill -STOP $$", Duration::from_millis(300));
    assert!(matches!(seen.ended, Ended::Stopped { reason: Reason::Suspended, .. }), "{seen:?}");
}
