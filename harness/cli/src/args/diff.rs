use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro records diff monday.jsonl tuesday.jsonl    the last run of each file
  rocrepro records diff m/7.2.4_gfx1151.jsonl m/6.4.3_gfx1151.jsonl
  rocrepro records diff debian:6.4.3@gfx1151 debian:7.2.4@gfx1151 --store r.db
  rocrepro records diff good.trace bad.trace          two recordings of `rocrepro record`: the first call that differs

A trial differs if its outcomes in the two files are disjoint, or if the 95 % intervals of its failure rates do not overlap. Any other
difference is marked as possible chance. A case whose text changed is marked, too. With `--store`, OLD and NEW are runs of the
store, or a stack and device, named as in `rocrepro records store list`; then the last run with the trial counts.

In two recordings, handles and addresses are compared by their object: the nth call of a function in a thread creates the same
object. A call that changed counts once as missing and once as additional.

Exit codes: 0 no common trial or call differs, 1 some differ, 2 usage.";

#[derive(Args)]
pub(crate) struct Diff {
    /// The record file of the older run, or the folder of the first recording
    #[arg(value_name = "OLD")]
    pub(crate) old: String,

    /// The record file of the newer run, or the folder of the second recording
    #[arg(value_name = "NEW")]
    pub(crate) new: String,

    /// Read both runs from this results store
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
