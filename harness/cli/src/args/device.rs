use clap::{Args, Subcommand};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro device audit                                      every math library of the stack, all architectures
  rocrepro device audit --lib hiprand --gfx gfx1151          one library, one architecture
  rocrepro device audit --rocm debian:7.2.4 --with hipblaslt,rocblas --gfx gfx90a,gfx1151
  rocrepro device audit --lib kernels.co --json              a code object of your own

Exit codes: 0 nothing is missing, 1 opcodes are missing, 2 usage, 3 no answer, 4 no code was found.";

#[derive(Args)]
pub(crate) struct Device {
    #[command(subcommand)]
    pub(crate) command: DeviceCommand,
}

#[derive(Subcommand)]
pub(crate) enum DeviceCommand {
    /// List the opcodes of shipped kernels that the emulated device lacks
    #[command(after_help = EXAMPLES)]
    Audit(Audit),
    /// The part of the audit that runs inside the stack: request on standard input, answer on standard output
    #[command(hide = true)]
    AuditInside,
}

#[derive(Args)]
pub(crate) struct Audit {
    /// The stack: `debian:7.2.4`, `system`, or a folder that holds one
    #[arg(long, value_name = "SPEC", env = "ROCREPRO_ROCM", default_value = "debian:7.2.4")]
    pub(crate) rocm: String,

    /// Libraries to fetch with it: hiprand, hipblaslt, rocblas
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub(crate) with: Vec<String>,

    /// A Debian mirror instead of the machine's own
    #[arg(long, value_name = "URL")]
    pub(crate) mirror: Option<String>,

    /// Architectures; all that the emulated device knows without it
    #[arg(long, value_name = "GFX", value_delimiter = ',')]
    pub(crate) gfx: Vec<String>,

    /// What to read: hiprand, rocblas, hipblaslt, or a file or folder; all of those that the stack has without it
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub(crate) lib: Vec<String>,

    /// Read at most so many files of each library and architecture, evenly spread
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<std::num::NonZeroUsize>,

    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}
