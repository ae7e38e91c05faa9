//! The command line that a search runs at each point, in place of a trial.

use std::path::PathBuf;

use regex::Regex;

pub(crate) struct CommandSpec {
    pub(crate) words: Vec<String>,
    /// Path of a program that runs on the device, as under `rocrepro exec`.
    pub(crate) program: Option<PathBuf>,
    pub(crate) text: Option<Regex>,
    pub(crate) device: Vec<String>,
}
