//! Options of a search.

use std::path::PathBuf;

use device::Planted;
use engine::SessionOptions;

/// Default cost of obtaining a build, in runs.
pub const INSTALL_COST: f64 = 5.0;

/// The failures that the search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureFilter {
    /// Failures with the signature of the bad end.
    Signature,
    /// All failures.
    Any,
    /// Signals, memory faults, and a library that ends the process.
    Crash,
    /// Time limits.
    Hang,
    /// Wrong bytes and values.
    Wrong,
    /// Runs that take longer than those of the good end.
    Perf,
}

/// Options of a search.
#[derive(Clone, Debug)]
pub struct BisectOptions {
    /// The trial; if none, a command is bisected.
    pub case: Option<String>,
    /// The words of the command, or the arguments of the program.
    pub command: Vec<String>,
    /// A program that runs on the device.
    pub program: Option<PathBuf>,
    /// The regular expression that the output of a failure matches.
    pub matching: Option<String>,
    /// Injected faults.
    pub faults: Vec<Planted>,
    /// Options of `rocrepro exec` that choose the device and its faults for a program.
    pub device_options: Vec<String>,
    /// The architecture of builds, if the driver does not report that of the GPU.
    pub gfx: String,
    /// A point that passes.
    pub good: Option<String>,
    /// A point that fails.
    pub bad: Option<String>,
    /// Rejects a good end that is older than the bad one.
    pub fixed: bool,
    /// Sources of builds.
    pub source: Vec<String>,
    /// A file of further sources.
    pub sources_file: Option<PathBuf>,
    /// An axis other than builds, as `NAME=VALUES`.
    pub axis: Option<String>,
    /// Further packages of each environment.
    pub packages: Vec<String>,
    /// Points to leave out.
    pub skip: Vec<String>,
    /// The failures that count.
    pub regress: FailureFilter,
    /// The rate at which bad builds fail.
    pub rate: Option<f64>,
    /// The cost of obtaining a build, in runs.
    pub install_cost: f64,
    /// Largest number of runs.
    pub budget_runs: Option<u32>,
    /// Largest number of installed builds.
    pub budget_installs: Option<u32>,
    /// Time limit in seconds.
    pub budget_seconds: Option<f64>,
    /// Disk space for kept builds, in GiB.
    pub disk_budget: Option<u32>,
    /// If true, also runs the last good build with each component of the first bad one.
    pub cross: bool,
    /// True if another search continues from this one.
    pub goes_on: bool,
    /// The folder of the journal and the answer.
    pub out: Option<PathBuf>,
    /// If true, continues the search whose journal is in the folder.
    pub resume: bool,
    /// The stack and device of the trials.
    pub session: SessionOptions,
}

impl BisectOptions {
    /// Returns the options for a trial, with every other option at its default.
    pub fn new(case: String, session: SessionOptions) -> BisectOptions {
        BisectOptions {
            case: Some(case),
            command: Vec::new(),
            program: None,
            matching: None,
            faults: Vec::new(),
            device_options: Vec::new(),
            gfx: String::new(),
            good: None,
            bad: None,
            fixed: false,
            source: Vec::new(),
            sources_file: None,
            axis: None,
            packages: Vec::new(),
            skip: Vec::new(),
            regress: FailureFilter::Signature,
            rate: None,
            install_cost: INSTALL_COST,
            budget_runs: None,
            budget_installs: None,
            budget_seconds: None,
            disk_budget: None,
            cross: false,
            goes_on: false,
            out: None,
            resume: false,
            session,
        }
    }
}
