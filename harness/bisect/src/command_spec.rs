//! The command that is bisected.

use std::path::PathBuf;

use regex::Regex;

pub(crate) struct CommandSpec {
    pub(crate) words: Vec<String>,
    /// A program that runs as under `rocrepro exec`.
    pub(crate) program: Option<PathBuf>,
    pub(crate) text: Option<Regex>,
    pub(crate) device: Vec<String>,
}
