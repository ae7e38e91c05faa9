use std::fmt;

use plan::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of outcome of a trial.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Every status, value and byte was as expected, and the process ended normally.
    Pass,
    /// A check read bytes that differ from the reference model.
    WrongData,
    /// A call returned a status or value that the case does not accept.
    ApiError,
    /// A kernel did not compile.
    CompileError,
    /// A signal ended the process while the trial ran.
    Crash,
    /// The device reported an access to invalid memory.
    MemoryFault,
    /// A call did not return in time.
    Hang,
    /// The trial had completed, but then the process ended abnormally.
    TeardownCrash,
    /// A library ended the process by calling `exit`.
    LibraryExit,
    /// Memory was not released, or a process remained.
    Leak,
    /// The trial passed, but the driver of the GPU logged a fault, a time-out or a reset.
    KernelError,
    /// The trial was not run, because the stack lacks something that the case needs.
    Skip,
    /// The run proves nothing about ROCm.
    NoVerdict,
}

impl Kind {
    /// Every kind of outcome.
    pub const ALL: [Kind; 13] = [
        Kind::Pass,
        Kind::WrongData,
        Kind::ApiError,
        Kind::CompileError,
        Kind::Crash,
        Kind::MemoryFault,
        Kind::Hang,
        Kind::TeardownCrash,
        Kind::LibraryExit,
        Kind::Leak,
        Kind::KernelError,
        Kind::Skip,
        Kind::NoVerdict,
    ];

    /// Returns the name of this kind in records and signatures, for example `wrong-data`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Pass => "pass",
            Kind::WrongData => "wrong-data",
            Kind::ApiError => "api-error",
            Kind::CompileError => "compile-error",
            Kind::Crash => "crash",
            Kind::MemoryFault => "memory-fault",
            Kind::Hang => "hang",
            Kind::TeardownCrash => "teardown-crash",
            Kind::LibraryExit => "library-exit",
            Kind::Leak => "leak",
            Kind::KernelError => "kernel-error",
            Kind::Skip => "skip",
            Kind::NoVerdict => "no-verdict",
        }
    }

    /// Returns true if this kind means that the stack or the device misbehaved.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Kind::Pass | Kind::Skip | Kind::NoVerdict)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Location of a failure in the plan of a trial. Unknown fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// Phase of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<Phase>,
    /// Id of the step in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Line of the case file; absent for steps that lowering added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Function that the step calls, or the action of the host in this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Number of earlier executions of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<u32>,
}

impl Location {
    pub(crate) fn phase(phase: Phase) -> Self {
        Location { phase: Some(phase), ..Location::default() }
    }
}

/// Beginning of each detail of an outcome that is a hint for the user.
const HINT: &str = "Hint: ";

/// Outcome of one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Kind of outcome.
    pub kind: Kind,
    /// Stable name of the failure, by which runs are compared, for example `wrong-data:back:zero`,
    /// `api-error:hipMalloc:hipErrorOutOfMemory` or `crash:hipGraphLaunch`. A signature never contains counts,
    /// addresses or times.
    pub signature: String,
    /// Location of the failure in the plan.
    pub at: Location,
    /// Summary of the outcome for people, in one sentence.
    pub summary: String,
    /// Further lines for people, for example wrong bytes, the write that they came from, and logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(kind: Kind, signature: String, summary: String) -> Self {
        // Actions of the host have names of several words, but a signature is one word.
        let signature = signature.replace(' ', "-");
        Outcome { kind, signature, at: Location::default(), summary, details: Vec::new() }
    }

    pub(crate) fn pass() -> Self {
        let summary = "every status, value and byte was as expected".to_owned();
        Outcome::new(Kind::Pass, "pass".to_owned(), summary)
    }

    /// Returns a `no-verdict` outcome with the signature `no-verdict:WHY`.
    pub(crate) fn no_verdict(why: &str, summary: String) -> Self {
        Outcome::new(Kind::NoVerdict, format!("no-verdict:{why}"), summary)
    }

    /// Changes a failure to a `no-verdict` outcome, because its cause is something other than ROCm. `signature` is the
    /// complete new signature. `why` is the new summary; the old one becomes the first detail.
    pub fn attribute_to(mut self, signature: &str, why: String) -> Self {
        self.details.insert(0, std::mem::replace(&mut self.summary, why));
        Outcome { kind: Kind::NoVerdict, signature: signature.to_owned(), ..self }
    }

    /// Adds a hint: what the user can do if the cause is a mistake of the case or the program.
    pub fn add_hint(&mut self, hint: &str) {
        self.details.push(format!("{HINT}{hint}"));
    }

    /// Returns the details without hints, which are for the user and not for the maintainers of ROCm.
    pub fn observed_details(&self) -> impl Iterator<Item = &String> {
        self.details.iter().filter(|detail| !detail.starts_with(HINT))
    }

    pub(crate) fn at(mut self, at: Location) -> Self {
        self.at = at;
        self
    }

    pub(crate) fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }
}
