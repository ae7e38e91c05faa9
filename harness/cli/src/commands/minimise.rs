use std::process::ExitCode;

use crate::{Stop, args::Minimise};

pub(crate) fn minimise(args: &Minimise) -> Result<ExitCode, Stop> {
    let _ = &args.on;
    Err(Stop::usage("error: `minimise` is not there yet"))
}
