//! Writes an issue: the parts that issues for trials and issues for programs share, and the issue's files.

use std::{collections::BTreeMap, path::Path};

use case::{Expectation, ExpectationKind};
use judge::{Kind, signature_fits};
use report::{
    Record,
    evidence::{RECORDS_FILE, REPORT_FILE},
    issue::{Environment, Findings, Form, Identity, Issue, Log, redact, summary},
};
use supervise::Cancel;

use crate::{
    Session, Stop, evidence,
    failing_trial::{FailingTrial, TrialRuns},
    host,
};

/// Everything that issues for trials and issues for programs have in common.
pub(super) struct Draft<'a> {
    pub(super) subject: &'a FailingTrial<'a>,
    pub(super) session: &'a Session,
    pub(super) runs: &'a TrialRuns,
    pub(super) failed: &'a Record,
    /// The command that writes the issue once more.
    pub(super) again: String,
    pub(super) folder: &'a Path,
    pub(super) form: Option<Form>,
    pub(super) open: bool,
    pub(super) anyway: bool,
    pub(super) is_of_the_user: bool,
}

impl Draft<'_> {
    /// Describes this machine without irrelevant facts. Also returns what must be redacted: the names of people and
    /// machines, and the values of variables.
    pub(super) fn machine(
        &self,
        of_case: &BTreeMap<String, String>,
        cancel: &Cancel,
    ) -> (Environment, Identity) {
        // The following issue forms ask for PyTorch's own description of the machine.
        let torch = |form| {
            matches!(form, Form::Pytorch | Form::PytorchPt2 | Form::Accelerate | Form::Triton)
        };
        let (machine, mut who) = host::describe(self.form.is_some_and(torch).then_some(cancel));
        who.values = self.session.private_values(of_case);
        let mut environment = machine.redacted(&who);
        // Earlier messages of the Linux kernel do not belong to this failure, and other fetched stacks did not take
        // part in it.
        environment.kernel_log.clear();
        let own = &self.failed.stack.spec;
        environment.stacks.retain(|stack| stack.spec == *own || !stack.spec.starts_with("debian:"));
        (environment, who)
    }

    /// Returns the findings that are known before any search has begun.
    pub(super) fn findings(&self, environment: Environment, who: &Identity) -> Findings {
        Findings {
            planted: self.subject.faults.iter().map(ToString::to_string).collect(),
            about: self.subject.selected.case.about.clone(),
            sources: sources(self.subject, self.failed),
            mistake: None,
            on_cpu: None,
            anyway: self.anyway,
            is_of_the_user: self.is_of_the_user,
            launches_own_kernels: self
                .subject
                .job()
                .is_ok_and(|job| rewrite::launches_own(&job.lowered.plan)),
            unfinished: None,
            open_call: None,
            rate: self.runs.rate,
            others: self.runs.others.clone(),
            program: None,
            packages: packages(self.session, self.failed),
            case: String::new(),
            controls: Vec::new(),
            not_judged: Vec::new(),
            minimised: None,
            shortened: None,
            mitigations: None,
            finer: None,
            bisected: None,
            kernel_log: Vec::new(),
            environment,
            variables: Vec::new(),
            logs: threads(self.failed, who).into_iter().collect(),
            libraries: Vec::new(),
            duplicates: Vec::new(),
            known_bugs: Vec::new(),
            refused_call: None,
            again: redact(&self.again, who),
            record: redacted(self.failed.clone(), who),
        }
    }

    /// Writes the issue and the records of its runs, and returns the summary.
    pub(super) fn write(&self, mut findings: Findings, who: &Identity) -> Result<String, Stop> {
        if findings.program.as_ref().is_some_and(|program| program.own.is_some()) {
            findings.logs.splice(0..0, stderr(self.failed, who));
        }
        let program = findings.program.as_ref().map(|program| program.file.as_str());
        let issue = Issue::new(&findings, self.form).published(who, program);
        let mut lines = String::new();
        for record in &self.runs.records {
            lines.push_str(&report::to_line(record).map_err(Stop::no_verdict)?);
            lines.push('\n');
        }
        evidence::write_text(self.folder, RECORDS_FILE, &lines)?;
        evidence::write_text(self.folder, REPORT_FILE, &issue.page())?;
        Ok(summary(self.folder, &findings, &issue, self.open))
    }
}

/// Returns the reasons to expect the behaviour that the case states, one sentence for each source.
fn sources(subject: &FailingTrial<'_>, failed: &Record) -> Vec<String> {
    let (case, trial) = (&subject.selected.case, &subject.selected.trial);
    let is_about = |entry: &Expectation| {
        let signature = entry.signature.as_ref();
        entry.on.matches(trial)
            && signature.is_none_or(|known| signature_fits(known, &failed.outcome.signature))
    };
    let sentence = |entry: Expectation| match (entry.kind, entry.date) {
        (ExpectationKind::Documented, _) => format!("Source: {}", entry.source),
        (ExpectationKind::Cuda, Some(date)) => {
            format!("Measured with the whole case on {date}: {}", entry.source)
        }
        (ExpectationKind::Cuda, None) => format!("Measured with the whole case: {}", entry.source),
        (ExpectationKind::ReleasesDiffer, _) => {
            format!("Releases of ROCm differ: {}", entry.source)
        }
        (ExpectationKind::Difference, _) => format!("Undocumented expectation: {}", entry.source),
    };
    case.expectations().into_iter().filter(is_about).map(sentence).collect()
}

/// Returns the last lines of a failing run's standard error; `None` if it is empty.
fn stderr(failed: &Record, who: &Identity) -> Option<Log> {
    let text = failed.stderr_tail.trim();
    let title = "The end of standard error of a failing run".to_owned();
    (!text.is_empty()).then(|| Log { title, text: redact(text, who) })
}

/// Returns the call stacks of the threads of a run that hung or crashed; `None` if they are unknown.
fn threads(failed: &Record, who: &Identity) -> Option<Log> {
    let title = match failed.outcome.kind {
        Kind::Hang => "Call stacks of the threads of a hung run when it was killed",
        _ => "Call stacks of the threads of a failing run when it crashed",
    };
    let title = title.to_owned();
    (!failed.stacks.is_empty()).then(|| Log { title, text: redact(&failed.stacks.join("\n"), who) })
}

/// Returns the packages of a fetched stack whose libraries the failing process loaded, each with its version.
/// libhsa-runtime64 does not count, because the emulated device replaces it.
fn packages(session: &Session, failed: &Record) -> Vec<(String, String)> {
    let loaded: Vec<String> = failed
        .stack
        .libraries
        .iter()
        .filter_map(|library| library.name.split(".so").next())
        .filter(|name| !failed.device.emulated || *name != "libhsa-runtime64")
        .map(|name| name.replace('_', "-"))
        .collect();
    // The name of a package consists of the library's name and its soname version.
    let of = |package: &str, library: &String| {
        let rest = package.to_lowercase();
        let rest = rest.strip_prefix(&library.to_lowercase()).map(str::to_owned);
        rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || "-.".contains(c)))
    };
    let packages = session.stack.manifest.iter().flat_map(|manifest| &manifest.packages);
    packages
        .filter(|package| loaded.iter().any(|library| of(&package.name, library)))
        .map(|package| (package.name.clone(), package.version.clone()))
        .collect()
}

/// Redacts the names of people and machines in a record.
fn redacted(mut record: Record, who: &Identity) -> Record {
    let outcome = &mut record.outcome;
    let texts = [
        &mut outcome.signature,
        &mut outcome.summary,
        &mut record.again,
        &mut record.stack.spec,
        &mut record.stack.root,
    ];
    texts.into_iter().chain(&mut outcome.details).for_each(|text| *text = redact(text, who));
    record
}
