use clap::Args;

use super::On;

pub(crate) const EXAMPLES: &str = "";

#[derive(Args)]
pub(crate) struct Device {
    #[command(flatten)]
    pub(crate) on: On,
}
