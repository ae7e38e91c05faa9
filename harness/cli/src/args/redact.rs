use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records redact runs.jsonl > public.jsonl    a file of records
  rocrepro records redact rocrepro-small-sizes --out public    every text file of an evidence folder

`records redact` works on JSON, JSON lines and plain text. It cannot recognise text that identifies a person only by its meaning, such
as a name in a title, so read the result before you publish it.

Exit codes: 0 done, 2 usage.";

#[derive(Args)]
pub(crate) struct Redact {
    /// The file to redact, or the folder to redact with `--out`
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,

    /// A new folder for the redacted files; without it a file goes to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
