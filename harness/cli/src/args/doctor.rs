use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro doctor                    describe this machine as in a report
  rocrepro doctor --json > machine.json
  rocrepro doctor --torch            also PyTorch's own description

Host names, login names, home and XDG folders, serial numbers, addresses and UUIDs are removed. Anything
that cannot be read is listed with the reason, and the exit code stays 0.";

#[derive(Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print PyTorch's own description of the machine (`python3 -m torch.utils.collect_env`), if python3 has PyTorch
    #[arg(long)]
    pub(crate) torch: bool,
}
