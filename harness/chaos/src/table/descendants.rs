//! Tests the command with libraries that start a process and leave it behind. No such process may outlive the run.

use crate::row::{Row, row};

/// Allowed answers if a process is left behind, which is a mistake of the library that started the process.
const LEAK: &[&str] = &["fail leak:process"];

pub(crate) const ROWS: &[Row] = &[
    row("descendant/ends-by-itself", |s| s.trouble("fork_brief@body"), &["pass"]),
    row("descendant/zombies", |s| s.trouble("zombies@body"), &["pass"]),
    row("descendant/in-the-group", |s| s.trouble("fork@body"), LEAK),
    row("descendant/in-the-group-from-init", |s| s.trouble("fork@init"), LEAK),
    row("descendant/own-session", |s| s.trouble("setsid@body"), LEAK),
    row("descendant/double-fork", |s| s.trouble("double_fork@body"), LEAK),
    row("descendant/daemon", |s| s.trouble("daemon@body"), LEAK),
    row("descendant/daemon-from-init", |s| s.trouble("daemon@init"), LEAK),
    row("descendant/daemon-at-the-end", |s| s.trouble("daemon@bye"), LEAK),
    row("descendant/daemon-from-a-destructor", |s| s.trouble("daemon@destructor"), LEAK),
    row(
        "descendant/daemon-and-crash",
        |s| {
            s.trouble("daemon@setup");
            s.trouble("segv@body")
        },
        &["fail crash:*"],
    ),
    row(
        "descendant/daemon-and-hang",
        |s| {
            s.hangs();
            s.trouble("daemon@setup");
            s.trouble("hang@body")
        },
        &["fail hang:*"],
    ),
    row(
        "descendant/daemon-and-exit",
        |s| {
            s.trouble("daemon@setup");
            s.trouble("exit=0@body")
        },
        &["fail library-exit:*"],
    ),
    row(
        "descendant/two-daemons-and-a-child",
        |s| {
            s.trouble("daemon@setup");
            s.trouble("daemon@body");
            s.trouble("fork@body")
        },
        LEAK,
    ),
    row("descendant/leader-leaves-its-group", |s| s.trouble("leave_group@body"), &["pass"]),
];
