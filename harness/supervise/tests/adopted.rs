//! Tests children whose own children leave the process group and outlive them. These tests are a separate program,
//! because tests in one process would find each other's children.

use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use supervise::{Cancel, ChildEnd, Limits, Observed, StopReason, Suspension, run};

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
    assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{script}: {seen:?}");
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
        matches!(
            seen.ended,
            ChildEnd::Stopped { reason: StopReason::Suspended(Suspension::Stopped), .. }
        ),
        "{seen:?}"
    );
}

/// Runs a script whose leftover processes have 3 s to end, and returns the command lines of those that were killed.
fn left_after_a_grace(script: &str) -> (Vec<String>, Duration) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let limits = Limits { after: Duration::from_secs(3), ..Limits::default() };
    let start = Instant::now();
    let seen = run(command, b"", &limits, &Cancel::new().unwrap(), &mut |_| {});
    let mut left: Vec<_> = seen.left_behind.iter().map(|p| p.command.join(" ")).collect();
    left.sort_unstable();
    (left, start.elapsed())
}

/// Processes in the group of the child and outside of it share one grace period.
#[test]
fn leftover_processes_have_a_grace_to_end() {
    let _alone = ALONE.lock();
    for script in [
        "sleep 1 >/dev/null 2>&1 & exit 0",
        "setsid sleep 1 >/dev/null 2>&1 </dev/null & exit 0",
        "setsid sh -c 'sleep 1 & exit 0' >/dev/null 2>&1 </dev/null & sleep 1.2 & exit 0",
    ] {
        let (left, took) = left_after_a_grace(script);
        assert_eq!(left, [""; 0], "{script}");
        assert!(took >= Duration::from_secs(1), "{script}: {took:?}");
    }
    let script = "setsid sleep 613 >/dev/null 2>&1 </dev/null & sleep 614 & sleep 1 & exit 0";
    let (left, took) = left_after_a_grace(script);
    assert_eq!(left, ["sleep 613", "sleep 614"]);
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(6), "{took:?}");
    // The grace period applies only if the child exits by itself. Here a signal ends it.
    let (left, took) = left_after_a_grace("setsid sleep 615 </dev/null & sleep 0.1; kill -9 $$");
    assert_eq!(left, ["sleep 615"]);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn request_to_cancel_ends_the_grace() {
    let _alone = ALONE.lock();
    for script in ["sleep 616 & exit 0", "setsid sleep 617 >/dev/null 2>&1 </dev/null & exit 0"] {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let limits = Limits { after: Duration::from_secs(600), ..Limits::default() };
        let (cancel, start) = (Cancel::new().unwrap(), Instant::now());
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                cancel.cancel();
            });
            run(command, b"", &limits, &cancel, &mut |_| {})
        });
        assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{script}: {seen:?}");
        assert_eq!(seen.left_behind.len(), 1, "{script}: {seen:?}");
        assert!(start.elapsed() < Duration::from_secs(60), "{script}");
    }
}
