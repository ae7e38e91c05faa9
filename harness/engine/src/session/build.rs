//! The builds of the program and of the device that a session began with.

use std::{path::Path, sync::Arc};

use super::Session;
use crate::own_program::OwnProgram;

impl Session {
    /// Returns this program, which commands of the session need until they have started.
    pub fn own_program(&self) -> Arc<OwnProgram> {
        Arc::clone(&self.programs.own)
    }

    /// Returns the path of this program, for the processes that are started from it.
    pub fn own(&self) -> &Path {
        if self.given.launcher.is_empty() {
            self.programs.own.held()
        } else {
            self.programs.own.path()
        }
    }

    /// Returns the identity of this build of rocrepro.
    pub fn build(&self) -> &str {
        self.programs.own.build()
    }

    /// Returns the build id that workers must have; none for the user's worker.
    pub(crate) fn worker_build(&self) -> Option<&str> {
        self.programs.own.build_id().filter(|_| self.programs.worker.is_none())
    }

    pub(crate) fn device_build(&self) -> Option<&str> {
        self.emulated.build.as_deref()
    }
}
