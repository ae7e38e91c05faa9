//! The parts of a session.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use device::Config;
use parking_lot::Mutex;
use supervise::{Limit, Limits, Resource};

use crate::{
    compiled::{Compiler, Unready},
    library::CasesFrom,
    own_program::OwnProgram,
    scratch::{Scratch, Temporary},
    slots::Slot,
};

/// Options of a session as they were given.
pub struct Given {
    /// Time limits, before they are adapted to the device.
    pub(super) limits: Limits,
    /// Limits of resources.
    pub(super) resources: BTreeMap<Resource, Limit>,
    /// Variables of the trials' environment.
    pub(super) environment: BTreeMap<String, String>,
    /// Command words before the worker's own.
    pub(super) launcher: Vec<String>,
    /// The folder or file of the cases; none for the built-in library.
    pub(super) cases_from: Option<CasesFrom>,
    /// The environment in which programs of cases run, whatever versions of packages they name.
    pub packages_in: Option<String>,
    /// The folder in which programs of cases start; a fresh one for each without.
    pub(super) programs_in: Option<PathBuf>,
}

/// The set-up of the emulated device.
pub(crate) struct Emulated {
    /// Its configuration without faults.
    pub(crate) config: Config,
    /// Options as typed.
    pub(super) options: Vec<String>,
    /// The folder of its library; none on a GPU.
    pub(super) folder: Option<PathBuf>,
    /// The build id of the library, as the session began.
    pub(super) build: Option<String>,
}

/// The GPUs of a session, and what it has done about them.
pub(crate) struct Gpus {
    /// None where trials run on the emulated device.
    pub(crate) slots: Vec<Slot>,
    /// The command to run where a GPU no longer works; none without words.
    pub(crate) recovery: Vec<String>,
    /// The first locks of those whose health check was made or read, and how often.
    pub(crate) checked: Mutex<BTreeMap<String, u32>>,
    /// The first locks of those that the recovery command was run for.
    pub(crate) mended: Mutex<BTreeSet<String>>,
    /// Those that were reported as left out.
    pub(crate) left_out: Mutex<BTreeSet<String>>,
}

/// The programs of a session.
pub(crate) struct Programs {
    /// This program.
    pub(super) own: Arc<OwnProgram>,
    /// The program that executes plans, where it is another one.
    pub(super) worker: Option<PathBuf>,
    /// Whether programs can have a view here, and why not.
    pub(super) views: OnceLock<Result<(), String>>,
    /// The compiler of programs of cases.
    pub(super) compiler: OnceLock<Result<Compiler, Unready>>,
}

/// The folders of a session.
pub struct Folders {
    /// Everything that is kept between runs.
    pub cache: PathBuf,
    /// Compiled kernels, kept between runs.
    pub code: PathBuf,
    /// Temporary files of workers.
    pub temporary: Temporary,
    /// Temporary files of this run.
    pub scratch: Scratch,
}
