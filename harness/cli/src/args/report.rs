use std::path::PathBuf;

use clap::Args;

use super::{On, Origin};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro report 'graphs/long-chain[nodes=30000]'    writes report.md in a folder
  rocrepro report copies/small-sizes --fault copy.zero
  rocrepro report gemm/blaslt-product --for pytorch --with hipblaslt
  rocrepro report 'graphs/long-chain[nodes=30000]' --open    prints an address that opens the form, filled

The folder of --out is shared with `minimise`, `mitigate`, `export` and `bisect`: what they found is part of the report.
Nothing is posted and no browser is started.

Exit codes: 0 written, 2 usage, 3 the trial did not fail or has no verdict.";

#[derive(Args)]
pub(crate) struct Report {
    /// The trial (`graphs/long-chain[nodes=30000]`); of several, the first that fails
    #[arg(value_name = "CASE")]
    pub(crate) case: String,

    #[command(flatten)]
    pub(crate) from: Origin,

    /// Inject a fault, such as `copy.zero`; also with parameters: `copy.zero,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// The form: rocm, rocm-libraries, pytorch, pytorch-pt2, accelerate, triton [default: that of the repository which the
    /// failure belongs to]
    #[arg(long = "for", value_name = "FORM")]
    pub(crate) form: Option<String>,

    /// The evidence folder [default: ./rocrepro-<case>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print an address that opens the form with its fields filled
    #[arg(long)]
    pub(crate) open: bool,

    /// Number of runs for the failure rate, each in a fresh process; each control gets as many runs
    #[arg(long, value_name = "N", default_value_t = engine::issue::REPEAT, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,

    #[command(flatten)]
    pub(crate) on: On,
}
