//! Prints a trial as a C++ program, compiles and runs the program on the trial's stack and device, and compares it with
//! the trial.

mod budget;
mod error;
mod line_search;
mod neighbour;
mod observed;
mod program_runner;
mod short_programs;
mod shortest;
mod thread_stacks;

use std::{
    fs,
    num::NonZeroUsize,
    path::Path,
    time::{Duration, SystemTime},
};

use ::export::{Form, Header, Trace};
use device::{Config, FaultPlace, FaultSpec};
use judge::{Kind, Outcome, may_be_same};
use report::evidence::Rate;
use supervise::{Cancel, ChildEnd, Limits, for_each, in_order};

use self::observed::ObservedProgram;
pub use self::{
    budget::ShortenBudget,
    error::ExportError,
    neighbour::Neighbour,
    program_runner::ProgramRunner,
    shortest::{PassingPrograms, ShortestProgram, shortest},
};
use crate::{
    Job, Session, Stop, TrialFolder, execute::at_once, probe, rerun::rerun_command, run_trial,
    toolchain::Toolchain,
};

/// Maximum number of runs of a trial in search of one that has the required outcome.
const TRIES: u32 = 20;

/// A trial printed as a program, and the result of comparing runs of the program with the trial.
pub struct VerifiedProgram {
    /// The source of the program. Its header states the result of the comparison.
    pub text: String,
    /// The outcome of the trial's own run.
    pub outcome: Outcome,
    /// Number of runs of the program that had the trial's outcome.
    pub verified: u32,
    /// Number of runs of the program; 0 if the trial is skipped on this stack.
    pub runs: u32,
    /// The difference between program and trial, in one line; `None` if they agree.
    pub difference: Option<String>,
}

impl VerifiedProgram {
    /// Returns true if every run of the program had the trial's outcome, and the program made the same calls as the
    /// trial.
    pub fn is_verified(&self) -> bool {
        self.difference.is_none() && self.verified == self.runs && self.runs > 0
    }
}

/// Prints a trial as a program, without running anything.
///
/// # Errors
/// Returns a usage error if the plan cannot be written as a program.
pub fn print_program(
    session: &Session,
    job: &Job<'_>,
    form: Form,
    tested: Vec<String>,
    wrong: Vec<String>,
) -> Result<String, ExportError> {
    let rare = |p: &&FaultSpec| p.fault.place() == FaultPlace::Call && p.probability < 1.0;
    if let Some(rare) = job.faults.iter().find(rare) {
        return Err(ExportError::RareFault(rare.fault));
    }
    let version = probe::release_of_programs(session);
    let header = header(session, job, tested, wrong);
    ::export::print(&job.lowered.plan, form, &version, &header)
        .map_err(|why| ExportError::NotPrintable { trial: job.id(), why })
}

/// Returns the comment at the top of a trial's program.
fn header(session: &Session, job: &Job<'_>, tested: Vec<String>, wrong: Vec<String>) -> Header {
    let faults = job.faults.iter().map(|fault| match fault.fault.place() {
        FaultPlace::Call => format!("Injected into this program: {}", fault.about()),
        FaultPlace::Device => {
            format!("Fails on a device with this injected fault: {}", fault.about())
        }
    });
    Header {
        title: job.case.title.clone(),
        wrong,
        upstream: job.case.upstream.clone(),
        tested,
        faults: faults.collect(),
        gfx: session.gfx().unwrap_or("native").to_owned(),
        devices: job.case.needs.devices,
        processes: job.case.needs.processes,
    }
}

/// Describes the failure for the header of a program. Line numbers are left out, because they refer to the case file.
fn describe_failure(failure: &Outcome) -> String {
    format!("Failure: {}.", report::without_lines(&failure.summary))
}

/// Describes the runs of a program for its header. The number of lines is the same whatever the rates are.
fn measured(
    session: &Session,
    failed: Rate,
    elsewhere: Option<&Session>,
    passes: Option<Rate>,
) -> Vec<String> {
    let mut lines = vec![format!(
        "Failed as described in {} of {} runs on {}, {}.",
        failed.failed,
        failed.runs,
        describe_setup(session),
        today()
    )];
    if let Some(rate) = passes {
        let on = elsewhere.map_or("the same device without the fault".to_owned(), describe_setup);
        lines.push(format!("Passed in {} of {} runs on {on}.", rate.runs - rate.failed, rate.runs));
    }
    lines
}

/// Describes release and device, for example `ROCm 7.2.4 (debian:7.2.4), emulated gfx1151, not a GPU`.
fn describe_setup(session: &Session) -> String {
    let rocm = session.rocm.as_ref().map_or(String::new(), |v| format!("ROCm {v} "));
    let device = match session.gfx() {
        Some(gfx) => format!("emulated {gfx}, not a GPU"),
        None => "a GPU".to_owned(),
    };
    format!("{rocm}({}), {device}", session.stack.spec)
}

fn today() -> String {
    let date = report::date(SystemTime::now());
    date.split('T').next().unwrap_or_default().to_owned()
}

/// Creates a folder for compiled programs, which is removed when the returned value is dropped.
///
/// # Errors
/// A folder that cannot be created.
pub fn program_folder(session: &Session) -> Result<TrialFolder, ExportError> {
    session.folders.scratch.trial().map_err(ExportError::NoFolder)
}

/// Finds a compiler and verifies many trials at once, as [`verify`] does for one. `report` receives the result of each
/// trial, in the order of the trials.
///
/// # Errors
/// A machine without a compiler, or a stack without headers.
pub fn verify_all(
    session: &Session,
    jobs: Vec<Job<'_>>,
    form: Form,
    repeat: u32,
    cancel: &Cancel,
    report: impl FnMut(usize, Result<VerifiedProgram, Stop>),
) -> Result<(), Stop> {
    let folder = program_folder(session)?;
    let toolchain = Toolchain::find(&session.stack, form, folder.path())?;
    let threads = NonZeroUsize::new(jobs.len()).map_or(session.jobs, |n| n.min(session.jobs));
    for_each(
        jobs,
        threads,
        cancel,
        |_, job| verify(session, &toolchain, &job, form, repeat, None, cancel),
        &mut in_order(report),
    );
    Ok(())
}

/// Exports a trial and verifies the program: runs the trial once, and the program `repeat` times. Each run of the
/// program must have the outcome `goal`, or without a goal the outcome of the trial's run.
///
/// # Errors
/// Returns "no verdict" if the trial has no verdict, if the program does not compile, or after a request to stop.
pub fn verify(
    session: &Session,
    toolchain: &Toolchain,
    job: &Job<'_>,
    form: Form,
    repeat: u32,
    goal: Option<&Outcome>,
    cancel: &Cancel,
) -> Result<VerifiedProgram, Stop> {
    session.require_trust()?;
    let folder = program_folder(session)?;
    let at = folder.path();
    // The HIP runtime writes a log of the calls that the trial makes.
    let mut logged = job.clone();
    logged.lowered.plan.environment.extend(log_environment(&at.join("trial.log")));
    let mut record = run_trial(session, &logged, cancel).ok_or(ExportError::Interrupted)?;
    for run in 1..TRIES {
        if goal.is_none_or(|goal| may_be_same(&goal.signature, &record.outcome.signature)) {
            break;
        }
        record =
            run_trial(session, &logged.for_run(run), cancel).ok_or(ExportError::Interrupted)?;
    }
    let outcome = goal.unwrap_or(&record.outcome).clone();
    if outcome.kind == Kind::NoVerdict {
        return Err(ExportError::NoVerdict { trial: job.id(), why: outcome.summary }.into());
    }
    if outcome.kind == Kind::Skip {
        let text = print_program(session, job, form, Vec::new(), Vec::new())?;
        return Ok(VerifiedProgram { text, outcome, verified: 0, runs: 0, difference: None });
    }
    let wanted = ObservedProgram::expected(&outcome);

    let source = at.join(form.file());
    let program = at.join("repro");
    let text = print_program(session, job, form, Vec::new(), Vec::new())?;
    fs::write(&source, &text)
        .map_err(|error| ExportError::CannotWrite { path: source.clone(), error })?;
    let gfx = session.gfx().unwrap_or(&record.device.gfx).to_owned();
    if let Err(log) = toolchain.compile(&job.lowered.plan, &source, &program, &gfx, cancel)? {
        return Err(ExportError::DoesNotCompile { trial: job.id(), log }.into());
    }

    let limits = limits(session, &outcome, Duration::from_nanos(record.wall_ns));
    let mut verified = 0;
    let mut difference = None;
    for run in 0..repeat {
        let log = at.join("program.log");
        let variables = if run == 0 { log_environment(&log).to_vec() } else { Vec::new() };
        // Without a goal, the program is compared with one run of the trial, so it uses the random seeds of that run.
        let job = &goal.map_or_else(|| job.clone(), |_| job.for_run(run));
        let how = RunSettings {
            folder: at,
            limits: &limits,
            variables: &variables,
            device: |config| config,
        };
        let seen = run_program(session, job, &program, &how, cancel)?;
        let trace = read_trace(&log, form);
        let seen =
            ObservedProgram::from_run(&seen, if run == 0 { trace.open.as_deref() } else { None });
        if seen.kind == Kind::NoVerdict {
            let why = format!("the program {}", seen.line);
            return Err(ExportError::NoVerdict { trial: job.id(), why }.into());
        }
        if seen.shows_failure(&wanted) {
            verified += 1;
        } else if difference.is_none() {
            difference = Some(format!("the trial: {wanted}; the program: {seen} ({})", seen.line));
        }
        if run == 0 && difference.is_none() {
            let trial = read_trace(&at.join("trial.log"), form);
            difference = calls_differ(&trial, &trace);
        }
    }
    let text = print_program(
        session,
        job,
        form,
        run_lines(session, &outcome, verified, repeat, difference.is_none()),
        if outcome.kind.is_failure() { vec![describe_failure(&outcome)] } else { Vec::new() },
    )?;
    Ok(VerifiedProgram { text, outcome, verified, runs: repeat, difference })
}

/// Returns the lines of a program's header that report its runs.
fn run_lines(
    session: &Session,
    outcome: &Outcome,
    verified: u32,
    of: u32,
    same_calls: bool,
) -> Vec<String> {
    let what = if outcome.kind.is_failure() { "Failed as described" } else { "Passed" };
    let mut lines = vec![format!(
        "{what} in {verified} of {of} runs on {}, {}.",
        describe_setup(session),
        today()
    )];
    if same_calls && verified == of {
        lines.push("It made the HIP calls of its trial, in the same order.".to_owned());
    }
    lines
}

/// Returns the environment variables that make the HIP runtime log its calls into a file.
fn log_environment(file: &Path) -> [(String, String); 3] {
    [
        ("AMD_LOG_LEVEL".to_owned(), "3".to_owned()),
        ("AMD_LOG_MASK".to_owned(), "1".to_owned()),
        ("AMD_LOG_LEVEL_FILE".to_owned(), file.display().to_string()),
    ]
}

/// Returns the calls that the HIP runtime logged.
fn read_trace(file: &Path, form: Form) -> Trace {
    ::export::parse_trace(&read_log(file), form == Form::Hipcc)
}

/// Reads the text of a log. The HIP runtime appends the process id to the name of the log file.
fn read_log(file: &Path) -> String {
    let prefix = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let found =
        fs::read_dir(file.parent().unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let mut logs: Vec<_> = found
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect();
    logs.sort();
    let text = logs.first().and_then(|log| fs::read(log).ok()).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Describes the first call in which trial and program differ; `None` if both made the same calls.
fn calls_differ(trial: &Trace, program: &Trace) -> Option<String> {
    let found = ::export::first_difference(trial, program)?;
    let call = |call: &Option<String>| call.clone().unwrap_or_else(|| "no further call".to_owned());
    Some(format!(
        "after {} equal calls the trial made {} and the program {}",
        found.after,
        call(&found.trial),
        call(&found.program)
    ))
}

/// Returns the time limits for a run of the exported program. `wall` is the run time of its trial.
fn limits(session: &Session, outcome: &Outcome, wall: Duration) -> Limits {
    // A program prints nothing between its calls, so it may print nothing for as long as its whole trial ran. The
    // factor allows for a varying load of the machine.
    let quiet = match outcome.kind {
        Kind::Hang => session.limits.quiet,
        _ => (session.limits.quiet * 4).max(wall * 4),
    };
    Limits { quiet, ..session.limits.clone() }
}

struct RunSettings<'a> {
    folder: &'a Path,
    limits: &'a Limits,
    variables: &'a [(String, String)],
    /// Function that derives the emulated device's configuration for this run from that of the session.
    device: fn(Config) -> Config,
}

/// Runs the compiled program of a trial with the rights of the user.
///
/// # Errors
/// A case that is not trusted, a process that cannot be started, or a request to stop.
fn run_program(
    session: &Session,
    job: &Job<'_>,
    program: &Path,
    how: &RunSettings<'_>,
    cancel: &Cancel,
) -> Result<supervise::Observed, Stop> {
    session.require_trust()?;
    let at_device: Vec<FaultSpec> =
        job.faults.iter().filter(|p| p.fault.place() == FaultPlace::Device).cloned().collect();
    let config = session
        .device_for(job.case, job.trial, at_device)
        .map(|config| serde_json::to_string(&(how.device)(config)))
        .transpose()
        .map_err(ExportError::DeviceConfig)?;
    let seen = at_once(job.case.needs.processes, |nth| {
        let mut all = job.lowered.plan.environment.clone();
        if nth == 0 {
            // Only one process may write to the log.
            all.extend(how.variables.iter().cloned());
        }
        let mut start = session.start(program, config.as_deref(), &all);
        start.directory = Some(how.folder.to_owned());
        start.limits = session.limits(&job.lowered.plan.limits).map_err(Stop::usage)?;
        let seen = supervise::run(session.command(&start), b"", how.limits, cancel, &mut |_| {});
        session.processes.add(&seen, None);
        Ok(seen)
    });
    let seen = seen.map_err(ExportError::NoThread)?;
    let mut seen = seen.into_iter().collect::<Result<Vec<_>, Stop>>()?;
    let failed = seen.iter().position(|seen| !matches!(seen.ended, ChildEnd::Exited(0)));
    let seen = seen.swap_remove(failed.unwrap_or(0));
    if cancel.is_cancelled() {
        return Err(ExportError::ProgramInterrupted { again: rerun_command(session, job) }.into());
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_first_call_that_differs() {
        let check = |trial: &[&str], program: &[&str], expected: Option<&str>| {
            let read = |calls: &[&str]| {
                let log: String = calls.iter().map(|c| format!(":3: 12 us:  {c}\n")).collect();
                ::export::parse_trace(&log, false)
            };
            assert_eq!(calls_differ(&read(trial), &read(program)).as_deref(), expected);
        };
        let wait = "hipDeviceSynchronize (  )";
        let (eight, nine) = ("hipMemset ( 0x1, 0, 8 )", "hipMemset ( 0x1, 0, 9 )");
        check(&[wait, eight], &[wait, eight], None);
        check(
            &[wait, eight],
            &[wait, nine],
            Some(
                "after 1 equal calls the trial made hipMemset(p1, 0, 8) and the program hipMemset(p1, 0, 9)",
            ),
        );
        check(
            &[eight],
            &[eight, wait],
            Some(
                "after 1 equal calls the trial made no further call and the program hipDeviceSynchronize()",
            ),
        );
    }
}
