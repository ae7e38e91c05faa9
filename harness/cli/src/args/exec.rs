use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};

use super::{Emulation, ExecutionOptions, JudgeOptions, TargetOptions, seconds};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro exec ./saxpy                                 your own HIP program
  rocrepro exec --rocm debian:6.4.3 -- python3 train.py     with its child processes
  rocrepro exec --report --also debian:6.4.3 ./saxpy    writes an issue if it fails
  rocrepro exec --with cupy venv/bin/python solve.py    the Python of a virtual environment, with its packages
  rocrepro exec --fault copy.zero,probability=0.5 ./saxpy
  rocrepro exec --device-option memory=512M --device-option gtt=8G ./saxpy    an APU with a carve-out and GTT
  rocrepro exec --env AMD_LOG_LEVEL=3 --gfx gfx90a ./saxpy
  rocrepro exec --report --never nan -- python3 train.py

Exit codes with --report: 0 the report was written, 2 usage, 3 no run failed, or no run has a verdict. Without --report this process
becomes the program, so output, signals and exit code are the program's own; 2 usage, 3 the program could not be started.
Debian's ROCm has its own libc, so it runs programs that were linked with the same or an older libc.

The program and its children see the stack in a namespace: its libraries and those of the device hide the ones in /usr, /opt/rocm is the stack,
/sys/class/kfd shows the emulated GPUs, and ROCM_PATH, ROCM_HOME and HIP_PATH name /opt/rocm. Other processes do not see these
changes. The namespace needs no root if user namespaces are allowed; if they are not (most containers), the loader of the stack starts the program, child
processes use this machine's libraries, and rocrepro prints a warning.";

#[derive(Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) launch: ProgramLaunch,

    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// A program to start, and the stack and device on which it runs.
#[derive(Args)]
pub(crate) struct ProgramLaunch {
    #[command(flatten)]
    pub(crate) on: TargetOptions,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    /// Inject a fault, such as `copy.zero`; also with parameters: `copy.zero,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// Where the program finds the stack: in a namespace, which its children share, or through the stack's loader,
    /// which its children do not use
    #[arg(long, value_enum, value_name = "HOME", default_value_t = HomeKind::Auto)]
    pub(crate) home: HomeKind,

    /// Look for the program, and for programs that it starts, in this Python environment first: the folder of a venv or
    /// conda environment, or a name from `rocrepro stack env`
    #[arg(long = "in", value_name = "FOLDER|NAME")]
    pub(crate) environment: Option<String>,

    /// The program, as a path or as the name of a program on PATH
    pub(crate) program: PathBuf,

    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Options for running and judging a program for a report.
#[derive(Args)]
pub(crate) struct Reporting {
    /// Run the program several times, judge each run, and write the upstream issue if a run fails; failures are a
    /// failed check of the `rocrepro` module, a signal, a hang, another exit status or output than required, and a
    /// finding of --sanitize
    #[arg(long)]
    pub(crate) report: bool,

    /// Number of runs on each release, each in a fresh process
    #[arg(long, value_name = "N", default_value_t = engine::issue::PROGRAM_REPEAT, requires = "report", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,

    /// Run the program on these releases too, or on another architecture (`debian:6.4.3@gfx90a`), and report the result
    #[arg(long, value_name = "SPEC", value_delimiter = ',', requires = "report")]
    pub(crate) also: Vec<String>,

    #[command(flatten)]
    pub(crate) judged: JudgeOptions,

    /// Write an issue even if the program itself may be the cause, not ROCm, or if the failure is known
    #[arg(long, requires = "report")]
    pub(crate) anyway: bool,

    /// The issue form: rocm, rocm-libraries, pytorch, pytorch-pt2, accelerate, triton [default: that of the repository
    /// to which the failure belongs]
    #[arg(long = "for", value_name = "FORM", requires = "report")]
    pub(crate) form: Option<String>,

    /// The evidence folder [default: ./rocrepro-<program>]
    #[arg(long, value_name = "DIR", requires = "report")]
    pub(crate) out: Option<PathBuf>,

    /// Longest time of one run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = ExecutionOptions::TIMEOUT, requires = "report",
          value_parser = seconds)]
    pub(crate) timeout: u32,

    /// Longest time without progress of one run, in seconds; a run without progress for longer counts as a hang [default:
    /// 120]
    #[arg(long, value_name = "SECONDS", requires = "report", value_parser = seconds)]
    pub(crate) quiet_timeout: Option<u32>,
}

/// The way in which a program finds the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HomeKind {
    /// In a namespace if this machine allows it; otherwise through the loader, with a message
    Auto,
    /// In a namespace; fail if this machine does not allow it
    Namespace,
    /// Through the loader of the stack; child processes use this machine's libraries
    Loader,
}
