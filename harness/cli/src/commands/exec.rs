use std::{
    collections::BTreeMap,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use device::{Place, Planted};

use super::setup::setup;
use crate::{Session, Stop, args::Exec};

/// Runs a program of the user's in the stack and on the device, with this terminal as its own.
pub(crate) fn exec(args: &Exec) -> Result<ExitCode, Stop> {
    let setup = setup(&args.on, Some(&args.emulation), &args.fault);
    let program = Stop::both(program(&args.program), of_the_device(&args.fault));
    let ((program, ()), (options, faults)) = Stop::both(program, setup)?;
    let session = Session::open(options)?;
    let config = session.device_config(faults).map(|c| serde_json::to_string(&c)).transpose();
    let config = config.map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
    let mut start = session.start(&program, config.as_deref(), &BTreeMap::new());
    start.arguments.extend(args.arguments.iter().cloned());
    let mut command = session.command(&start);
    // What the session made for trials goes; this process becomes the program.
    drop(session);
    let error = command.exec();
    Err(Stop::no_verdict(format!("error: cannot start `{}`: {error}", args.program.display())))
}

fn program(path: &Path) -> Result<PathBuf, Stop> {
    match path.canonicalize() {
        Ok(program) if program.is_file() => Ok(program),
        Ok(_) => Err(Stop::usage(format!("error: `{}` is not a file", path.display()))),
        Err(error) => Err(Stop::usage(format!("error: cannot run `{}`: {error}", path.display()))),
    }
}

/// Whether all faults that can be read are the device's own: a program has no plan at whose calls one could be planted.
fn of_the_device(texts: &[String]) -> Result<(), Stop> {
    let read = texts.iter().filter_map(|text| text.parse::<Planted>().ok());
    let problems: Vec<_> = read
        .filter(|planted| planted.fault.place() == Place::Call)
        .map(|planted| {
            format!(
                "error: `{}` is planted at the calls of a case; a program takes faults of the device",
                planted.fault
            )
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(Stop::usage(problems.join("\n"))) }
}
