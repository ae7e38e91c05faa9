use std::path::PathBuf;

use clap::Args;

use super::{DeviceKind, Mirrors, Selection, seconds};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro matrix --rocm debian:7.2.4,debian:6.4.3 --gfx gfx1151 --out matrix
  rocrepro matrix graphs --on debian:5.7.1@gfx1030 --out matrix
  rocrepro matrix --store results.db --out page    a page of the stored runs; runs nothing
  rocrepro matrix --rocm system --device gpu --out matrix
  rocrepro matrix --on debian:7.2.4@gfx1151 --out matrix --store results.db    adds the run to a store and shows all runs of the store

Each column is a run of its own, with its records in a file of the folder. Trials with a record do not run again, so the same
command continues an interrupted run. FOLDER/index.html is the page. It is one file and loads nothing else; a short script searches in it.

Exit codes: 0 as expected, 1 unexpected result in a column, 2 usage, 3 a planned trial has no verdict, 4 nothing ran.";

#[derive(Args)]
pub(crate) struct Matrix {
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Stacks, as `run --rocm` takes them; each stack gets a column for each architecture
    #[arg(long, value_name = "SPEC", value_delimiter = ',')]
    pub(crate) rocm: Vec<String>,

    /// Architectures of the emulated device [default: gfx1151]
    #[arg(long, value_name = "GFX", value_delimiter = ',')]
    pub(crate) gfx: Vec<String>,

    /// One more column: a stack and an architecture, such as `debian:5.7.1@gfx1030`
    #[arg(long, value_name = "SPEC@GFX", value_delimiter = ',')]
    pub(crate) on: Vec<String>,

    /// Python environments in which programs of cases run, as folders or as names from `rocrepro stack env`; each stack
    /// and architecture gets a column for each environment
    #[arg(long = "in", value_name = "FOLDER|NAME", value_delimiter = ',')]
    pub(crate) environments: Vec<String>,

    /// The device below the HIP runtime; a GPU has its own architecture, so leave out --gfx there
    #[arg(long, value_enum, default_value_t = DeviceKind::Emulated)]
    pub(crate) device: DeviceKind,

    /// Libraries to fetch with each stack, such as rocblas and hipblaslt
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub(crate) with: Vec<String>,

    #[command(flatten)]
    pub(crate) mirrors: Mirrors,

    /// Number of trials that run at once in each column [default: on the emulated device, one more than there are
    /// processors; on a GPU 1]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,

    /// Longest time without progress of one trial, in seconds [default: as for `run`]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) quiet_timeout: Option<u32>,

    /// A results store: the runs are added to the store, and the page has a column for each stack and device in it,
    /// with the earlier runs
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// The folder for the record files and the page
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
}
