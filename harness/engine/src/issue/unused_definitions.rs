//! Removes definitions of rocrepro's helper from a printed C++ program that does not use them.

mod definitions;

use std::time::Instant;

use case::Body;
use judge::End;
use report::{
    Record,
    issue::{PrintedProgramRun, Program},
};
use supervise::Cancel;

use super::{as_printed, inline_helper::unused_headers};
use crate::{
    Session, Stop,
    failing_trial::FailingTrial,
    program::{PrintedProgram, run_printed},
};

/// The search for definitions that a printed program does not use.
pub(super) struct UnusedDefinitions<'s> {
    pub(super) subject: &'s FailingTrial<'s>,
    pub(super) session: &'s Session,
    pub(super) failed: &'s Record,
    pub(super) deadline: Instant,
    pub(super) cancel: &'s Cancel,
}

impl UnusedDefinitions<'_> {
    /// Returns the program without the functions of rocrepro's helper that it does not use, and without the `#include`
    /// lines that only those functions need. All lines of the program's own source are kept. Each function is kept or
    /// removed as a whole, because a check that lacks some of its lines would mislead readers.
    ///
    /// The compiler decides for each function within a second or two whether it is unused. Only the final program is
    /// run.
    ///
    /// # Errors
    /// Fails if the case has mistakes, or on a request to stop.
    pub(super) fn removed(&self, printed: Program) -> Result<Program, Stop> {
        let job = self.subject.job()?;
        let Body::Program(of_case) = &job.lowered.body else { return Ok(printed) };
        let source = match self.subject.command {
            Some(command) => command.text().map(|it| it.text.as_str()),
            None => of_case.source().map(|source| source.text.as_str()),
        };
        let commands = printed.own.as_ref().map(|own| own.plainly.as_slice()).unwrap_or_default();
        let ([build, _], "cpp", Some(source)) = (commands, printed.language, source) else {
            return Ok(printed);
        };
        let ran = printed.own.as_ref().and_then(|own| own.as_printed.as_ref());
        if !matches!(ran, Some(PrintedProgramRun::Ran { fails_alike: true, .. })) {
            return Ok(printed);
        }
        let own = own_lines(&printed.text, source);
        let checks = [format!("{build} -fsyntax-only -Werror=return-type -Werror=uninitialized")];
        let mut cancelled = false;
        let compiled = definitions::without_unused(
            &printed.text,
            |text| contains_in_order(text, &own),
            &mut |text| {
                if Instant::now() > self.deadline {
                    return None;
                }
                let program = PrintedProgram { file: &printed.file, text, commands: &checks };
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
            if contains_in_order(&without, &own) { without } else { text }
        });
        if text == printed.text {
            return Ok(printed);
        }
        let mut shorter = Program { text, ..printed.clone() };
        let (subject, session, failed) = (self.subject, self.session, self.failed);
        let ran = as_printed::run(subject, session, failed, of_case, &shorter, self.cancel)?;
        match ran.ok().flatten() {
            Some(ran @ PrintedProgramRun::Ran { fails_alike: true, .. }) => {
                if let Some(own) = &mut shorter.own {
                    own.as_printed = Some(ran);
                }
                Ok(shorter)
            }
            _ => Ok(printed),
        }
    }
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
