//! Children whose own children leave their group and outlive them. In a process of its own, as others' tests would find them too.

use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use supervise::{Cancel, Ended, Limits, Observed, Reason, Suspension, run};

/// One test at a time, as each has all children of this process for itself.
static ALONE: Mutex<()> = Mutex::new(());

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

/// Those that leave their group while their leader runs are children of this process at once.
#[test]
fn what_another_left_is_not_ended_by_who_ends_first() {
    let _alone = ALONE.lock();
    let patient = std::thread::spawn(|| {
        watch("(setsid sleep 603 >/dev/null 2>&1 </dev/null &); sleep 1.5", Duration::MAX)
    });
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        assert_eq!(watch("exit 0", Duration::MAX).left_behind, []);
        // One that says nothing of itself stays until all have ended.
        let script = "(setsid env -i sleep 604 >/dev/null 2>&1 </dev/null &); sleep 0.1";
        assert_eq!(watch(script, Duration::MAX).left_behind, []);
    }
    let mut left = patient.join().unwrap().left_behind;
    left.sort_by_key(|process| process.pid);
    let names: Vec<&str> = left.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["sleep"; 4], "{left:?}");
}

#[test]
fn who_left_the_group_is_found_and_ended() {
    let _alone = ALONE.lock();
    check("setsid sleep 600 >/dev/null 2>&1 </dev/null & exit 0", &["sleep"]);
    check(
        "setsid sh -c 'sleep 601 & sleep 602 & exit 0' >/dev/null 2>&1 </dev/null & exit 0",
        &["sleep", "sleep"],
    );
    check("setsid sleep 0.05 >/dev/null 2>&1 </dev/null & exit 0", &[]);
    check("exit 0", &[]);
    // One that somebody suspended is no silent one.
    let seen = watch("kill -STOP $$", Duration::from_millis(300));
    assert!(
        matches!(seen.ended, Ended::Stopped { reason: Reason::Suspended(Suspension::Stopped), .. }),
        "{seen:?}"
    );
}
