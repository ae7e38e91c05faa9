use clap::Args;

use super::Mirrors;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro demo                      fetch ROCm 7.2.4 (122 MB, once) and run seven trials
  rocrepro demo | head -4            the first finding

The demonstration runs on the emulated device, also if this machine has a GPU.

Exit codes: 0 everything appeared that could run, 1 something did not appear, 3 no verdict.";

#[derive(Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) mirrors: Mirrors,
}
