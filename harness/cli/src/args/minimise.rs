use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Emulation, ExecutionOptions, OwnProgram, Selection};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro minimise graphs/fork-join --fault kernel.drop --out small
  rocrepro minimise 'graphs/fork-join[words=1024,mode=global]' --rocm debian:5.2.3
  rocrepro run --cases-from small/case.yaml --fault kernel.drop    still fails
  rocrepro minimise copies/tensors --fault copy.zero,probability=0.2,seed=1 --budget-seconds 120
  rocrepro minimise copies/tensors --fault copy.zero,probability=0.2,seed=1 --resume   continue a stopped search
  rocrepro minimise 'programs/graph-output-reused' --fault kernel.drop   shorten a program case
  rocrepro minimise -- python3 train.py    shorten your own program

The program of a case is shortened as long as it fails three times in the same way and still passes on the passing release: first by
C-Vise or Shrink Ray, if installed and if some release passes (--reducer), then by lines and blocks. The folder gets its text and
case.yaml.

Of several trials the simplest one that fails is reduced. The folder gets case.yaml, minimise.json and the journal minimise.jsonl;
other failures found during the search are kept there as other-N.yaml.

Exit codes: 0 minimal, 1 smaller, but perhaps not minimal (the budget was spent), 2 usage, 3 no verdict, 4 nothing fails.";

#[derive(Args)]
pub(crate) struct Minimise {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) own: OwnProgram,
    #[command(flatten)]
    pub(crate) on: ExecutionOptions,
    #[command(flatten)]
    pub(crate) emulation: Emulation,

    /// Inject a fault, such as `copy.zero`; also with parameters: `copy.zero,probability=0.2,seed=7`; each run gets a
    /// seed of its own
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// Start at most this many processes
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget_runs: u32,

    /// Start no run after this many seconds of search; the current run still ends, and the best result so far is
    /// written
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget_seconds: u32,

    /// A release on which the trial passes, such as `debian:5.7.1`: every smaller case must pass there, too [default:
    /// the nearest fetched or installed release on which the trial passes]
    #[arg(long, value_name = "STACK")]
    pub(crate) passes_on: Option<String>,

    /// For a program case: the tool that shrinks the program by its syntax, before lines are taken out. The tool runs
    /// with your rights, like the program. `auto` uses no tool if the program passes on no release, because the tool
    /// would then soon produce a program that is itself wrong
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Reducer::Auto)]
    pub(crate) reducer: Reducer,

    /// The folder for the results [default: rocrepro-<case name>]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Continue the search whose journal is in the folder
    #[arg(long)]
    pub(crate) resume: bool,
}

/// The tool that shrinks a program before lines are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reducer {
    /// cvise or shrinkray if it is on PATH: for C++ cvise first, for Python shrinkray first
    Auto,
    /// C-Vise
    Cvise,
    /// Shrink Ray
    Shrinkray,
    /// No tool: lines and blocks only
    None,
}
