//! The issue for a program of the user's: it is run several times and judged like the program of a case.

use std::{
    ffi::OsString,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use device::{Arch, Planted};
use judge::Kind;
use plan::program::Packages;
use report::{
    Record, count,
    issue::{Control, Findings, Form, Own, Program},
};
use serde_json::json;
use stacks::Spec;
use supervise::{Cancel, Limits};

use super::{
    Draft, IssueError, IssueEvent, IssueReporter, PROGRAM_REPEAT,
    controls::{HEALTHY, control},
    program::{install, text_of},
};
use crate::{
    CaseLibrary, DeviceChoice, Selected, Session, SessionOptions, Stop, evidence,
    failing_trial::{FailingTrial, TrialRuns},
    prerequisites,
    rerun::{Rerun, What},
    stop::explained,
};

/// Name of the module with which a program reports its checks.
const HELPER: &str = "rocrepro";

/// Options of a report of a failing program.
#[derive(Clone, Debug)]
pub struct ProgramReportOptions {
    /// The stack and device of the program.
    pub session: SessionOptions,
    /// Injected faults.
    pub faults: Vec<Planted>,
    /// The program.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
    /// The environment in which the program is searched.
    pub environment: Option<String>,
    /// Requests a run outside of a namespace, which a report refuses.
    pub outside_namespace: bool,
    /// Runs on each release.
    pub repeat: u32,
    /// Further releases, `RELEASE` or `RELEASE@GFX`.
    pub also: Vec<String>,
    /// The expected exit status.
    pub exit: u32,
    /// Texts that the output must contain.
    pub says: Vec<String>,
    /// Texts that the output must not contain.
    pub never: Vec<String>,
    /// The title of the issue: what should be true.
    pub title: Option<String>,
    /// The file of the program's text; by default the first word of the command line that is a text file.
    pub source: Option<PathBuf>,
    /// The form of the issue, as typed.
    pub form: Option<String>,
    /// The evidence folder.
    pub out: Option<PathBuf>,
    /// Time limits of one run.
    pub limits: Limits,
}

/// The text of a program's file, with its language in Markdown.
type SourceText = (PathBuf, String, &'static str);

/// A report of a program that is ready to run.
pub struct ProgramReport<'a> {
    options: &'a ProgramReportOptions,
    form: Option<Form>,
    /// The command line.
    words: Vec<String>,
    text: Option<SourceText>,
    name: String,
    folder: PathBuf,
    library: CaseLibrary,
    session: Session,
    also: Vec<SessionOptions>,
}

impl<'a> ProgramReport<'a> {
    /// Prepares a report.
    ///
    /// # Errors
    /// Options that are not valid (usage), or a session that cannot be opened.
    pub fn prepare(options: &'a ProgramReportOptions) -> Result<ProgramReport<'a>, Stop> {
        let form = options.form.as_deref().map(str::parse::<Form>).transpose();
        let form = form.map_err(|e| Stop::usage(format!("error: {e}")));
        let (mut also, mut wrong) = (Vec::new(), Vec::new());
        for text in &options.also {
            match on_release(&options.session, text) {
                Ok(other) => also.push(other),
                Err(stop) => wrong.push(stop.to_string()),
            }
        }
        let also = if wrong.is_empty() { Ok(also) } else { Err(Stop::usage(wrong.join("\n"))) };
        let given = Stop::both(words(options).map_err(Stop::from), possible(options));
        let (also, (form, (words, ()))) = Stop::both(also, Stop::both(form, given))?;
        let text = source(options, &words)?;
        if let Some((.., text, "python")) = &text
            && prerequisites::compiles(&Packages::None, text)
        {
            find_compiler(&options.program)?;
        }
        let name = name(text.as_ref().map_or(&options.program, |(file, ..)| file));
        let folder = evidence::folder(options.out.as_deref(), &name)?;
        let library = CaseLibrary::of_text(&name, &case(options, &name, &words))?;
        let here = std::env::current_dir()
            .map_err(|error| IssueError::Folder { folder: "no current folder", error })?;
        let settings = |other: SessionOptions| SessionOptions {
            programs_in: Some(here.clone()),
            limits: options.limits.clone(),
            // All runs share the current folder.
            jobs: Some(NonZeroUsize::MIN),
            ..other
        };
        let session = Session::open_on_one(settings(options.session.clone()))?;
        let also = also.into_iter().map(settings).collect();
        Ok(ProgramReport { options, form, words, text, name, folder, library, session, also })
    }

    /// Runs the program and writes the issue if a run fails. Returns a summary for people.
    ///
    /// # Errors
    /// No run that fails, trouble of this machine, or a request to stop.
    pub fn write(self, cancel: &Cancel, events: IssueReporter<'_>) -> Result<String, Stop> {
        let ProgramReport { options, session, library, .. } = &self;
        let chosen = library.cases().next().and_then(|case| {
            let trial = case.trials().into_iter().next()?;
            Some(Selected { case, trial })
        });
        let selected = chosen.ok_or(IssueError::NoTrial)?;
        let subject = FailingTrial { library, selected, faults: options.faults.clone() };
        let runs = self.run(&subject, session, cancel)?;
        let failed = runs.failed().cloned().ok_or_else(|| nothing_failed(&runs))?;
        let mut controls = Vec::new();
        for other in &self.also {
            controls.extend(self.elsewhere(&subject, other.clone(), cancel, events)?);
        }
        if !subject.faults.is_empty() {
            let healthy = subject.with(subject.selected.clone(), Vec::new());
            let runs = self.run(&healthy, session, cancel)?;
            controls.push(control(HEALTHY.to_owned(), runs));
        }
        let draft = Draft {
            subject: &subject,
            session,
            runs: &runs,
            failed: &failed,
            again: self.again(),
            folder: &self.folder,
            form: self.form,
            open: false,
        };
        let (environment, who) = draft.machine();
        let findings = Findings {
            program: Some(self.program(&failed)),
            controls,
            variables: session.variables().map(|(k, v)| (k.clone(), v.clone())).collect(),
            ..draft.findings(environment, &who)
        };
        draft.write(findings, &who)
    }

    /// Returns the program as part of an issue.
    fn program(&self, failed: &Record) -> Program {
        let helper = self.text.as_ref().filter(|(_, text, _)| text.contains(HELPER));
        let helper = helper
            .map(|(.., language)| if *language == "cpp" { "rocrepro.h" } else { "rocrepro.py" });
        let mut plainly = install(failed);
        plainly.push(shell_words::join(&self.words));
        let own = Own {
            plainly,
            again: vec![failed.again.clone()],
            text_is_whole: self.text.is_some(),
            in_case: false,
            helper,
        };
        let text = self.text.clone();
        let (file, text, language) = text.unwrap_or((PathBuf::from(&self.name), String::new(), ""));
        let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Program { file, language, text, exported: None, own: Some(own) }
    }

    /// Runs the program. Each record has the command that repeats the run, and the Python packages of the program.
    fn run(
        &self,
        subject: &FailingTrial<'_>,
        session: &Session,
        cancel: &Cancel,
    ) -> Result<TrialRuns, Stop> {
        let mut records = subject.run(session, self.options.repeat, 0, &[], cancel)?;
        let environment = self.environment();
        let what = What::Program(&self.words, &environment);
        let faults = subject.faults.as_slice();
        let again = Rerun { command: "exec", what, late: None, faults }.of(session);
        let mut found = None;
        for record in &mut records {
            record.again.clone_from(&again);
            if let Some(program) = record.program.as_mut().filter(|it| it.packages.is_empty()) {
                let packages = found.get_or_insert_with(|| packages(&self.options.program));
                program.packages.clone_from(packages);
            }
        }
        Ok(TrialRuns::of(records))
    }

    /// Runs the program on another release; none if no run there gave a verdict.
    fn elsewhere(
        &self,
        subject: &FailingTrial<'_>,
        options: SessionOptions,
        cancel: &Cancel,
        events: IssueReporter<'_>,
    ) -> Result<Option<Control>, Stop> {
        let session = Session::open_on_one(options)?;
        let runs = self.run(subject, &session, cancel)?;
        let release = session.rocm.as_ref().map_or(session.stack.spec.clone(), ToString::to_string);
        if runs.rate.runs == 0 {
            let why = runs.records.first().map_or("", |record| record.outcome.summary.as_str());
            events(IssueEvent::NotJudged { release: &release, why });
            return Ok(None);
        }
        let gfx = session.gfx().filter(|gfx| self.session.gfx() != Some(gfx));
        let gfx = gfx.map_or(String::new(), |gfx| format!(" on the emulated {gfx}"));
        Ok(Some(control(format!("the same program on ROCm {release}{gfx}"), runs)))
    }

    /// Returns the options of `exec` on which every run depends.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let ProgramReportOptions { session, environment, .. } = self.options;
        let with = (!session.with.is_empty()).then(|| ("--with", session.with.join(",")));
        with.into_iter().chain(environment.iter().map(|name| ("--in", name.clone()))).collect()
    }

    /// Returns the command that writes the report again.
    fn again(&self) -> String {
        let ProgramReportOptions { repeat, exit, also, says, never, title, form, faults, .. } =
            self.options;
        let mut options = self.environment();
        options.push(("--report", String::new()));
        if *repeat != PROGRAM_REPEAT {
            options.push(("--repeat", repeat.to_string()));
        }
        if *exit != 0 {
            options.push(("--exit", exit.to_string()));
        }
        if !also.is_empty() {
            options.push(("--also", also.join(",")));
        }
        options.extend(says.iter().map(|text| ("--says", text.clone())));
        options.extend(never.iter().map(|text| ("--never", text.clone())));
        options.extend(title.iter().map(|text| ("--title", text.clone())));
        options.extend(form.iter().map(|form| ("--for", form.clone())));
        let what = What::Program(&self.words, &options);
        Rerun { command: "exec", what, late: None, faults }.of(&self.session)
    }
}

/// Refuses runs that cannot be judged.
fn possible(options: &ProgramReportOptions) -> Result<(), Stop> {
    let on_gpu = options.session.device == DeviceChoice::Gpu;
    let on_gpu = if on_gpu { Err(IssueError::OnGpu.into()) } else { Ok(()) };
    let outside = options.outside_namespace;
    let outside = if outside { Err(IssueError::OutsideNamespace.into()) } else { Ok(()) };
    Stop::both(on_gpu, outside).map(|_| ())
}

/// Checks that the compiler exists that a Python program needs at run time.
fn find_compiler(program: &Path) -> Result<(), IssueError> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with("python") {
        return Ok(());
    }
    let folder = tempfile::tempdir()
        .map_err(|error| IssueError::Folder { folder: "no temporary folder", error })?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    match prerequisites::compiler_for(program, None, &path, folder.path()) {
        Some(why) => Err(IssueError::NoCompiler(why)),
        None => Ok(()),
    }
}

/// Returns the command line as text.
fn words(options: &ProgramReportOptions) -> Result<Vec<String>, IssueError> {
    let all = std::iter::once(options.program.clone().into_os_string());
    let all = all.chain(options.arguments.iter().cloned()).map(OsString::into_string);
    all.collect::<Result<_, _>>()
        .map_err(|word| IssueError::NotText(word.to_string_lossy().into_owned()))
}

/// Returns the options for another release, `RELEASE` or `RELEASE@GFX`.
fn on_release(options: &SessionOptions, text: &str) -> Result<SessionOptions, Stop> {
    let (spec, gfx) = text.split_once('@').map_or((text, None), |(spec, gfx)| (spec, Some(gfx)));
    let wrong = |error| Stop::from(IssueError::Release { text: text.to_owned(), error });
    let parsed = spec.parse::<Spec>().map_err(|error| wrong(explained(&error)));
    let gfx = gfx.map(str::parse::<Arch>).transpose();
    let (_, gfx) = Stop::both(parsed, gfx.map_err(|error| wrong(error.to_string())))?;
    let device = gfx.map_or_else(|| options.device.clone(), DeviceChoice::Emulated);
    Ok(SessionOptions { rocm: spec.to_owned(), device, ..options.clone() })
}

/// Returns the program's text: the named file, or the first word that is a text file.
fn source(
    options: &ProgramReportOptions,
    words: &[String],
) -> Result<Option<SourceText>, IssueError> {
    let read =
        |file: &Path| text_of(file).map(|(text, language)| (file.to_owned(), text, language));
    match &options.source {
        Some(file) => {
            read(file).map(Some).ok_or_else(|| IssueError::Source(file.display().to_string()))
        }
        None => Ok(words.iter().find_map(|word| read(Path::new(word)))),
    }
}

/// Returns the name of the program: the stem of its file, in characters that every file system accepts.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    if name.is_empty() { "program".to_owned() } else { name }
}

/// Returns the command line as a case, so that it is run and judged like any other. A case must declare a fault; none is injected.
fn case(options: &ProgramReportOptions, name: &str, words: &[String]) -> String {
    let title = options.title.clone().unwrap_or_else(|| expectation(options, name));
    // A dollar in a case refers to its matrix.
    let plain =
        |texts: &[String]| texts.iter().map(|text| text.replace('$', "$$")).collect::<Vec<_>>();
    let mut program = json!({"command": plain(words), "exit": options.exit});
    for (key, texts) in [("says", &options.says), ("never", &options.never)] {
        if !texts.is_empty() {
            program[key] = json!(plain(texts));
        }
    }
    if let Some(environment) = &options.environment {
        program["env"] = json!(environment);
    }
    // JSON is YAML.
    json!({
        "title": title,
        "source": ["a command line"],
        "program": program,
        "faults": ["copy.zero"],
    })
    .to_string()
}

/// Returns the default title.
fn expectation(options: &ProgramReportOptions, name: &str) -> String {
    let mut text = format!("{name} ends with exit status {}", options.exit);
    if !options.says.is_empty() || !options.never.is_empty() {
        text.push_str(" and prints what it must");
    }
    text
}

/// Lists the packages of the environment of a Python; none if Python is that of the machine, whose packages are private, or if the
/// program is not Python.
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

/// Returns the reason why there is nothing to report.
fn nothing_failed(runs: &TrialRuns) -> IssueError {
    let all = count(runs.records.len(), "run");
    match (runs.rate.runs, runs.records.iter().find(|r| r.outcome.kind != Kind::Pass)) {
        (0, Some(record)) => {
            let why = format!("{}: {}", record.outcome.signature, record.outcome.summary);
            IssueError::NoVerdict { runs: all, why }
        }
        (passed, _) => IssueError::Passed { passed, runs: all },
    }
}
