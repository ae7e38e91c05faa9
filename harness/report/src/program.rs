use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program of a trial: what ran it, with which packages, and what it checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRun {
    /// `python`, `cpp` or `command`.
    pub kind: String,
    /// What ran it, such as `Python 3.11.7`, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_on: Option<String>,
    /// The environment of its packages, by the name that `rocrepro env` knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// All packages there, with their versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Digest of the list of these with the hashes of their files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// What it checked, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
}

/// A check that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    /// Its name.
    pub name: String,
    /// Line of the program.
    pub line: u32,
    /// Whether what it states was true.
    pub held: bool,
}
