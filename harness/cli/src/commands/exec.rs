use std::{os::unix::process::CommandExt, process::ExitCode};

use device::{Config, Place};

use super::faults::faults;
use crate::{DeviceChoice, Session, SessionOptions, Stop, args::Exec};

/// Runs a program of the user's in the stack and on the device, with this terminal as its own.
pub(crate) fn exec(args: &Exec) -> Result<ExitCode, Stop> {
    let faults = faults(&args.fault)?;
    let mut problems = Vec::new();
    for planted in &faults {
        if planted.fault.place() == Place::Call {
            problems.push(format!(
                "error: `{}` is planted at the calls of a case; a program takes faults of the device",
                planted.fault
            ));
        }
    }
    let program = match args.program.canonicalize() {
        Ok(program) if program.is_file() => Some(program),
        Ok(_) => {
            problems.push(format!("error: `{}` is not a file", args.program.display()));
            None
        }
        Err(error) => {
            problems.push(format!("error: cannot run `{}`: {error}", args.program.display()));
            None
        }
    };
    let emulation = args.emulation.config().map_err(|stop| problems.push(stop.to_string())).ok();
    let options = match SessionOptions::try_from(&args.on) {
        Ok(options) => Some(SessionOptions { emulation: emulation.unwrap_or_default(), ..options }),
        Err(stop) => {
            problems.push(stop.to_string());
            None
        }
    };
    if let Some(options) = &options
        && options.device == DeviceChoice::Gpu
        && (!faults.is_empty() || options.emulation != Config::default())
    {
        problems.push(
            "error: faults, schedules, the sanitizer and device options are of the emulated device; \
             use `--device emulated`"
                .to_owned(),
        );
    }
    let (Some(program), Some(options), true) = (program, options, problems.is_empty()) else {
        return Err(Stop::usage(problems.join("\n")));
    };
    let session = Session::open(options)?;
    let config = session.device_config(faults).map(|c| serde_json::to_string(&c)).transpose();
    let config = config.map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
    let mut command = session.command(&program, config.as_deref());
    command.args(&args.arguments);
    // What the session made for trials goes; this process becomes the program.
    drop(session);
    let error = command.exec();
    Err(Stop::no_verdict(format!("error: cannot start `{}`: {error}", args.program.display())))
}
