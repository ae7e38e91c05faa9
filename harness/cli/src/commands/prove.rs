use std::process::ExitCode;

use crate::{Stop, args::Prove};

pub(crate) fn prove(_args: &Prove) -> Result<ExitCode, Stop> {
    Err(Stop::usage("error: being written"))
}
