use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records diff monday.jsonl tuesday.jsonl    the last run of each file
  rocrepro records diff m/7.2.4_gfx1151.jsonl m/6.4.3_gfx1151.jsonl
  rocrepro records diff debian:6.4.3@gfx1151 debian:7.2.4@gfx1151 --store r.db

A trial differs if the two files share no outcome of it, or if the 95 % intervals of its failure rates do not overlap. Any other
difference is marked as possible chance, and a case whose text changed is marked so. With `--store`, OLD and NEW are runs of the
store, or a stack and device that runs ran on, as `rocrepro records store list` names them; then each trial counts as in the last run there
that has it.

Exit codes: 0 no trial of both differs, 1 some do, 2 usage.";

#[derive(Args)]
pub(crate) struct Diff {
    /// The file of the older run, as `run --record` writes it
    #[arg(value_name = "OLD")]
    pub(crate) old: String,

    /// The file of the newer run
    #[arg(value_name = "NEW")]
    pub(crate) new: String,

    /// Read both runs from this results store
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
