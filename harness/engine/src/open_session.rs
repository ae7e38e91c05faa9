//! Opens sessions: fetches the stack, installs the emulated device's library, and determines the ROCm release.

use std::path::Path;

use device::Config;

use crate::{
    DeviceChoice, Session, SessionOptions, Stop, cache, device_library, machine, prerequisites,
    probe, session::SessionError,
};

impl Session {
    /// Opens a session for trials whose results are compared with each other, and which must therefore run on one GPU.
    ///
    /// # Errors
    /// Returns the errors of [`Session::open`], and a usage error if the options name several GPUs.
    pub fn open_on_one(options: SessionOptions) -> Result<Session, Stop> {
        match options.slots()?.len() {
            0 | 1 => Session::open(options),
            several => Err(SessionError::SeveralGpus(several).into()),
        }
    }

    /// Opens a session. Fetches the stack if this machine does not have it.
    ///
    /// # Errors
    /// Returns a usage error for an unknown stack, and "no verdict" if the machine prevents the session.
    pub fn open(options: SessionOptions) -> Result<Session, Stop> {
        if let DeviceChoice::Emulated(arch) = options.device
            && let Some(mistake) = (Config { arch, ..options.emulation.clone() }).mistake()
        {
            return Err(SessionError::DeviceOptions(mistake).into());
        }
        prerequisites::check_every_trial(&options)?;
        let slots = options.slots()?;
        let stack = options.stack()?;
        let cache = options.cache.clone().map_or_else(cache::folder, Ok)?;
        let device_folder = match &options.device {
            DeviceChoice::Emulated(_) => {
                Some(device_library::install(&cache, options.emulation.level)?)
            }
            DeviceChoice::Gpu => None,
        };
        let noexec = |folder: &&Path| machine::is_noexec(folder);
        if let Some(folder) = [stack.root.as_path(), &cache].into_iter().find(noexec) {
            let hint = match folder.starts_with(&cache) {
                true => "set XDG_CACHE_HOME to a folder on another file system",
                false => "move the stack to another file system",
            };
            return Err(SessionError::Noexec { folder: folder.to_owned(), hint }.into());
        }
        let mut session = Session::new(options, stack, slots, device_folder, cache)?;
        probe::find_release(&mut session)?;
        session.check_level()?;
        Ok(session)
    }
}
