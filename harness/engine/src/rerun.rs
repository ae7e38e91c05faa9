//! Builds the command lines that repeat a result, from the options of the session.

use std::path::Path;

use device::FaultSpec;
use plan::DelayInjection;

pub use shell::quote as quoted;

use crate::{Job, Session};

/// Returns the command line that repeats a trial.
pub fn rerun_command(session: &Session, job: &Job<'_>) -> String {
    let late = job.late(session.late);
    let trial = job.id();
    let rerun =
        Rerun { command: "run", what: RerunSubject::Trial(&trial), late, faults: &job.faults };
    let mut text = rerun.command_line(session);
    // The case may set these options itself, but the command line shows them to its reader.
    if session.gfx().is_some() {
        for option in session.options_of(job.case, job.trial) {
            text.push_str(&format!(" --device-option {}", quoted(&option)));
        }
    }
    text
}

/// The subject of a rocrepro command line.
pub enum RerunSubject<'a> {
    /// A trial of the session's cases.
    Trial(&'a str),
    /// All cases in this file. The second value is true if the cases need `--trust`, because they do something that is
    /// forbidden for untrusted cases.
    File(&'a Path, bool),
    /// A program with its arguments, and the options for the rocrepro command.
    Program(&'a [String], &'a [(&'static str, String)]),
}

/// A command line that repeats an action of a session.
pub struct Rerun<'a> {
    /// Name of the rocrepro subcommand.
    pub command: &'static str,
    /// The trial, file or program that the command works on.
    pub what: RerunSubject<'a>,
    /// Injected delays, if any.
    pub late: Option<DelayInjection>,
    /// Injected faults.
    pub faults: &'a [FaultSpec],
}

impl Rerun<'_> {
    /// Returns the command line, with every option of the session that affects the result.
    pub fn command_line(&self, session: &Session) -> String {
        let mut text = format!("rocrepro {}", self.command);
        let from = match self.what {
            RerunSubject::Trial(trial) => {
                text.push_str(&format!(" {}", quoted(trial)));
                session.cases_from()
            }
            RerunSubject::Program(_, options) => options.to_vec(),
            RerunSubject::File(path, needs_trust) => {
                let mut from = vec![("--cases-from", path.display().to_string())];
                if needs_trust || session.trusts_given_cases() {
                    from.push(("--trust", String::new()));
                }
                from
            }
        };
        text.push_str(&format!(" --rocm {}", quoted(&session.stack.spec)));
        match session.gfx() {
            Some(gfx) => text.push_str(&format!(" --device emulated --gfx {gfx}")),
            None => text.push_str(" --device gpu"),
        }
        for (option, value) in from.into_iter().chain(session.cards()).chain(session.given()) {
            text.push_str(&format!(" {option}"));
            if !value.is_empty() {
                text.push_str(&format!(" {}", quoted(&value)));
            }
        }
        if let Some(late) = self.late {
            text.push_str(&format!(" --late {late}"));
        }
        for planted in self.faults {
            text.push_str(&format!(" --fault {}", quoted(&planted.to_string())));
        }
        if let RerunSubject::Program(words, _) = self.what {
            text.push_str(&format!(" -- {}", shell::join(words)));
        }
        text
    }
}
