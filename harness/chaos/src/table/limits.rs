//! Tests the command under resource limits. The command must not report their effects as failures of ROCm.

use crate::{
    row::{Row, row},
    setup::RunSetup,
    shared_tools::KERNEL,
};

/// Allowed answers if the memory does not suffice, either for the worker or for the command before it starts a worker.
const OUT_OF_MEMORY: &[&str] = &["no-verdict *", "stopped"];
const NOTHING: &[&str] = &["no-verdict *"];
const WORKS: &[&str] = &["pass"];

/// Limits the number of threads. The HIP runtime dies if it cannot start a thread.
fn few_threads<const MOST: u32>(s: &mut RunSetup<'_>) {
    s.warm_cache();
    s.open_cache();
    s.processes(MOST);
}

pub(crate) const ROWS: &[Row] = &[
    row("limit/stack-64k", |s| s.limit("--stack=65536"), NOTHING),
    row("limit/stack-1m", |s| s.limit("--stack=1048576"), NOTHING),
    row("limit/stack-soft-64k", |s| s.limit("--stack=65536:unlimited"), WORKS),
    row("limit/stack-unlimited", |s| s.limit("--stack=unlimited"), WORKS),
    row(
        "limit/stack-of-a-long-chain",
        |s| {
            s.runs("graphs/long-chain[nodes=30000]");
            s.limit("--stack=unlimited");
        },
        &["known crash:*"],
    ),
    row("limit/files-16", |s| s.limit("--nofile=16"), NOTHING),
    row("limit/files-24", |s| s.limit("--nofile=24"), NOTHING),
    row("limit/files-soft-24", |s| s.limit("--nofile=24:4096"), WORKS),
    row("limit/files-64", |s| s.limit("--nofile=64"), NOTHING),
    row("limit/files-many", |s| s.limit("--nofile=4096"), WORKS),
    row(
        "limit/files-24-with-a-kernel",
        |s| {
            s.runs(KERNEL);
            s.own_cache();
            s.limit("--nofile=24")
        },
        NOTHING,
    ),
    row(
        "limit/memory-64m",
        |s| s.limit("--as=67108864"),
        // An optimised build has too little memory for its first thread or for its input. A development build is
        // larger: it is killed before `main`, or the loader cannot map the C library beside it.
        &["stopped", "no-verdict *", "killed by signal 6", "killed by signal 11", "exit code 127"],
    ),
    row("limit/memory-256m", |s| s.limit("--as=268435456"), OUT_OF_MEMORY).long(),
    row("limit/memory-512m", |s| s.limit("--as=536870912"), OUT_OF_MEMORY).long(),
    row("limit/memory-1g", |s| s.limit("--as=1073741824"), NOTHING),
    row("limit/memory-3g", |s| s.limit("--as=3221225472"), NOTHING),
    row(
        "limit/memory-with-a-kernel",
        |s| {
            s.runs(KERNEL);
            s.own_cache();
            s.limit("--as=536870912")
        },
        OUT_OF_MEMORY,
    )
    .long(),
    row("limit/processes-1", |s| s.processes(1), &["stopped"]).alone(),
    row("limit/processes-3", |s| s.processes(3), NOTHING).alone(),
    row("limit/processes-5", few_threads::<5>, OUT_OF_MEMORY).alone(),
    row("limit/processes-6", few_threads::<6>, OUT_OF_MEMORY).alone(),
    row("limit/processes-enough", few_threads::<500>, WORKS).alone(),
    row("limit/data-64m", |s| s.limit("--data=67108864"), NOTHING),
    row("limit/locked-memory-0", |s| s.limit("--memlock=0"), WORKS),
    row("limit/file-size-0", |s| s.limit("--fsize=0"), &["stopped"]).alone(),
    row("limit/file-size-4k", |s| s.limit("--fsize=4096"), NOTHING).alone(),
    row(
        "limit/file-size-4k-with-a-kernel",
        |s| {
            s.runs(KERNEL);
            s.own_cache();
            s.limit("--fsize=4096")
        },
        &["stopped"],
    )
    .alone(),
    row(
        "limit/core-unlimited",
        |s| {
            // A launcher has the user's limit on core files, so a launcher that crashes leaves a core file behind. The
            // worker has a limit of its own.
            s.outputs.push(s.folder.join("work/core"));
            s.limit("--core=unlimited")
        },
        WORKS,
    ),
    row(
        "limit/core-unlimited-and-a-crash",
        |s| {
            s.limit("--core=unlimited");
            s.trouble("segv@body")
        },
        &["fail crash:*"],
    ),
    row(
        "limit/core-0-and-a-crash",
        |s| {
            s.limit("--core=0");
            s.trouble("segv@body")
        },
        &["fail crash:*"],
    ),
    row(
        "limit/cpu-1s-of-a-spin",
        |s| {
            s.limit("--cpu=1");
            s.trouble("spin@body")
        },
        // The limit applies to each process separately. On a slow machine, the command may reach it before the worker
        // does.
        &["no-verdict *", "killed*"],
    ),
    row("limit/signals-0", |s| s.limit("--sigpending=0"), WORKS),
    row("limit/queues-0", |s| s.limit("--msgqueue=0"), WORKS),
    row("limit/locks-0", |s| s.limit("--locks=0"), WORKS),
    row("limit/nice", |s| s.limit("--nice=0"), WORKS),
    // If a library sets a limit in its own process, the library causes the effects, so they are failures of the trial.
    row("limit/files-3-in-the-worker", |s| s.trouble("limit_files@setup"), &["fail *"]),
    row("limit/memory-64m-in-the-worker", |s| s.trouble("limit_memory@setup"), &["fail *"]),
    row("limit/file-size-0-in-the-worker", |s| s.trouble("limit_size@setup"), NOTHING),
];
