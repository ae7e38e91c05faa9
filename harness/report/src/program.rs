use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Run of a program case: interpreter, packages and checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRun {
    /// `python`, `cpp` or `command`.
    pub kind: String,
    /// Interpreter, for example `Python 3.11.7`, as it reported itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_on: Option<String>,
    /// Python environment, by its name in `rocrepro stack env`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// All packages of the environment, with versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Digest of the package list with the hashes of the packages' files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Checks that the program made, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
}

/// A check that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    /// Name of the check.
    pub name: String,
    /// Line in the program.
    pub line: u32,
    /// True if the check passed.
    pub held: bool,
}
