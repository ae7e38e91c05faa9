//! Everything that an issue is written from.

use judge::{Known, Likeness, likeness};
use plan::Library;

use super::Environment;
use crate::{
    Record,
    evidence::{Bisected, Exported, Minimised, Mitigations, OtherFailure, Rate},
};

/// What is known about one failure.
#[derive(Clone, Debug)]
pub struct Findings {
    /// A run that failed.
    pub record: Record,
    /// The planted faults with their parameters, as typed; empty for a failure of ROCm's own.
    pub planted: Vec<String>,
    /// The case's own words about it.
    pub about: Option<String>,
    /// What the sanitizer finds in kernels of the case's own, with no fault planted.
    pub mistake: Option<Mistake>,
    /// Failures with this signature among fresh processes.
    pub rate: Rate,
    /// Other failures among them.
    pub others: Vec<OtherFailure>,
    /// The program that shows it.
    pub program: Option<Program>,
    /// The case file, for the time when there is no program.
    pub case: String,
    /// Runs that differ in one thing.
    pub controls: Vec<Control>,
    /// What the minimiser found.
    pub minimised: Option<Minimised>,
    /// What the search for mitigations found.
    pub mitigations: Option<Mitigations>,
    /// What the bisection found.
    pub bisected: Option<Bisected>,
    /// What a second one found between the two builds of the first.
    pub finer: Option<Bisected>,
    /// The machine, redacted.
    pub environment: Environment,
    /// Variables that the trial was run with.
    pub variables: Vec<(String, String)>,
    /// Logs of the failing run, redacted.
    pub logs: Vec<Log>,
    /// Lines that the kernel logged meanwhile, redacted.
    pub kernel_log: Vec<String>,
    /// The distribution's packages of ROCm that ran, with their versions; empty for a stack of another kind.
    pub packages: Vec<(String, String)>,
    /// Libraries besides HIP and hipRTC that the trial calls.
    pub libraries: Vec<Library>,
    /// Known failures of the library with the same signature.
    pub duplicates: Vec<Duplicate>,
    /// The command that writes this issue again.
    pub again: String,
}

/// A mistake in a kernel of the case's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The sanitizer's words.
    pub found: String,
    /// The command that shows it.
    pub again: String,
}

/// A stand-alone program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub file: String,
    /// Its language, as Markdown spells it: `cpp`, `python`.
    pub language: &'static str,
    /// Its text.
    pub text: String,
    /// How it was checked.
    pub exported: Option<Exported>,
    /// Where it is the user's own, or that of a case, how it is run; none where it was written out of calls.
    pub own: Option<Own>,
}

/// How a program is run that was not written out of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Commands that run it where ROCm and a GPU are, with what it needs before.
    pub plainly: Vec<String>,
    /// Commands that run it as it was run.
    pub again: Vec<String>,
    /// Whether its whole text is there.
    pub text_is_whole: bool,
    /// Whether it stands in the case, whose lines then count.
    pub in_case: bool,
    /// The file by which it says what it checks.
    pub helper: Option<&'static str>,
}

/// Runs that differ from the failing ones in one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// What differs, such as `host=pinned instead of host=pageable`.
    pub what: String,
    /// Failures of any kind.
    pub rate: Rate,
    /// Its most frequent failure, where it has one.
    pub signature: Option<String>,
    /// Likeness of that to the reported failure, where both were compared before they were quoted.
    pub likeness: Option<Likeness>,
    /// The command that runs it.
    pub again: String,
}

impl Control {
    /// Returns its failure beside the reported one, in words.
    pub fn failure(&self, reported: &str) -> String {
        let Some(signature) = &self.signature else { return "passes".to_owned() };
        match self.likeness.unwrap_or_else(|| likeness(reported, signature)) {
            Likeness::Same => format!("`{signature}`"),
            Likeness::Different => format!("another failure: `{signature}`"),
            Likeness::Unknown => {
                format!("`{signature}`, an exit status alone: not known to be the same failure")
            }
        }
    }
}

/// A log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// What it is, such as `AMD_LOG_LEVEL=4 from hipGraphInstantiate on`.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// A known failure of the case library that looks alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Duplicate {
    /// The case.
    pub case: String,
    /// The window in which it fails.
    pub known: Known,
    /// The issues that the window names.
    pub upstream: Vec<String>,
}
