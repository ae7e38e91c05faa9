//! Tests children whose own children leave the process group and outlive them. These tests are a separate program,
//! because tests in one process would find each other's children.

use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use supervise::{Cancel, Ended, Limits, Observed, Reason, Suspension, run};

/// Runs one test at a time, because each test treats all children of this process as its own.
static ALONE: Mutex<()> = Mutex::new(());

fn watch(script: &str, quiet: Duration) -> Observed {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let limits = Limits { quiet, ..Limits::default() };
    run(command, b"", &limits, &Cancel::new().unwrap(), &mut |_| {})
}

/// Runs a script that exits with 0, and checks the names of the processes that it left behind. All of them must have
/// been killed.
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

/// Processes that leave their group while the leader runs become children of this process at once.
#[test]
fn leftovers_of_a_running_child_are_kept() {
    let _alone = ALONE.lock();
    let patient = std::thread::spawn(|| {
        watch("(setsid sleep 603 >/dev/null 2>&1 </dev/null &); sleep 1.5", Duration::MAX)
    });
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        assert_eq!(watch("exit 0", Duration::MAX).left_behind, []);
        // An orphan without the variable is not killed until all leaders have ended.
        let script = "(setsid env -i sleep 604 >/dev/null 2>&1 </dev/null &); sleep 0.1";
        assert_eq!(watch(script, Duration::MAX).left_behind, []);
    }
    let mut left = patient.join().unwrap().left_behind;
    left.sort_by_key(|process| process.pid);
    let names: Vec<&str> = left.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["sleep"; 4], "{left:?}");
}

#[test]
fn processes_that_left_the_group_are_ended() {
    let _alone = ALONE.lock();
    check("setsid sleep 600 >/dev/null 2>&1 </dev/null & exit 0", &["sleep"]);
    check(
        "setsid sh -c 'sleep 601 & sleep 602 & exit 0' >/dev/null 2>&1 </dev/null & exit 0",
        &["sleep", "sleep"],
    );
    check("setsid sleep 0.05 >/dev/null 2>&1 </dev/null & exit 0", &[]);
    check("exit 0", &[]);
    // A child that a signal has stopped is suspended and not silent.
    let seen = watch("kill -STOP $$", Duration::from_millis(300));
    assert!(
        matches!(seen.ended, Ended::Stopped { reason: Reason::Suspended(Suspension::Stopped), .. }),
        "{seen:?}"
    );
}
