use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::{Emulation, Target};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro exec ./saxpy                                 a HIP program of yours, on ROCm 7.2.4 and the emulated gfx1151
  rocrepro exec --rocm debian:6.4.3 ./saxpy 4096        the same on another release
  rocrepro exec --fault copy.zero,probability=0.5 ./saxpy
  rocrepro exec --device-option memory=512M --device-option gtt=8G ./saxpy    an APU with a carve-out and GTT
  rocrepro exec --env AMD_LOG_LEVEL=3 --gfx gfx90a ./saxpy

This process becomes the program, so its output, signals and exit code are the program's own; 2 usage, 3 it could not be started.
A ROCm of Debian brings its own libc: programs linked on an older or equal system run in it.";

#[derive(Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) on: Target,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    /// Plant a fault, with parameters perhaps: `copy.zero`, `copy.zero,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// The program, as a path
    pub(crate) program: PathBuf,

    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}
