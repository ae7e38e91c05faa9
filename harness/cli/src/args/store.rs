use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records store add --store results.db runs.jsonl nightly/*/run.jsonl
  rocrepro records store list --store results.db
  rocrepro records history graphs/long-chain --store results.db
  rocrepro records diff debian:6.4.3@gfx1151 debian:7.2.4@gfx1151 --store results.db
  rocrepro matrix --store results.db --out page    a page of all runs of the store

A store is one SQLite file. Records that it already contains are not added again, so you can add the same files after each run. A
merged run replaces its shards in the store and keeps their records; later records of a shard are added to the merged run.";

const ADD: &str = "\
Examples:
  rocrepro records store add --store results.db runs.jsonl
  rocrepro records store add --store results.db nightly/*/run.jsonl";

const LIST: &str = "\
Examples:
  rocrepro records store list --store results.db";

pub(crate) const HISTORY: &str = "\
Examples:
  rocrepro records history graphs/long-chain --store results.db
  rocrepro records history 'graphs/long-chain[nodes=30000]' --store r.db --json

The history says when and where each signature was seen first and last, how often each trial failed, the interval of its
failure rate, and the latest results. It never pools results that differ in the stack (name or folder), card, driver, fault, options
 (variables, limits, launcher, schedule) or text of the case, nor results of the emulated device with those of a GPU.

Exit codes: 0 shown, 2 usage, 4 the store has no record of the case.";

pub(crate) const MERGE: &str = "\
Examples:
  rocrepro run --shard 1/4 --record part-1.jsonl    on the first of four machines
  rocrepro records merge part-*.jsonl --out run.jsonl    merge the four

Each trial of the plan must be in exactly one part, and one version of rocrepro must have made all parts of one plan. If anything is
wrong, `records merge` reports all of it and writes nothing.

Exit codes: 0 merged, 2 usage, or these are not the parts of one run, 3 merged, but a planned trial has no record.";

/// The option that names the results store.
#[derive(Args)]
pub(crate) struct StoreFile {
    /// Path of the results store
    #[arg(long, value_name = "FILE", env = "ROCREPRO_STORE")]
    pub(crate) store: PathBuf,
}

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Add the runs of record files; creates the store if it does not exist
    #[command(after_help = ADD)]
    Add {
        /// Record files written by `run --record` or `records merge --out`
        #[arg(value_name = "FILE", required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        file: StoreFile,
    },
    /// List the runs in the store with their stacks and devices
    #[command(after_help = LIST)]
    List {
        #[command(flatten)]
        file: StoreFile,
    },
}

#[derive(Args)]
pub(crate) struct History {
    /// The case, such as `graphs/long-chain`, or a trial of it
    #[arg(value_name = "CASE")]
    pub(crate) case: String,
    #[command(flatten)]
    pub(crate) file: StoreFile,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Merge {
    /// Files with the shards of one run
    #[arg(value_name = "FILE", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}
