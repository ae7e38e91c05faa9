//! Runs an exported program beside its trial: same stack, same device, same calls, same end.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use device::{Config, Place, Planted};
use export::{Form, Header, Trace};
use judge::{Kind, Outcome, may_be_same};
use report::evidence::Rate;
use supervise::{Cancel, Ended, Limits};

use super::seen::Seen;
use crate::{
    Job, Session, Stop, execute::at_once, probe, rerun::again, run_trial, toolchain::Toolchain,
};

/// Runs of a trial until it fails as it did before.
const TRIES: u32 = 20;

/// A trial as a program, and what came of trying it.
pub(crate) struct Exported {
    /// The program, its header saying what was verified.
    pub(crate) text: String,
    /// What the trial itself did.
    pub(crate) outcome: Outcome,
    /// Runs of the program that did the same.
    pub(crate) verified: u32,
    /// Runs of the program; 0 where the trial does not apply to this stack.
    pub(crate) of: u32,
    /// How the program differs from its trial, in one line; none where it does not.
    pub(crate) difference: Option<String>,
}

impl Exported {
    /// Whether every run of the program did what its trial did, by the same calls.
    pub(crate) fn is_verified(&self) -> bool {
        self.difference.is_none() && self.verified == self.of && self.of > 0
    }
}

/// Prints a trial, without running anything.
///
/// # Errors
/// A plan that cannot be written as a program (usage).
pub(crate) fn printed(
    session: &Session,
    job: &Job<'_>,
    form: Form,
    tested: Vec<String>,
    wrong: Vec<String>,
) -> Result<String, Stop> {
    let rare = |p: &&Planted| p.fault.place() == Place::Call && p.probability < 1.0;
    if let Some(planted) = job.faults.iter().find(rare) {
        return Err(Stop::usage(format!(
            "error: a program has a fault at every call that it concerns; give `{}` without probability",
            planted.fault
        )));
    }
    let version = probe::release_of_programs(session);
    let header = header(session, job, tested, wrong);
    export::print(&job.lowered.plan, form, &version, &header)
        .map_err(|why| Stop::usage(format!("error: {} cannot be exported: {why}", job.id())))
}

/// The comment at the top of a trial's program.
pub(super) fn header(
    session: &Session,
    job: &Job<'_>,
    tested: Vec<String>,
    wrong: Vec<String>,
) -> Header {
    let planted = job
        .faults
        .iter()
        .map(|planted| match planted.fault.place() {
            Place::Call => format!("Planted in this program: {}", planted.about()),
            Place::Device => {
                format!("Fails on a device with this fault: {}", planted.about())
            }
        })
        .collect();
    Header {
        title: job.case.title.clone(),
        wrong,
        upstream: job.case.upstream.clone(),
        tested,
        faults: planted,
        gfx: session.gfx().unwrap_or("native").to_owned(),
        devices: job.case.needs.devices,
        processes: job.case.needs.processes,
    }
}

/// What goes wrong, for a program: its lines are others than those of the case.
pub(super) fn goes_wrong(failure: &Outcome) -> String {
    format!("What goes wrong: {}.", report::without_lines(&failure.summary))
}

/// What the runs of a program showed, always in as many lines.
pub(super) fn measured(
    session: &Session,
    failed: Rate,
    elsewhere: Option<&Session>,
    passes: Option<Rate>,
) -> Vec<String> {
    let mut lines = vec![format!(
        "Failed as described in {} of {} runs on {}, {}.",
        failed.failed,
        failed.runs,
        place(session),
        today()
    )];
    if let Some(rate) = passes {
        let on = elsewhere.map_or("the same device without the fault".to_owned(), place);
        lines.push(format!("Passed in {} of {} runs on {on}.", rate.runs - rate.failed, rate.runs));
    }
    lines
}

/// A release and a device: `ROCm 7.2.4 (debian:7.2.4), emulated gfx1151, not a GPU`.
fn place(session: &Session) -> String {
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

/// Exports a trial and verifies the program: runs the trial once, and the program `repeat` times. With a `goal`, a run of the
/// program counts as verified where it showed that failure, and not where it did what the trial happened to do this once.
///
/// # Errors
/// What keeps from a verdict: a trial without one, a program that does not compile, an interruption.
pub(crate) fn exported(
    session: &Session,
    toolchain: &Toolchain,
    job: &Job<'_>,
    form: Form,
    repeat: u32,
    goal: Option<&Outcome>,
    cancel: &Cancel,
) -> Result<Exported, Stop> {
    session.require_trust()?;
    let folder = session
        .scratch
        .trial()
        .map_err(|e| Stop::no_verdict(format!("error: no folder for the program: {e}")))?;
    let at = folder.path();
    // The trial, with the runtime's log.
    let mut logged = job.clone();
    logged.lowered.plan.environment.extend(log_environment(&at.join("trial.log")));
    let interrupted = || Stop::no_verdict("interrupted");
    let mut record = run_trial(session, &logged, cancel).ok_or_else(interrupted)?;
    for run in 1..TRIES {
        if goal.is_none_or(|goal| may_be_same(&goal.signature, &record.outcome.signature)) {
            break;
        }
        record = run_trial(session, &logged.of_run(run), cancel).ok_or_else(interrupted)?;
    }
    let outcome = goal.unwrap_or(&record.outcome).clone();
    if outcome.kind == Kind::NoVerdict {
        return Err(Stop::no_verdict(format!("error: {}: {}", job.id(), outcome.summary)));
    }
    if outcome.kind == Kind::Skip {
        let text = printed(session, job, form, Vec::new(), Vec::new())?;
        return Ok(Exported { text, outcome, verified: 0, of: 0, difference: None });
    }
    let wanted = Seen::of_trial(&outcome);

    let source = at.join(form.file());
    let program = at.join("repro");
    let text = printed(session, job, form, Vec::new(), Vec::new())?;
    fs::write(&source, &text).map_err(|e| cannot_write(&source, &e))?;
    let gfx = session.gfx().unwrap_or(&record.device.gfx).to_owned();
    if let Err(log) = toolchain.compile(&job.lowered.plan, &source, &program, &gfx)? {
        return Err(Stop::no_verdict(format!("error: {} does not compile:\n{log}", job.id())));
    }

    let limits = limits(session, &outcome, Duration::from_nanos(record.wall_ns));
    let mut verified = 0;
    let mut difference = None;
    for run in 0..repeat {
        let log = at.join("program.log");
        let variables = if run == 0 { log_environment(&log).to_vec() } else { Vec::new() };
        // Without a failure to look for, the program is compared with the one run of its trial.
        let job = &goal.map_or_else(|| job.clone(), |_| job.of_run(run));
        let how =
            How { folder: at, limits: &limits, variables: &variables, device: |config| config };
        let seen = run_program(session, job, &program, &how, cancel)?;
        let trace = read_trace(&log, form);
        let seen = Seen::of_program(&seen, if run == 0 { trace.open.as_deref() } else { None });
        if seen.kind == Kind::NoVerdict {
            return Err(Stop::no_verdict(format!(
                "error: {}: the program {}",
                job.id(),
                seen.line
            )));
        }
        if seen.shows(&wanted) {
            verified += 1;
        } else if difference.is_none() {
            difference = Some(format!("the trial: {wanted}; the program: {seen} ({})", seen.line));
        }
        if run == 0 && difference.is_none() {
            let trial = read_trace(&at.join("trial.log"), form);
            difference = calls_differ(&trial, &trace);
        }
    }
    let text = printed(
        session,
        job,
        form,
        tested(session, &outcome, verified, repeat, difference.is_none()),
        if outcome.kind.is_failure() { vec![goes_wrong(&outcome)] } else { Vec::new() },
    )?;
    Ok(Exported { text, outcome, verified, of: repeat, difference })
}

/// Lines for the header.
fn tested(
    session: &Session,
    outcome: &Outcome,
    verified: u32,
    of: u32,
    same_calls: bool,
) -> Vec<String> {
    let what = if outcome.kind.is_failure() { "Failed as described" } else { "Passed" };
    let mut lines =
        vec![format!("{what} in {verified} of {of} runs on {}, {}.", place(session), today())];
    if same_calls && verified == of {
        lines.push("It made the HIP calls of its trial, in the same order.".to_owned());
    }
    lines
}

pub(super) fn log_environment(file: &Path) -> [(String, String); 3] {
    [
        ("AMD_LOG_LEVEL".to_owned(), "3".to_owned()),
        ("AMD_LOG_MASK".to_owned(), "1".to_owned()),
        ("AMD_LOG_LEVEL_FILE".to_owned(), file.display().to_string()),
    ]
}

/// The calls that the runtime logged.
pub(super) fn read_trace(file: &Path, form: Form) -> Trace {
    export::parse_trace(&read_log(file), form == Form::Hipcc)
}

/// The runtime appends the process id to the name.
pub(super) fn read_log(file: &Path) -> String {
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

/// Where the two made other calls.
fn calls_differ(trial: &Trace, program: &Trace) -> Option<String> {
    let found = export::first_difference(trial, program)?;
    let call = |call: &Option<String>| call.clone().unwrap_or_else(|| "nothing more".to_owned());
    Some(format!(
        "after {} equal calls the trial made {} and the program {}",
        found.after,
        call(&found.trial),
        call(&found.program)
    ))
}

pub(super) fn limits(session: &Session, outcome: &Outcome, wall: Duration) -> Limits {
    // A program prints nothing between its calls, so its silence lasts as long as the whole trial, whose time varies with
    // what else the machine does.
    let quiet = match outcome.kind {
        Kind::Hang => session.limits.quiet,
        _ => (session.limits.quiet * 4).max(wall * 4),
    };
    Limits { quiet, ..session.limits }
}

/// How a program is run.
pub(super) struct How<'a> {
    pub(super) folder: &'a Path,
    pub(super) limits: &'a Limits,
    pub(super) variables: &'a [(String, String)],
    /// How an emulated device is set up, given how the session has it.
    pub(super) device: fn(Config) -> Config,
}

/// Runs the compiled program of a trial with your rights.
///
/// # Errors
/// Without trust in the case, and where nothing could be started or the run was interrupted.
pub(super) fn run_program(
    session: &Session,
    job: &Job<'_>,
    program: &Path,
    how: &How<'_>,
    cancel: &Cancel,
) -> Result<supervise::Observed, Stop> {
    session.require_trust()?;
    let at_device: Vec<Planted> =
        job.faults.iter().filter(|p| p.fault.place() == Place::Device).cloned().collect();
    let config = session
        .device_for(job.case, job.trial, at_device)
        .map(|config| serde_json::to_string(&(how.device)(config)))
        .transpose()
        .map_err(|e| Stop::no_verdict(format!("error: the device cannot be configured: {e}")))?;
    let seen = at_once(job.case.needs.processes, |nth| {
        let mut all = job.lowered.plan.environment.clone();
        if nth == 0 {
            // The others would write into the first one's log.
            all.extend(how.variables.iter().cloned());
        }
        let mut start = session.start(program, config.as_deref(), &all);
        start.directory = Some(how.folder.to_owned());
        start.limits = session.limits(&job.lowered.plan.limits).map_err(Stop::usage)?;
        let seen = supervise::run(session.command(&start), b"", how.limits, cancel, &mut |_| {});
        session.processes.note(&seen, None);
        Ok(seen)
    });
    let seen =
        seen.map_err(|e| Stop::no_verdict(format!("error: no thread could be started: {e}")))?;
    let mut seen = seen.into_iter().collect::<Result<Vec<_>, Stop>>()?;
    let failed = seen.iter().position(|seen| !matches!(seen.ended, Ended::Exited(0)));
    let seen = seen.swap_remove(failed.unwrap_or(0));
    if cancel.is_cancelled() {
        return Err(Stop::no_verdict(format!(
            "interrupted; `{}` runs the trial",
            again(session, job)
        )));
    }
    Ok(seen)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Stop {
    Stop::no_verdict(format!("error: cannot write `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_call_of_the_program_is_told() {
        let check = |trial: &[&str], program: &[&str], expected: Option<&str>| {
            let read = |calls: &[&str]| {
                let log: String = calls.iter().map(|c| format!(":3: 12 us:  {c}\n")).collect();
                export::parse_trace(&log, false)
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
                "after 1 equal calls the trial made nothing more and the program hipDeviceSynchronize()",
            ),
        );
    }
}
