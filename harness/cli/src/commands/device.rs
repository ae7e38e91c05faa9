use std::process::ExitCode;

use crate::{Stop, args::Device};

pub(crate) fn device(args: &Device) -> Result<ExitCode, Stop> {
    let _ = &args.on;
    Err(Stop::usage("error: `device` is not there yet"))
}
