use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records unfinished runs.jsonl     the trials that ran when the machine crashed

`run --record` writes a line to the disk before each trial, so the trial that took the machine down is known. If several trials ran
at once (`--jobs`), all of them are listed. A run that was interrupted with Ctrl-C leaves none.

Exit codes: 0 none, 2 usage, 3 some.";

#[derive(Args)]
pub(crate) struct Unfinished {
    /// A record file written by `--record`
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
}
