//! Removes lines of rocrepro's helper from a printed program that the program does not need.

mod definitions;

use std::time::Instant;

use case::Body;
use judge::End;
use report::{
    Record,
    issue::{AsPrinted, Program},
};
use search::shorten::shorten;
use supervise::Cancel;

use super::{as_printed, inline_helper::unused_headers};
use crate::{
    Session, Stop,
    failing_trial::FailingTrial,
    passing_release::{Oracle, PassingReleaseSearch},
    program::PrintedProgram,
    program::run_printed,
};

/// The search for helper lines that a printed program does not need.
pub(super) struct HelperLines<'s> {
    pub(super) subject: &'s FailingTrial<'s>,
    pub(super) session: &'s Session,
    pub(super) failed: &'s Record,
    /// Search for a configuration on which the program must still pass.
    pub(super) releases: PassingReleaseSearch,
    pub(super) deadline: Instant,
    pub(super) cancel: &'s Cancel,
}

impl HelperLines<'_> {
    /// Returns the program without needless lines of the helper. The lines of the program's own source all stay. Without
    /// an oracle, nothing is removed: a check without some of its lines might always fail.
    ///
    /// # Errors
    /// Mistakes in the case, or a request to stop.
    pub(super) fn removed(&self, printed: Program) -> Result<Program, Stop> {
        let job = self.subject.job()?;
        let Body::Program(of_case) = &job.lowered.body else { return Ok(printed) };
        let source = match self.subject.command {
            Some(command) => command.text().map(|it| it.text.as_str()),
            None => of_case.source().map(|source| source.text.as_str()),
        };
        let ran = printed.own.as_ref().and_then(|own| own.as_printed.as_ref());
        let fails = matches!(ran, Some(AsPrinted::Ran { fails_alike: true, .. }));
        let (Some(source), true) = (source, fails) else { return Ok(printed) };
        let own = own_lines(&printed.text, source);
        // The search for a passing release runs the trial, so it begins only if a line may be removed.
        if own.len() == printed.text.lines().count() || printed.text == source {
            return Ok(printed);
        }
        let oracle = self.releases.oracle(self.session, &job, self.cancel)?;
        if matches!(oracle, Oracle::None) || !self.passes(&oracle, &printed, of_case)? {
            return Ok(printed);
        }
        let printed = self.without_unused_definitions(printed.clone(), &own, &oracle, of_case)?;
        let (mut best, mut trouble) = (printed.clone(), None);
        let shorter = shorten(&printed.text, &mut |text| {
            if Instant::now() > self.deadline || self.cancel.is_cancelled() || trouble.is_some() {
                return None;
            }
            if !contains_in_order(text, &own) {
                return Some(false);
            }
            let candidate = Program { text: text.to_owned(), ..printed.clone() };
            let good = || match self.fails(&candidate, of_case)? {
                Some(ran) if self.passes(&oracle, &candidate, of_case)? => Ok(Some(ran)),
                _ => Ok(None),
            };
            match good() {
                Ok(Some(ran)) => {
                    best = candidate;
                    if let Some(own) = &mut best.own {
                        own.as_printed = Some(ran);
                    }
                    Some(true)
                }
                Ok(None) => Some(false),
                Err(stop) => {
                    trouble = Some(stop);
                    None
                }
            }
        });
        match trouble {
            Some(stop) => Err(stop),
            None => {
                debug_assert_eq!(shorter.apply_to(&printed.text).trim(), best.text.trim());
                Ok(best)
            }
        }
    }

    /// Returns a C++ program without the helper's definitions that it does not use. The compiler finds them in a second
    /// or two each; only the result is run.
    ///
    /// # Errors
    /// Mistakes in the case, or a request to stop.
    fn without_unused_definitions(
        &self,
        printed: Program,
        own: &[&str],
        oracle: &Oracle,
        of_case: &plan::Program,
    ) -> Result<Program, Stop> {
        let commands = with_warnings(&printed).own.map(|own| own.plainly).unwrap_or_default();
        let Some((build, _)) = commands.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return Ok(printed);
        };
        let checks = [format!("{build} -fsyntax-only")];
        let (job, file) = (self.subject.job()?, printed.file.clone());
        let mut cancelled = false;
        let compiled = definitions::without_unused(
            &printed.text,
            |text| contains_in_order(text, own),
            &mut |text| {
                if Instant::now() > self.deadline {
                    return None;
                }
                let program = PrintedProgram { file: &file, text, commands: &checks };
                match run_printed(self.session, &job, of_case, &program, self.cancel) {
                    Ok(None) => {
                        cancelled = true;
                        None
                    }
                    Ok(Some(run)) => Some(run.end == End::Exited(0)),
                    Err(_) => Some(false),
                }
            },
        );
        if cancelled {
            return Err(super::IssueError::Interrupted.into());
        }
        let text = unused_headers(&compiled).into_iter().fold(compiled, |text, line| {
            let without = text.replacen(&line, "", 1);
            if contains_in_order(&without, own) { without } else { text }
        });
        let mut shorter = Program { text, ..printed.clone() };
        match self.fails(&shorter, of_case)? {
            Some(ran) if self.passes(oracle, &shorter, of_case)? => {
                if let Some(own) = &mut shorter.own {
                    own.as_printed = Some(ran);
                }
                Ok(shorter)
            }
            _ => Ok(printed),
        }
    }

    /// Runs a candidate as printed. Returns the run if it fails as described.
    fn fails(
        &self,
        candidate: &Program,
        of_case: &plan::Program,
    ) -> Result<Option<AsPrinted>, Stop> {
        let checked = with_warnings(candidate);
        let (subject, session, failed) = (self.subject, self.session, self.failed);
        let ran = as_printed::run(subject, session, failed, of_case, &checked, self.cancel)?;
        let alike = |ran: &AsPrinted| matches!(ran, AsPrinted::Ran { fails_alike: true, .. });
        Ok(ran.ok().flatten().filter(alike))
    }

    /// Returns true if a candidate passes where the trial passes.
    fn passes(
        &self,
        oracle: &Oracle,
        candidate: &Program,
        of_case: &plan::Program,
    ) -> Result<bool, Stop> {
        let Some(own) = &candidate.own else { return Ok(false) };
        let mut job = self.subject.job()?;
        job.lowered.plan.environment.clear();
        job.faults.clear();
        let session = match oracle {
            Oracle::Release(session) => session,
            _ => self.session,
        };
        let (file, text) = (candidate.file.as_str(), candidate.text.as_str());
        let program = PrintedProgram { file, text, commands: &own.plainly };
        match run_printed(session, &job, of_case, &program, self.cancel) {
            Ok(None) => Err(super::IssueError::Interrupted.into()),
            Ok(Some(run)) => Ok(run.end == End::Exited(0)),
            Err(_) => Ok(false),
        }
    }
}

/// Makes the compiler refuse a function that lacks its return.
fn with_warnings(program: &Program) -> Program {
    let mut program = program.clone();
    for line in program.own.iter_mut().flat_map(|own| &mut own.plainly) {
        if line.starts_with("hipcc ") {
            line.push_str(" -Werror=return-type -Werror=uninitialized");
        }
    }
    program
}

/// Returns those lines of a printed program that are lines of its source, without surrounding spaces.
fn own_lines<'t>(printed: &'t str, source: &str) -> Vec<&'t str> {
    let mut left: Vec<&str> = source.lines().map(str::trim).collect();
    let mut own = Vec::new();
    for line in printed.lines().rev().map(str::trim) {
        if let Some(at) = left.iter().rposition(|other| *other == line) {
            left.truncate(at);
            own.push(line);
        }
    }
    own.reverse();
    own
}

fn contains_in_order(text: &str, lines: &[&str]) -> bool {
    let mut rest = text.lines().map(str::trim);
    lines.iter().all(|line| rest.any(|other| other == *line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_lines_of_the_source() {
        let source = "#include \"rocrepro.h\"\n#include <vector>\nint main() {\n  return rocrepro::done();\n}\n";
        let printed = "#include <string>\n#include <vector>\nnamespace rocrepro {\nint done() {\n  return 0;\n}\n}\nint main() {\n  \
                       return rocrepro::done();\n}\n";
        let own = own_lines(printed, source);
        assert_eq!(own, ["#include <vector>", "int main() {", "return rocrepro::done();", "}"]);
        assert!(contains_in_order(source, &own));
        assert!(!contains_in_order("int main() {\n}\n", &own));
    }
}
