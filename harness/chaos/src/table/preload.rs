//! Tests the command with preloaded libraries that end the worker, make it hang, or print.

use crate::row::{Row, row};

const NOTHING: &[&str] = &["no-verdict *"];
const EXIT: &[&str] = &["fail library-exit:*"];
const CRASH: &[&str] = &["fail crash:*"];
const HANG: &[&str] = &["fail hang:*"];
const TEARDOWN: &[&str] = &["fail teardown-crash"];

pub(crate) const ROWS: &[Row] = &[
    row("preload/does-nothing", |s| s.trouble("sleep=1@body"), &["pass"]),
    row(
        "preload/is-missing",
        |s| s.worker_variable("LD_PRELOAD=/nonexistent/library.so"),
        &["pass"],
    )
    .alone(),
    row("preload/exit-in-constructor", |s| s.trouble("exit=0@constructor"), NOTHING),
    row("preload/crash-in-constructor", |s| s.trouble("segv@constructor"), NOTHING),
    row(
        "preload/hang-in-constructor",
        |s| {
            s.hangs();
            s.trouble("hang@constructor")
        },
        NOTHING,
    ),
    row("preload/exit-at-start", |s| s.trouble("exit=0@start"), NOTHING),
    row("preload/exit-while-loading", |s| s.trouble("exit=0@load"), NOTHING),
    row("preload/exit-with-2-while-loading", |s| s.trouble("exit=2@load"), NOTHING),
    row("preload/abort-while-loading", |s| s.trouble("abort@load"), NOTHING),
    row(
        "preload/hang-while-loading",
        |s| {
            s.hangs();
            s.trouble("hang@load")
        },
        NOTHING,
    ),
    row("preload/crash-in-init", |s| s.trouble("segv@init"), NOTHING),
    row("preload/exit-in-init", |s| s.trouble("exit=7@init"), NOTHING),
    row(
        "preload/hang-in-init",
        |s| {
            s.hangs();
            s.trouble("hang@init")
        },
        NOTHING,
    ),
    row("preload/hsa-init-fails", |s| s.trouble("fail=4104@hsa_init"), NOTHING),
    row("preload/hsa-init-crashes", |s| s.trouble("segv@hsa_init"), NOTHING),
    row(
        "preload/hsa-init-hangs",
        |s| {
            s.hangs();
            s.trouble("hang@hsa_init")
        },
        NOTHING,
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
    row("preload/bus-error-in-body", |s| s.trouble("bus@body"), CRASH),
    row("preload/division-by-zero-in-body", |s| s.trouble("fpe@body"), CRASH).says(&["SIGFPE"]),
    row("preload/stack-overflow-in-body", |s| s.trouble("overflow@body"), CRASH),
    row("preload/sigsys-in-body", |s| s.trouble("signal=31@body"), CRASH),
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
    row("preload/exec-in-body", |s| s.trouble("exec@body"), EXIT),
    row(
        "preload/exec-of-sleep-in-body",
        |s| {
            s.hangs();
            s.trouble("exec_sleep@body")
        },
        HANG,
    ),
    row("preload/exit-when-done", |s| s.trouble("exit=0@done"), TEARDOWN),
    row("preload/exit-in-teardown", |s| s.trouble("exit=0@teardown"), TEARDOWN),
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
    row("preload/exit-0-in-destructor", |s| s.trouble("_exit=0@destructor"), TEARDOWN),
    row("preload/exit-0-at-exit", |s| s.trouble("_exit=0@atexit"), TEARDOWN),
    row("preload/exit-0-after-bye", |s| s.trouble("_exit=0@bye"), TEARDOWN),
    row("preload/masked-crash-after-bye", |s| s.trouble("masked@bye"), TEARDOWN),
    row("preload/masked-crash-in-destructor", |s| s.trouble("masked@destructor"), TEARDOWN).alone(),
    row("preload/masked-crash-in-body", |s| s.trouble("masked@body"), EXIT),
    row("preload/prints-panicked-at", |s| s.trouble("panic_text@body"), &["pass"]),
    row("preload/prints-panicked-at-and-exits", |s| s.trouble("panic_exit@body"), EXIT)
        .hides(&["bug of rocrepro"]),
    row("preload/poses-as-the-worker", |s| s.trouble("worker_text@body"), EXIT),
    row("preload/prints-a-gpu-fault", |s| s.trouble("fault_text@body"), &["fail memory-fault:*"]),
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
        &["fail api-error:queue:aborted"],
    ),
    row("preload/poses-as-the-device", |s| s.trouble("gap_text@body"), NOTHING),
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
    row("preload/takes-all-permissions", |s| s.trouble("umask@body"), &["pass"]),
];
