use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro diff monday.jsonl tuesday.jsonl    the last run of each file
  rocrepro diff matrix/7.2.4_gfx1151.jsonl matrix/6.4.3_gfx1151.jsonl
  rocrepro diff debian:6.4.3@gfx1151 debian:7.2.4@gfx1151 --store results.db

A trial differs where no run of it came to what a run of the other file came to, or where the 95 % intervals of its failure rates
do not overlap. What else differs may be chance, and is said to be. Where the text of the case is another one, that is said. With
`--store` OLD and NEW are runs of the store, or what runs stood on, as `rocrepro store list` names them; of the latter each trial
counts as the last run that has it tells.

Exit codes: 0 no trial of both differs, 1 some do, 2 usage.";

#[derive(Args)]
pub(crate) struct Diff {
    /// The file of the older run, as `run --record` writes it
    #[arg(value_name = "OLD")]
    pub(crate) old: String,

    /// That of the newer one
    #[arg(value_name = "NEW")]
    pub(crate) new: String,

    /// Take both from this results store
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
