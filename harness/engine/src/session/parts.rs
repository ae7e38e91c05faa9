//! The types of which a session consists.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use device::Config;
use parking_lot::Mutex;
use supervise::{Limit, Limits, Resource};

use crate::{
    compiled::{Compiler, StartError},
    library::CasesFrom,
    own_program::OwnProgram,
    scratch::{Scratch, Temporary},
    slots::Slot,
};

/// Options of a session as the user gave them.
pub struct GivenOptions {
    /// Time limits, before they are adapted to the device.
    pub(super) limits: Limits,
    pub(super) resources: BTreeMap<Resource, Limit>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) launcher: Vec<String>,
    pub(super) cases_from: Option<CasesFrom>,
    /// Name of the Python environment in which program cases run. If set, it is used even if the cases name other
    /// versions of packages.
    pub packages_in: Option<String>,
    pub(super) programs_in: Option<PathBuf>,
}

pub(crate) struct Emulated {
    /// Configuration of the emulated device, without faults.
    pub(crate) config: Config,
    /// Options for the emulated device, as typed.
    pub(super) options: Vec<String>,
    /// Folder of the emulated device's library; `None` on a GPU.
    pub(super) folder: Option<PathBuf>,
    /// Build id that the emulated device's library had when the session began; `None` on a GPU, or if the library has
    /// no build id.
    pub(super) build: Option<String>,
    /// Build id that the stack's libhsa-runtime64 had when the session began; `None` if it is unknown.
    pub(super) hsa_build: Option<String>,
}

pub(crate) struct Gpus {
    pub(crate) slots: Vec<Slot>,
    pub(crate) recovery: Vec<String>,
    /// Number of health checks of each GPU. The key is the GPU's first lock.
    pub(crate) checked: Mutex<BTreeMap<String, u32>>,
    /// First locks of those GPUs for which the user's recovery command has been run.
    pub(crate) mended: Mutex<BTreeSet<String>>,
    /// Names of the GPUs that were reported as no longer used.
    pub(crate) left_out: Mutex<BTreeSet<String>>,
}

pub(crate) struct Programs {
    pub(super) own: Arc<OwnProgram>,
    pub(super) worker: Option<PathBuf>,
    pub(super) views: OnceLock<Result<(), String>>,
    pub(super) compiler: OnceLock<Result<Compiler, StartError>>,
}

/// The folders to which a session writes.
pub struct Folders {
    /// Folder of files that are kept between runs.
    pub cache: PathBuf,
    /// Folder of compiled GPU kernels, which are kept between runs.
    pub code: PathBuf,
    /// The temporary folder of workers, which all runs share.
    pub temporary: Temporary,
    /// The temporary folder of this run.
    pub scratch: Scratch,
}
