//! The stand-alone program of a report: that of the minimal case where there is one, checked before it is shown.

use std::path::Path;

use export::Form;
use report::{
    evidence::{CASE_FILE, Exported, Minimised, Rate, Setting},
    issue::{Identity, Program, redact},
};
use supervise::Cancel;

use super::super::{
    export::{
        build::Toolchain,
        tools,
        verify::{exported, printed},
    },
    subject::Subject,
};
use crate::{CaseLibrary, CasesFrom, Selected, Session, Stop, evidence};

/// Runs of the program before it is shown.
const RUNS: u32 = 3;

/// Exports the trial, or its minimal case, into the folder; none where it cannot be written as a program.
pub(super) fn program(
    subject: &Subject<'_>,
    minimised: Option<&Minimised>,
    session: &Session,
    on: &Setting,
    folder: &Path,
    who: &Identity,
) -> Result<Option<Program>, Stop> {
    let case = folder.join(CASE_FILE);
    if minimised.is_some()
        && let Ok(library) = CaseLibrary::load(Some(&CasesFrom { path: case, trusted: false }))
        && let Some(case) = library.cases().next()
        && let Some(trial) = case.trials().into_iter().next()
    {
        let faults = subject.faults.clone();
        let minimal = Subject { library: &library, selected: Selected { case, trial }, faults };
        let found = of(&minimal, &subject.id(), session, on, folder, who)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    of(subject, &subject.id(), session, on, folder, who)
}

fn of(
    subject: &Subject<'_>,
    trial: &str,
    session: &Session,
    on: &Setting,
    folder: &Path,
    who: &Identity,
) -> Result<Option<Program>, Stop> {
    let job = subject.job()?;
    let form = Form::Hiprtc;
    let tools = tools(session)?;
    let cancel = Cancel::new().map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
    // Without headers or compiler the program is shown all the same, as one that nobody has tried.
    let verified = match Toolchain::find(session, form, tools.path()) {
        Ok(toolchain) => match exported(session, &toolchain, &job, form, RUNS, &cancel) {
            Ok(done) => Some(done),
            Err(stop) => {
                anstream::eprintln!("the program was not verified: {stop}");
                None
            }
        },
        Err(stop) => {
            anstream::eprintln!("the program was not verified: {stop}");
            None
        }
    };
    let text = match &verified {
        Some(done) => done.text.clone(),
        None => match printed(session, &job, form, Vec::new(), Vec::new()) {
            Ok(text) => text,
            Err(stop) => {
                anstream::eprintln!("{stop}");
                return Ok(None);
            }
        },
    };
    // A name in the program's text is no name of a person.
    let text = redact(&text, &Identity { user: String::new(), host: String::new(), ..who.clone() });
    let line = |label: &str| {
        let found = text.lines().find_map(|l| l.strip_prefix("// ")?.strip_prefix(label));
        found.unwrap_or_default().trim().to_owned()
    };
    let found = Exported {
        trial: trial.to_owned(),
        form: form.name().to_owned(),
        path: form.file().to_owned(),
        build: line("Build:"),
        run: line("Run:"),
        verified: verified.as_ref().map(|done| Rate { failed: done.verified, runs: done.of }),
        on: verified.as_ref().map(|_| on.clone()),
        traces_equal: verified.as_ref().map(|done| done.difference.is_none()),
    };
    evidence::write_text(folder, form.file(), &text)?;
    evidence::write(folder, &found)?;
    Ok(Some(Program { file: form.file().to_owned(), language: "cpp", text, exported: Some(found) }))
}
