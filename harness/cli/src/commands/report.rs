use std::process::ExitCode;

use crate::{Stop, args::Report};

pub(crate) fn report(args: &Report) -> Result<ExitCode, Stop> {
    let _ = &args.on;
    Err(Stop::usage("error: `report` is not there yet"))
}
