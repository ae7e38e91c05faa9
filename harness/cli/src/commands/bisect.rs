use std::process::ExitCode;

use crate::{Stop, args::Bisect};

pub(crate) fn bisect(args: &Bisect) -> Result<ExitCode, Stop> {
    let _ = &args.on;
    Err(Stop::usage("error: `bisect` is not there yet"))
}
