use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use ::report::issue::Form;
use device::{Config, FaultPlace, FaultSpec, RUNTIME_VARIABLE, WITNESS_VARIABLE};
use supervise::{Limits, Start};

use super::{report::ReportProgress, setup::setup};
use crate::{
    args::{Exec, ExecutionOptions, HomeKind, ProgramLaunch},
    interrupt, outputs, shell_variables,
};
use engine::{
    Session, SessionOptions, Stop, bundled,
    command_line::{CommandLine, CommandOptions},
    crash,
    environments::{Environments, NamedEnvironment},
    failing_trial::Subjects,
    home::{with_helper, with_path},
    issue::{self, IssueOptions},
    which::{self, ProgramLocation},
};

/// A user's program that is ready to start, and the session in which it runs.
pub(super) struct ReadyProgram {
    pub(super) session: Session,
    pub(super) start: Start,
}

/// Replaces this process with the user's program, which then runs with the selected stack and device.
pub(crate) fn exec(args: &Exec) -> Result<ExitCode, Stop> {
    let launch = &args.launch;
    let checked = check_program(launch)?;
    if args.reporting.report {
        return report(args, checked.options, checked.faults);
    }
    if let Some(option) = args.reporting.judged.first_given_option() {
        return Err(Stop::usage(format!("error: `{option}` needs `--report`")));
    }
    // `bisect` starts this command for each run, and reports the options once.
    if env::var_os(WITNESS_VARIABLE).is_none() {
        let without_effect =
            shell_variables::ineffective_variables(&checked.options, std::iter::empty());
        let warnings = shell_variables::dropped_variables(&checked.options).into_iter();
        warnings.chain(without_effect).for_each(outputs::note);
    }
    let cancel = interrupt::cancel()?;
    let ReadyProgram { session, start } = prepare_program(launch, checked)?;
    let mut command = session.command(&start);
    let _uses = session.folders.temporary.inheritable_lock();
    // A process of rocrepro starts before the program, so rocrepro's executable must be kept open until then.
    let _program = session.own_program();
    // Dropping the session removes its temporary files. After `exec`, the destructor would not run.
    drop(session);
    // From here on, a signal ends this process, or the program.
    interrupt::restore_signals();
    if cancel.is_cancelled() {
        return Err(Stop::no_verdict("interrupted"));
    }
    let error = command.exec();
    Err(Stop::no_verdict(format!(
        "error: cannot start `{}`: {error}",
        args.launch.program.display()
    )))
}

/// The checked command line: a program and the options of its session.
pub(super) struct CheckedProgram {
    program: ProgramLocation,
    path: OsString,
    venv: Option<NamedEnvironment>,
    options: SessionOptions,
    faults: Vec<FaultSpec>,
}

/// Finds the program and checks all options.
pub(super) fn check_program(launch: &ProgramLaunch) -> Result<CheckedProgram, Stop> {
    let setup = setup(&launch.on, Some(&launch.emulation), &launch.fault);
    let venv = launch.environment.as_deref().map(Environments::named).transpose();
    let found = venv.and_then(|venv| {
        let path = which::search(venv.as_ref().map(NamedEnvironment::venv).as_deref());
        Ok((which::program(&launch.program, &path)?, path, venv))
    });
    let found = Stop::both(found, check_device_faults(&launch.fault));
    let (((program, path, venv), ()), (options, faults)) = Stop::both(found, setup)?;
    Ok(CheckedProgram { program, path, venv, options, faults })
}

/// Opens the session, and prepares the start of the program.
pub(super) fn prepare_program(
    launch: &ProgramLaunch,
    checked: CheckedProgram,
) -> Result<ReadyProgram, Stop> {
    let CheckedProgram { program, path, venv, options, faults } = checked;
    let session = Session::open_on_one(options)?;
    let program = match program {
        ProgramLocation::Here(file) => file,
        ProgramLocation::Nowhere(absent) => stack_tool(&launch.program, &session).ok_or(absent)?,
    };
    let config = session.device_config(faults);
    let text = config.as_ref().map(serde_json::to_string).transpose();
    let text = text.map_err(|error| no_verdict(error.to_string()))?;
    let mut start = session.start(&program, text.as_deref(), &BTreeMap::new());
    start.arguments.extend(launch.arguments.iter().cloned());
    // `bisect` passes the path of this file in a variable, and reads from the file whether the program used the device.
    if let Some(file) = env::var_os(WITNESS_VARIABLE) {
        start.environment.insert(WITNESS_VARIABLE.into(), file);
    } else {
        crash::watch(&mut start, &session, None);
    }
    if let Some(venv) = venv {
        // Variables that the user sets on the command line take precedence.
        for (name, value) in venv.variables() {
            start.environment.entry(name.into()).or_insert(value.into());
        }
        if !session.variables().any(|(name, _)| name == "PATH") {
            start.environment.insert("PATH".into(), path);
        }
    }
    if let Some(why) = bundled::unsupported_reason(&session, &start) {
        return Err(no_verdict(why));
    }
    let identity = session.stack.identify();
    let own = identity.library("libamdhip64").and_then(|hip| hip.build_id.clone());
    start.environment.insert(RUNTIME_VARIABLE.into(), own.unwrap_or_default().into());
    with_helper(&mut start, &session.folders.cache).map_err(no_verdict)?;
    enter_view(&mut start, launch.home, &session, config.as_ref())?;
    Ok(ReadyProgram { session, start })
}

/// Runs the program several times, and writes the issue if a run fails, as `rocrepro report -- PROGRAM` does.
fn report(args: &Exec, session: SessionOptions, faults: Vec<FaultSpec>) -> Result<ExitCode, Stop> {
    let reporting = &args.reporting;
    let quiet = reporting.quiet_timeout.unwrap_or(ExecutionOptions::QUIET_TIMEOUT);
    let limits = Limits {
        total: Duration::from_secs(reporting.timeout.into()),
        quiet: Duration::from_secs(quiet.into()),
        ..Limits::default()
    };
    let session = SessionOptions { limits, ..session };
    let judged = &reporting.judged;
    let command = judged.command(
        args.launch.program.clone(),
        args.launch.arguments.clone(),
        args.launch.environment.clone(),
    );
    let outside_namespace = args.launch.home == HomeKind::Loader;
    let form = reporting.form.as_deref().map(str::parse::<Form>).transpose();
    let form = form.map_err(|e| Stop::usage(format!("error: {e}")));
    let mut options = IssueOptions {
        session: session.clone(),
        repeat: reporting.repeat,
        budget: issue::BUDGET,
        also: reporting.also.clone(),
        anyway: reporting.anyway,
        form: None,
        out: reporting.out.clone(),
        open: false,
    };
    let line = CommandLine::read(CommandOptions { outside_namespace, ..command }, &session);
    let ((form, line), ()) = Stop::both(Stop::both(form, line), issue::check(&options, None))?;
    issue::check(&options, Some(&line))?;
    options.form = form;
    options.session = line.in_session(session)?;
    let (cancel, progress) = (interrupt::cancel()?, ReportProgress::default());
    let session = Session::open_on_one(options.session.clone())?;
    let summary = issue::report(
        &session,
        &options,
        Subjects::of_command(&line, faults)?,
        &cancel,
        &|event| progress.show(event),
    )?;
    outputs::print(&summary)?;
    Ok(ExitCode::SUCCESS)
}

fn no_verdict(why: String) -> Stop {
    Stop::no_verdict(format!("error: {why}"))
}

/// Makes the program run in a namespace with a view of the stack. If that is not possible, prints what the program will
/// not find.
fn enter_view(
    start: &mut Start,
    home: HomeKind,
    session: &Session,
    config: Option<&Config>,
) -> Result<(), Stop> {
    session.without_home(start).map_err(no_verdict)?;
    if home == HomeKind::Loader {
        return Ok(());
    }
    let without = if start.through.is_empty() {
        "rocrepro: without a namespace, /opt/rocm and /sys/class/kfd are this machine's"
    } else {
        "rocrepro: without a namespace, the loader of the stack starts the program: scripts do not work, child \
         processes use this machine's libraries, and /opt/rocm and /sys/class/kfd are this machine's"
    };
    match (session.home(config), home) {
        (Ok(mut view), _) => {
            with_path(&mut view, start, session.variables());
            view.otherwise = (home == HomeKind::Auto).then(|| without.to_owned());
            start.view = Some(view);
        }
        (Err(why), HomeKind::Namespace) => {
            return Err(Stop::no_verdict(format!("error: cannot create a namespace: {why}")));
        }
        (Err(why), _) => ::report::note(&format!("{without}: {why}")),
    }
    Ok(())
}

/// Returns the path of a tool in the stack's `usr/bin` folder; `None` if the stack does not have it.
fn stack_tool(name: &Path, session: &Session) -> Option<PathBuf> {
    Some(session.stack.root.join("usr/bin").join(name)).filter(|file| which::is_executable(file))
}

/// Checks that all faults can be injected into the device. A fault at a call needs a plan, which a program does not
/// have.
fn check_device_faults(texts: &[String]) -> Result<(), Stop> {
    let read = texts.iter().filter_map(|text| text.parse::<FaultSpec>().ok());
    let problems: Vec<_> = read
        .filter(|planted| planted.fault.place() == FaultPlace::Call)
        .map(|planted| {
            format!(
                "error: `{}` is injected at calls of a case; for a program use a fault of the device",
                planted.fault
            )
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(Stop::usage(problems.join("\n"))) }
}
