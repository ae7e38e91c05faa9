//! Uses the shorter program that an earlier search left in the evidence folder.

use std::path::Path;

use case::Body;
use plan::{
    Plan, Program,
    program::{ProgramBody, Source},
};
use report::{
    Record,
    evidence::{CASE_FILE, MinimisedProgram},
};

use super::IssueError;
use crate::{
    CaseLibrary, CasesFrom, Selected, Session, SessionOptions, Stop,
    command_line::CommandLine,
    failing_trial::{FailingTrial, Subjects},
    program_text::read_text,
    rerun::{Rerun, RerunSubject, quoted},
};

/// A shorter program, and the case or command line that runs it.
pub(super) struct ShorterProgram {
    pub(super) found: MinimisedProgram,
    body: ShorterBody,
}

enum ShorterBody {
    Case(CaseLibrary),
    Command(Box<CommandLine>),
}

impl ShorterProgram {
    /// Reads the shorter program of a trial. The inner error is the reason why the program is not used.
    ///
    /// The program will be run, but the user may have received the folder from another person. Therefore the shorter
    /// program must consist of lines of the original one, in their order.
    ///
    /// # Errors
    /// Fails if the shorter case or command line has mistakes.
    pub(super) fn read(
        subject: &FailingTrial<'_>,
        mut found: MinimisedProgram,
        folder: &Path,
        session: &SessionOptions,
    ) -> Result<Result<ShorterProgram, String>, Stop> {
        let file = folder.join(&found.file);
        let job = subject.job()?;
        let original = match (subject.command, &job.lowered.body) {
            (Some(command), _) => command.text().map(|it| it.text.as_str()),
            (None, Body::Program(program)) => program.source().map(|source| source.text.as_str()),
            (None, _) => None,
        };
        let shorter = if found.file.contains('/') { None } else { read_text(&file) };
        let (Some(original), Some(shorter)) = (original, shorter) else {
            return Ok(Err(format!("`{}` cannot be read", file.display())));
        };
        if !is_part_of(&shorter.text, original) {
            let why = "`minimise` did not only remove lines; report the shortened program as a program of its own";
            return Ok(Err(format!("{}: {why}", file.display())));
        }
        found.without_checks = found.without_checks.filter(|it| is_part_of(it, &shorter.text));
        let body = match subject.command {
            Some(command) => {
                command.with_file(&file, session)?.map(|line| ShorterBody::Command(Box::new(line)))
            }
            None => {
                let path = folder.join(CASE_FILE);
                let from = CasesFrom { path, trusted: true };
                CaseLibrary::load(Some(&from)).ok().map(ShorterBody::Case)
            }
        };
        let Some(body) = body else {
            return Ok(Err(format!("{} has no case of `{}`", folder.display(), file.display())));
        };
        let shorter = ShorterProgram { found, body };
        if matches!(shorter.body, ShorterBody::Case(_))
            && !shorter.differs_in_text_alone(subject)?
        {
            let why =
                "the reduced case differs from the original in more than the text of the program";
            return Ok(Err(format!("{}: {why}", file.display())));
        }
        Ok(Ok(shorter))
    }

    /// Returns true if the program of the shorter case consists of lines of the original program, and has the same
    /// arguments, environment and limits.
    fn differs_in_text_alone(&self, found: &FailingTrial<'_>) -> Result<bool, Stop> {
        let Ok(shorter) = self.subject(found) else { return Ok(false) };
        let (original, shorter) = (found.job()?.lowered, shorter.job()?.lowered);
        let (Body::Program(own), Body::Program(mut other)) = (original.body, shorter.body) else {
            return Ok(false);
        };
        let (Some(text), Some(source)) = (own.source(), source_of(&mut other)) else {
            return Ok(false);
        };
        let is_part = is_part_of(&source.text, &text.text);
        source.clone_from(text);
        let settings = |plan: &Plan| (plan.environment.clone(), plan.limits.clone());
        let same = settings(&original.plan) == settings(&shorter.plan);
        Ok(is_part && same && own.without_places() == other.without_places())
    }

    /// Returns the shorter program as a trial.
    ///
    /// # Errors
    /// A case without a trial.
    pub(super) fn subject<'a>(
        &'a self,
        found: &FailingTrial<'a>,
    ) -> Result<FailingTrial<'a>, Stop> {
        match &self.body {
            ShorterBody::Command(command) => {
                let subjects = Subjects::of_command(command, found.faults.clone())?;
                let library = subjects.library;
                let selected = subjects.selected.into_iter().next();
                let selected = selected.ok_or(IssueError::NoFailure)?;
                Ok(FailingTrial {
                    library,
                    selected,
                    faults: found.faults.clone(),
                    command: Some(command),
                })
            }
            ShorterBody::Case(library) => {
                // The axis values are those of the original case.
                let own = &found.selected.trial;
                let selected = library.cases().find_map(|case| {
                    let trial =
                        case.trials().into_iter().find(|trial| trial.values == own.values)?;
                    Some(Selected { case, trial })
                });
                let selected = selected.ok_or(IssueError::NoFailure)?;
                Ok(FailingTrial { library, selected, ..found.clone() })
            }
        }
    }

    /// Writes into the records of a shorter case the name of the trial from which the case was shortened, and the
    /// command that runs the shorter case.
    pub(super) fn describe(
        &self,
        records: &mut [Record],
        subject: &FailingTrial<'_>,
        on: &Session,
    ) {
        if matches!(self.body, ShorterBody::Command(_)) {
            return;
        }
        let (what, faults) = (Path::new(CASE_FILE), subject.faults.as_slice());
        let rerun =
            Rerun { command: "run", what: RerunSubject::File(what, true), late: on.late, faults };
        let mut again = rerun.command_line(on);
        let id = subject.id();
        if id.contains('[') {
            // The other trials of the shorter case may pass.
            again = again.replacen(" run ", &format!(" run {} ", quoted(&id)), 1);
        }
        for record in records {
            record.trial.clone_from(&self.found.trial);
            record.again.clone_from(&again);
        }
    }
}

fn source_of(program: &mut Program) -> Option<&mut Source> {
    match &mut program.what {
        ProgramBody::Python(source) | ProgramBody::Cpp { source, .. } => Some(source),
        ProgramBody::Command(_) => None,
    }
}

/// Returns true if the lines of `shorter` are lines of `original`, in the same order.
fn is_part_of(shorter: &str, original: &str) -> bool {
    let mut lines = original.lines().map(str::trim);
    shorter.lines().map(str::trim).all(|line| lines.any(|other| other == line))
}

#[cfg(test)]
mod tests {
    use super::is_part_of;

    #[test]
    fn accepts_only_lines_of_the_original_in_their_order() {
        let original = "import os\nif a:\n    b()\nc()\n";
        for good in ["import os\nc()\n", original, "", "b()\n"] {
            assert!(is_part_of(good, original), "{good}");
        }
        for bad in ["c()\nimport os\n", "os.remove('x')\n", "c()\nc()\n"] {
            assert!(!is_part_of(bad, original), "{bad}");
        }
    }
}
