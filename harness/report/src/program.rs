use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results of running the program of a program case: interpreter, packages and checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRun {
    /// Kind of program: `python`, `cpp` or `command`.
    pub kind: String,
    /// Interpreter that ran the program, as it reported itself, for example `Python 3.11.7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_on: Option<String>,
    /// Name of the Python environment, as in `rocrepro stack env`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// All packages of the Python environment, with their versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Digest of the list of packages and of the hashes of their files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Checks that the program made, in the order in which it made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
}

/// A check that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    /// Name of the check.
    pub name: String,
    /// Line of the check in the program.
    pub line: u32,
    /// True if the check passed.
    pub held: bool,
}
