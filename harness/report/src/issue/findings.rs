//! Input for an issue: all results about one failure.

use judge::{End, Known, Likeness, likeness};
use plan::Library;

use super::Environment;
use crate::{
    Record,
    evidence::{Bisected, Exported, Minimised, MinimisedProgram, Mitigations, OtherFailure, Rate},
};

/// All results about one failure.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Record of a failing run.
    pub record: Record,
    /// Injected faults with their parameters, as typed. Empty for a failure of ROCm itself.
    pub planted: Vec<String>,
    /// Description of the failure from the case file.
    pub about: Option<String>,
    /// Error that the sanitizer finds in the case's own kernels, without an injected fault.
    pub mistake: Option<Mistake>,
    /// True if the user asked for an issue even if the program itself may be the cause.
    pub anyway: bool,
    /// True if nobody but the user says what the program must do: it is a command, or a case from elsewhere.
    pub is_of_the_user: bool,
    /// HIP call of a program that had not returned when the program ended.
    pub open_call: Option<String>,
    /// The part that was still missing when the report was written. `None` for a finished report.
    pub unfinished: Option<&'static str>,
    /// Rate of failures with this signature, in fresh processes.
    pub rate: Rate,
    /// Other failures in the same runs.
    pub others: Vec<OtherFailure>,
    /// Stand-alone program that shows the failure.
    pub program: Option<Program>,
    /// Text of the case file, for a report without a program.
    pub case: String,
    /// Runs that differ from the failing ones in one aspect.
    pub controls: Vec<Control>,
    /// Releases on which the trial was started and gave no verdict.
    pub not_judged: Vec<NotJudged>,
    /// Result of `rocrepro minimise`.
    pub minimised: Option<Minimised>,
    /// Result of `rocrepro minimise` for a program. The program of this issue is the shorter one.
    pub shortened: Option<MinimisedProgram>,
    /// Result of `rocrepro mitigate`.
    pub mitigations: Option<Mitigations>,
    /// Result of `rocrepro bisect`.
    pub bisected: Option<Bisected>,
    /// Result of a second bisect between the two builds of the first.
    pub finer: Option<Bisected>,
    /// Description of the machine, redacted.
    pub environment: Environment,
    /// Environment variables that the trial was run with.
    pub variables: Vec<(String, String)>,
    /// Logs of the failing run, redacted.
    pub logs: Vec<Log>,
    /// Lines of the kernel log from the time of the run, redacted.
    pub kernel_log: Vec<String>,
    /// Installed ROCm packages of the distribution, with versions. Empty for a stack of another kind.
    pub packages: Vec<(String, String)>,
    /// Libraries that the trial calls, except HIP and hipRTC.
    pub libraries: Vec<Library>,
    /// Expected failures of the case library with the same signature.
    pub duplicates: Vec<Duplicate>,
    /// Command that writes this issue again.
    pub again: String,
}

/// Error in one of the case's own kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Message of the sanitizer.
    pub found: String,
    /// Command that shows the error.
    pub again: String,
}

/// A stand-alone program.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name.
    pub file: String,
    /// Language, as Markdown spells it: `cpp`, `python`.
    pub language: &'static str,
    /// Source text.
    pub text: String,
    /// Result of `rocrepro export`, if the program was exported.
    pub exported: Option<Exported>,
    /// Commands that run it, if it is the user's own program or one of a case. `None` if rocrepro exported it from a
    /// plan.
    pub own: Option<Own>,
}

/// Commands and properties of a program that rocrepro did not export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Commands that run the program on a machine with ROCm and a GPU, including the required setup.
    pub plainly: Vec<String>,
    /// Commands that repeat the run of this report.
    pub again: Vec<String>,
    /// True if the text is complete.
    pub text_is_whole: bool,
    /// True if the program is part of the case file, so that line numbers refer to that file.
    pub in_case: bool,
    /// Helper file with which the program reports its checks, if it needs one.
    pub helper: Option<&'static str>,
    /// Result of the run as printed; none if the text is not part of the issue.
    pub as_printed: Option<AsPrinted>,
}

/// Result of one run of a program exactly as the issue prints it, in an empty folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AsPrinted {
    /// The program was run.
    Ran {
        /// True if it failed as the reported runs did.
        fails_alike: bool,
        /// End of its process.
        end: End,
        /// Last line of its output, empty without output.
        last: String,
    },
    /// The program was not run, for this reason.
    NotRun(String),
}

/// Runs that differ from the failing ones in one aspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The difference, for example `host=pinned instead of host=pageable`.
    pub what: String,
    /// Rate of failures of any kind.
    pub rate: Rate,
    /// Most frequent signature; `None` if no run failed.
    pub signature: Option<String>,
    /// Similarity to the reported failure, computed before the signatures were escaped for Markdown.
    pub likeness: Option<Likeness>,
    /// Command that repeats these runs.
    pub again: String,
}

/// A release on which the trial gave no verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotJudged {
    /// The release, for example `5.2.3`.
    pub release: String,
    /// The reason.
    pub why: String,
}

impl Control {
    /// Describes the failure in comparison with the reported one.
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
    /// Description, for example `AMD_LOG_LEVEL=4 from hipGraphInstantiate on`.
    pub title: String,
    /// Text of the log.
    pub text: String,
}

/// An expected failure of another case with the same signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Duplicate {
    /// Name of the case.
    pub case: String,
    /// The expected failure.
    pub known: Known,
    /// Upstream issues to which the expected failure refers.
    pub upstream: Vec<String>,
}
