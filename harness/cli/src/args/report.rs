use std::path::PathBuf;

use clap::Args;

use super::{Emulation, ExecutionOptions, Origin, OwnProgram};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro report 'graphs/long-chain[nodes=30000]'    writes report.md in a folder
  rocrepro report copies/small-sizes --fault copy.zero
  rocrepro report gemm/blaslt-product --for pytorch --with hipblaslt
  rocrepro report --also debian:6.4.3 -- python3 train.py    your own program
  rocrepro report 'graphs/long-chain[nodes=30000]' --open    print a URL that opens the form with its fields filled

The folder of --out is shared with `minimise`, `mitigate`, `export` and `bisect`: their results become part of the report.
Nothing is posted and no browser is started.

Exit codes: 0 written, 2 usage, 3 nothing failed, no verdict, or the sanitizer finds an error in the program itself.";

#[derive(Args)]
pub(crate) struct Report {
    /// The trial (`graphs/long-chain[nodes=30000]`); if several match, the first that fails is used
    #[arg(value_name = "CASE", required_unless_present = "command", conflicts_with = "command")]
    pub(crate) case: Option<String>,

    #[command(flatten)]
    pub(crate) own: OwnProgram,

    #[command(flatten)]
    pub(crate) from: Origin,

    /// Inject a fault, such as `copy.zero`; also with parameters: `copy.zero,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// The issue form: rocm, rocm-libraries, pytorch, pytorch-pt2, accelerate, triton [default: that of the repository
    /// to which the failure belongs]
    #[arg(long = "for", value_name = "FORM")]
    pub(crate) form: Option<String>,

    /// The evidence folder [default: ./rocrepro-<case>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print a link that opens the issue form with its fields filled in
    #[arg(long)]
    pub(crate) open: bool,

    /// Write an issue even if the program or a kernel of the case may be the cause, not ROCm, or if the failure is known
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Run the trial or program on these releases, or on another architecture (`debian:6.4.3@gfx90a`) [default: for a
    /// case, the releases of this machine]
    #[arg(long, value_name = "SPEC", value_delimiter = ',')]
    pub(crate) also: Vec<String>,

    /// Number of runs from which the failure rate is measured, each in a fresh process; each control gets as many
    /// [default: 5; 3 for a program]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: Option<u32>,

    /// End the searches for a short program and for settings that help after this many seconds, and use what was
    /// found so far
    #[arg(long, value_name = "SECONDS", default_value_t = engine::issue::BUDGET.as_secs() as u32, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget_seconds: u32,

    #[command(flatten)]
    pub(crate) on: ExecutionOptions,

    #[command(flatten)]
    pub(crate) emulation: Emulation,
}
