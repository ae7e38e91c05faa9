use std::process::ExitCode;

use crate::{Stop, args::Doctor};

pub(crate) fn doctor(args: &Doctor) -> Result<ExitCode, Stop> {
    let _ = &args.on;
    Err(Stop::usage("error: `doctor` is not there yet"))
}
