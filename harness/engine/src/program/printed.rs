//! Runs programs exactly as an issue prints them: from their source, in an empty folder, with the printed commands, and
//! without rocrepro's helper.

use std::{ffi::OsString, fs, path::Path};

use device::FaultPlace;
use judge::End;
use plan::{Program, program::ProgramBody};
use supervise::{Cancel, ChildEnd, StopReason};

use super::{Launch, output, packages, start_in};
use crate::{Job, Session, compiled::StartError, worker_process::observation};

/// A program in the form in which an issue contains it: a file, and the commands that build and run it.
pub(crate) struct PrintedProgram<'a> {
    /// Name of the program's file.
    pub(crate) file: &'a str,
    /// Source of the program.
    pub(crate) text: &'a str,
    /// Command lines. The last one runs the program, and those before it build the program.
    pub(crate) commands: &'a [String],
}

/// Result of running a [`PrintedProgram`] once.
pub(crate) struct PrintedRun {
    pub(crate) end: End,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the path of the interpreter in a command line, if the printed command contains only its file name.
fn interpreter<'p>(program: &'p Program, printed: &str) -> Option<&'p Path> {
    let ProgramBody::Command(words) = &program.what else { return None };
    let path = words.first().map(Path::new)?;
    (path.is_absolute() && path.file_name()? == printed).then_some(path)
}

/// Runs a printed program with the injected faults of a job. Returns `None` if the run was cancelled.
///
/// # Errors
/// A missing program, trouble of the machine, or the output of a build command that failed.
pub(crate) fn run_printed(
    session: &Session,
    job: &Job<'_>,
    program: &Program,
    printed: &PrintedProgram<'_>,
    cancel: &Cancel,
) -> Result<Option<PrintedRun>, StartError> {
    let trouble =
        |error: std::io::Error| StartError::Trouble(format!("cannot write the program: {error}"));
    session.views().map_err(StartError::Missing)?;
    let environment = packages::find(&program.packages, session.given.packages_in.as_deref())?;
    let folder = session.folders.scratch.trial().map_err(trouble)?;
    fs::write(folder.path().join(printed.file), printed.text).map_err(trouble)?;
    let interposer = match program.what {
        ProgramBody::Cpp { .. } => session.compiler()?.interposer(&job.faults, cancel)?,
        _ => None,
    };
    let faults = job.faults_of(FaultPlace::Device);
    let config = session.device_for(job.case, job.trial, faults).ok_or_else(no_device)?;
    let (last, builds) = printed.commands.split_last().ok_or_else(no_command)?;
    let start = |command: &String, interposer: Option<&Path>| {
        let words = shell::split(command).map_err(|e| StartError::Trouble(e.to_string()))?;
        let is_assignment = |word: &&String| {
            let name = word.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let assigned = words.iter().take_while(is_assignment).count();
        let (assignments, words) = words.split_at(assigned);
        let (first, arguments) = words.split_first().ok_or_else(no_command)?;
        let file = match first.contains('/') {
            true => folder.path().join(first),
            false => match interpreter(program, first) {
                Some(file) => file.to_owned(),
                None => environment.program(session, first)?,
            },
        };
        if !file.is_file() {
            return Err(StartError::Missing(format!(
                "it starts `{first}`, which an empty folder does not contain"
            )));
        }
        let launch = Launch {
            file: &file,
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: folder.path(),
            environment: &environment,
            interposer,
            config: &config,
        };
        let mut start = start_in(session, job, &launch).map_err(StartError::Trouble)?;
        let assignments = assignments.iter().filter_map(|word| word.split_once('='));
        start.environment.extend(assignments.map(|(name, value)| (name.into(), value.into())));
        Ok(start)
    };
    let run = |command: &String, interposer: Option<&Path>| {
        let start = start(command, interposer)?;
        let limits = session.limits_of_programs();
        let seen = supervise::run(session.command(&start), b"", &limits, cancel, &mut |_| {});
        session.processes.add(&seen, None);
        if matches!(seen.ended, ChildEnd::Stopped { reason: StopReason::Cancelled, .. }) {
            return Ok(None);
        }
        let stdout = output(&seen);
        let seen = observation(seen, session.is_launched());
        Ok(Some(PrintedRun { end: seen.end, stdout, stderr: seen.stderr }))
    };
    for build in builds {
        let Some(done) = run(build, None)? else { return Ok(None) };
        if done.end != End::Exited(0) {
            return Err(StartError::Refused(format!("{}{}", done.stdout, done.stderr)));
        }
    }
    run(last, interposer.as_deref())
}

fn no_device() -> StartError {
    StartError::Missing("it needs the emulated device".to_owned())
}

fn no_command() -> StartError {
    StartError::Missing("it has no command".to_owned())
}
