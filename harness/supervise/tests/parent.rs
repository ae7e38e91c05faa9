//! Tests a child whose parent receives a signal that asks it to end, or is killed. The parent is this test program,
//! started again with an environment variable.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use supervise::{Cancel, Limits, run};

const ROLE: &str = "SUPERVISE_TEST_SCRIPT";

/// Variable that makes the parent ignore SIGCHLD, as some job runners do.
const IGNORING: &str = "SUPERVISE_TEST_IGNORES_SIGCHLD";

/// Variable that makes the parent ignore the request to end once the child runs.
const STUCK: &str = "SUPERVISE_TEST_IS_STUCK";

/// Variable with the time in ms after which a request ends the parent.
const ENDS: &str = "SUPERVISE_TEST_ENDS_AFTER";

/// Variable for a parent that never looks at the request.
const UNATTENDED: &str = "SUPERVISE_TEST_IS_UNATTENDED";

/// Script of a child that ends when its standard input closes, as a child should.
const OBEDIENT: &str = "read orders; echo $$; cat > /dev/null; exit 0";

/// Script of a child that also ignores SIGTERM, so that a cancellation has to wait for it.
const STUBBORN: &str = "trap '' TERM; read orders; echo $$; cat > /dev/null; exit 0";

/// Acts as the parent. Does nothing unless another test starts it.
#[test]
fn parent() {
    let Ok(script) = env::var(ROLE) else { return };
    if env::var_os(IGNORING).is_some() {
        // SAFETY: the signal is ignored, so no handler is installed.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
    let cancel = Cancel::new().unwrap();
    let attended = Arc::new(AtomicBool::new(env::var_os(UNATTENDED).is_none()));
    cancel.on_signals(&attended).unwrap();
    if let Ok(ms) = env::var(ENDS) {
        cancel.end_after(Duration::from_millis(ms.parse().unwrap())).unwrap();
    }
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let hour = Duration::from_secs(3600);
    let limits = Limits { total: hour, quiet: hour, grace: hour, reap: hour, ..Limits::default() };
    let seen = run(command, b"orders", &limits, &cancel, &mut |line| {
        println!("child {}", String::from_utf8_lossy(&line.text));
        while env::var_os(STUCK).is_some() {
            std::thread::park();
        }
    });
    assert!(seen.left_behind.is_empty(), "{seen:?}");
    println!("ended {:?}", seen.ended);
}

struct Family {
    parent: Child,
    output: BufReader<ChildStdout>,
    /// File descriptor that becomes ready when the child has ended; `None` if it has already ended.
    child: Option<OwnedFd>,
}

fn start(script: &str, variables: &[(&str, &str)]) -> Family {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "parent", "--nocapture"])
        .env(ROLE, script)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped());
    let mut parent = command.spawn().unwrap();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    // The test harness prints the name of the test in front of the first line.
    let line = read_until(&mut output, "child ");
    let pid = line.rsplit(' ').next().unwrap().trim().parse().unwrap();
    let child = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).ok();
    Family { parent, output, child }
}

fn read_until(output: &mut BufReader<ChildStdout>, word: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "no line with {word:?}");
        if line.contains(word) {
            return line;
        }
    }
}

impl Family {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.parent), signal).unwrap();
    }

    fn end(mut self) -> ExitStatus {
        let status = self.parent.wait().unwrap();
        let Some(child) = self.child else { return status };
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        let gone = rustix::event::poll(&mut [PollFd::new(&child, PollFlags::IN)], Some(&limit));
        assert_eq!(gone, Ok(1), "the child outlives its parent");
        status
    }
}

#[test]
fn parent_killed_with_sigkill_leaves_no_child() {
    for script in [OBEDIENT, STUBBORN] {
        let family = start(script, &[]);
        family.signal(Signal::KILL);
        assert_eq!(family.end().signal(), Some(9));
    }
}

#[test]
fn first_signal_cancels() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut family = start(OBEDIENT, &[]);
        family.signal(signal);
        let ended = read_until(&mut family.output, "ended ");
        assert!(ended.contains("Stopped { reason: Cancelled"), "{ended}");
        assert_eq!(family.end().code(), Some(0), "{signal:?}");
    }
}

#[test]
fn later_signal_ends_the_parent_at_once() {
    let mut family = start(STUBBORN, &[(STUCK, "yes")]);
    family.signal(Signal::INT);
    // If the first signal was handled late, the second may still count as part of the same request, but the third
    // cannot.
    for _ in 0..2 {
        std::thread::sleep(2 * supervise::REPEATED_SIGNAL_TIME);
        if family.parent.try_wait().unwrap().is_none() {
            family.signal(Signal::HUP);
        }
    }
    assert_eq!(family.end().code(), Some(129));
}

#[test]
fn cancel_kills_a_child_that_ignores_sigterm() {
    // The limits of the parent allow the child an hour to end.
    let mut family = start(STUBBORN, &[]);
    family.signal(Signal::INT);
    let ended = read_until(&mut family.output, "ended ");
    assert!(ended.contains("Stopped { reason: Cancelled, forced: true }"), "{ended}");
    assert_eq!(family.end().code(), Some(0));
}

#[test]
fn parent_that_does_not_look_at_the_request_ends_with_its_child() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let family = start(STUBBORN, &[(STUCK, "yes"), (ENDS, "10")]);
        family.signal(signal);
        assert_eq!(family.end().code(), Some(code));
    }
}

#[test]
fn signal_has_its_default_action_while_unattended() {
    let family = start(OBEDIENT, &[(UNATTENDED, "yes")]);
    family.signal(Signal::TERM);
    assert_eq!(family.end().signal(), Some(15));
}

#[test]
fn signals_that_come_together_are_one_request() {
    // timeout(1) sends signals like this: one to its child, and one to the group of both.
    let mut family = start(OBEDIENT, &[]);
    family.signal(Signal::TERM);
    family.signal(Signal::HUP);
    let ended = read_until(&mut family.output, "ended ");
    assert!(ended.contains("Stopped { reason: Cancelled"), "{ended}");
    assert_eq!(family.end().code(), Some(0));
}

#[test]
fn parent_that_ignores_sigchld_reports_a_lost_child() {
    let mut family = start("read orders; echo $$; exit 3", &[(IGNORING, "yes")]);
    let ended = read_until(&mut family.output, "ended ");
    assert!(ended.contains("ended Lost(") && ended.contains("SIGCHLD"), "{ended}");
    assert_eq!(family.end().code(), Some(0));
}
