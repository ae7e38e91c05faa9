use std::fmt;

use plan::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of outcome.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Everything was as the plan says, to the end of the process.
    Pass,
    /// A check read other bytes than program order gives.
    WrongData,
    /// A call returned another status or value than expected.
    ApiError,
    /// A kernel did not compile.
    CompileError,
    /// A signal ended the process while the trial ran.
    Crash,
    /// The device reported an access to memory that is not there.
    MemoryFault,
    /// A call did not return in time.
    Hang,
    /// The trial was over, and the process did not end well.
    TeardownCrash,
    /// A library ended the process by `exit`.
    LibraryExit,
    /// Something was not given back.
    Leak,
    /// Everything was as the plan says, and the driver of the GPU logged a fault, a time-out or a reset.
    KernelError,
    /// The stack lacks something that the case needs.
    Skip,
    /// The run proves nothing.
    NoVerdict,
}

impl Kind {
    /// Every kind.
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

    /// The name that records and signatures use.
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

    /// Whether the stack or device did something wrong.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Kind::Pass | Kind::Skip | Kind::NoVerdict)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where in its plan a trial failed; what is not known is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<Phase>,
    /// The step's id in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Line of the case file; none for steps that lowering added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The function that the step calls, or what the host does in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// How often the step was made before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<u32>,
}

impl Location {
    pub(crate) fn phase(phase: Phase) -> Self {
        Location { phase: Some(phase), ..Location::default() }
    }
}

/// What happened in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The kind.
    pub kind: Kind,
    /// The stable identity of what happened, by which runs are compared: `wrong-data:back:zero`,
    /// `api-error:hipMalloc:hipErrorOutOfMemory`, `crash:hipGraphLaunch`. Its parts never hold
    /// counts, addresses or times.
    pub signature: String,
    /// Where.
    pub at: Location,
    /// One sentence for people.
    pub summary: String,
    /// More lines for people: bytes, where they came from, logs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(kind: Kind, signature: String, summary: String) -> Self {
        // Host work has a name of several words; a signature is one word.
        let signature = signature.replace(' ', "-");
        Outcome { kind, signature, at: Location::default(), summary, details: Vec::new() }
    }

    pub(crate) fn pass() -> Self {
        let summary = "every status, value and byte was as the plan says".to_owned();
        Outcome::new(Kind::Pass, "pass".to_owned(), summary)
    }

    /// `why` is a word or two for the signature.
    pub(crate) fn no_verdict(why: &str, summary: String) -> Self {
        Outcome::new(Kind::NoVerdict, format!("no-verdict:{why}"), summary)
    }

    /// The same failure where it says nothing about ROCm: something else explains it. `signature` is a whole one.
    pub fn put_down_to(mut self, signature: &str, why: String) -> Self {
        self.details.insert(0, std::mem::replace(&mut self.summary, why));
        Outcome { kind: Kind::NoVerdict, signature: signature.to_owned(), ..self }
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
