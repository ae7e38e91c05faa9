use std::path::PathBuf;

use clap::Subcommand;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro env create solver cupy-rocm-7-0==14.2.0           an environment of Python packages, by the python3 of PATH
  rocrepro env create older --python /usr/bin/python3.11 cupy-rocm-7-0==14.1.0
  rocrepro exec --with cupy --in solver -- python3 solve.py  a program in it, on ROCm and the emulated device
  rocrepro env path solver
  rocrepro env remove solver

Python's venv and pip make the environment; ROCm is no part of it. requirements.txt beside it lists what pip installed, with hashes.";

#[derive(Subcommand)]
pub(crate) enum Env {
    /// Make an environment and install packages in it
    Create {
        /// A name for the environment
        name: String,
        /// The Python to make it with
        #[arg(long, value_name = "PATH", default_value = "python3")]
        python: PathBuf,
        /// What to install, as for pip: `triton==3.9.0`, or the file of a wheel
        #[arg(required = true, value_name = "PACKAGE")]
        packages: Vec<String>,
    },
    /// List the environments with what they were made of
    List,
    /// Print the folder of an environment
    Path {
        /// The name of the environment
        name: String,
    },
    /// Remove an environment
    Remove {
        /// The name of the environment
        name: String,
    },
}
