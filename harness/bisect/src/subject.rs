//! The subject of a search: a trial or a command line that is run at each point of an axis.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
    time::Instant,
};

use case::{Body, Case, Lowered, Trial};
use device::{FaultSpec, WITNESS_VARIABLE, Witness};
use judge::{FailureIdentity, Kind as Outcome};
use plan::program::Packages;
use regex::Regex;
use report::Record;
use stacks::ObtainedBuild;
use stacks::Stack;
use supervise::{Cancel, ChildEnd, Limits, StopReason};
use tempfile::NamedTempFile;

use crate::{
    axis::Axis,
    command_spec::CommandSpec,
    error::{OptionError, SearchError},
    kind::AxisKind,
    packages,
    run::{PreparationError, Run, RunResult},
    signature,
};
use engine::{
    CaseLibrary, DeviceChoice, Job, Session, SessionOptions, Stop, events::EngineEvent,
    own_program, run_trial, stop::in_one_line,
};

pub(crate) enum Subject<'a> {
    Trial { library: &'a CaseLibrary, case: &'a Case, trial: Trial, faults: Vec<FaultSpec> },
    Command(CommandSpec),
}

pub(crate) struct PreparedPoint<'a> {
    /// The build at the point, if the points are builds. It is not removed from the disk while it is in use.
    build: Option<ObtainedBuild>,
    job: PreparedRun<'a>,
}

enum PreparedRun<'a> {
    Trial {
        session: Box<Session>,
        case: &'a Case,
        trial: Trial,
        lowered: Box<Lowered>,
        faults: Vec<FaultSpec>,
    },
    Command {
        command: Vec<String>,
        variables: Vec<(OsString, OsString)>,
        limits: Limits,
        text: Option<Regex>,
        /// File to which the emulated device adds a line for each process that uses it.
        witness: Option<NamedTempFile>,
    },
}

impl Subject<'_> {
    /// Returns the name of the subject in the journal.
    pub(crate) fn name(&self, axis: &Axis) -> String {
        match self {
            Subject::Trial { case, trial, faults, .. } => {
                let faults = faults.iter().map(|fault| format!(" with {fault}"));
                let ends = [axis.label(0), axis.label(axis.point_count() - 1)].join("..");
                let along = match &axis.kind {
                    AxisKind::Parameter(name) => trial.with(name, &ends),
                    _ => None,
                };
                case.trial_id(along.as_ref().unwrap_or(trial)) + &faults.collect::<String>()
            }
            Subject::Command(wanted) => {
                let program = wanted.program.iter().map(|path| path.display().to_string());
                program.chain(wanted.words.iter().cloned()).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Returns the packages that the program of a case imports.
    pub(crate) fn imports(&self) -> Result<Vec<String>, Stop> {
        let Subject::Trial { library, case, trial, faults } = self else { return Ok(Vec::new()) };
        let lowered = lower(library, case, trial, faults)?;
        Ok(match lowered.body {
            Body::Program(program) => match program.packages {
                Packages::These(these) => these,
                Packages::None | Packages::Environment(_) => Vec::new(),
            },
            Body::Calls(_) => Vec::new(),
        })
    }

    pub(crate) fn depends_on(&self, component: &str) -> bool {
        let Subject::Trial { case, .. } = self else { return true };
        // Since August 2025, the math libraries are in a repository of their own. A case that does not need them does
        // not load them.
        component != "rocm-libraries" || !case.needs.libraries.is_empty()
    }
}

impl<'a> Subject<'a> {
    pub(crate) fn prepare(
        &self,
        axis: &Axis,
        point: usize,
        options: &SessionOptions,
        (store, stop): (&stacks::BuildStore, &AtomicBool),
    ) -> Result<Result<PreparedPoint<'a>, PreparationError>, Stop> {
        let mut options = options.clone();
        let label = axis.label(point);
        let mut obtained = None;
        match &axis.kind {
            AxisKind::Builds => {
                let Some(build) = axis.build(point) else { unreachable!("an axis of builds") };
                let debian = build.places.iter().find_map(|place| match place {
                    stacks::BuildLocation::Debian(spec) => Some(spec.clone()),
                    _ => None,
                });
                options.rocm = match debian {
                    Some(spec) => spec,
                    None => match store.obtain_unless(build, stop, &|event| {
                        options.reporting.event(EngineEvent::Build(event));
                    }) {
                        Ok(got) => {
                            let prefix = got.prefix.display().to_string();
                            obtained = Some(got);
                            prefix
                        }
                        Err(error) if error.is_environment() => {
                            return Ok(Err(PreparationError::Trouble(in_one_line(&error))));
                        }
                        Err(error) => {
                            return Ok(Err(PreparationError::Unusable(in_one_line(&error))));
                        }
                    },
                };
            }
            AxisKind::Stacks => options.rocm = label.clone(),
            AxisKind::Environment(name) => {
                options.environment.insert(name.clone(), label.clone());
            }
            AxisKind::Parameter(_) => {}
            AxisKind::Package { .. } => {
                let wanted = packages::required_packages(&axis.kind, &label, &self.imports()?);
                match packages::environment(&wanted, &options.reporting) {
                    Ok(name) => options.packages_in = Some(name),
                    Err(refused) => return Ok(Err(refused)),
                }
            }
        }
        if matches!(axis.kind, AxisKind::Builds | AxisKind::Stacks)
            && let Err(stop) = stack(&options)
        {
            return Ok(Err(match stop.is_usage() {
                true => PreparationError::Unusable(stop.reason()),
                false => PreparationError::Trouble(stop.reason()),
            }));
        }
        self.ready(axis, &label, options, obtained).map(Ok)
    }

    pub(crate) fn ready(
        &self,
        axis: &Axis,
        label: &str,
        options: SessionOptions,
        build: Option<ObtainedBuild>,
    ) -> Result<PreparedPoint<'a>, Stop> {
        let job = match self {
            Subject::Trial { library, case, trial, faults } => {
                self.trial(axis, label, options, library, case, trial, faults)?
            }
            Subject::Command(wanted) => command(axis, label, options, wanted)?,
        };
        Ok(PreparedPoint { build, job })
    }

    #[allow(clippy::too_many_arguments)]
    fn trial(
        &self,
        axis: &Axis,
        label: &str,
        options: SessionOptions,
        library: &CaseLibrary,
        case: &'a Case,
        trial: &Trial,
        faults: &[FaultSpec],
    ) -> Result<PreparedRun<'a>, Stop> {
        let trial = match &axis.kind {
            AxisKind::Parameter(name) => {
                trial.with(name, label).ok_or_else(|| missing_axis(case, trial, name))?
            }
            _ => trial.clone(),
        };
        let lowered = lower(library, case, &trial, faults)?;
        Ok(PreparedRun::Trial {
            session: Box::new(Session::open_on_one(options)?),
            case,
            trial,
            lowered: Box::new(lowered),
            faults: faults.to_vec(),
        })
    }
}

fn lower(
    library: &CaseLibrary,
    case: &Case,
    trial: &Trial,
    faults: &[FaultSpec],
) -> Result<Lowered, Stop> {
    case::lower(case, trial, library.kernels(), faults)
        .map_err(|found| Stop::usage(library.show(&case.id, &found)))
}

#[derive(Default)]
struct LastLines(std::collections::VecDeque<String>);

impl LastLines {
    const LINES: usize = 50;

    fn push(&mut self, line: &str) {
        if self.0.len() == Self::LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    fn text(self) -> String {
        Vec::from(self.0).join("\n")
    }
}

fn exec(
    program: Option<&Path>,
    stack: &Stack,
    options: &SessionOptions,
    wanted: &CommandSpec,
) -> Result<Vec<String>, SearchError> {
    let own = own_program::stable_path().map_err(SearchError::OwnProgram)?;
    let mut words = vec![own.display().to_string(), "exec".to_owned()];
    words.push(format!("--rocm={}", stack.root.display()));
    words.extend(wanted.device.iter().cloned());
    words.extend(options.environment.iter().map(|(name, value)| format!("--env={name}={value}")));
    words.extend(options.packages_in.iter().map(|name| format!("--in={name}")));
    words.push("--".to_owned());
    words.extend(program.map(|program| program.display().to_string()));
    words.extend(wanted.words.iter().cloned());
    Ok(words)
}

pub(crate) fn missing_axis(case: &Case, trial: &Trial, name: &str) -> OptionError {
    let names = trial.values.iter().map(|(axis, _)| &**axis);
    let help = match trial.values.is_empty() {
        true => "the case has no matrix".to_owned(),
        false => engine::case_names::spelling_hint(name, names),
    };
    OptionError::UnknownAxis(case.id.clone(), name.to_owned(), help)
}

fn stack(options: &SessionOptions) -> Result<Stack, Stop> {
    options.stack()
}

fn command<'a>(
    axis: &Axis,
    label: &str,
    options: SessionOptions,
    wanted: &CommandSpec,
) -> Result<PreparedRun<'a>, Stop> {
    let mut command = wanted.words.clone();
    let mut variables: Vec<(OsString, OsString)> =
        options.environment.iter().map(|(k, v)| (k.into(), v.into())).collect();
    variables.push(("ROCREPRO_VALUE".into(), label.into()));
    let mut witness = None;
    let on_device = axis.kind.runs_on_device() || wanted.program.is_some();
    if on_device || matches!(axis.kind, AxisKind::Builds | AxisKind::Stacks) {
        let stack = stack(&options)?;
        if on_device {
            let mut options = options.clone();
            if let AxisKind::Parameter(_) = axis.kind {
                options.environment.insert("ROCREPRO_VALUE".to_owned(), label.to_owned());
            }
            if axis.kind.is_venv() {
                let venv = std::path::absolute(label)
                    .map_err(|error| OptionError::NotFolder(label.to_owned(), error))?;
                let mut path = venv.join("bin").into_os_string();
                path.push(":");
                path.push(std::env::var_os("PATH").unwrap_or_default());
                variables.push(("PATH".into(), path));
                let venv = venv.display().to_string();
                options.environment.insert("VIRTUAL_ENV".to_owned(), venv);
            }
            command = exec(wanted.program.as_deref(), &stack, &options, wanted)?;
            if matches!(options.device, DeviceChoice::Emulated(_)) {
                let file = NamedTempFile::new().map_err(SearchError::NoTemporaryFile)?;
                variables.push((WITNESS_VARIABLE.into(), file.path().into()));
                witness = Some(file);
            }
        }
        let libraries = std::env::join_paths(&stack.libraries).unwrap_or_default();
        variables.push(("ROCREPRO_PREFIX".into(), stack.root.clone().into()));
        variables.push(("ROCREPRO_LIBRARIES".into(), libraries));
        variables.push(("ROCM_PATH".into(), stack.root.into()));
    }
    // Only workers have a limit for the time without output; a command line has none.
    let limits = Limits { quiet: std::time::Duration::MAX, ..options.limits };
    Ok(PreparedRun::Command { command, variables, limits, text: wanted.text.clone(), witness })
}

impl PreparedPoint<'_> {
    /// Returns the SHA-256 digests of the build's archives; empty if the point is not a build with archives.
    pub(crate) fn sha256(&self) -> String {
        let archives = self.build.iter().flat_map(|build| &build.sha256);
        archives.map(|(_, sha256)| sha256.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Runs the subject once. Returns `None` if the run was cancelled.
    pub(crate) fn run(&self, number: u32, cancel: &Cancel) -> Option<Run> {
        match &self.job {
            PreparedRun::Trial { session, case, trial, lowered, faults } => {
                let faults = faults.iter().map(|p| p.for_run(number.into())).collect();
                let job = Job { case, trial, lowered: (**lowered).clone(), run: number, faults };
                run_trial(session, &job, cancel).map(run_from_record)
            }
            PreparedRun::Command { command, variables, limits, text, witness } => {
                let forget = |file: &NamedTempFile| file.as_file().set_len(0);
                if let Some(Err(error)) = witness.as_ref().map(forget) {
                    let why = format!("cannot empty a temporary file: {error}");
                    return Some(Run { result: RunResult::Trouble, why, time: 0.0, record: None });
                }
                let mut ran = run_command(command, variables, limits, text.as_ref(), cancel)?;
                let judged = matches!(ran.result, RunResult::Passed | RunResult::Failed { .. });
                let stray = witness
                    .as_ref()
                    .filter(|_| judged)
                    .and_then(|file| inconclusive_reason(file.path()));
                if let Some(why) = stray {
                    ran.result = RunResult::Untestable;
                    ran.why = format!("{why} ({})", ran.why);
                }
                Some(ran)
            }
        }
    }
}

/// Returns the reason why a program's run is inconclusive, according to the lines in `file` that the emulated device
/// wrote; `None` if the run is conclusive.
fn inconclusive_reason(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let read = text.lines().filter_map(|line| serde_json::from_str::<Witness>(line).ok());
    let witnesses: Vec<_> = read.collect();
    if let Some(other) = witnesses.iter().find_map(|witness| witness.others.first()) {
        let path = &other.path;
        return Some(format!("another HSA runtime ran next to the emulated device, {path}"));
    }
    if witnesses.iter().any(|witness| witness.reached) {
        return None;
    }
    Some(match witnesses.iter().find_map(Witness::hip) {
        Some(hip) => format!("the program loaded {} but never used the device", hip.path),
        None => "the program never used the device".to_owned(),
    })
}

fn run_from_record(record: Record) -> Run {
    let outcome = &record.outcome;
    let shown = match outcome.kind {
        Outcome::Pass => RunResult::Passed,
        Outcome::NoVerdict if outcome.signature == "no-verdict:disk" => RunResult::Trouble,
        Outcome::Skip | Outcome::NoVerdict => RunResult::Untestable,
        kind => RunResult::Failed {
            signature: outcome.signature.clone(),
            kind,
            started: record.device.proven,
        },
    };
    let time = judge::body_ns(&record.phases) as f64 / 1e9;
    Run { result: shown, why: outcome.summary.clone(), time, record: Some(record) }
}

const PROGRAM: &str = "program";

fn run_command(
    words: &[String],
    variables: &[(OsString, OsString)],
    limits: &Limits,
    wanted: Option<&Regex>,
    cancel: &Cancel,
) -> Option<Run> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(PathBuf::from(program));
    command.args(arguments).envs(variables.iter().map(|(k, v)| (k, v)));
    let begun = Instant::now();
    let mut output = LastLines::default();
    let seen = supervise::run(command, b"", limits, cancel, &mut |line| {
        output.push(&String::from_utf8_lossy(&line.text));
    });
    let tail = seen.stderr.to_text();
    let output = output.text();
    let last = judge::last_words(&tail).or_else(|| judge::last_words(&output)).unwrap_or_default();
    let failed = |kind, identity: FailureIdentity| {
        let signature = signature::signature(identity, &tail, &output, wanted);
        // With `--match`, a failure whose output does not match is not counted.
        let kind =
            if wanted.is_some() && !signature.starts_with("match:") { Outcome::Skip } else { kind };
        RunResult::Failed { signature, kind, started: true }
    };
    let (shown, why) = match &seen.ended {
        ChildEnd::Exited(0) => (RunResult::Passed, "exit code 0".to_owned()),
        ChildEnd::Exited(125) => (RunResult::Untestable, "exit code 125".to_owned()),
        ChildEnd::Exited(code @ (126 | 127)) => {
            (RunResult::Untestable, format!("the command cannot be started: exit code {code}"))
        }
        ChildEnd::Exited(code) => {
            let identity = FailureIdentity::of_exit(*code, &tail, &output);
            (failed(Outcome::ApiError, identity), format!("exit code {code}"))
        }
        ChildEnd::Signalled { signal, .. } => {
            let identity = FailureIdentity::of_signal(PROGRAM, *signal, &tail);
            (failed(Outcome::Crash, identity), format!("signal {signal}"))
        }
        ChildEnd::Stopped { reason: StopReason::Cancelled, .. } => return None,
        ChildEnd::Stopped { reason: StopReason::Total, .. } => {
            let identity = FailureIdentity::Named(format!("hang:{PROGRAM}"));
            (failed(Outcome::Hang, identity), "time limit exceeded".to_owned())
        }
        ChildEnd::SpawnFailed(error) => {
            (RunResult::Trouble, format!("cannot start `{program}`: {error}"))
        }
        other => (RunResult::Trouble, format!("{other:?}")),
    };
    let why = if last.is_empty() { why } else { format!("{why}: {}", last.trim()) };
    Some(Run { result: shown, why, time: begun.elapsed().as_secs_f64(), record: None })
}
