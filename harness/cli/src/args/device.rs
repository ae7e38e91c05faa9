use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Mirrors, TargetOptions};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro device audit                   opcodes that the emulated device lacks
  rocrepro device compare --device gpu --write gpu.probe
  rocrepro device compare gpu.probe --device emulated --gfx gfx1100";

const AUDIT: &str = "\
Examples:
  rocrepro device audit                                every library of the stack
  rocrepro device audit --lib hiprand --gfx gfx1151    one library
  rocrepro device audit --lib kernels.co --json        your own code object
  rocrepro device audit --rocm debian:7.2.4 --with hipblaslt,rocblas --gfx gfx90a,gfx1151
  rocrepro device audit --barriers --lib kernels.co    waits that the compiler lost, in your own code object

--barriers walks over all paths of each kernel and lists loads and stores of an earlier iteration that can be
outstanding at a barrier whose fences must wait for them. The fences are visible in kernels that run in WGP mode (RDNA).
Other barriers need not wait; a suspect is a kernel in which a write to the LDS can be outstanding at such a barrier in
a loop. Unexplained operations may be inline assembly, which the compiler does not know.

Exit codes: 0 nothing is missing, 1 opcodes or waits are missing, 2 usage, 3 no answer, 4 no code was found.";

const COMPARE: &str = "\
Examples:
  rocrepro device compare --rocm system --device gpu --write gpu.probe
  rocrepro device compare gpu.probe --device emulated --gfx gfx1100
  rocrepro device compare gpu.probe emulated.probe    two files, without a device

The probe executes every arithmetic instruction that the stack's disassembler knows on that architecture, on 512
work-items with ordinary and extreme values, and tests what the emulated device assumes about hardware. Loads, stores, branches
and instructions that wait for other work-items are left out. A file names its stack, device, date, and whether the device was emulated.

Exit codes: 0 no difference, 1 differences, 2 usage or a file that cannot be compared, 3 no answer.";

#[derive(Args)]
pub(crate) struct Device {
    #[command(subcommand)]
    pub(crate) command: DeviceCommand,
}

#[derive(Subcommand)]
pub(crate) enum DeviceCommand {
    /// List the opcodes of shipped kernels that the emulated device does not support, or waits that the kernels lack
    #[command(after_help = AUDIT)]
    Audit(Audit),
    /// Compare the results of each instruction on a device with a result file, or two result files
    #[command(after_help = COMPARE)]
    Compare(Compare),
    /// Run the conformance tests; `device compare` starts this command with the stack's libraries, on the device
    #[command(hide = true)]
    ProbeInside(ProbeInside),
    /// Execute an audit request from standard input; `device audit` starts this command with the stack's libraries
    #[command(hide = true)]
    AuditInside,
}

#[derive(Args)]
pub(crate) struct Audit {
    /// The stack: `debian:7.2.4`, `system`, or a folder with a ROCm
    #[arg(long, value_name = "SPEC", env = "ROCREPRO_ROCM", default_value = "debian:7.2.4")]
    pub(crate) rocm: String,

    /// Libraries to fetch with the stack: hiprand, hipblaslt, rocblas
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub(crate) with: Vec<String>,

    #[command(flatten)]
    pub(crate) mirrors: Mirrors,

    /// Architectures [default: every architecture that the emulated device supports]
    #[arg(long, value_name = "GFX", value_delimiter = ',')]
    pub(crate) gfx: Vec<String>,

    /// Libraries to read: hiprand, rocblas, hipblaslt, or a file or folder [default: those of the three that the stack
    /// contains]
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub(crate) lib: Vec<String>,

    /// Read at most this many files for each library and architecture, evenly spread
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<std::num::NonZeroUsize>,

    /// Examine the waits before barriers instead of the opcodes
    #[arg(long)]
    pub(crate) barriers: bool,

    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Compare {
    /// A result file to compare this device with, or two to compare with each other
    #[arg(value_name = "FILE", num_args = 0..=2)]
    pub(crate) files: Vec<PathBuf>,

    /// Write the results of this device to a new file
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) on: TargetOptions,
}

#[derive(Args)]
pub(crate) struct ProbeInside {
    /// Name of the stack
    pub(crate) stack: String,

    /// File for the result
    pub(crate) to: PathBuf,

    /// Path of the emulated device's library, which decodes instructions
    pub(crate) decoder: PathBuf,
}
