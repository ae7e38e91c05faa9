use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records unfinished runs.jsonl     what ran when the machine crashed

`run --record` writes a line to the disk before each trial, so the trial that took the machine down is known. If several trials ran
at once (`--jobs`), each of them is listed. A run that Ctrl-C interrupted leaves none.

Exit codes: 0 none, 2 usage, 3 there are some.";

#[derive(Args)]
pub(crate) struct Unfinished {
    /// A file of records, as `--record` writes it
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
}
