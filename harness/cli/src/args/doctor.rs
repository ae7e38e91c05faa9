use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro doctor                    what a report would say of this machine
  rocrepro doctor --json > machine.json
  rocrepro doctor --torch            and what PyTorch reports of itself

Host names, login names, home and XDG folders, serial numbers, addresses and UUIDs are taken out. What cannot be read is
named with the reason; that is no error.";

#[derive(Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print PyTorch's own description of the machine (`python3 -m torch.utils.collect_env`), if python3 has PyTorch
    #[arg(long)]
    pub(crate) torch: bool,
}
