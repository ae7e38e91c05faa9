//! Libraries in the worker that end it, hang or talk.

use crate::row::{Row, row};

/// A library that ends the process before the worker's main: what was started is no worker yet.
const NOT_A_WORKER: &[&str] =
    &["no-verdict *", "fail crash:*", "fail library-exit:*", "fail hang:*"];
const EXIT: &[&str] = &["fail library-exit:*"];
const CRASH: &[&str] = &["fail crash:*"];
const HANG: &[&str] = &["fail hang:*"];
/// While the stack is loaded and begins: a failure once it is known that the machine can run the stack.
const EXIT_EARLY: &[&str] = &["fail library-exit:*", "no-verdict *"];
const CRASH_EARLY: &[&str] = &["fail crash:*", "no-verdict *"];
const HANG_EARLY: &[&str] = &["fail hang:*", "no-verdict *"];
const TEARDOWN: &[&str] = &["fail teardown-crash"];
const NOT_PLAIN: &[&str] =
    &["fail teardown-crash", "fail library-exit:*", "fail crash:*", "no-verdict *"];

pub(crate) const ROWS: &[Row] = &[
    row("preload/does-nothing", |s| s.trouble("sleep=1@body"), &["pass"]),
    row(
        "preload/is-missing",
        |s| s.worker_variable("LD_PRELOAD=/nonexistent/library.so"),
        &["pass", "no-verdict *"],
    )
    .alone(),
    row("preload/exit-in-constructor", |s| s.trouble("exit=0@constructor"), NOT_A_WORKER),
    row("preload/crash-in-constructor", |s| s.trouble("segv@constructor"), NOT_A_WORKER),
    row(
        "preload/hang-in-constructor",
        |s| {
            s.hangs();
            s.trouble("hang@constructor")
        },
        NOT_A_WORKER,
    ),
    row("preload/exit-at-start", |s| s.trouble("exit=0@start"), EXIT_EARLY),
    row("preload/exit-while-loading", |s| s.trouble("exit=0@load"), EXIT_EARLY),
    row("preload/exit-with-2-while-loading", |s| s.trouble("exit=2@load"), EXIT_EARLY),
    row("preload/abort-while-loading", |s| s.trouble("abort@load"), CRASH_EARLY),
    row(
        "preload/hang-while-loading",
        |s| {
            s.hangs();
            s.trouble("hang@load")
        },
        HANG_EARLY,
    ),
    row("preload/crash-in-init", |s| s.trouble("segv@init"), CRASH_EARLY),
    row("preload/exit-in-init", |s| s.trouble("exit=7@init"), EXIT_EARLY),
    row(
        "preload/hang-in-init",
        |s| {
            s.hangs();
            s.trouble("hang@init")
        },
        HANG_EARLY,
    ),
    row(
        "preload/hsa-init-fails",
        |s| s.trouble("fail=4104@hsa_init"),
        &["fail api-error:hipInit*", "no-verdict *"],
    ),
    row("preload/hsa-init-crashes", |s| s.trouble("segv@hsa_init"), CRASH_EARLY),
    row(
        "preload/hsa-init-hangs",
        |s| {
            s.hangs();
            s.trouble("hang@hsa_init")
        },
        HANG_EARLY,
    ),
    row("preload/exit-0-in-setup", |s| s.trouble("exit=0@setup"), EXIT),
    row("preload/exit-0-in-body", |s| s.trouble("exit=0@body"), EXIT),
    row("preload/exit-1-in-body", |s| s.trouble("exit=1@body"), EXIT),
    row("preload/exit-2-in-body", |s| s.trouble("exit=2@body"), EXIT),
    row("preload/exit-101-in-body", |s| s.trouble("exit=101@body"), EXIT),
    row("preload/exit-at-once-in-body", |s| s.trouble("_exit=0@middle"), EXIT).alone(),
    row("preload/exit-group-in-verify", |s| s.trouble("exit_group_thread=0@verify"), EXIT),
    row("preload/abort-in-body", |s| s.trouble("abort@body"), CRASH).says(&["SIGABRT"]),
    row("preload/segv-in-body", |s| s.trouble("segv@middle"), CRASH).alone().says(&["SIGSEGV"]),
    row("preload/segv-in-setup", |s| s.trouble("segv@setup"), CRASH),
    row("preload/trap-in-body", |s| s.trouble("trap@body"), CRASH).says(&["SIGILL"]),
    row("preload/bus-error-in-body", |s| s.trouble("bus@body"), &["fail crash:*", "no-verdict *"]),
    row("preload/division-by-zero-in-body", |s| s.trouble("fpe@body"), CRASH).says(&["SIGFPE"]),
    row("preload/stack-overflow-in-body", |s| s.trouble("overflow@body"), CRASH),
    row(
        "preload/sigsys-in-body",
        |s| s.trouble("signal=31@body"),
        &["fail crash:*", "no-verdict *"],
    ),
    row("preload/core-dump-in-body", |s| s.trouble("core@body"), CRASH),
    row(
        "preload/hang-in-body",
        |s| {
            s.hangs();
            s.trouble("hang@body")
        },
        HANG,
    ),
    row(
        "preload/hang-in-verify",
        |s| {
            s.hangs();
            s.trouble("hang@verify")
        },
        HANG,
    ),
    row(
        "preload/spin-in-body",
        |s| {
            s.hangs();
            s.trouble("spin@body")
        },
        HANG,
    ),
    row(
        "preload/deaf-hang-in-body",
        |s| {
            s.hangs();
            s.trouble("deaf@body")
        },
        HANG,
    ),
    row("preload/short-sleep-in-body", |s| s.trouble("sleep=300@body"), &["pass"]),
    row("preload/thread-that-spins", |s| s.trouble("thread_spin@body"), &["pass"]),
    row("preload/thread-that-waits", |s| s.trouble("thread_wait@body"), &["pass"]),
    row(
        "preload/exec-in-body",
        |s| s.trouble("exec@body"),
        &["fail library-exit:*", "no-verdict *"],
    ),
    row(
        "preload/exec-of-sleep-in-body",
        |s| {
            s.hangs();
            s.trouble("exec_sleep@body")
        },
        &["fail hang:*", "no-verdict *"],
    ),
    row("preload/exit-when-done", |s| s.trouble("exit=0@done"), NOT_PLAIN),
    row("preload/exit-in-teardown", |s| s.trouble("exit=0@teardown"), NOT_PLAIN),
    row("preload/crash-in-teardown", |s| s.trouble("segv@teardown"), TEARDOWN),
    row(
        "preload/hang-in-teardown",
        |s| {
            s.hangs();
            s.trouble("hang@teardown")
        },
        &["fail hang:teardown"],
    ),
    row("preload/crash-after-bye", |s| s.trouble("segv@bye"), TEARDOWN),
    row("preload/abort-at-exit", |s| s.trouble("abort@atexit"), TEARDOWN).alone(),
    row(
        "preload/hang-at-exit",
        |s| {
            s.hangs();
            s.trouble("hang@atexit")
        },
        &["fail hang:teardown"],
    ),
    row("preload/crash-in-destructor", |s| s.trouble("segv@destructor"), TEARDOWN).alone(),
    row("preload/abort-in-destructor", |s| s.trouble("abort@destructor"), TEARDOWN).alone(),
    row("preload/exit-1-in-destructor", |s| s.trouble("_exit=1@destructor"), TEARDOWN),
    row("preload/exit-0-in-destructor", |s| s.trouble("_exit=0@destructor"), NOT_PLAIN),
    row("preload/exit-0-at-exit", |s| s.trouble("_exit=0@atexit"), NOT_PLAIN),
    row("preload/exit-0-after-bye", |s| s.trouble("_exit=0@bye"), NOT_PLAIN),
    row("preload/masked-crash-after-bye", |s| s.trouble("masked@bye"), NOT_PLAIN),
    row("preload/masked-crash-in-destructor", |s| s.trouble("masked@destructor"), NOT_PLAIN)
        .alone(),
    row(
        "preload/masked-crash-in-body",
        |s| s.trouble("masked@body"),
        &["fail library-exit:*", "fail crash:*"],
    ),
    row("preload/prints-panicked-at", |s| s.trouble("panic_text@body"), &["pass"]),
    row("preload/prints-panicked-at-and-exits", |s| s.trouble("panic_exit@body"), EXIT)
        .hides(&["bug of rocrepro"]),
    row("preload/poses-as-the-worker", |s| s.trouble("worker_text@body"), EXIT),
    row(
        "preload/prints-a-gpu-fault",
        |s| s.trouble("fault_text@body"),
        &["fail memory-fault:*", "no-verdict *"],
    ),
    row(
        "preload/prints-a-gpu-fault-and-aborts",
        |s| {
            s.trouble("fault_text@body");
            s.trouble("abort@body")
        },
        &["fail memory-fault:*"],
    ),
    row(
        "preload/prints-a-queue-abort",
        |s| s.trouble("queue_text@body"),
        &["fail *", "no-verdict *"],
    ),
    row("preload/poses-as-the-device", |s| s.trouble("gap_text@body"), &["pass", "no-verdict *"]),
    row(
        "preload/prints-terminal-escapes",
        |s| {
            s.trouble("escape_text@body");
            s.trouble("abort@body")
        },
        CRASH,
    ),
    row(
        "preload/prints-markup",
        |s| {
            s.trouble("markdown_text@body");
            s.trouble("abort@body")
        },
        CRASH,
    ),
    row(
        "preload/prints-bytes",
        |s| {
            s.trouble("bytes_text@body");
            s.trouble("abort@body")
        },
        CRASH,
    ),
    row("preload/floods-standard-error", |s| s.trouble("flood_stderr=64@body"), &["pass"]),
    row("preload/closes-standard-error", |s| s.trouble("close_stderr@body"), &["pass"]).alone(),
    row("preload/clears-its-environment", |s| s.trouble("clear@body"), &["pass"]).alone(),
    row("preload/changes-folder", |s| s.trouble("chdir@body"), &["pass"]),
    row("preload/takes-all-permissions", |s| s.trouble("umask@body"), &["pass", "no-verdict *"]),
];
