//! Tests how the command handles bytes in the pipe from the worker that are not the worker's events.

use crate::row::{Row, row};

const NOTHING: &[&str] = &["no-verdict *"];

pub(crate) const ROWS: &[Row] = &[
    row("protocol/second-hello", |s| s.trouble("second_hello@body"), NOTHING),
    row("protocol/second-hello-at-the-end", |s| s.trouble("second_hello@bye"), NOTHING),
    row("protocol/other-nonce", |s| s.trouble("other_nonce@start"), NOTHING),
    row("protocol/other-nonce-in-body", |s| s.trouble("other_nonce@body"), NOTHING),
    row("protocol/plan-twice", |s| s.trouble("replay@bye"), NOTHING),
    row("protocol/garbage", |s| s.trouble("garbage@body"), NOTHING),
    row("protocol/garbage-before-all", |s| s.trouble("garbage@start"), NOTHING),
    row("protocol/garbage-at-the-end", |s| s.trouble("garbage@bye"), NOTHING),
    row("protocol/line-without-end", |s| s.trouble("partial@body"), NOTHING),
    row("protocol/line-without-end-at-the-end", |s| s.trouble("partial@bye"), NOTHING),
    row("protocol/unknown-event", |s| s.trouble("unknown_event@body"), NOTHING),
    row("protocol/huge-line", |s| s.trouble("huge_line@body"), NOTHING),
    row("protocol/every-line-twice", |s| s.trouble("double@setup"), NOTHING),
    row("protocol/lines-are-lost", |s| s.trouble("drop@middle"), &["fail library-exit:*"]).alone(),
    row(
        "protocol/lines-are-lost-from-the-end-of-the-body",
        |s| s.trouble("drop@verify"),
        &["fail library-exit:*"],
    ),
    row("protocol/half-a-line", |s| s.trouble("halve@middle"), &["fail library-exit:*"]).alone(),
    row("protocol/forged-done", |s| s.trouble("forged_done@body"), NOTHING),
    row(
        "protocol/forged-end-of-all",
        |s| {
            s.trouble("forged_bye@body");
            s.trouble("_exit=0@body")
        },
        NOTHING,
    ),
    row("protocol/forged-return", |s| s.trouble("forged_end@body"), NOTHING),
    row("protocol/forged-missing-library", |s| s.trouble("forged_missing@body"), NOTHING),
    row("protocol/flood", |s| s.trouble("flood_pipe@body"), NOTHING),
    row("protocol/pipe-closed-in-body", |s| s.trouble("close_pipe@body"), &["fail library-exit:*"])
        .hides(&["killed from outside"]),
    row(
        "protocol/pipe-closed-in-setup",
        |s| s.trouble("close_pipe@setup"),
        &["fail library-exit:*"],
    )
    .hides(&["killed from outside"]),
    row(
        "protocol/pipe-closed-in-teardown",
        |s| s.trouble("close_pipe@teardown"),
        &["fail library-exit:*"],
    )
    .hides(&["killed from outside"]),
    row("protocol/everything-closed", |s| s.trouble("close_all@body"), &["fail library-exit:*"])
        .hides(&["killed from outside"]),
    row("protocol/input-closed", |s| s.trouble("close_stdin@body"), &["pass"]),
    row("protocol/input-replaced", |s| s.trouble("null_stdin@body"), &["pass"]),
    row("protocol/no-worker-true", |s| program(s, "/bin/true"), NOTHING),
    row(
        "protocol/no-worker-cat",
        |s| {
            s.hangs();
            program(s, "/bin/cat")
        },
        NOTHING,
    ),
    row("protocol/no-worker-yes", |s| program(s, "/usr/bin/yes"), NOTHING),
    row("protocol/no-worker-missing", |s| program(s, "/nonexistent/worker"), NOTHING),
    row("protocol/no-worker-folder", |s| program(s, "/tmp"), NOTHING),
    row("protocol/no-worker-text", |s| program(s, "/etc/passwd"), NOTHING),
];

fn program(setup: &mut crate::setup::RunSetup<'_>, path: &str) {
    setup.option("--worker", path);
}
