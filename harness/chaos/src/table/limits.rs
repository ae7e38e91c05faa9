//! Limits of the machine, which are no news of ROCm.

use crate::{
    row::{Row, row},
    scene::KERNEL,
};

/// Where the worker can go on, it does; where it cannot, nothing is known.
const ANY: &[&str] = &["pass", "no-verdict *", "stopped"];
const WORKS: &[&str] = &["pass"];

pub(crate) const ROWS: &[Row] = &[
    row("limit/stack-64k", |s| s.limit("--stack=65536"), ANY),
    row("limit/stack-1m", |s| s.limit("--stack=1048576"), ANY),
    row("limit/stack-soft-64k", |s| s.limit("--stack=65536:unlimited"), ANY),
    row("limit/stack-unlimited", |s| s.limit("--stack=unlimited"), WORKS),
    row(
        "limit/stack-of-a-long-chain",
        |s| {
            s.runs("graphs/long-chain[nodes=30000]");
            s.limit("--stack=unlimited");
        },
        &["pass", "known *", "no-verdict *"],
    ),
    row("limit/files-16", |s| s.limit("--nofile=16"), ANY),
    row("limit/files-24", |s| s.limit("--nofile=24"), ANY),
    row("limit/files-soft-24", |s| s.limit("--nofile=24:4096"), ANY),
    row("limit/files-64", |s| s.limit("--nofile=64"), ANY),
    row("limit/files-many", |s| s.limit("--nofile=4096"), WORKS),
    row(
        "limit/files-24-with-a-kernel",
        |s| {
            s.runs(KERNEL);
            s.own_cache();
            s.limit("--nofile=24")
        },
        ANY,
    ),
    row(
        "limit/memory-64m",
        |s| s.limit("--as=67108864"),
        &["pass", "no-verdict *", "stopped", "killed by signal 6"],
    ),
    row("limit/memory-256m", |s| s.limit("--as=268435456"), ANY).long(),
    row("limit/memory-512m", |s| s.limit("--as=536870912"), ANY).long(),
    row("limit/memory-1g", |s| s.limit("--as=1073741824"), ANY),
    row("limit/memory-3g", |s| s.limit("--as=3221225472"), ANY),
    row(
        "limit/memory-with-a-kernel",
        |s| {
            s.runs(KERNEL);
            s.own_cache();
            s.limit("--as=536870912")
        },
        ANY,
    )
    .long(),
    row("limit/data-64m", |s| s.limit("--data=67108864"), ANY),
    row("limit/locked-memory-0", |s| s.limit("--memlock=0"), WORKS),
    row("limit/file-size-0", |s| s.limit("--fsize=0"), ANY).alone(),
    row("limit/file-size-4k", |s| s.limit("--fsize=4096"), ANY).alone(),
    row(
        "limit/file-size-4k-with-a-kernel",
        |s| {
            s.runs(KERNEL);
            s.own_cache();
            s.limit("--fsize=4096")
        },
        ANY,
    )
    .alone(),
    row("limit/core-unlimited", |s| s.limit("--core=unlimited"), WORKS),
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
        &["no-verdict *", "fail hang:*", "killed*"],
    ),
    row("limit/signals-0", |s| s.limit("--sigpending=0"), WORKS),
    row("limit/queues-0", |s| s.limit("--msgqueue=0"), WORKS),
    row("limit/locks-0", |s| s.limit("--locks=0"), ANY),
    row("limit/nice", |s| s.limit("--nice=0"), WORKS),
    row(
        "limit/files-3-in-the-worker",
        |s| s.trouble("limit_files@setup"),
        &["pass", "fail *", "no-verdict *"],
    ),
    row(
        "limit/memory-64m-in-the-worker",
        |s| s.trouble("limit_memory@setup"),
        &["pass", "fail *", "no-verdict *"],
    ),
    row(
        "limit/file-size-0-in-the-worker",
        |s| s.trouble("limit_size@setup"),
        &["pass", "fail *", "no-verdict *"],
    ),
];
