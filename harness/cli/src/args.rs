//! Defines the command line: subcommands and options. The modules of `commands` execute the subcommands.

mod baseline;
mod bisect;
mod bugs;
mod case;
mod case_files;
mod complete;
mod demo;
mod device;
mod diff;
mod doctor;
mod env;
mod exec;
mod export;
mod help;
mod matrix;
mod minimise;
mod mitigate;
mod new;
mod old_names;
mod program;
mod record;
mod records;
mod redact;
mod report;
mod selection;
mod show;
mod stack;
mod store;
mod unfinished;
mod words;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use ::report::ViewOptions;
use engine::library::CasesFrom;

pub(crate) use self::complete::script;
pub(crate) use self::device::{Audit, Compare, DeviceCommand, ProbeInside};
pub(crate) use self::help::{command, parse};
pub(crate) use self::{
    baseline::Baselines,
    bisect::{Bisect, Regress},
    bugs::{BugId, Bugs, Retest},
    case::{Case, Explain, List, Schema},
    demo::Demo,
    device::Device,
    diff::Diff,
    doctor::Doctor,
    env::Env,
    exec::{Exec, HomeKind, ProgramLaunch},
    export::Export,
    matrix::Matrix,
    minimise::{Minimise, Reducer},
    mitigate::Mitigate,
    new::New,
    program::{JudgeOptions, OwnProgram},
    record::Record,
    records::Records,
    redact::Redact,
    report::Report,
    show::Show,
    stack::{Rocm, Stack},
    store::{History, Merge, Store, StoreFile},
    unfinished::Unfinished,
};

const EXAMPLES: &str = "\
Examples:
  rocrepro demo                              five bugs of ROCm 7.2.4 in a few seconds
  rocrepro run --rocm debian:7.2.4           fetch ROCm 7.2.4 and run every case
  rocrepro run copies --rocm /opt/rocm       one family, on an installed ROCm
  rocrepro exec ./my-hip-program             your program on the emulated device
  rocrepro case explain graphs/long-chain    what a case does and why

Exit codes: 0 as expected, 1 unexpected result, 2 usage, 3 no verdict,
4 nothing ran. `rocrepro COMMAND -h` is short, `--help` complete.";

const RUN: &str = "\
Examples:
  rocrepro run                                everything, on ROCm 7.2.4
  rocrepro run graphs 'copies/*-sizes'        a family and a pattern
  rocrepro run copies --rocm debian:6.4.3 --gfx gfx90a --record runs.jsonl
  rocrepro run 'copies/small-sizes[bytes=2,host=pinned]' --trials
  rocrepro run copies/tensors --fault copy.zero,probability=0.1,seed=7 --repeat 20
  rocrepro run capture --schedule lazy        run work as late as is legal; seeded=7: in a random order
  rocrepro run copies --launcher 'srun -n1'   start each trial through a batch system

Exit codes: 0 as expected, 1 unexpected result, 2 usage, 3 no verdict, 4 nothing ran.";

const PROVE: &str = "\
Examples:
  rocrepro prove                        all cases, each under its declared faults
  rocrepro prove copies/small-sizes     one case
  rocrepro prove graphs --rocm debian:6.4.3 --gfx gfx1100
  rocrepro prove copies --schedules 8   also in eight further legal orders of the work

Exit codes: 0 proven, 1 a case misses a fault or fails without one, 2 usage, 3 no verdict, 4 nothing ran.";

const COMPLETIONS: &str = "\
Examples:
  rocrepro completions bash >~/.local/share/bash-completion/completions/rocrepro
  rocrepro completions zsh > ~/.zfunc/_rocrepro
  rocrepro completions fish > ~/.config/fish/completions/rocrepro.fish

The script completes commands, options, cases and their trials, stacks, architectures, libraries and faults. It asks
rocrepro for the words, so it does not become outdated.";

const MAN: &str = "\
Examples:
  rocrepro man ~/.local/share/man/man1 && man rocrepro-run";

/// Reproduce, prove and compare ROCm bugs over real ROCm releases, with or without a GPU.
#[derive(Parser)]
#[command(name = "rocrepro", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show five bugs of ROCm 7.2.4, an injected fault and a race
    #[command(after_help = demo::EXAMPLES)]
    Demo(Demo),
    /// Run cases and compare the results with the expected ones
    #[command(after_help = RUN)]
    Run(Run),
    /// Run your own program on a stack and device
    #[command(after_help = exec::EXAMPLES)]
    Exec(Exec),
    /// Record the HIP calls of your own program
    #[command(after_help = record::EXAMPLES)]
    Record(Record),
    /// Show that cases detect the faults that they declare
    #[command(after_help = PROVE)]
    Prove(Prove),
    /// Run cases on several stacks and architectures, write a page
    #[command(after_help = matrix::EXAMPLES)]
    Matrix(Matrix),
    /// Shrink a failing trial while it fails in the same way
    #[command(after_help = minimise::EXAMPLES)]
    Minimise(Minimise),
    /// Find what makes a failure go away
    #[command(after_help = mitigate::EXAMPLES)]
    Mitigate(Mitigate),
    /// Find the build that broke or fixed a trial
    #[command(after_help = bisect::EXAMPLES)]
    Bisect(Box<Bisect>),
    /// Print a trial as a stand-alone C++ program
    #[command(after_help = export::EXAMPLES)]
    Export(Export),
    /// Write an upstream issue for a failure, or a comment if known
    #[command(after_help = report::EXAMPLES)]
    Report(Report),
    /// List, explain and check cases
    #[command(subcommand, after_help = case::EXAMPLES)]
    Case(Case),
    /// Show, compare, merge, store and redact the records of runs
    #[command(subcommand, after_help = records::EXAMPLES)]
    Records(Records),
    /// List, fetch and locate ROCm; make Python environments
    #[command(subcommand, after_help = stack::EXAMPLES)]
    Stack(Stack),
    /// Print and check the environment of this machine
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(Doctor),
    /// Examine the emulated device
    #[command(after_help = device::EXAMPLES)]
    Device(Device),
    /// Print the script that completes commands in a shell
    #[command(after_help = COMPLETIONS, hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, for packagers of distributions
    #[command(after_help = MAN, hide = true)]
    Man {
        /// The folder for the manual pages
        folder: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Selection {
    /// Cases (`copies/small-sizes`), folders (`copies`) or patterns (`*small*`); also with values
    /// (`copies/small-sizes[bytes=2]`); or a case file of yours (`my-case.yaml`) or a recording (`program.trace`)
    /// [default: every case]
    #[arg(value_name = "CASE")]
    pub(crate) cases: Vec<String>,

    /// Leave out these cases or trials, named in the same way; may be repeated
    #[arg(long, value_name = "CASE")]
    pub(crate) exclude: Vec<String>,

    #[command(flatten)]
    pub(crate) from: Origin,
}

/// Options that select where the cases come from.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    /// Read cases from this folder, file or recording; the built-in cases are then left out
    #[arg(long, value_name = "PATH")]
    cases_from: Option<PathBuf>,

    /// Trust the cases of --cases-from like a program of your own; such cases may set any variable, include any header
    /// and write files anywhere
    #[arg(long)]
    trust: bool,
}

impl Origin {
    /// Returns the file or folder that the options select; `None` means the built-in cases.
    pub(crate) fn selected_source(&self) -> Option<CasesFrom> {
        let path = self.cases_from.clone()?;
        Some(CasesFrom { path, trusted: self.trust })
    }

    /// Returns these options and their values, for a command line that repeats this one.
    pub(crate) fn words(&self) -> Vec<(&'static str, String)> {
        let path = self.cases_from.iter();
        path.map(|path| ("--cases-from", path.display().to_string())).collect()
    }

    /// Returns true if the cases may do everything that a program can do.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trust
    }
}

/// Options about Debian mirrors.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Mirrors {
    /// Debian mirrors to fetch from; each package comes from the first that has it [default: this machine's own if it
    /// runs Debian, then Debian's, then Debian's archive of old versions]
    #[arg(long, value_name = "URL", value_delimiter = ',', env = "ROCREPRO_MIRROR")]
    pub(crate) mirror: Vec<String>,
}

/// Default architecture of the emulated device.
pub(crate) const DEFAULT_GFX: &str = "gfx1151";

/// Default architectures on releases whose compilers do not know gfx1151: the option, its value and the architecture.
const OLD_RELEASES: [(&str, &str, &str); 2] =
    [("rocm", "debian:5.7.1", "gfx1100"), ("rocm", "debian:5.2.3", "gfx90a")];

/// Options about the stack and the device that a program runs on.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct TargetOptions {
    /// The ROCm stack to run on
    #[arg(long, value_name = "SPEC", env = "ROCREPRO_ROCM", default_value = "debian:7.2.4", help = rocm(), long_help = rocm_in_full())]
    pub(crate) rocm: String,

    /// Fetch these libraries with the stack; hiprand, hipblaslt, rocblas, ...; dev (headers and compiler), tests (AMD's
    /// own); or everything that a framework needs: cupy, jax, llama (6.4.3 only), onnxruntime, triton
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub(crate) with: Vec<String>,

    /// The device below the HIP runtime; `auto` uses a GPU if this machine has one
    #[arg(long, value_enum, default_value_t = DeviceKind::Auto, env = "ROCREPRO_DEVICE_KIND")]
    pub(crate) device: DeviceKind,

    /// Architecture of the emulated device [default: gfx1151; for the old releases gfx1100 (5.7.1) and gfx90a (5.2.3)]
    #[arg(
        long,
        alias = "arch",
        value_name = "GFX",
        env = "ROCREPRO_GFX",
        default_value = DEFAULT_GFX,
        default_value_ifs = OLD_RELEASES,
        hide_default_value = true
    )]
    pub(crate) gfx: String,

    #[command(flatten)]
    pub(crate) mirrors: Mirrors,

    /// Set an environment variable; the environment is otherwise clean
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,

    /// Start each process through another command, such as `srun` or `podman run ...`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) launcher: Option<String>,
}

/// Options about the stack, the device and the limits of trials.
#[derive(Parser, Clone, Debug, PartialEq)]
pub(crate) struct ExecutionOptions {
    #[command(flatten)]
    pub(crate) target: TargetOptions,

    /// Number of trials that run at once [default: on the emulated device, one more than there are processors; on a GPU
    /// 1, or one on each of `--cards`]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,

    /// Run on these GPUs, one trial at a time on each; a trial sees only its own GPU: `all`, or numbers, PCI addresses
    /// or UUIDs, with commas. Without this option, trials run on the GPUs that ROCREPRO_CARDS names, or else on those
    /// that ROCR_VISIBLE_DEVICES names; without these variables, trials see every GPU, use the first, and run one at a
    /// time
    #[arg(long, value_name = "GPUS", value_delimiter = ',')]
    pub(crate) cards: Vec<String>,

    /// Longest time of one trial, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = ExecutionOptions::TIMEOUT, value_parser = seconds)]
    pub(crate) timeout: u32,

    /// Longest silence of one trial, in seconds; a trial that reports nothing for longer counts as a hang. While a
    /// trial computes, its processor time counts instead of the time of the clock
    #[arg(long, value_name = "SECONDS", default_value_t = ExecutionOptions::QUIET_TIMEOUT, value_parser = seconds)]
    pub(crate) quiet_timeout: u32,

    /// Delay work on purpose, for times that a seed determines: `seeded=7` launches kernels that spin before the
    /// copies, memory sets, kernel launches, host functions and graph launches of the trial's body. A missing
    /// synchronisation then shows more often, on a GPU too
    #[arg(long, value_name = "LATE")]
    pub(crate) late: Option<String>,

    /// Set a limit of each trial: `stack=64M`, `core=unlimited`, `files=4096`, `memory=8G` [default: stack=8M, core=0,
    /// files=1024, and none of file-size, memory and data; processes: the machine's]
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) limit: Vec<String>,

    /// Run program cases in this Python environment, whatever package versions the cases name: the folder of a venv or
    /// conda environment, or a name from `rocrepro stack env`
    #[arg(long = "in", value_name = "FOLDER|NAME")]
    pub(crate) environment: Option<String>,

    /// If a GPU fails the health check after a failed trial, run this command once, such as a reset, and check again.
    /// Without this option, no further trial runs on that GPU
    #[arg(long, value_name = "COMMAND")]
    pub(crate) recover: Option<String>,

    /// The program that executes plans, instead of this one
    #[arg(long, value_name = "PATH", hide = true)]
    pub(crate) worker: Option<PathBuf>,
}

impl ExecutionOptions {
    /// Default time limit of a trial, in seconds.
    pub(crate) const TIMEOUT: u32 = engine::session::TIMEOUT;
    /// Default time for which a trial may report nothing, in seconds.
    pub(crate) const QUIET_TIMEOUT: u32 = engine::session::QUIET_TIMEOUT;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceKind {
    Auto,
    Emulated,
    Gpu,
}

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) on: ExecutionOptions,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    /// Inject a fault, such as `copy.zero`; also with parameters: `copy.late,ms=50,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// Run each trial this many times and print the failure rate; each run is a fresh process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) repeat: u32,

    /// Append a JSON record of each trial to this file; each record is written as soon as its trial has ended
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Write a JUnit report
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Write a report in the Test Anything Protocol, version 14
    #[arg(long, value_name = "FILE")]
    pub(crate) tap: Option<PathBuf>,

    /// Write annotations for GitHub Actions; a step shows them with `cat FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) annotations: Option<PathBuf>,

    /// Show a line for each trial instead of each case
    #[arg(long)]
    pub(crate) trials: bool,

    #[command(flatten)]
    pub(crate) details: Details,

    /// Run only this part of the trials: `2/5` is the second of five. Which trial is in which part depends on its name
    /// alone; `rocrepro records show` puts the records of all parts together
    #[arg(long, value_name = "NUMBER/OF")]
    pub(crate) shard: Option<::report::Shard>,

    #[command(flatten)]
    pub(crate) known: Baselines,

    /// Start no further trial after the first unexpected failure
    #[arg(long)]
    pub(crate) fail_fast: bool,

    /// Once this many trials of a case have hung, run no more trials of that case
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_hangs: Option<u32>,

    /// Start no further trial after this many seconds; `--resume` continues the run
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget_seconds: Option<u32>,

    /// Resume the last run in the record file; its finished trials do not run again
    #[arg(long, requires = "record")]
    pub(crate) resume: bool,

    /// Id of the process that started this one; when that process ends, this one ends too
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) below: Option<i32>,
}

/// Options about the details of a result table.
#[derive(Args)]
pub(crate) struct Details {
    /// Show each case that passed, and the signatures of expected failures
    #[arg(long, short)]
    verbose: bool,

    /// List the trials that are skipped, by reason; `run` then runs no trial
    #[arg(long)]
    pub(crate) explain_skips: bool,
}

impl Details {
    /// Returns the options of the table; `trials` shows a line for each trial.
    pub(crate) fn view(&self, trials: bool) -> ViewOptions {
        ViewOptions { trials, verbose: self.verbose, skips: self.explain_skips }
    }
}

/// Options of the emulated device.
#[derive(Args)]
pub(crate) struct Emulation {
    /// When the emulated device executes work: `eager`, `lazy` (as late as is legal), `seeded=7` (a legal order that
    /// the seed determines), `waves=1000` (each wave of a workgroup executes 1000 instructions in turn, instead of 16),
    /// `late-results` (loaded values reach the registers of a kernel only when it waits for them)
    #[arg(long, value_name = "SCHEDULE", default_value = "eager")]
    pub(crate) schedule: String,

    /// Report races, and accesses to memory out of bounds, freed or never written
    ///
    /// Watches kernels and copies. This is slow. Each mistake is reported once, and the work continues as on hardware;
    /// `--sanitize=stop` stops at the first mistake
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(crate) sanitize: Option<String>,

    /// Set up the emulated device: `memory=256M`, `gtt=1G` (memory of an APU in addition to its carve-out),
    /// `devices=2`, `large-bar=yes` (the host can access all device memory; for the defaults see
    /// docs/device-options.md), `threads=4` (threads that execute the workgroups of a kernel; accesses of different
    /// workgroups to the same bytes then have no fixed order; the sanitizer uses one thread), `patience=60` (seconds
    /// without progress after which the device reports a kernel as hung; default 10), `level=thunk` (emulate the
    /// thunk library instead of the HSA runtime, and run the released HSA runtime of ROCm 7.2.4 on top of it; only for
    /// cases with steps)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) device_option: Vec<String>,
}

#[derive(Args)]
pub(crate) struct Prove {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) on: ExecutionOptions,

    /// Append a JSON record of each trial to this file; each record is written as soon as its trial has ended
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Run each trial in this many further legal orders of its work, lazy and by seed, and refuse cases whose result
    /// differs; the sanitizer then reports the reason, in a run that `--record` leaves out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) schedules: u32,

    /// Test the checks of the cases: remove each check, expected status and expected value in turn, and report those
    /// that are not needed to detect any declared fault; `--record` does not record these runs
    #[arg(long)]
    pub(crate) mutate: bool,
}

/// If a completion script started this process, prints the completions and exits.
pub(crate) fn complete() {
    complete::complete_and_exit(command);
}

fn rocm() -> String {
    let forms: Vec<&str> = stacks::spellings().iter().map(|spelling| spelling.form).collect();
    format!("ROCm stack to use: {}", forms.join(", "))
}

/// Returns the long help of `--rocm`, which lists every spelling of a stack.
fn rocm_in_full() -> String {
    let one = |spelling: &stacks::Spelling| format!("\n* {}: {}", spelling.form, spelling.about);
    let all: String = stacks::spellings().iter().map(one).collect();
    format!("ROCm stack to use, fetched when needed:{all}")
}

/// Parses a number of seconds, written as `120` or `120s`.
fn seconds(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| "expected a number of seconds, such as 120 or 120s".to_owned())
}
