//! Runs the trials of program cases. A program runs in the stack's view of the file system.

mod packages;
mod printed;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use device::{Config, FaultPlace, FaultSpec, Level, WITNESS_VARIABLE};
use judge::{
    Crash, Kind, Location, Outcome, ProgramContext, ProgramMessage, ProgramObservation,
    device_events, judge_program,
};
use plan::{
    Program,
    program::{ProgramBody, Source},
};
use report::{CheckRun, ProgramRun, Record};
use supervise::{Cancel, ChildEnd, Observed, Start, StopReason};

use self::packages::Environment;
pub(crate) use self::printed::{PrintedProgram, PrintedRun, run_printed};
use crate::{
    DeviceChoice, Job, Session, bundled,
    compiled::StartError,
    crash,
    execute::check_machine_trouble,
    helper,
    hints::{HintFacts, with_hints},
    home::with_path,
    no_device, prerequisites,
    record::{judge_record, record, skipped},
    worker_process::{not_started, observation},
};

/// Name of the file in which the program reports its checks. The program may clear its own folder, so the file is in
/// another one.
const REPORT: &str = "report.jsonl";

/// Name of the file in which the emulated device reports the processes that use it. It is in the same folder as the
/// report of the checks.
const WITNESS: &str = "device.jsonl";

/// Name of the file with the call stacks of the program's processes that crash. It is in the same folder as the report
/// of the checks.
const CRASH: &str = "crash.jsonl";

struct StartableProgram {
    file: PathBuf,
    /// Arguments that precede the arguments that the case states.
    words: Vec<String>,
    environment: Environment,
    /// The interposer library that injects faults at calls, if any.
    interposer: Option<PathBuf>,
}

struct ProgramFolders<'a> {
    /// Folder to which the program may write.
    own: &'a Path,
    /// Folder for the Python module and C++ header of programs, and for the reports.
    ours: &'a Path,
}

/// Runs the program of a trial. Returns `None` if the run was cancelled.
pub(crate) fn run(
    session: &Session,
    job: &Job<'_>,
    program: &Program,
    nonce: &str,
    cancel: &Cancel,
) -> Option<Record> {
    let without = |outcome| {
        Some(record(session, job, nonce, not_started(String::new()), None, (outcome, Vec::new())))
    };
    let prepared =
        skip_reason(session, job, program).map_or(Ok(()), |why| Err(StartError::Missing(why)));
    let folders =
        session.folders.scratch.trial().and_then(|own| Ok((own, session.folders.scratch.trial()?)));
    let prepared = prepared.and_then(|()| {
        let folders = folders.as_ref();
        let (own, ours) = folders.map_err(|e| {
            StartError::Trouble(format!("cannot create a folder for the trial: {e}"))
        })?;
        let places = ProgramFolders { own: own.path(), ours: ours.path() };
        let ready = prepare(session, program, &job.faults, &places, cancel)?;
        Ok((places, ready))
    });
    let (places, ready) = match prepared {
        Ok(prepared) => prepared,
        Err(_) if cancel.is_cancelled() => return None,
        Err(StartError::Missing(why)) => return without(skipped(why)),
        Err(StartError::Trouble(why)) => return without(no_verdict("not-started", why)),
        Err(StartError::Refused(log)) => {
            let outcome = check_machine_trouble(
                session,
                refused(program, &log),
                session.scratch_folder(),
                &BTreeMap::new(),
            );
            let outcome =
                no_device::explain_missing_device(session, &job.lowered.plan.environment, outcome);
            let facts = HintFacts { program: Some(program), ..HintFacts::default() };
            return without(with_hints(outcome, &facts));
        }
    };
    let faults = job.faults_of(FaultPlace::Device);
    let config = session.device_for(job.case, job.trial, faults)?;
    let start = match start(session, job, program, &ready, &places, &config, nonce) {
        Ok(start) => start,
        Err(why) => return without(no_verdict("not-started", why)),
    };
    if let Some(why) = bundled::unsupported_reason(session, &start) {
        return without(no_verdict("symbol", why));
    }
    let command = session.command(&start);
    let seen = supervise::run(command, b"", &session.limits_of_programs(), cancel, &mut |_| {});
    session.processes.add(&seen, None);
    if matches!(seen.ended, ChildEnd::Stopped { reason: StopReason::Cancelled, .. }) {
        return None;
    }
    let (usage, first_process) = (seen.usage, seen.pid);
    let stdout = output(&seen);
    let mut observation = observation(seen, session.is_launched());
    let (said, unread) = lines_of(&places.ours.join(REPORT));
    let (witnesses, _) = lines_of(&places.ours.join(WITNESS));
    let (crashes, _) = lines_of::<Crash>(&places.ours.join(CRASH));
    // If the first process did not crash, the last one that did is reported.
    let of_first = crashes.iter().find(|crash| Some(crash.pid) == first_process);
    let crash = of_first.or_else(|| crashes.last());
    observation.stacks.extend(crash.map(Crash::stacks).unwrap_or_default());
    observation.events = device_events(&witnesses);
    let identity = session.stack.identify();
    let context = ProgramContext {
        program,
        nonce,
        emulated: &config,
        runtime: identity.library("libamdhip64").and_then(|library| library.build_id.as_deref()),
        device_build: session.device_build(),
        spec: &session.stack.spec,
    };
    let seen = ProgramObservation {
        messages: &said,
        witnesses: &witnesses,
        stdout: &stdout,
        observation: &observation,
        crash,
    };
    let (mut outcome, mut red) = judge_program(&seen, &context);
    // A line that cannot be parsed may be a failed check.
    if let (Some(line), true) =
        (unread, outcome.kind == Kind::Pass || outcome.signature == judge::NO_CHECK)
    {
        let why = format!("cannot parse the report of the program: {line}");
        (outcome, red) = (no_verdict("report", why), Vec::new());
    }
    let environment: BTreeMap<String, String> = start
        .environment
        .iter()
        .map(|(name, value)| (name.to_string_lossy().into(), value.to_string_lossy().into()))
        .collect();
    let mut outcome = check_machine_trouble(session, outcome, places.own, &environment);
    let brought = judge::other_hip(&witnesses, context.runtime);
    if brought.is_none() {
        outcome =
            no_device::explain_missing_device(session, &job.lowered.plan.environment, outcome);
    }
    if let Some(hint) = crash.and_then(|crash| crash.missing_code(config.arch.name())) {
        outcome.add_hint(&hint);
    }
    let facts =
        HintFacts { program: Some(program), stderr: &observation.stderr, can_sanitize: false };
    let outcome = with_hints(outcome, &facts);
    let brought = brought.map(|hip| bundled::stack(hip, &observation));
    let mut run_record = record(session, job, nonce, observation, usage, (outcome, red));
    if let Some(stack) = brought {
        run_record.stack = stack;
        run_record.verdict = judge_record(session, job, &run_record);
        run_record.escape_names();
    }
    let limits = start.limits.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let program = Some(Box::new(program_record(program, &ready, &said)));
    let stdout_tail = report::output_tail(&stdout);
    Some(Record { program, environment, limits, stdout_tail, ..run_record })
}

fn skip_reason(session: &Session, job: &Job<'_>, program: &Program) -> Option<String> {
    let is_cpp = matches!(program.what, ProgramBody::Cpp { .. });
    if let Some(why) =
        job.faults.iter().find_map(|planted| case::injection_refusal(is_cpp, planted))
    {
        return Some(why);
    }
    if session.device == DeviceChoice::Gpu {
        return Some(
            "program cases need the emulated device, which reports what a program does; `rocrepro exec --device gpu` runs a \
             program on a GPU"
                .to_owned(),
        );
    }
    if session.emulated.config.level != Level::Hsa {
        return Some(
            "program cases need the emulated device that replaces the HSA runtime (`level=hsa`), which reports which \
             processes used it"
                .to_owned(),
        );
    }
    if session.late.is_some() {
        return Some("`--late` works only for cases with steps, not for programs".to_owned());
    }
    packages::missing_groups_reason(session, &program.groups)
}

/// Returns the reason why a program cannot run on this machine or in the stack; `None` if nothing is missing. Does not
/// prepare the program.
pub(crate) fn missing(session: &Session, job: &Job<'_>, program: &Program) -> Option<String> {
    let find = || {
        let named = session.given.packages_in.as_deref();
        let environment = packages::find(&program.packages, named)?;
        if let ProgramBody::Python(source) = &program.what {
            let folder = session.folders.scratch.trial();
            let folder = folder.map_err(|error| StartError::Trouble(error.to_string()))?;
            interpreter(session, program, source, &environment, folder.path())?;
        }
        Ok(())
    };
    skip_reason(session, job, program).or_else(|| match find() {
        Err(StartError::Missing(why)) => Some(why),
        _ => None,
    })
}

/// Finds the interpreter of a Python program, and a C compiler if the program needs one. To check the compiler,
/// compiles a small C file in `folder`.
fn interpreter(
    session: &Session,
    program: &Program,
    source: &Source,
    environment: &Environment,
    folder: &Path,
) -> Result<PathBuf, StartError> {
    let python = environment.python()?;
    if !prerequisites::compiles_at_run_time(&program.packages, &source.text) {
        return Ok(python);
    }
    let given = |name: &str| session.variables().find(|(one, _)| *one == name);
    let path = given("PATH").map(|(_, path)| OsString::from(path));
    let path = path.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let compiler = given("CC").map(|(_, compiler)| compiler.as_str());
    match prerequisites::compiler_for(&python, compiler, &path, folder) {
        Some(why) => Err(StartError::Missing(why)),
        None => Ok(python),
    }
}

fn prepare(
    session: &Session,
    program: &Program,
    faults: &[FaultSpec],
    places: &ProgramFolders<'_>,
    cancel: &Cancel,
) -> Result<StartableProgram, StartError> {
    let trouble =
        |error: std::io::Error| StartError::Trouble(format!("cannot write the program: {error}"));
    let environment = packages::find(&program.packages, session.given.packages_in.as_deref())?;
    fs::write(places.ours.join(helper::PYTHON.0), helper::PYTHON.1).map_err(trouble)?;
    // A compiled program is started through the stack's loader, but an interpreter or a command needs the stack's view.
    if !matches!(program.what, ProgramBody::Cpp { .. }) {
        session.views().map_err(|why| {
            StartError::Missing(format!(
                "needs a namespace for the stack's files, and this machine does not allow namespaces \
                 (docs/programs.md): {why}"
            ))
        })?;
    }
    match &program.what {
        ProgramBody::Python(source) => {
            let name = file_name(source, "program.py");
            fs::write(places.own.join(&name), &source.text).map_err(trouble)?;
            let python = interpreter(session, program, source, &environment, places.ours)?;
            let words = ["-X", "faulthandler", "-u", name.as_str()];
            let words = words.map(str::to_owned).to_vec();
            Ok(StartableProgram { file: python, words, environment, interposer: None })
        }
        ProgramBody::Cpp { source, arch, options } => {
            let compiler = session.compiler()?;
            let own: Vec<String> = session.gfx().map(str::to_owned).into_iter().collect();
            let arch = if arch.is_empty() { &own } else { arch };
            let file = compiler.compiled(source, arch, options, cancel)?;
            let interposer = compiler.interposer(faults, cancel)?;
            Ok(StartableProgram { file, words: Vec::new(), environment, interposer })
        }
        ProgramBody::Command(words) => {
            let (first, rest) =
                words.split_first().ok_or(StartError::Missing("the case has no command".into()))?;
            let file = environment.program(session, first)?;
            Ok(StartableProgram { file, words: rest.to_vec(), environment, interposer: None })
        }
    }
}

fn file_name(source: &Source, otherwise: &str) -> String {
    source.file.clone().unwrap_or_else(|| otherwise.to_owned())
}

/// Returns the standard output of a program.
fn output(seen: &Observed) -> String {
    let lines = seen.lines.iter().map(|line| String::from_utf8_lossy(&line.text));
    let mut stdout = lines.collect::<Vec<_>>().join("\n");
    stdout.push('\n');
    stdout.push_str(&String::from_utf8_lossy(&seen.torn));
    stdout
}

/// A program with everything that is needed to start it.
struct Launch<'a> {
    file: &'a Path,
    arguments: Vec<OsString>,
    directory: &'a Path,
    environment: &'a Environment,
    /// The interposer library that injects faults at calls, if any.
    interposer: Option<&'a Path>,
    config: &'a Config,
}

/// Describes how a program is started, including the environment variables that name the files for reports of the
/// program and of the emulated device.
fn start(
    session: &Session,
    job: &Job<'_>,
    program: &Program,
    ready: &StartableProgram,
    places: &ProgramFolders<'_>,
    config: &Config,
    nonce: &str,
) -> Result<Start, String> {
    let launch = Launch {
        file: &ready.file,
        arguments: ready.words.iter().chain(&program.arguments).map(Into::into).collect(),
        directory: session.programs_in().unwrap_or(places.own),
        environment: &ready.environment,
        interposer: ready.interposer.as_deref(),
        config,
    };
    let mut start = start_in(session, job, &launch)?;
    crash::watch(&mut start, session, Some(&places.ours.join(CRASH)));
    // The verdict depends on these variables, so they replace any that the user or the case sets.
    let mut ours = |name: &str, value: &OsStr| {
        start.environment.insert(name.into(), value.into());
    };
    ours(WITNESS_VARIABLE, places.ours.join(WITNESS).as_ref());
    ours("ROCREPRO_REPORT", places.ours.join(REPORT).as_ref());
    ours("ROCREPRO_NONCE", nonce.as_ref());
    for (axis, value) in &program.parameters {
        ours(&format!("ROCREPRO_PARAMETER_{axis}"), value.as_ref());
    }
    // With this path, the program's children also find the Python module.
    let mut path = places.ours.as_os_str().to_owned();
    if let Some(more) = start.environment.get(OsStr::new("PYTHONPATH")) {
        path.push(":");
        path.push(more);
    }
    start.environment.insert("PYTHONPATH".into(), path);
    Ok(start)
}

/// Describes how a program is started in the stack's view, without the environment variables for reports.
fn start_in(session: &Session, job: &Job<'_>, launch: &Launch<'_>) -> Result<Start, String> {
    let text = serde_json::to_string(launch.config).map_err(|error| error.to_string())?;
    let mut start = session.start(launch.file, Some(&text), &job.lowered.plan.environment);
    start.arguments.clone_from(&launch.arguments);
    start.directory = Some(launch.directory.to_owned());
    start.limits = session.limits(&job.lowered.plan.limits)?;
    start.tell_end = session.is_launched();
    let kept = session.programs_folder();
    let mut set = |name: &str, value: &OsStr| {
        // Variables that the user sets take precedence.
        start.environment.entry(name.into()).or_insert_with(|| value.into());
    };
    // The packages and caches of the user must not affect the result of a trial.
    set("PYTHONNOUSERSITE", "1".as_ref());
    set("PYTHONDONTWRITEBYTECODE", "1".as_ref());
    for name in ["XDG_CACHE_HOME", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR"] {
        set(name, kept.join(name.to_ascii_lowercase()).as_ref());
    }
    // The dynamic loader must find the functions of the interposer library before those of libamdhip64.
    if let Some(library) = launch.interposer {
        set("LD_PRELOAD", library.as_ref());
    }
    launch.environment.enter(&mut start);
    if session.views().is_ok() {
        let mut view = session.home(Some(launch.config))?;
        with_path(&mut view, &start, session.variables());
        start.view = Some(view);
    } else {
        session.without_home(&mut start)?;
    }
    Ok(start)
}

/// Parses the complete lines of a JSON Lines file. Also returns the first line that cannot be parsed.
fn lines_of<T: serde::de::DeserializeOwned>(file: &Path) -> (Vec<T>, Option<String>) {
    let text = fs::read(file).unwrap_or_default();
    let (mut read, mut unread) = (Vec::new(), None);
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        match serde_json::from_slice(line) {
            Ok(one) => read.push(one),
            Err(_) => {
                unread.get_or_insert_with(|| String::from_utf8_lossy(line).trim_end().to_owned());
            }
        }
    }
    (read, unread)
}

fn no_verdict(word: &str, summary: String) -> Outcome {
    Outcome {
        kind: Kind::NoVerdict,
        signature: format!("no-verdict:{word}"),
        at: Location::default(),
        summary,
        details: Vec::new(),
    }
}

fn refused(program: &Program, log: &str) -> Outcome {
    Outcome {
        kind: Kind::CompileError,
        signature: "compile-error:program".to_owned(),
        at: Location { line: Some(program.line), ..Location::default() },
        summary: "the stack's compiler rejects the program".to_owned(),
        details: log.lines().map(str::to_owned).collect(),
    }
}

fn program_record(
    program: &Program,
    ready: &StartableProgram,
    said: &[ProgramMessage],
) -> ProgramRun {
    let runs_on = said.iter().find_map(|said| match said {
        ProgramMessage::Begin { runs_on, .. } => Some(runs_on.clone()),
        _ => None,
    });
    let checks = said.iter().filter_map(|said| match said {
        ProgramMessage::Check { name, line, wrong } => {
            Some(CheckRun { name: name.clone(), line: *line, held: wrong.is_none() })
        }
        _ => None,
    });
    ProgramRun {
        kind: program.kind().to_owned(),
        runs_on,
        environment: ready.environment.name(),
        packages: ready.environment.packages(),
        lock: ready.environment.lock_digest(),
        checks: checks.collect(),
    }
}
