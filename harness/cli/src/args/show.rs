use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records show runs.jsonl --junit report.xml          nothing runs
  rocrepro records show runs.jsonl --tap report.tap            the same in the Test Anything Protocol
  rocrepro records show runs.jsonl --write-baseline fails.txt  what failed
  rocrepro records show part-1.jsonl part-2.jsonl              two shards as one
  rocrepro run --baseline fails.txt            a run in which these failures are expected

`records show` takes the last run of each file, with those that resumed it. It puts the shards of a run together, and says which shard is
missing, or which files are of different runs. Planned trials without a record have no verdict.

Exit codes: those of the run; 2 usage, 3 also where a planned trial has no record.";

#[derive(Args)]
pub(crate) struct Show {
    /// Files of records, as `run --record` writes them
    #[arg(value_name = "FILE", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// Write a JUnit report
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Write a report in the Test Anything Protocol, version 14
    #[arg(long, value_name = "FILE")]
    pub(crate) tap: Option<PathBuf>,

    /// Write the trials that failed to a new file, as `run --baseline` and deqp-runner read them
    #[arg(long, value_name = "FILE")]
    pub(crate) write_baseline: Option<PathBuf>,

    /// Show each trial instead of a line per case
    #[arg(long)]
    pub(crate) trials: bool,
}
