use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro run --record runs.jsonl               a run that keeps its records
  rocrepro show runs.jsonl --junit report.xml    the same again as a table and for a CI system, without running anything
  rocrepro show runs.jsonl --write-baseline fails.txt    what failed, for `rocrepro run --baseline fails.txt`
  rocrepro show part-1.jsonl part-2.jsonl        the parts of `run --shard 1/2` and `run --shard 2/2` as one

show takes the last run of each file, with those that resumed it. It puts the shards of a run together, and says which shard is
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

    /// Write the trials that failed to a new file, as `run --baseline` and deqp-runner read them
    #[arg(long, value_name = "FILE")]
    pub(crate) write_baseline: Option<PathBuf>,

    /// Show each trial instead of a line per case
    #[arg(long)]
    pub(crate) trials: bool,
}
