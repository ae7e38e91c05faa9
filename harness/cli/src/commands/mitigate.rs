use std::process::ExitCode;

use crate::{Stop, args::Mitigate};

pub(crate) fn mitigate(args: &Mitigate) -> Result<ExitCode, Stop> {
    let _ = &args.on;
    Err(Stop::usage("error: `mitigate` is not there yet"))
}
