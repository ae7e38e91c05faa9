use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::{Emulation, HomeKind, ProgramLaunch, Target};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro record ./saxpy                            writes ./rocrepro-saxpy.trace
  rocrepro record --gfx gfx90a -- python3 train.py   with its child processes
  rocrepro record --out calls --fault copy.zero ./saxpy

Every call of libamdhip64 and libhiprtc is recorded, also a failing one, with the status that it returned and the bytes that copies
from the host read. The recorder adds no call and no synchronisation. The folder has one file `calls.jsonl` for each process that used HIP.

Exit codes: that of the program, 128 + N if signal N ended it; 2 usage, 3 the program could not be started or the recording could not be
read.";

#[derive(Args)]
pub(crate) struct Record {
    #[command(flatten)]
    pub(crate) on: Target,

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

    /// The folder of the recording, which must be empty or missing [default: ./rocrepro-<program>.trace]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// The program, as a path or as the name of a program on PATH
    pub(crate) program: PathBuf,

    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

impl Record {
    pub(crate) fn launch(&self) -> ProgramLaunch<'_> {
        ProgramLaunch {
            on: &self.on,
            emulation: &self.emulation,
            fault: &self.fault,
            home: self.home,
            environment: self.environment.as_deref(),
            program: &self.program,
            arguments: &self.arguments,
        }
    }
}
