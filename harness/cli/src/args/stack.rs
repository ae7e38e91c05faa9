use std::path::PathBuf;

use clap::Subcommand;

use super::{Env, Mirrors, env};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro stack list
  rocrepro stack fetch debian:7.2.4 --with hipblaslt,rocblas
  rocrepro stack path debian:7.2.4
  rocrepro stack env create solver triton==3.9.0";

const LIST: &str = "\
Examples:
  rocrepro stack list                     installed, fetched and fetchable stacks
  rocrepro stack list --source nightly    the nightly builds for gfx1151";

const FETCH: &str = "\
Examples:
  rocrepro stack fetch debian:7.2.4 --with hipblaslt,rocblas
  rocrepro stack fetch nightly:2026-07-02 --gfx gfx1100";

const PATH: &str = "\
Examples:
  rocrepro stack path debian:7.2.4
  ls \"$(rocrepro stack path system)/lib\"";

#[derive(Subcommand)]
pub(crate) enum Stack {
    #[command(flatten)]
    Rocm(Rocm),
    /// Create, list and remove environments of Python packages
    #[command(subcommand, after_help = env::EXAMPLES)]
    Env(Env),
}

#[derive(Subcommand)]
pub(crate) enum Rocm {
    /// List installed and fetchable stacks, or the builds of a download source
    #[command(after_help = LIST)]
    List {
        /// List the builds of this source, with dates and sizes: `nightly`, `stable`, `commits`, or another that
        /// `bisect --source` takes
        #[arg(long, value_name = "SOURCE")]
        source: Vec<String>,
        /// A file of download sources, which adds to the built-in ones [default: rocrepro/sources.toml in the
        /// configuration folder]
        #[arg(long, value_name = "FILE", requires = "source")]
        sources_file: Option<PathBuf>,
        /// The architecture for which the builds are made
        #[arg(long, value_name = "GFX", default_value = "gfx1151", requires = "source")]
        gfx: String,
    },
    /// Fetch a stack and, with --with, libraries for it
    #[command(after_help = FETCH)]
    Fetch {
        /// The stack: `debian:7.2.4`, `debian:latest`, or a build of a source such as `nightly:2026-07-02`
        spec: String,
        /// Fetch these libraries with the stack; hiprand, hipblaslt, rocblas, ...; dev (headers and compiler), tests
        /// (AMD's own); or everything that a framework needs: cupy, jax, llama (6.4.3 only), onnxruntime, triton
        #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
        with: Vec<String>,
        /// Fetch the GPU kernels of the libraries for these architectures [default: gfx1151,gfx90a]; a nightly build is
        /// for the first of them [default: that of this machine's GPU, or else gfx1151]
        #[arg(long, value_name = "GFX", value_delimiter = ',')]
        gfx: Vec<String>,
        #[command(flatten)]
        mirrors: Mirrors,
    },
    /// Print the folder of a stack
    #[command(after_help = PATH)]
    Path {
        /// The stack: `debian:7.2.4`, `system`, or a fetched build of a source such as `nightly:2026-07-02`
        spec: String,
        /// The architecture of a nightly build [default: that of this machine's GPU, or else gfx1151]
        #[arg(long, value_name = "GFX")]
        gfx: Option<String>,
    },
}
