use std::path::PathBuf;

use bisect::INSTALL_COST;
use clap::{Args, ValueEnum};

use super::{ExecutionOptions, Origin};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro bisect graphs/long-chain --axis nodes=200..30000
  rocrepro bisect capture/unjoined-fork --good last --bad first    find the fix
  rocrepro bisect --source dir:/builds --good first --bad last -- ./test.sh
  rocrepro bisect graphs/long-chain[nodes=30000] --good debian:6.4.3 --bad debian:7.2.4 --gfx gfx90a
  rocrepro bisect copies/tensors --axis env:GPU_MAX_HW_QUEUES=1,2,4,8 --rate 0.2
  rocrepro bisect copies/tensors --axis rocm=/builds/a,/builds/b,/builds/c --budget-seconds 3600
  rocrepro bisect graphs/empty --source nightly --good 2026-07-01 --bad 2026-08-20 --to commits
  rocrepro bisect --axis venv=/envs/1,/envs/2,/envs/3 -- sh -c '$ROCREPRO_VALUE/bin/python repro.py'
  rocrepro bisect --program ./repro --good debian:6.4.3 --bad debian:7.2.4 -- 4096     your own HIP program
  rocrepro bisect --good debian:6.4.3 --bad debian:7.2.4 --match 'invalid device' -- python3 repro.py
  rocrepro bisect mine --cases-from mine.yaml --trust --source pypi:triton --good 3.5.0 --bad last    your own program case
  rocrepro bisect --source pypi:triton --good 3.5.0 --bad last --packages numpy -- python3 repro.py
  rocrepro bisect --replay rocrepro-long-chain/bisect.jsonl    repeat the decisions without running anything

A command exits with 0 if it passes, with 125 if the build cannot be tested, and with anything else if it fails. Two failures are
the same if they have the same exit code or signal and the same last line of output (in Python: the exception), apart from numbers;
other failures do not count. The command gets the folder of the build in ROCREPRO_PREFIX, the folders of its libraries in
ROCREPRO_LIBRARIES, and the value of the axis in ROCREPRO_VALUE. With `pypi:NAME` each version gets an environment, and the command runs
there as under `rocrepro exec --in`.
The values of an axis `venv` are folders of virtual environments; the command runs as under `rocrepro exec`, with that environment.

Exit codes: 0 found, 1 not reproducible, 2 usage, 3 an end is unusable (the good one fails, or one cannot be tested), 4 no single
change found (the budget is spent, or there are several changes), 5 a problem of this machine.";

#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Bisect {
    /// The trial, such as `graphs/long-chain[nodes=30000]`; a case that has only one trial needs no values
    #[arg(value_name = "CASE", required_unless_present_any = ["command", "program", "replay"])]
    pub(crate) case: Option<String>,

    /// A point where the trial passes; a build, a day, a push (`361a3e7`, `361a3e7@2026-07-04`), a value of the axis,
    /// `first` or `last` [default with --axis: first]
    #[arg(long, value_name = "V")]
    pub(crate) good: Option<String>,

    /// A point where the trial fails; to look for a fix, name a point before the good one [default with --axis: last]
    #[arg(long, value_name = "V")]
    pub(crate) bad: Option<String>,

    /// Search for a fix: the good end must come after the bad one
    #[arg(long)]
    pub(crate) fixed: bool,

    /// Where builds come from, such as `debian`; `dir:FOLDER` for a folder with one subfolder per build, or a
    /// configured source; `pypi:NAME` for the versions of a Python package [default: debian]
    #[arg(long, value_name = "SOURCE", conflicts_with = "axis")]
    pub(crate) source: Vec<String>,

    /// A file of download sources, which adds to the built-in ones [default: rocrepro/sources.toml in the configuration
    /// folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) sources_file: Option<PathBuf>,

    /// Afterwards, search the builds of this source between the two builds that the first search found: `commits` for
    /// the pushes between two nightly builds. Each of the two searches may spend the whole budget; the second keeps its
    /// files in the subfolder `commits`
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["axis", "replay"])]
    pub(crate) to: Option<String>,

    /// Search along values or LOW..HIGH instead of builds. NAME=V1,V2,... or NAME=LOW..HIGH, where NAME is an axis of
    /// the case, `env:VARIABLE`, `rocm` (stacks in this order), `pypi:NAME` (versions of a Python package), or with a
    /// command any name
    #[arg(long, value_name = "NAME=VALUES")]
    pub(crate) axis: Option<String>,

    /// With versions of a Python package (`pypi:NAME`): further packages to install in each environment, as for pip
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    pub(crate) packages: Vec<String>,

    /// Leave this point out; may be repeated
    #[arg(long, value_name = "V")]
    pub(crate) skip: Vec<String>,

    /// Print the points of the search from the good end to the bad one, with dates and sizes, and run nothing
    #[arg(long, conflicts_with_all = ["dry_run", "resume"])]
    pub(crate) list: bool,

    /// Print the expected number of runs and builds, the bytes and the time of the search, and run nothing
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,

    /// Failures that count as bad; a build that fails in another way counts as untestable
    #[arg(long, value_enum, default_value_t = Regress::Signature)]
    pub(crate) regress: Regress,

    /// Inject a fault, such as `copy.zero`; also with parameters: `copy.zero,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// The failure rate of bad builds, if known, above 0 and at most 1
    #[arg(long, value_name = "P", value_parser = rate)]
    pub(crate) rate: Option<f64>,

    /// Cost of getting a build, expressed as a number of runs; above 30 the search makes more runs on a build before it
    /// gets another
    #[arg(long, value_name = "RUNS", default_value_t = INSTALL_COST)]
    pub(crate) install_cost: f64,

    /// Make at most this many runs; when they are spent, the answer is a range [default: 2000]
    #[arg(long, value_name = "N")]
    pub(crate) budget_runs: Option<u32>,

    /// Fetch at most this many builds, including the two ends
    #[arg(long, value_name = "N")]
    pub(crate) budget_installs: Option<u32>,

    /// Spend at most this many seconds on fetching builds and running them
    #[arg(long, value_name = "S")]
    pub(crate) budget_seconds: Option<f64>,

    /// Keep at most this many gibibytes of fetched builds and unfinished downloads; the last good and the first bad
    /// build stay in any case
    #[arg(long, value_name = "GIB")]
    pub(crate) disk_budget: Option<u32>,

    /// Afterwards, run the last good build with each component of the first bad one; the components are HIP, the HSA
    /// runtime, the compiler and the math libraries
    #[arg(long, conflicts_with = "axis")]
    pub(crate) cross: bool,

    /// The folder for the journal and the answer [default: rocrepro-<case>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Continue the bisect whose journal is in the folder
    #[arg(long)]
    pub(crate) resume: bool,

    /// Repeat the decisions of this journal without running anything
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "out"])]
    pub(crate) replay: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) from: Origin,

    #[command(flatten)]
    pub(crate) on: ExecutionOptions,

    /// Run this program in each build and on the device, as `rocrepro exec` does; its arguments come after `--`
    #[arg(long, value_name = "PATH", conflicts_with_all = ["case", "cases_from"])]
    pub(crate) program: Option<PathBuf>,

    /// With a command or a program: only a run whose output matches this regular expression counts as the failure
    #[arg(long = "match", value_name = "REGEX", conflicts_with = "case")]
    pub(crate) matching: Option<String>,

    /// Run this command instead of a case
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["case", "cases_from"])]
    pub(crate) command: Vec<String>,
}

/// Failures that count as the one that is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Regress {
    /// Failures with the same signature as that of the bad end
    Signature,
    /// All failures
    Any,
    /// Signals, memory faults, and libraries that exit the process
    Crash,
    /// Runs that exceed a time limit
    Hang,
    /// Wrong bytes and values
    Wrong,
    /// Runs that take longer than the good end does
    Perf,
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|p| *p > 0.0 && *p <= 1.0)
        .ok_or_else(|| "a rate must be above 0 and at most 1".to_owned())
}
