use std::path::PathBuf;

use clap::Args;
use engine::baseline::BaselineFiles;

/// Options that name files of expected results, in deqp-runner's format.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct Baselines {
    /// A file of trials that are known to fail, one line `TRIAL,STATUS` each; STATUS is Fail, Crash, Timeout, or Flake
    /// for any of these. A failure of another kind is an unexpected result, and so is a pass, except for a Flake.
    /// `rocrepro records show --write-baseline` writes such a file
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Vec<PathBuf>,

    /// A file of trials whose failure is not an unexpected result: on each line a regular expression or the exact name
    /// of a trial
    #[arg(long, value_name = "FILE")]
    pub(crate) flakes: Vec<PathBuf>,

    /// A file of trials to leave out, in the format of `--flakes`. If a line matches no trial of the library, nothing
    /// runs
    #[arg(long, value_name = "FILE")]
    pub(crate) skips: Vec<PathBuf>,
}

impl From<&Baselines> for BaselineFiles {
    fn from(args: &Baselines) -> BaselineFiles {
        let Baselines { baseline, flakes, skips } = args.clone();
        BaselineFiles { fails: baseline, flakes, skips }
    }
}
