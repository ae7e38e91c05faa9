//! The issue for a program that is the user's own, or that of a case.

use std::{fs, path::Path, process::ExitCode};

use case::Body;
use plan::program::ProgramBody;
use report::{
    Record,
    issue::{Control, Duplicate, Findings, Form, Issue, Log, Own, Program, redact},
};

use super::{machine, packages, redacted, stood, summary, write};
use crate::outputs;
use engine::{
    Session, Stop,
    failing_trial::{FailingTrial, TrialRuns},
    rerun::quoted,
};

/// The longest text of a program that an issue shows.
const LONGEST: u64 = 64 << 10;

/// What an issue about a program is written from.
pub(crate) struct Wanted<'a> {
    pub(crate) subject: &'a FailingTrial<'a>,
    pub(crate) session: &'a Session,
    pub(crate) runs: &'a TrialRuns,
    pub(crate) failed: &'a Record,
    pub(crate) controls: Vec<Control>,
    /// The command that writes the issue again.
    pub(crate) again: String,
    pub(crate) program: Program,
    /// The text of the case; empty where there is none.
    pub(crate) case: String,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) duplicates: Vec<Duplicate>,
}

impl Wanted<'_> {
    /// Writes the issue and the records that it is made from.
    pub(crate) fn write(
        self,
        folder: &Path,
        form: Option<Form>,
        open: bool,
    ) -> Result<ExitCode, Stop> {
        let (environment, who) = machine(self.session, self.failed, form);
        let stderr = self.failed.stderr_tail.trim();
        let logs = (!stderr.is_empty()).then(|| Log {
            title: "The end of standard error of a failing run".to_owned(),
            text: redact(stderr, &who),
        });
        let findings = Findings {
            planted: self.subject.faults.iter().map(ToString::to_string).collect(),
            about: self.subject.selected.case.about.clone(),
            mistake: None,
            rate: self.runs.rate,
            others: self.runs.others.clone(),
            program: Some(self.program),
            packages: packages(self.session, self.failed),
            case: self.case,
            controls: self.controls,
            minimised: None,
            mitigations: None,
            finer: None,
            bisected: None,
            kernel_log: Vec::new(),
            environment,
            variables: self.variables,
            logs: logs.into_iter().chain(stood(self.failed, &who)).collect(),
            libraries: Vec::new(),
            duplicates: self.duplicates,
            again: redact(&self.again, &who),
            record: redacted(self.failed.clone(), &who),
        };
        let file = findings.program.as_ref().map(|program| program.file.as_str());
        let issue = Issue::new(&findings, form).published(&who, file);
        write(folder, self.runs, &issue)?;
        outputs::print(&summary(folder, &findings, &issue, open))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Other runs of the same program, and what they came to.
pub(crate) fn control(what: String, runs: TrialRuns) -> Control {
    super::controls::control(what, runs)
}

/// The program of a case.
pub(super) fn of_case(subject: &FailingTrial<'_>, failed: &Record) -> Result<Program, Stop> {
    let job = subject.job()?;
    let Body::Program(program) = &job.lowered.body else {
        return Err(Stop::no_verdict("error: the case has no program"));
    };
    let name = subject.selected.case.id.rsplit('/').next().unwrap_or_default();
    let again = vec![failed.again.clone()];
    let parameters: Vec<String> = program
        .parameters
        .iter()
        .map(|(axis, value)| format!("ROCREPRO_PARAMETER_{axis}={}", quoted(value)))
        .collect();
    let with = |command: String| {
        let words = [&parameters[..], &[command]].concat();
        words
            .into_iter()
            .chain(program.arguments.iter().map(|word| quoted(word)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let source = program.source();
    let ending = if matches!(program.what, ProgramBody::Cpp { .. }) { "cpp" } else { "py" };
    let file = source.and_then(|source| source.file.clone());
    let file = file.unwrap_or_else(|| format!("{name}.{ending}"));
    let text = source.map(|source| source.text.clone()).unwrap_or_default();
    let (language, plainly, helper) = match &program.what {
        ProgramBody::Python(_) => {
            let mut lines = install(failed);
            lines.push(with(format!("python3 {file}")));
            ("python", lines, "rocrepro.py")
        }
        ProgramBody::Cpp { arch, options, .. } => {
            let arch =
                arch.iter().map(|arch| format!(" --offload-arch={arch}")).collect::<String>();
            let options =
                options.iter().map(|word| format!(" {}", quoted(word))).collect::<String>();
            let build = format!("hipcc{arch}{options} {file} -o {name}");
            ("cpp", vec![build, with(format!("./{name}"))], "rocrepro.h")
        }
        ProgramBody::Command(words) => ("", vec![with(shell_words::join(words))], ""),
    };
    let own = Own {
        plainly,
        again,
        text_is_whole: source.is_some(),
        in_case: source.is_some_and(|source| source.file.is_none()),
        helper: program.reports().then_some(helper),
    };
    let file = if source.is_some() { file } else { name.to_owned() };
    Ok(Program { file, language, text, exported: None, own: Some(own) })
}

/// What installs the packages that were there.
pub(crate) fn install(failed: &Record) -> Vec<String> {
    let packages = failed.program.iter().flat_map(|program| &program.packages);
    let words: Vec<String> = packages.map(|package| quoted(package)).collect();
    if words.is_empty() { Vec::new() } else { vec![format!("pip install {}", words.join(" "))] }
}

/// The text of a program's file, where it is text and not too long; with the language that Markdown calls it.
pub(crate) fn text_of(file: &Path) -> Option<(String, &'static str)> {
    let size = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
    let text = (size <= LONGEST).then(|| fs::read_to_string(file).ok()).flatten()?;
    let language = match file.extension().and_then(|ending| ending.to_str()) {
        Some("py") => "python",
        Some("cpp" | "cc" | "cxx" | "hip" | "h" | "hpp" | "cu") => "cpp",
        Some("c") => "c",
        Some("sh") => "sh",
        _ => "",
    };
    Some((text, language))
}
