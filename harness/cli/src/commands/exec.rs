use std::{
    collections::BTreeMap,
    env,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};

use device::{Config, Place, Planted};
use supervise::Start;

use super::setup::setup;
use crate::{
    Session, Stop,
    args::{Exec, HomeKind},
};

/// Runs a program of the user's in the stack and on the device, with this terminal as its own.
pub(crate) fn exec(args: &Exec) -> Result<ExitCode, Stop> {
    let setup = setup(&args.on, Some(&args.emulation), &args.fault);
    let program = Stop::both(program(&args.program), of_the_device(&args.fault));
    let ((program, ()), (options, faults)) = Stop::both(program, setup)?;
    let session = Session::open(options)?;
    let config = session.device_config(faults);
    let text = config.as_ref().map(serde_json::to_string).transpose();
    let text = text.map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
    let mut start = session.start(&program, text.as_deref(), &BTreeMap::new());
    start.arguments.extend(args.arguments.iter().cloned());
    settle(&mut start, args.home, &session, config.as_ref())?;
    let mut command = session.command(&start);
    // What the session made for trials goes; this process becomes the program.
    drop(session);
    let error = command.exec();
    Err(Stop::no_verdict(format!("error: cannot start `{}`: {error}", args.program.display())))
}

/// Gives the program its view of the stack, or says what it will lack without.
fn settle(
    start: &mut Start,
    home: HomeKind,
    session: &Session,
    config: Option<&Config>,
) -> Result<(), Stop> {
    if home == HomeKind::Loader {
        return Ok(());
    }
    let without = if start.through.is_empty() {
        "rocrepro: without a namespace, /opt/rocm and /sys/class/kfd are this machine's"
    } else {
        "rocrepro: without a namespace, the loader of the stack starts the program alone: no script, its children run on this \
         machine's libraries, /opt/rocm and /sys/class/kfd are this machine's"
    };
    match (session.home(config), home) {
        (Ok(mut view), _) => {
            // What was given on the command line stands.
            for (name, _) in session.variables() {
                view.environment.remove(name);
            }
            view.otherwise = (home == HomeKind::Auto).then(|| without.to_owned());
            start.view = Some(view);
        }
        (Err(why), HomeKind::Namespace) => {
            return Err(Stop::no_verdict(format!("error: no namespace: {why}")));
        }
        (Err(why), _) => report::note(&format!("{without}: {why}")),
    }
    Ok(())
}

/// The file of a program that is named as in a shell. Links are left as they are: what a virtual environment's python is, it
/// knows by the name that it was started by.
pub(super) fn program(name: &Path) -> Result<PathBuf, Stop> {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if name.components().count() == 1 && !name.starts_with(".") {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|folder| folder.join(name)).find(runs);
        if let Some(file) = found.and_then(|file| absolute(file).ok()) {
            return Ok(file);
        }
    }
    let shown = name.display();
    match name.metadata() {
        Ok(file) if file.is_file() => absolute(name)
            .map_err(|error| Stop::usage(format!("error: cannot run `{shown}`: {error}"))),
        Ok(_) => Err(Stop::usage(format!("error: `{shown}` is not a file"))),
        Err(error) => Err(Stop::usage(format!("error: cannot run `{shown}`: {error}"))),
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
