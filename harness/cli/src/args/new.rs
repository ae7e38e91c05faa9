//! The options of `case new`.

use std::path::PathBuf;

use clap::Args;

use super::{ExecutionOptions, TargetOptions, seconds};

pub(super) const NEW: &str = "\
Examples:
  rocrepro case new repro.cpp                    writes repro.yaml and runs it
  rocrepro case new repro.hip --rocm debian:6.4.3 --gfx gfx1100
  rocrepro case new train.py --in ./venv         a Python program in its environment
  rocrepro case new hangs.cpp --timeout 60       gives up a program that hangs after a minute
  rocrepro case new rocrepro-saxpy.trace         the calls that `rocrepro record ./saxpy` recorded, as steps

The needs of the program (libraries, packages, devices) are guessed from its text, and what it should do from the words PASS
and FAIL in it. Read the case and correct what is guessed wrong.

Exit codes: as `rocrepro run`.";

#[derive(Args)]
pub(crate) struct New {
    /// The program: C++ (.cpp, .hip, .cc, .cxx, .cu) or Python (.py); or a folder that `rocrepro record` wrote
    #[arg(value_name = "FILE")]
    pub(crate) program: PathBuf,

    /// The case file [default: the name of the program or folder with .yaml, beside it]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write and check the case, but do not run it
    #[arg(long)]
    pub(crate) no_run: bool,

    /// Run the program in this Python environment: the folder of a venv or conda environment, or a name from `rocrepro
    /// stack env`
    #[arg(long = "in", value_name = "FOLDER|NAME")]
    pub(crate) environment: Option<String>,

    /// Longest time of the program, in seconds; a program that runs for longer counts as a hang
    #[arg(long, value_name = "SECONDS", default_value_t = ExecutionOptions::TIMEOUT, value_parser = seconds)]
    pub(crate) timeout: u32,

    #[command(flatten)]
    pub(crate) target: TargetOptions,
}
