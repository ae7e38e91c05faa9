//! The command that is bisected.

use std::path::PathBuf;

use regex::Regex;

/// A command, and how its failure is told.
pub(crate) struct Wanted {
    pub(crate) words: Vec<String>,
    /// A program that is run like `rocrepro exec` runs it, with the words as its arguments.
    pub(crate) program: Option<PathBuf>,
    /// What the failure says.
    pub(crate) text: Option<Regex>,
    /// The options of `exec` that name the device.
    pub(crate) device: Vec<String>,
}
