//! A program of the user's, run several times and judged; where it fails, the issue.

use std::{
    ffi::OsString,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use device::Planted;
use plan::program::Packages;
use report::{
    Record, count,
    issue::{Control, Form, Own, Program},
};
use serde_json::json;
use supervise::Limits;

use crate::{
    args::{Exec, HomeKind, On},
    commands::report::{OwnProgram, control, install, text_of},
    interrupt, outputs,
};
use engine::{
    CaseLibrary, DeviceChoice, Selected, Session, SessionOptions, Stop, evidence,
    failing_trial::{FailingTrial, TrialRuns},
    prerequisites,
    rerun::{Rerun, What},
    stop::explained,
};

/// What the helper is called by those who use it.
const HELPER: &str = "rocrepro";

/// Runs the program and judges it as the program of a case is; writes the issue where a run fails.
pub(super) fn report(
    args: &Exec,
    options: SessionOptions,
    faults: Vec<Planted>,
) -> Result<ExitCode, Stop> {
    let form = args.reporting.form.as_deref().map(str::parse::<Form>).transpose();
    let form = form.map_err(|e| Stop::usage(format!("error: {e}")));
    let (mut also, mut wrong) = (Vec::new(), Vec::new());
    for text in &args.reporting.also {
        match on_release(&options, text) {
            Ok(other) => also.push(other),
            Err(stop) => wrong.push(stop.to_string()),
        }
    }
    let also = if wrong.is_empty() { Ok(also) } else { Err(Stop::usage(wrong.join("\n"))) };
    let given = Stop::both(words(args), possible(args, &options));
    let (also, (form, (words, ()))) = Stop::both(also, Stop::both(form, given))?;
    let text = source(args, &words)?;
    if let Some((.., text, "python")) = &text
        && prerequisites::compiles(&Packages::None, text)
    {
        compiler_is_there(args)?;
    }
    let name = name(&text.as_ref().map_or_else(|| args.program.clone(), |(file, ..)| file.clone()));
    let folder = evidence::folder(args.reporting.out.as_deref(), &name)?;
    let library = CaseLibrary::of_text(&name, &case(args, &name, &words))?;
    let here = std::env::current_dir()
        .map_err(|e| Stop::no_verdict(format!("error: no current folder: {e}")))?;
    let told = args.reporting.quiet_timeout;
    let quiet = told.unwrap_or(On::QUIET_TIMEOUT);
    let limits = Limits {
        total: Duration::from_secs(args.reporting.timeout.into()),
        quiet: Duration::from_secs(quiet.into()),
        ..Limits::default()
    };
    // They share the folder.
    let jobs = Some(NonZeroUsize::MIN);
    let options = SessionOptions { programs_in: Some(here), limits, jobs, ..options };
    let session = Session::open_on_one(options.clone())?;
    let chosen = library.cases().next().and_then(|case| {
        let trial = case.trials().into_iter().next()?;
        Some(Selected { case, trial })
    });
    let Some(selected) = chosen else {
        return Err(Stop::nothing("error: the program makes no trial"));
    };
    let subject = FailingTrial { library: &library, selected, faults };
    let n = args.reporting.repeat;
    let runs = run(&subject, &session, args, &words, n)?;
    let Some(failed) = runs.failed().cloned() else {
        return Err(Stop::no_verdict(nothing_failed(&runs)));
    };
    let mut controls = Vec::new();
    for other in also {
        let other =
            SessionOptions { programs_in: options.programs_in.clone(), limits, jobs, ..other };
        controls.extend(elsewhere(&subject, &session, other, args, &words)?);
    }
    if !subject.faults.is_empty() {
        let healthy = subject.with(subject.selected.clone(), Vec::new());
        let runs = run(&healthy, &session, args, &words, n)?;
        controls.push(control("no fault planted".to_owned(), runs));
    }
    let again = again(args, &session, &words, &subject.faults);
    let helper = text.as_ref().filter(|(_, text, _)| text.contains(HELPER));
    let helper =
        helper.map(|(.., language)| if *language == "cpp" { "rocrepro.h" } else { "rocrepro.py" });
    let mut plainly = install(&failed);
    plainly.push(shell_words::join(&words));
    let own = Own {
        plainly,
        again: vec![failed.again.clone()],
        text_is_whole: text.is_some(),
        in_case: false,
        helper,
    };
    let (file, text, language) = text.unwrap_or((PathBuf::from(&name), String::new(), ""));
    let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = Program { file, language, text, exported: None, own: Some(own) };
    let variables = session.variables().map(|(k, v)| (k.clone(), v.clone())).collect();
    let wanted = OwnProgram {
        subject: &subject,
        session: &session,
        runs: &runs,
        failed: &failed,
        controls,
        again,
        program,
        case: String::new(),
        variables,
        duplicates: Vec::new(),
    };
    wanted.write(&folder, form, false)
}

/// What cannot be judged.
fn possible(args: &Exec, options: &SessionOptions) -> Result<(), Stop> {
    let mut problems = Vec::new();
    if options.device == DeviceChoice::Gpu {
        problems.push(
            "error: --report needs a device that says which program used it, and a GPU does not; use `--device emulated`",
        );
    }
    if args.home == HomeKind::Loader {
        problems.push("error: --report runs the program in a namespace; leave `--home loader` out");
    }
    if problems.is_empty() { Ok(()) } else { Err(Stop::usage(problems.join("\n"))) }
}

/// Looks for the compiler of a Python program that compiles C as it runs.
fn compiler_is_there(args: &Exec) -> Result<(), Stop> {
    let name = args.program.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with("python") {
        return Ok(());
    }
    let folder = tempfile::tempdir()
        .map_err(|e| Stop::no_verdict(format!("error: no temporary folder: {e}")))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    match prerequisites::compiler_for(&args.program, None, &path, folder.path()) {
        Some(why) => Err(Stop::no_verdict(format!("error: not run: {why}"))),
        None => Ok(()),
    }
}

/// The command line, as text.
fn words(args: &Exec) -> Result<Vec<String>, Stop> {
    let all = std::iter::once(args.program.clone().into_os_string());
    let all = all.chain(args.arguments.iter().cloned()).map(OsString::into_string);
    all.collect::<Result<_, _>>().map_err(|word| {
        Stop::usage(format!(
            "error: `{}` is not UTF-8 text, so the report could not show it",
            word.to_string_lossy()
        ))
    })
}

/// The same on another release, or `RELEASE@GFX`, as far as its name can be right.
fn on_release(options: &SessionOptions, text: &str) -> Result<SessionOptions, Stop> {
    let (spec, gfx) = text.split_once('@').map_or((text, None), |(spec, gfx)| (spec, Some(gfx)));
    let wrong = |error: String| Stop::usage(format!("error: `--also {text}`: {error}"));
    let spec_read = spec.parse::<stacks::Spec>().map_err(|error| wrong(explained(&error)));
    let gfx = gfx.map(str::parse::<device::Arch>).transpose();
    let (_, gfx) = Stop::both(spec_read, gfx.map_err(|error| wrong(error.to_string())))?;
    let device = gfx.map_or_else(|| options.device.clone(), DeviceChoice::Emulated);
    Ok(SessionOptions { rocm: spec.to_owned(), device, ..options.clone() })
}

/// The program's file with its text: the one that was named, or the first word that is one.
fn source(args: &Exec, words: &[String]) -> Result<Option<(PathBuf, String, &'static str)>, Stop> {
    let read =
        |file: &Path| text_of(file).map(|(text, language)| (file.to_owned(), text, language));
    match &args.reporting.source {
        Some(file) => read(file).map(Some).ok_or_else(|| {
            let file = file.display();
            Stop::usage(format!("error: `{file}` is not a text file of at most 64 KiB"))
        }),
        None => Ok(words.iter().find_map(|word| read(Path::new(word)))),
    }
}

/// What the program is called: the stem of its file, in characters that every folder takes.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    if name.is_empty() { "program".to_owned() } else { name }
}

/// The command line as a case, so that it is run and judged as any other. The fault is one that a case has to name; none is planted.
fn case(args: &Exec, name: &str, words: &[String]) -> String {
    let told = &args.reporting;
    let title = told.title.clone().unwrap_or_else(|| stated(args, name));
    // A dollar of a case stands for a value of its matrix.
    let plain =
        |texts: &[String]| texts.iter().map(|text| text.replace('$', "$$")).collect::<Vec<_>>();
    let mut program = json!({"command": plain(words), "exit": told.exit});
    for (key, texts) in [("says", &told.says), ("never", &told.never)] {
        if !texts.is_empty() {
            program[key] = json!(plain(texts));
        }
    }
    if let Some(environment) = &args.environment {
        program["env"] = json!(environment);
    }
    // YAML has JSON in it.
    json!({
        "title": title,
        "source": ["a command line"],
        "program": program,
        "faults": ["copy.zero"],
    })
    .to_string()
}

/// What must be true, where nobody says it.
fn stated(args: &Exec, name: &str) -> String {
    let mut text = format!("{name} ends with exit status {}", args.reporting.exit);
    if !args.reporting.says.is_empty() || !args.reporting.never.is_empty() {
        text.push_str(" and prints what it must");
    }
    text
}

/// Runs it; each record says how the command line is repeated, and which Python packages were there.
fn run(
    subject: &FailingTrial<'_>,
    session: &Session,
    args: &Exec,
    words: &[String],
    n: u32,
) -> Result<TrialRuns, Stop> {
    let mut records = subject.run(session, n, 0, &[], &interrupt::cancel()?)?;
    let plain: Vec<_> = environment(args);
    let what = What::Program(words, &plain);
    let again = Rerun { command: "exec", what, late: None, faults: &subject.faults }.of(session);
    let mut found = None;
    for record in &mut records {
        record.again.clone_from(&again);
        if let Some(program) = record.program.as_mut().filter(|it| it.packages.is_empty()) {
            let packages = found.get_or_insert_with(|| packages(&args.program));
            program.packages.clone_from(packages);
        }
    }
    Ok(TrialRuns::of(records))
}

fn environment(args: &Exec) -> Vec<(&'static str, String)> {
    let with = (!args.on.with.is_empty()).then(|| ("--with", args.on.with.join(",")));
    with.into_iter().chain(args.environment.iter().map(|name| ("--in", name.clone()))).collect()
}

/// The packages of an environment, as its Python says itself; none of any other program. What a whole machine has installed is nobody's
/// business.
fn packages(program: &Path) -> Vec<String> {
    const ASK: &str = "\
import importlib.metadata as m, os, sys
if sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, 'conda-meta')):
    for d in m.distributions(): print(d.metadata['Name'] + '==' + d.version)";
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with("python") {
        return Vec::new();
    }
    let asked = Command::new(program).args(["-c", ASK]).stdin(Stdio::null()).output();
    let Some(output) = asked.ok().filter(|output| output.status.success()) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut packages: Vec<String> = text.lines().map(str::to_owned).collect();
    packages.sort();
    packages.dedup();
    packages
}

/// The same on another release; none where no run there proved anything, which is said.
fn elsewhere(
    subject: &FailingTrial<'_>,
    here: &Session,
    options: SessionOptions,
    args: &Exec,
    words: &[String],
) -> Result<Option<Control>, Stop> {
    let session = Session::open_on_one(options)?;
    let runs = run(subject, &session, args, words, args.reporting.repeat)?;
    let release = session.rocm.as_ref().map_or(session.stack.spec.clone(), ToString::to_string);
    if runs.rate.runs == 0 {
        let why = runs.records.first().map_or("", |record| record.outcome.summary.as_str());
        outputs::note(format_args!("not judged on ROCm {release}: {why}"));
        return Ok(None);
    }
    let gfx = session.gfx().filter(|gfx| here.gfx() != Some(gfx));
    let gfx = gfx.map_or(String::new(), |gfx| format!(" on the emulated {gfx}"));
    Ok(Some(control(format!("the same program on ROCm {release}{gfx}"), runs)))
}

/// Why there is nothing to report.
fn nothing_failed(runs: &TrialRuns) -> String {
    let all = runs.records.len();
    let why = |record: &Record| format!("{}: {}", record.outcome.signature, record.outcome.summary);
    match (runs.rate.runs, runs.records.iter().find(|r| r.outcome.kind != judge::Kind::Pass)) {
        (0, Some(record)) => {
            format!(
                "error: {} gave no verdict; {}; no report was written",
                count(all, "run"),
                why(record)
            )
        }
        (passed, _) => format!(
            "error: the program passed in {passed} of {}, so no report was written; `--repeat N` makes more runs",
            count(all, "run")
        ),
    }
}

/// The command that writes the report again.
fn again(args: &Exec, session: &Session, words: &[String], faults: &[Planted]) -> String {
    let told = &args.reporting;
    let mut options = environment(args);
    options.push(("--report", String::new()));
    if told.repeat != crate::args::Reporting::REPEAT {
        options.push(("--repeat", told.repeat.to_string()));
    }
    if told.exit != 0 {
        options.push(("--exit", told.exit.to_string()));
    }
    if !told.also.is_empty() {
        options.push(("--also", told.also.join(",")));
    }
    options.extend(told.says.iter().map(|text| ("--says", text.clone())));
    options.extend(told.never.iter().map(|text| ("--never", text.clone())));
    options.extend(told.title.iter().map(|text| ("--title", text.clone())));
    options.extend(told.form.iter().map(|form| ("--for", form.clone())));
    let what = What::Program(words, &options);
    Rerun { command: "exec", what, late: None, faults }.of(session)
}
