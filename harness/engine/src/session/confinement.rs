//! Confines workers that run untrusted cases: decides which files they can access, and their limits.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use plan::Confinement;
use stacks::Stack;
use supervise::{Limit, Resource};

use super::{Session, SessionError};
use crate::DeviceChoice;

/// Default maxima of resource limits for an untrusted case. The built-in cases need a quarter of them.
const MAX_LIMITS: [(Resource, Limit); 2] =
    [(Resource::Memory, Limit(16 << 30)), (Resource::FileSize, Limit(1 << 30))];

/// Files, apart from libraries, that the C library, the HIP runtime and the compiler read.
const ALWAYS: &[&str] = &[
    "/proc/self/maps",
    "/proc/self/stat",
    "/proc/self/status",
    "/proc/self/statm",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
];

/// Library folders that the machine's dynamic loader searches.
const OF_LOADER: &[&str] =
    &["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"];

/// Files about a GPU that the HIP runtime reads.
const OF_GPU: &[&str] = &["/sys", "/proc/cpuinfo", "/proc/meminfo", "/usr/share/libdrm"];

/// Device files of a GPU. /dev/shm is one of them because the thunk library keeps state in shared memory.
const DEVICES: &[&str] = &["/dev/null", "/dev/kfd", "/dev/dri", "/dev/shm"];

impl Session {
    /// Returns true if the cases are not built in, and the user did not declare that they are trusted.
    pub fn is_foreign(&self) -> bool {
        self.given.cases_from.as_ref().is_some_and(|from| !from.trusted)
    }

    /// Returns true if the cases are not built in, and the user declared that they are trusted.
    pub fn trusts_given_cases(&self) -> bool {
        self.given.cases_from.as_ref().is_some_and(|from| from.trusted)
    }

    /// Checks that code of the cases may run without confinement, outside of a worker.
    ///
    /// # Errors
    /// Returns a usage error for untrusted cases.
    pub fn require_trust(&self) -> Result<(), SessionError> {
        match self.is_foreign() {
            false => Ok(()),
            true => Err(SessionError::Untrusted),
        }
    }

    pub(crate) fn confinement(&self, stack: &Stack) -> Option<Confinement> {
        if !self.is_foreign() {
            return None;
        }
        let gpu = self.device == DeviceChoice::Gpu;
        let mut readable: Vec<PathBuf> = ALWAYS.iter().map(PathBuf::from).collect();
        readable.push(self.programs.worker.clone().unwrap_or_else(|| self.own().to_path_buf()));
        readable.extend(self.emulated.folder.clone());
        readable.extend(stack.libraries.clone());
        // For a ROCm that is installed in the system, the root folder is that of the whole machine.
        if !["/", "/usr"].map(Path::new).contains(&stack.root.as_path()) {
            readable.push(stack.root.clone());
        }
        if stack.loader.is_none() {
            readable.extend(OF_LOADER.iter().map(PathBuf::from));
            let own = env::var_os("LD_LIBRARY_PATH");
            readable.extend(own.iter().flat_map(env::split_paths));
        }
        let asked = self.given.environment.get("LD_LIBRARY_PATH").map(OsStr::new);
        readable.extend(asked.into_iter().flat_map(env::split_paths));
        if gpu {
            readable.extend(OF_GPU.iter().map(PathBuf::from));
        }
        // An empty entry means the current folder, which is the worker's own temporary folder.
        readable.retain(|path| path.is_absolute());
        let devices = if gpu { DEVICES } else { &[] };
        Some(Confinement {
            readable: texts(readable.iter().map(PathBuf::as_path)),
            writable: texts([Path::new("."), self.cache_name()]),
            devices: texts(devices.iter().map(Path::new)),
        })
    }

    pub(super) fn at_most(&self, limits: &mut BTreeMap<Resource, Limit>) {
        if !self.is_foreign() {
            return;
        }
        for (resource, usual) in MAX_LIMITS {
            // On a GPU, the HIP runtime reserves addresses for the whole memory of the machine.
            let unbounded = resource == Resource::Memory && self.device == DeviceChoice::Gpu;
            let usual = if unbounded { Limit::NONE } else { usual };
            let given = self.given.resources.get(&resource).filter(|given| **given != Limit::NONE);
            let most = given.copied().unwrap_or(usual);
            let limit = limits.entry(resource).or_insert(most);
            *limit = (*limit).min(most);
        }
    }
}

fn texts<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Vec<String> {
    paths.into_iter().filter_map(|path| Some(path.to_str()?.to_owned())).collect()
}
