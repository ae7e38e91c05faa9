use std::process::ExitCode;

use crate::{Stop, args::Export};

pub(crate) fn export(args: &Export) -> Result<ExitCode, Stop> {
    let _ = &args.on;
    Err(Stop::usage("error: `export` is not there yet"))
}
