//! Tests the command under a seccomp filter that makes a system call fail, either in the command and in all programs
//! that it starts, or only in the worker.

use crate::{
    row::{Row, row},
    setup::RunSetup,
};

/// Allowed answers if the command must report the failing system call before it starts a trial.
const STOPPED: &[&str] = &["stopped"];
/// Allowed answers if the process that starts the worker must report the failing system call.
const NOTHING: &[&str] = &["no-verdict no-verdict:worker"];

/// Makes the system call `call` fail in the command and in every program that it starts.
fn everywhere(s: &mut RunSetup<'_>, call: &str) {
    s.before.extend([s.tools.forbid.clone().into(), call.into()]);
}

/// Makes the system call `call` fail in the worker.
fn in_the_worker(s: &mut RunSetup<'_>, call: &str) {
    let words = format!("{} {call}", s.tools.forbid.display());
    s.launcher_words(&words);
}

pub(crate) const ROWS: &[Row] = &[
    row("call/getcwd", |s| everywhere(s, "getcwd"), STOPPED)
        .says(&["`getcwd` fails on this machine"])
        .alone(),
    row("call/getdents64", |s| everywhere(s, "getdents64"), STOPPED)
        .says(&["`getdents64` fails on this machine"])
        .alone(),
    row(
        "call/prctl-and-a-daemon",
        |s| {
            everywhere(s, "prctl");
            s.trouble("daemon@body")
        },
        STOPPED,
    )
    .says(&["`prctl` fails on this machine", "processes that are left running cannot be found"])
    .alone(),
    // Linux before 5.3 does not have `pidfd_open`. The command then starts one thread per child process that waits for
    // the child.
    row("call/pidfd_open", |s| everywhere(s, "pidfd_open"), &["pass"]).alone(),
    row(
        "call/pidfd_open-and-a-daemon",
        |s| {
            everywhere(s, "pidfd_open");
            s.trouble("daemon@body")
        },
        &["fail leak:process"],
    )
    .alone(),
    row(
        "call/pidfd_open-and-a-hang",
        |s| {
            s.hangs();
            everywhere(s, "pidfd_open");
            s.trouble("hang@body")
        },
        &["fail hang:*"],
    )
    .alone(),
    row("call/getcwd-in-the-worker", |s| in_the_worker(s, "getcwd"), NOTHING)
        .says(&["`getcwd` fails on this machine"])
        .alone(),
    row("call/getdents64-in-the-worker", |s| in_the_worker(s, "getdents64"), NOTHING)
        .says(&["`getdents64` fails on this machine"])
        .alone(),
    row(
        "call/prctl-and-a-daemon-in-the-worker",
        |s| {
            in_the_worker(s, "prctl");
            s.trouble("daemon@body")
        },
        NOTHING,
    )
    .says(&["`prctl` fails on this machine"])
    .alone(),
];
