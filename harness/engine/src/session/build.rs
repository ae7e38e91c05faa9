//! The builds of rocrepro and of the emulated device's library that a session began with.

use std::{path::Path, sync::Arc};

use super::Session;
use crate::own_program::OwnProgram;

impl Session {
    /// Returns rocrepro's own executable. The caller must keep it until the commands of the session have started. Their
    /// command lines contain a path that is valid only while the executable is open.
    pub fn own_program(&self) -> Arc<OwnProgram> {
        Arc::clone(&self.programs.own)
    }

    /// Returns the path of rocrepro's own executable, for processes that start it.
    pub fn own(&self) -> &Path {
        if self.given.launcher.is_empty() {
            self.programs.own.stable_path()
        } else {
            self.programs.own.path()
        }
    }

    /// Returns the identity of this build of rocrepro: its build id or digest.
    pub fn build(&self) -> &str {
        self.programs.own.build()
    }

    /// Returns the build id that workers must report; `None` for a worker that the user provides.
    pub(crate) fn worker_build(&self) -> Option<&str> {
        self.programs.own.build_id().filter(|_| self.programs.worker.is_none())
    }

    /// Returns the build id that the stack's libhsa-runtime64 had when the session began; `None` if it is unknown.
    pub(crate) fn hsa_build(&self) -> Option<&str> {
        self.emulated.hsa_build.as_deref()
    }

    pub(crate) fn device_build(&self) -> Option<&str> {
        self.emulated.build.as_deref()
    }
}
