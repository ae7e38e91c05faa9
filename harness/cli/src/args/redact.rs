use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro redact runs.jsonl > public.jsonl           records without names, addresses and secrets
  rocrepro redact rocrepro-small-sizes --out public   every text file of an evidence folder

Works on JSON, JSON lines and plain text. What identifies somebody by its meaning alone, a name in a title for example, only a reader finds.

Exit codes: 0 done, 2 usage.";

#[derive(Args)]
pub(crate) struct Redact {
    /// A file, or a folder with `--out`
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,

    /// A new folder for the redacted files; without it a file goes to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
