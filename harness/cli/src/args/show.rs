use std::path::PathBuf;

use clap::Args;

use super::Details;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records show runs.jsonl --junit report.xml          nothing runs
  rocrepro records show runs.jsonl --tap report.tap            the same in the Test Anything Protocol
  rocrepro records show runs.jsonl --write-baseline fails.txt  what failed
  rocrepro records show part-1.jsonl part-2.jsonl              two shards as one run
  rocrepro run --baseline fails.txt            run; these failures are expected

`records show` takes the last run of each file, including the runs that resumed it. It merges the shards of a run and reports missing
shards and files of different runs. Planned trials without a record have no verdict.

Exit codes: those of the run; 2 usage; 3 also if a planned trial has no record.";

#[derive(Args)]
pub(crate) struct Show {
    /// Record files written by `run --record`
    #[arg(value_name = "FILE", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// Write a JUnit report
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Write a report in the Test Anything Protocol, version 14
    #[arg(long, value_name = "FILE")]
    pub(crate) tap: Option<PathBuf>,

    /// Write annotations for GitHub Actions; a step shows them with `cat FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) annotations: Option<PathBuf>,

    /// Write the failed trials to a new file that `run --baseline` and deqp-runner can read
    #[arg(long, value_name = "FILE")]
    pub(crate) write_baseline: Option<PathBuf>,

    /// Show a line for each trial instead of each case
    #[arg(long)]
    pub(crate) trials: bool,

    #[command(flatten)]
    pub(crate) details: Details,
}
