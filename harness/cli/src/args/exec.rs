use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};

use super::{Emulation, Target};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro exec ./saxpy                                 a HIP program of yours, on ROCm 7.2.4 and the emulated gfx1151
  rocrepro exec -- python3 train.py                     a program found by PATH; its children run in the stack too
  rocrepro exec --with cupy venv/bin/python solve.py    the Python of a virtual environment, with its packages
  rocrepro exec --rocm debian:6.4.3 ./saxpy 4096        the same on another release
  rocrepro exec --fault copy.zero,probability=0.5 ./saxpy
  rocrepro exec --device-option memory=512M --device-option gtt=8G ./saxpy    an APU with a carve-out and GTT
  rocrepro exec --env AMD_LOG_LEVEL=3 --gfx gfx90a ./saxpy

This process becomes the program, so its output, signals and exit code are the program's own; 2 usage, 3 it could not be started.
A ROCm of Debian brings its own libc: programs linked on an older or equal system run in it.

The program and its children see the stack in a namespace: its libraries and the device's lie over those of /usr, /opt/rocm is the stack,
/sys/class/kfd shows the emulated GPUs, and ROCM_PATH, ROCM_HOME and HIP_PATH name /opt/rocm. Nothing of that is seen outside. It needs no
root where user namespaces are allowed; where they are not (most containers), the loader of the stack starts the program alone, and a line
says so.";

#[derive(Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) on: Target,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    /// Plant a fault, with parameters perhaps: `copy.zero`, `copy.zero,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// Where the program finds the stack: in a namespace, which its children share, or through the stack's loader, which they do not
    #[arg(long, value_enum, value_name = "HOME", default_value_t = HomeKind::Auto)]
    pub(crate) home: HomeKind,

    /// Look for the program, and for what it starts, in this environment first; see `rocrepro env`
    #[arg(long = "in", value_name = "NAME")]
    pub(crate) environment: Option<String>,

    /// The program, as a path or a name that PATH has
    pub(crate) program: PathBuf,

    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// How a program finds the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HomeKind {
    /// In a namespace where this machine allows that, else through the loader, and says so
    Auto,
    /// In a namespace or not at all
    Namespace,
    /// Through the loader of the stack; its children run on this machine's libraries
    Loader,
}
