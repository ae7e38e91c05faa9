use clap::Args;

use super::On;

pub(crate) const EXAMPLES: &str = "";

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) on: On,
}
