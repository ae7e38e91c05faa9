//! Options of a bisect.

use std::path::PathBuf;

use device::FaultSpec;
use engine::SessionOptions;

/// Default cost of obtaining a build, expressed as a number of runs.
pub const INSTALL_COST: f64 = 5.0;

/// The choice of failures that count in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureFilter {
    /// Failures with the same signature as that of the bad end.
    Signature,
    /// All failures.
    Any,
    /// Crashes: signals, memory faults, and a library that ends the process.
    Crash,
    /// Hangs: runs that exceed a time limit.
    Hang,
    /// Wrong results: bytes or values that differ from the expected ones.
    Wrong,
    /// Slow runs: runs that take longer than those of the good end.
    Perf,
}

/// Options of a bisect.
#[derive(Clone, Debug)]
pub struct BisectOptions {
    /// Id of the trial; `None` to bisect a command line.
    pub case: Option<String>,
    /// The command line, or the arguments of `program`.
    pub command: Vec<String>,
    /// Path of a program that runs on the device, as under `rocrepro exec`; `None` for a trial or another command line.
    pub program: Option<PathBuf>,
    /// Regular expression that the output must match so that a failure counts.
    pub matching: Option<String>,
    /// Injected faults.
    pub faults: Vec<FaultSpec>,
    /// Options of `rocrepro exec` that choose the device and its faults for a program.
    pub device_options: Vec<String>,
    /// The architecture whose builds are used if the driver does not report the architecture of the GPU.
    pub gfx: String,
    /// Name of the good end, a point that passes. `None` is allowed only with `axis`, and means its first point.
    pub good: Option<String>,
    /// Name of the bad end, a point that fails. `None` is allowed only with `axis`, and means its last point.
    pub bad: Option<String>,
    /// True to reject a good end that is older than the bad one, because the user searches for a fix.
    pub fixed: bool,
    /// Names of the download sources of builds; or `pypi:NAME` for the versions of a Python package.
    pub source: Vec<String>,
    /// Path of a file that defines further download sources.
    pub sources_file: Option<PathBuf>,
    /// An axis other than builds, as `NAME=VALUES`.
    pub axis: Option<String>,
    /// Further packages in each Python environment, if the points are versions of a Python package.
    pub packages: Vec<String>,
    /// Names of points to exclude.
    pub skip: Vec<String>,
    /// The failures that count in the search.
    pub regress: FailureFilter,
    /// The expected rate at which bad builds fail, above 0 and at most 1.
    pub rate: Option<f64>,
    /// The cost of obtaining a build, expressed as a number of runs.
    pub install_cost: f64,
    /// Largest number of runs; `None` for the default of the crate `search`.
    pub budget_runs: Option<u32>,
    /// Largest number of builds to install; `None` for no limit.
    pub budget_installs: Option<u32>,
    /// Time limit of the search, in seconds.
    pub budget_seconds: Option<f64>,
    /// Disk space for builds that are kept, in GiB.
    pub disk_budget: Option<u32>,
    /// True to exchange one component of the last good build at a time for that of the first bad build, and to run each
    /// of these mixtures.
    pub cross: bool,
    /// True if a second search will follow, over the builds between the two builds that this search finds.
    pub goes_on: bool,
    /// Folder for the journal and the answer.
    pub out: Option<PathBuf>,
    /// True to continue the search whose journal is in the folder.
    pub resume: bool,
    /// The stack and device of the trials.
    pub session: SessionOptions,
}

impl BisectOptions {
    /// Returns the options for bisecting a trial, with the defaults for all other options.
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
