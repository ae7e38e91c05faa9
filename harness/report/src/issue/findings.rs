//! Collects all results about one failure, from which an issue is written.

use judge::{End, FailureComparison, Known, likeness};
use plan::Library;

use super::Environment;
use crate::{
    Record,
    evidence::{
        BisectEvidence, ExportEvidence, MinimiseEvidence, MinimisedProgram, Mitigations,
        OtherFailure, Rate,
    },
    failures::{list_failures, other_failure_count},
};

/// All results about one failure, from which an issue is written.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Record of a trial that failed.
    pub record: Record,
    /// Injected faults with their parameters, as the user typed them. Empty if the failure is one of ROCm itself.
    pub planted: Vec<String>,
    /// Description of the failure, from the case file.
    pub about: Option<String>,
    /// Documents and measurements that say what the case expects: one sentence each, without a full stop.
    pub sources: Vec<String>,
    /// Error that the sanitizer finds in kernels defined in the case, although no fault is injected; `None` if it finds
    /// none.
    pub mistake: Option<SanitizerError>,
    /// Result of one run of a PyTorch program with the device `cpu` in place of the GPU; `None` if it was not run.
    pub on_cpu: Option<PrintedProgramRun>,
    /// True if the user asked for an issue even if the program itself may be the cause.
    pub anyway: bool,
    /// True if the expected behaviour comes only from the user: the user gave the program as a command, or its case is
    /// not part of rocrepro.
    pub is_of_the_user: bool,
    /// True if the trial launches kernels that are defined in the case.
    pub launches_own_kernels: bool,
    /// HIP call that had not returned when the program ended; `None` if all calls had returned.
    pub open_call: Option<String>,
    /// Step of `rocrepro report` that was still to be done when this version of the report was written; `None` for a
    /// finished report.
    pub unfinished: Option<&'static str>,
    /// Failure rate of the trial, in fresh processes. Only failures with the reported signature count as failures.
    pub rate: Rate,
    /// Failures with other signatures in the same runs.
    pub others: Vec<OtherFailure>,
    /// Stand-alone program that shows the failure; `None` if the report shows the case instead.
    pub program: Option<Program>,
    /// Text of the case file, which a report without a program contains.
    pub case: String,
    /// Runs that differ from the failing ones in one aspect.
    pub controls: Vec<Control>,
    /// Releases on which the trial was run and gave no verdict.
    pub not_judged: Vec<UnjudgedRelease>,
    /// Result of `rocrepro minimise`; `None` if it was not run.
    pub minimised: Option<MinimiseEvidence>,
    /// Result of `rocrepro minimise` for a program. The issue then contains the shorter program.
    pub shortened: Option<MinimisedProgram>,
    /// Result of `rocrepro mitigate`; `None` if it was not run.
    pub mitigations: Option<Mitigations>,
    /// Result of `rocrepro bisect`; `None` if it was not run.
    pub bisected: Option<BisectEvidence>,
    /// Result of a second bisect, among the builds between the last good and the first bad build of the first bisect.
    pub finer: Option<BisectEvidence>,
    /// Description of the machine, without personal data.
    pub environment: Environment,
    /// Names and values of the environment variables that the trial was run with.
    pub variables: Vec<(String, String)>,
    /// Logs of a failing run, without personal data.
    pub logs: Vec<Log>,
    /// Lines that Linux logged during the run, without personal data.
    pub kernel_log: Vec<String>,
    /// Names and versions of the distribution's ROCm packages. Empty if the stack is not from a distribution.
    pub packages: Vec<(String, String)>,
    /// ROCm libraries that the trial calls, except HIP and hipRTC.
    pub libraries: Vec<Library>,
    /// Expected failures of other cases in rocrepro's case library that have the same signature.
    pub duplicates: Vec<Duplicate>,
    /// Known failures that match the reported one, because the case declares it or because the program makes the same
    /// calls.
    pub known_bugs: Vec<KnownBug>,
    /// Last HIP call of the program that returned an error, with its status; `None` if no call did, or if no log was
    /// made.
    pub refused_call: Option<String>,
    /// Command that writes this issue again.
    pub again: String,
}

/// Error that the sanitizer found in a kernel defined in the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SanitizerError {
    /// Message of the sanitizer.
    pub found: String,
    /// Command that repeats the run in which the sanitizer finds the error.
    pub again: String,
}

/// A stand-alone program that shows the failure.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name of the program.
    pub file: String,
    /// Language, as Markdown spells it: `cpp`, `python`.
    pub language: &'static str,
    /// Text of the program.
    pub text: String,
    /// Result of `rocrepro export`; `None` if the program was not exported.
    pub exported: Option<ExportEvidence>,
    /// Commands and properties of the program if the user wrote it or a case contains it. `None` if rocrepro exported
    /// the program from a plan.
    pub own: Option<UnexportedProgram>,
}

/// Commands and properties of a program that rocrepro did not export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnexportedProgram {
    /// Commands that run the program on a machine with ROCm and a GPU.
    pub plainly: Vec<String>,
    /// Python packages that the program imports, each as `NAME==VERSION`.
    pub packages: Vec<String>,
    /// Commands that repeat the run with rocrepro.
    pub again: Vec<String>,
    /// True if [`Program::text`] is the complete program.
    pub text_is_whole: bool,
    /// True if the program is part of the case file, so that line numbers refer to that file.
    pub in_case: bool,
    /// Name of the helper file with which the program reports its checks; `None` if it needs no helper.
    pub helper: Option<&'static str>,
    /// Result of running the program exactly as the issue prints it; `None` if the issue does not contain the program.
    pub as_printed: Option<PrintedProgramRun>,
}

/// Result of running a program exactly as the issue prints it, in an empty folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrintedProgramRun {
    /// The program was run.
    Ran {
        /// True if the program failed in the same way as the reported runs.
        fails_alike: bool,
        /// Exit status or signal of the program.
        end: End,
        /// Last line of the program's output; empty if it had none.
        last: String,
    },
    /// The program was not run. The value is the reason.
    NotRun(String),
}

/// Runs that differ from the failing runs in one aspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The difference from the failing runs, for example `host=pinned instead of host=pageable`.
    pub what: String,
    /// Release of the control runs, and their architecture if it is another one. `None` if they ran on the release of
    /// the failing runs.
    pub release: Option<String>,
    /// Failure rate of the control runs. A failure with any signature counts as a failure.
    pub rate: Rate,
    /// Most frequent signature of the control runs; `None` if no run failed.
    pub signature: Option<String>,
    /// Failures of the control runs with other signatures than the most frequent one.
    pub others: Vec<OtherFailure>,
    /// Result of comparing the most frequent failure with the reported one. The comparison is made before the
    /// signatures are escaped for Markdown. `None` if it was not made.
    pub likeness: Option<FailureComparison>,
    /// Command that repeats the control runs.
    pub again: String,
}

/// A release on which the trial was run and gave no verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnjudgedRelease {
    /// Version of the release, for example `5.2.3`.
    pub release: String,
    /// Reason why there was no verdict.
    pub why: String,
}

impl Control {
    /// Describes the failure of the control runs, and says if its signature differs from `reported`.
    pub fn failure(&self, reported: &str) -> String {
        let Some(signature) = &self.signature else { return "passes".to_owned() };
        let text = match self.likeness.unwrap_or_else(|| likeness(reported, signature)) {
            FailureComparison::Same => format!("`{signature}`"),
            FailureComparison::Different => format!("another failure: `{signature}`"),
            FailureComparison::Unknown => {
                format!("`{signature}`, only an exit status, so perhaps another failure")
            }
        };
        match self.others.as_slice() {
            [] => text,
            others => {
                let first = self.rate.failed - other_failure_count(others);
                format!("{first} as {text}, {}", list_failures(others))
            }
        }
    }
}

/// A log of a failing run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Description of the log, for example `AMD_LOG_LEVEL=4 from hipGraphInstantiate on`.
    pub title: String,
    /// Text of the log.
    pub text: String,
}

/// An expected failure of another case that has the same signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Duplicate {
    /// Name of the case.
    pub case: String,
    /// Failure that the other case expects.
    pub known: Known,
    /// Upstream issues to which the expected failure refers.
    pub upstream: Vec<String>,
}

/// A known failure of ROCm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownBug {
    /// Name of the case in the case library that shows the failure.
    pub case: String,
    /// Upstream issue, as `owner/repository#number`; `None` if no issue exists.
    pub upstream: Option<String>,
    /// Description of the failure; empty if the `known` entry of the case has no `about`.
    pub about: String,
    /// Calls, with arguments and statuses, by which the failure was recognised: the program makes the same calls in the
    /// same order on the same objects. Empty if the case itself declares the failure.
    pub calls: Vec<String>,
}
