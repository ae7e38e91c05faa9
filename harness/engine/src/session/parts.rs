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
pub struct GivenOptions {
    /// Time limits, before they are adapted to the device.
    pub(super) limits: Limits,
    pub(super) resources: BTreeMap<Resource, Limit>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) launcher: Vec<String>,
    pub(super) cases_from: Option<CasesFrom>,
    /// The environment in which program cases run, in place of the package versions that they name.
    pub packages_in: Option<String>,
    pub(super) programs_in: Option<PathBuf>,
}

pub(crate) struct Emulated {
    /// Configuration without faults.
    pub(crate) config: Config,
    /// Options as typed.
    pub(super) options: Vec<String>,
    /// Folder of the device's library; none on a GPU.
    pub(super) folder: Option<PathBuf>,
    /// Build id of the library when the session began.
    pub(super) build: Option<String>,
}

pub(crate) struct Gpus {
    pub(crate) slots: Vec<Slot>,
    pub(crate) recovery: Vec<String>,
    /// Number of health checks of a GPU, by its first lock.
    pub(crate) checked: Mutex<BTreeMap<String, u32>>,
    /// GPUs for which the recovery command was run.
    pub(crate) mended: Mutex<BTreeSet<String>>,
    /// GPUs that were reported as left out.
    pub(crate) left_out: Mutex<BTreeSet<String>>,
}

pub(crate) struct Programs {
    pub(super) own: Arc<OwnProgram>,
    pub(super) worker: Option<PathBuf>,
    pub(super) views: OnceLock<Result<(), String>>,
    pub(super) compiler: OnceLock<Result<Compiler, Unready>>,
}

/// The folders of a session.
pub struct Folders {
    /// Files that are kept between runs.
    pub cache: PathBuf,
    /// Compiled kernels, kept between runs.
    pub code: PathBuf,
    /// Temporary files of workers.
    pub temporary: Temporary,
    /// Temporary files of this run.
    pub scratch: Scratch,
}
