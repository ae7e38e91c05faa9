use std::path::PathBuf;

use clap::Args;

use super::{Emulation, ExecutionOptions, Origin, OwnProgram};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro mitigate 'graphs/long-chain[nodes=30000]'
  rocrepro mitigate 'copies/tensors[bytes=262144]' --fault sdma.zero
  rocrepro mitigate copies/tensors --fault copy.zero,probability=0.2 --json
  rocrepro mitigate --says done -- python3 train.py    your own program

mitigate tries environment variables (cases/mitigations.toml) and other calls for the same work, each alone, and repeats the runs until it is clear
whether the failure is gone. If no single change helps, it looks for the smallest set that does. The result also goes to
mitigate.json in the folder of --out, for the report.

Exit codes: 0 searched, 2 usage, 3 the trial did not fail or has no verdict.";

#[derive(Args)]
pub(crate) struct Mitigate {
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

    /// The evidence folder [default: ./rocrepro-<case>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Number of failures to collect without any change before changes are tried; they determine the failure rate to
    /// compare with
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) failures: u32,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) on: ExecutionOptions,

    #[command(flatten)]
    pub(crate) emulation: Emulation,
}
