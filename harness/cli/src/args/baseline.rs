use std::path::PathBuf;

use clap::Args;

/// Files that say what is known of trials, as deqp-runner has them.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct Baselines {
    /// Trials that are known to fail, a line `TRIAL,STATUS` for each: Fail, Crash, Timeout, or Flake for any of them. Such a failure is
    /// no news, another one and a pass are. `rocrepro show --write-baseline` writes such a file
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Vec<PathBuf>,

    /// Trials whose failure is no news, by regular expressions, one a line; a line that is a trial's very name names that trial, too
    #[arg(long, value_name = "FILE")]
    pub(crate) flakes: Vec<PathBuf>,

    /// Trials that are left out, in lines as `--flakes` has them. Nothing is run where a line names no trial of the library
    #[arg(long, value_name = "FILE")]
    pub(crate) skips: Vec<PathBuf>,
}
