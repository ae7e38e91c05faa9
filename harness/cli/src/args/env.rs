use std::path::PathBuf;

use clap::Subcommand;
use engine::environments::TorchBuilds;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro stack env create solver cupy-rocm-7-0==14.2.0
  rocrepro exec --with cupy --in solver -- python3 solve.py
  rocrepro stack env remove solver

Python's venv and pip create the environment, without ROCm. Its requirements.txt lists the installed packages with their hashes.";

const CREATE: &str = "\
Examples:
  rocrepro stack env create solver triton==3.9.0 numpy
  rocrepro stack env create torch --torch rocm7.2 torch==2.11.0
  rocrepro stack env create nightly --torch therock-gfx1151
  rocrepro stack env create other --index-url URL --pre torch
  rocrepro stack env create older --python /usr/bin/python3.11 triton==3.3.0";

const LIST: &str = "\
Examples:
  rocrepro stack env list";

const PATH: &str = "\
Examples:
  rocrepro stack env path solver
  \"$(rocrepro stack env path solver)/bin/pip\" list";

const REMOVE: &str = "\
Examples:
  rocrepro stack env remove solver";

#[derive(Subcommand)]
pub(crate) enum Env {
    /// Make a Python environment and install packages in it
    #[command(after_help = CREATE)]
    Create {
        /// A name for the environment
        name: String,
        /// Path of the Python interpreter for the environment
        #[arg(long, value_name = "PATH", default_value = "python3")]
        python: PathBuf,
        /// Install PyTorch for ROCm from a known index
        ///
        /// `rocm7.2`: releases of PyTorch with this ROCm in the wheel; `nightly-rocm7.2`: PyTorch's nightly builds;
        /// `therock-gfx1151`: AMD's nightly builds of PyTorch and ROCm for this architecture. The addresses are those of
        /// 2026; if they change, use --index-url
        #[arg(long, value_name = "SOURCE", conflicts_with = "index_url")]
        torch: Option<TorchBuilds>,
        /// Take packages from this index instead of PyPI
        #[arg(long, value_name = "URL")]
        index_url: Option<String>,
        /// Take packages from this index, too
        #[arg(long, value_name = "URL")]
        extra_index_url: Vec<String>,
        /// Take wheels from this folder, or from the links on this page, too
        #[arg(long, value_name = "PLACE")]
        find_links: Vec<String>,
        /// Allow only the package versions that this file of pip constraints allows
        #[arg(long, value_name = "FILE")]
        constraint: Vec<String>,
        /// Install development versions, too, such as PyTorch's nightly builds
        #[arg(long)]
        pre: bool,
        /// Packages to install, as for pip: `triton==3.9.0`, or the file of a wheel
        #[arg(required_unless_present = "torch", value_name = "PACKAGE")]
        packages: Vec<String>,
    },
    /// List the environments with the packages that they were made for
    #[command(after_help = LIST)]
    List,
    /// Print the folder of an environment
    #[command(after_help = PATH)]
    Path {
        /// The name of the environment
        name: String,
    },
    /// Remove an environment
    #[command(after_help = REMOVE)]
    Remove {
        /// The name of the environment
        name: String,
    },
}
