//! Tests the command with unusual environment variables and standard streams, including variables that mean nothing to
//! the command.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::row::{Row, row};

const WORKS: &[&str] = &["pass"];
const REFUSED: &[&str] = &["refused"];
const STOPPED: &[&str] = &["stopped"];
const NOTHING: &[&str] = &["no-verdict *"];

pub(crate) const ROWS: &[Row] = &[
    row("environment/rust-backtrace", |s| s.variable("RUST_BACKTRACE", "full"), WORKS),
    row(
        "environment/proc-of-processes-alone",
        |s| s.mounts("mount -t proc -o subset=pid proc /proc"),
        WORKS,
    ),
    row("environment/rust-log", |s| s.variable("RUST_LOG", "trace"), WORKS),
    row("environment/rust-min-stack", |s| s.variable("RUST_MIN_STACK", "nonsense"), WORKS),
    row(
        "environment/no-visible-devices",
        |s| {
            s.variable("HIP_VISIBLE_DEVICES", "-1");
            s.variable("ROCR_VISIBLE_DEVICES", "9")
        },
        WORKS,
    ),
    row(
        "environment/other-architecture",
        |s| s.variable("HSA_OVERRIDE_GFX_VERSION", "9.0.6"),
        WORKS,
    ),
    row(
        "environment/runtimes-log",
        |s| {
            let file = s.folder.join("work/hip.log");
            s.variable("AMD_LOG_LEVEL", "4");
            s.variable("AMD_LOG_LEVEL_FILE", file)
        },
        WORKS,
    ),
    row(
        "environment/serialised-kernels",
        |s| {
            s.variable("AMD_SERIALIZE_KERNEL", "3");
            s.variable("HIP_LAUNCH_BLOCKING", "1")
        },
        WORKS,
    ),
    row(
        "environment/hsa-tools",
        |s| {
            let library = s.tools.trouble.clone();
            s.variable("HSA_TOOLS_LIB", library)
        },
        WORKS,
    ),
    row(
        "environment/library-path",
        |s| s.variable("LD_LIBRARY_PATH", "/proc/nonexistent:.:/tmp"),
        WORKS,
    ),
    row("environment/loader-debugs", |s| s.variable("LD_BIND_NOW", "1"), WORKS),
    row(
        "environment/preload-of-the-command",
        |s| s.variable("LD_PRELOAD", "/proc/nonexistent/library.so"),
        WORKS,
    ),
    row(
        "environment/troublemaker-of-the-command",
        |s| {
            let library = s.tools.trouble.clone();
            s.variable("LD_PRELOAD", library);
            s.variable("CHAOS_TROUBLE", "abort@body")
        },
        WORKS,
    ),
    row(
        "environment/malloc",
        |s| {
            s.variable("MALLOC_PERTURB_", "165");
            s.variable("MALLOC_CHECK_", "3");
            s.variable("MALLOC_ARENA_MAX", "1")
        },
        WORKS,
    ),
    row(
        "environment/glibc-tunables",
        |s| s.variable("GLIBC_TUNABLES", "glibc.malloc.check=3:nonsense=1"),
        WORKS,
    ),
    row(
        "environment/language",
        |s| {
            s.variable("LANG", "tlh_KLINGON.EBCDIC");
            s.variable("LC_ALL", "xx")
        },
        WORKS,
    ),
    row("environment/time-zone", |s| s.variable("TZ", ":/dev/zero"), WORKS),
    row(
        "environment/terminal",
        |s| {
            s.variable("TERM", "\u{1b}[31m");
            s.variable("COLUMNS", "0");
            s.variable("LINES", "-1")
        },
        WORKS,
    ),
    row(
        "environment/forced-colours",
        |s| {
            s.variable("CLICOLOR_FORCE", "0");
            s.variable("FORCE_COLOR", "0")
        },
        WORKS,
    ),
    row(
        "environment/colours-forbidden-and-forced",
        |s| {
            s.variable("NO_COLOR", "1");
            s.variable("CLICOLOR_FORCE", "1")
        },
        WORKS,
    ),
    row("environment/closed-output", |s| streams(s, ">&-"), WORKS).alone(),
    row("environment/closed-error", |s| streams(s, "2>&-"), WORKS).alone(),
    row("environment/closed-streams", |s| streams(s, "<&- >&- 2>&-"), WORKS).alone(),
    row("environment/full-output", |s| streams(s, ">/dev/full"), STOPPED).alone(),
    row("environment/full-error", |s| streams(s, "2>/dev/full"), WORKS).alone(),
    row(
        "environment/full-error-of-a-refusal",
        |s| {
            s.option("--fault", "no.such-fault");
            streams(s, "2>/dev/full")
        },
        REFUSED,
    )
    .alone(),
    row("environment/no-path", |s| s.without("PATH"), WORKS).alone(),
    row("environment/empty-path", |s| s.variable("PATH", ""), WORKS).alone(),
    row("environment/no-home", |s| s.without("HOME"), WORKS),
    row("environment/home-is-relative", |s| s.variable("HOME", "home"), WORKS),
    row("environment/home-is-missing", |s| s.variable("HOME", "/proc/nonexistent"), WORKS),
    row(
        "environment/neither-home-nor-cache",
        |s| {
            s.without("HOME");
            s.without("XDG_CACHE_HOME")
        },
        REFUSED,
    )
    .says(&["HOME"]),
    row(
        "environment/bytes-in-a-variable",
        |s| s.variable("SOME_VARIABLE", OsString::from_vec(vec![0xff, 0xfe, b'a'])),
        WORKS,
    ),
    row("environment/large-variable", |s| s.variable("SOME_VARIABLE", "x".repeat(100_000)), WORKS),
    row(
        "environment/many-variables",
        |s| (0..3000).for_each(|n| s.variable(&format!("VARIABLE_{n}"), "x".repeat(100))),
        WORKS,
    ),
    row("environment/empty-name", |s| s.variable("A B\"'$(touch pwned)", "`touch pwned`"), WORKS),
    row(
        "environment/device-from-outside",
        |s| s.variable("ROCREPRO_DEVICE", "{\"arch\":\"gfx90a\"}"),
        WORKS,
    ),
    row(
        "environment/device-is-no-device",
        |s| {
            s.variable("ROCREPRO_DEVICE_LIBRARY", "/proc/nonexistent.so");
            s.own_cache();
        },
        STOPPED,
    ),
    row(
        "environment/device-is-garbage",
        |s| {
            let file = s.work("device.so", b"no library");
            s.variable("ROCREPRO_DEVICE_LIBRARY", file);
            s.own_cache();
        },
        STOPPED,
    ),
    row("environment/other-stack-named", |s| s.variable("ROCREPRO_ROCM", "nonsense"), WORKS),
    row("environment/other-gfx-named", |s| s.variable("ROCREPRO_GFX", "gfx1"), WORKS),
    row(
        "environment/rocm-path",
        |s| {
            s.variable("ROCM_PATH", "/proc/nonexistent");
            s.variable("HIP_PATH", "/proc/nonexistent")
        },
        WORKS,
    ),
    row("environment/unknown-own-variable", |s| s.variable("ROCREPRO_NONSENSE", "1"), WORKS),
    row("environment/worker-path", |s| s.worker_variable("PATH=/proc/nonexistent"), WORKS),
    row(
        "environment/worker-device",
        |s| s.worker_variable("ROCREPRO_DEVICE={\"arch\":\"gfx1151\",\"memory\":1073741824}"),
        NOTHING,
    ),
    row(
        "environment/worker-device-is-nonsense",
        |s| s.worker_variable("ROCREPRO_DEVICE=nonsense"),
        NOTHING,
    ),
    row(
        "environment/worker-cache",
        |s| s.worker_variable("AMD_COMGR_CACHE_DIR=/proc/nonexistent"),
        WORKS,
    ),
    row(
        "environment/worker-temporary-folder",
        |s| {
            s.runs(crate::shared_tools::KERNEL);
            s.own_cache();
            s.worker_variable("TMPDIR=/proc/nonexistent")
        },
        &["no-verdict no-verdict:disk"],
    ),
    row("environment/worker-without-name", |s| s.worker_variable("=value"), REFUSED),
    row("environment/worker-without-value", |s| s.worker_variable("NAME"), REFUSED),
    row("environment/worker-newline", |s| s.worker_variable("NAME=a\nb"), WORKS),
    row(
        "environment/worker-no-visible-device",
        |s| s.worker_variable("HIP_VISIBLE_DEVICES=-1"),
        NOTHING,
    ),
    row(
        "environment/worker-escape",
        |s| {
            s.worker_variable("NAME=\u{1b}[31m\u{202e}x");
            s.trouble("abort@body")
        },
        &["fail crash:*"],
    ),
    row(
        "environment/worker-quotes",
        |s| {
            s.worker_variable("NAME='\"; touch pwned; '");
            s.trouble("abort@body");
            s.afterwards(runs_again)
        },
        &["fail crash:*"],
    ),
];

/// Starts the command with other standard streams. `how` contains the redirections in the syntax of a shell.
fn streams(setup: &mut crate::setup::RunSetup<'_>, how: &str) {
    let script = format!("exec \"$@\" {how}");
    setup.before.extend(["sh".into(), "-c".into(), script.into(), "sh".into()]);
}

/// Checks that the text after `Again:` is a single shell command, and that a shell splits it into the right words.
fn runs_again(said: &str) -> Option<String> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Again: "))?;
    let script = format!("rocrepro() {{ for word; do printf '%s\\n' \"$word\"; done; }}\n{line}");
    let output =
        std::process::Command::new("sh").args(["-c", &script]).current_dir("/").output().ok()?;
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let whole = words.lines().any(|word| word == "NAME='\"; touch pwned; '");
    (!output.status.success() || !whole)
        .then(|| format!("a shell splits this command into other words: {line}"))
}
