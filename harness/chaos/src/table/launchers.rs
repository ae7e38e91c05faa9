//! Tests the command with launchers that do more than start the worker.

use crate::row::{Row, row};

const WORKS: &[&str] = &["pass"];
const NOTHING: &[&str] = &["no-verdict *"];

pub(crate) const ROWS: &[Row] = &[
    row("launcher/wraps", |s| s.launcher("exec \"$@\""), WORKS),
    row("launcher/is-env", |s| s.launcher_words("env"), WORKS),
    row("launcher/is-nice", |s| s.launcher_words("nice -n 5"), WORKS),
    row("launcher/with-quotes", |s| s.launcher_words("sh -c 'exec \"$@\"' sh"), WORKS),
    row("launcher/with-spaces-in-words", |s| s.launcher_words("env 'A_VARIABLE=two words'"), WORKS),
    // `ssh` passes its arguments to a shell in this way.
    row("launcher/gives-words-to-a-shell", |s| s.launcher("sh -c \"exec $*\""), WORKS),
    row("launcher/waits-for-the-worker", |s| s.launcher("\"$@\""), WORKS),
    row("launcher/hands-the-status-on", |s| s.launcher("\"$@\"\nexit $?"), WORKS),
    row(
        "launcher/talks-first",
        |s| s.launcher("echo 'srun: job 17 queued' >&2\nexec \"$@\""),
        WORKS,
    ),
    row("launcher/talks-on-standard-output", |s| s.launcher("echo 'job 17'\nexec \"$@\""), WORKS),
    row("launcher/talks-afterwards", |s| s.launcher("\"$@\"\necho 'job 17 done'"), WORKS),
    row("launcher/other-folder", |s| s.launcher("cd /\nexec \"$@\""), WORKS),
    row("launcher/other-umask", |s| s.launcher("umask 077\nexec \"$@\""), WORKS),
    row("launcher/new-session", |s| s.launcher_words("setsid -w"), WORKS),
    row("launcher/ignores-signals", |s| s.launcher("trap '' TERM INT HUP\nexec \"$@\""), WORKS),
    row("launcher/clears-environment", |s| s.launcher("exec env -i \"$@\""), WORKS),
    row(
        "launcher/clears-environment-of-a-variable",
        |s| {
            s.worker_variable("HIP_LAUNCH_BLOCKING=1");
            s.launcher("exec env -i \"$@\"")
        },
        WORKS,
    ),
    row(
        "launcher/drops-one-variable",
        |s| {
            s.worker_variable("HIP_LAUNCH_BLOCKING=1");
            s.launcher("unset HIP_LAUNCH_BLOCKING\nexec \"$@\"")
        },
        WORKS,
    ),
    row(
        "launcher/changes-one-variable",
        |s| {
            s.worker_variable("HIP_LAUNCH_BLOCKING=1");
            s.launcher("HIP_LAUNCH_BLOCKING=0 exec \"$@\"")
        },
        WORKS,
    ),
    row(
        "launcher/clears-environment-of-the-sanitizer",
        |s| {
            s.option("--sanitize", "");
            s.launcher("exec env -i \"$@\"")
        },
        WORKS,
    ),
    row(
        "launcher/clears-environment-of-a-schedule",
        |s| {
            s.option("--schedule", "lazy");
            s.launcher("exec env -i \"$@\"")
        },
        WORKS,
    ),
    row("launcher/closes-input", |s| s.launcher("exec \"$@\" <&-"), NOTHING),
    row("launcher/empties-input", |s| s.launcher("exec \"$@\" </dev/null"), NOTHING),
    row("launcher/closes-output", |s| s.launcher("exec \"$@\" >&-"), NOTHING),
    row("launcher/swallows-output", |s| s.launcher("exec \"$@\" >/dev/null"), NOTHING),
    row("launcher/swallows-half-of-the-output", |s| s.launcher("\"$@\" | head -n 20"), NOTHING),
    row("launcher/changes-output", |s| s.launcher("\"$@\" | tr a-z A-Z"), NOTHING),
    row("launcher/sorts-output", |s| s.launcher("\"$@\" | sort"), NOTHING),
    row(
        "launcher/mixes-output-and-error",
        |s| s.launcher("exec \"$@\" 2>&1"),
        // Output of a library or of the worker may then be between the events.
        &["pass", "no-verdict *"],
    ),
    row("launcher/closes-error", |s| s.launcher("exec \"$@\" 2>&-"), WORKS),
    row(
        "launcher/runs-twice",
        |s| {
            s.launcher("read -r order\nprintf '%s\\n' \"$order\" | \"$@\"\nprintf '%s\\n' \"$order\" | \"$@\"")
        },
        NOTHING,
    ),
    row(
        "launcher/runs-twice-at-once",
        |s| {
            s.launcher("read -r order\n(printf '%s\\n' \"$order\"; sleep 5) | \"$@\" &\n(printf '%s\\n' \"$order\"; sleep 5) | \"$@\" &\nwait")
        },
        NOTHING,
    ),
    row(
        "launcher/runs-two-and-lets-go",
        |s| {
            s.launcher("read -r order\nprintf '%s\\n' \"$order\" | \"$@\" &\nprintf '%s\\n' \"$order\" | \"$@\" &\nwait")
        },
        NOTHING,
    ),
    row("launcher/exits", |s| s.launcher("exit 0"), NOTHING),
    row("launcher/exits-with-1", |s| s.launcher("exit 1"), NOTHING),
    row("launcher/exits-with-2", |s| s.launcher("echo 'worker: no' >&2\nexit 2"), NOTHING),
    row("launcher/exits-with-101", |s| s.launcher("echo 'panicked at' >&2\nexit 101"), NOTHING),
    row("launcher/hides-the-status", |s| s.launcher("\"$@\"\nexit 0"), WORKS),
    row(
        "launcher/hides-a-crash",
        |s| {
            s.trouble("segv@body");
            s.launcher("\"$@\"\nexit 0")
        },
        &["fail crash:*"],
    ),
    row("launcher/invents-a-status", |s| s.launcher("\"$@\"\nexit 3"), WORKS),
    row("launcher/ends-by-a-signal", |s| s.launcher("\"$@\"\nkill -SEGV $$"), WORKS),
    row("launcher/crashes", |s| s.launcher("kill -SEGV $$"), NOTHING),
    row("launcher/aborts", |s| s.launcher("kill -ABRT $$"), NOTHING),
    row("launcher/is-killed", |s| s.launcher("kill -KILL $$"), NOTHING),
    row(
        "launcher/hangs",
        |s| {
            s.hangs();
            s.launcher("sleep 60")
        },
        NOTHING,
    ),
    row("launcher/is-slow", |s| s.launcher("sleep 1\nexec \"$@\""), WORKS),
    row("launcher/starts-in-the-background", |s| s.launcher("\"$@\" &\nexit 0"), NOTHING),
    row("launcher/ends-the-worker", |s| s.launcher("exec timeout -s KILL 0.01 \"$@\""), NOTHING),
    row(
        "launcher/ends-a-hanging-worker",
        |s| {
            s.trouble("hang@body");
            s.launcher("exec timeout -s TERM 1 \"$@\"")
        },
        NOTHING,
    ),
    row("launcher/is-missing", |s| s.launcher_words("no-such-launcher"), NOTHING),
    row("launcher/is-a-folder", |s| s.launcher_words("/tmp"), NOTHING),
    row("launcher/unbalanced-quotes", |s| s.launcher_words("sh -c 'exec"), &["refused"]).alone(),
    row(
        "launcher/says-hello-itself",
        |s| {
            s.launcher(
                "echo '{\"event\":\"hello\",\"version\":2,\"nonce\":\"0\",\"pid\":1}'\nexec \"$@\"",
            )
        },
        NOTHING,
    ),
    row(
        "launcher/preloads",
        |s| {
            let library = s.tools.trouble.display().to_string();
            s.launcher(&format!("LD_PRELOAD={library} CHAOS_TROUBLE=exit=0@body exec \"$@\""))
        },
        WORKS,
    ),
    row(
        "launcher/another-library-path",
        |s| s.launcher("LD_LIBRARY_PATH=/nonexistent exec \"$@\""),
        WORKS,
    ),
    row("launcher/leaves-a-process", |s| s.launcher("sleep 60 &\nexec \"$@\""), NOTHING),
    row("launcher/leaves-a-session", |s| s.launcher("setsid sleep 60 &\nexec \"$@\""), NOTHING),
];
