use std::path::PathBuf;

use clap::Args;

use super::ProgramLaunch;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro record ./saxpy                            writes ./rocrepro-saxpy.trace
  rocrepro record --gfx gfx90a -- python3 train.py   with its child processes
  rocrepro record --out calls --fault copy.zero ./saxpy
  rocrepro run rocrepro-saxpy.trace --rocm debian:6.4.3    makes the recorded calls again, on another release
  rocrepro records diff rocrepro-saxpy.trace calls         the first call that differs

Every call of libamdhip64 and libhiprtc is recorded, also a failing one, with the status that it returned and the bytes that copies
from the host read. The recorder adds no call and no synchronisation. The folder has one file `calls.jsonl` for each process that used HIP.

Exit codes: that of the program, 128 + N if signal N ended it; 2 usage, 3 the program could not be started or the recording could not be
read.";

#[derive(Args)]
pub(crate) struct Record {
    #[command(flatten)]
    pub(crate) launch: ProgramLaunch,

    /// The folder of the recording, which must be empty or missing [default: ./rocrepro-<program>.trace]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
