use std::path::PathBuf;

use clap::Subcommand;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro env create solver cupy-rocm-7-0==14.2.0           an environment of Python packages, by the python3 of PATH
  rocrepro env create older --python /usr/bin/python3.11 cupy-rocm-7-0==14.1.0
  rocrepro exec --with cupy --in solver -- python3 solve.py  a program in it, on ROCm and the emulated device
  rocrepro env path solver
  rocrepro env remove solver

Python makes it, with venv and pip; ROCm is no part of it. What was installed stands with hashes in requirements.txt beside it.";

#[derive(Subcommand)]
pub(crate) enum Env {
    /// Make an environment and install packages in it
    Create {
        /// What to call it
        name: String,
        /// The Python that it is for
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
        /// What it is called
        name: String,
    },
    /// Remove an environment
    Remove {
        /// What it is called
        name: String,
    },
}
