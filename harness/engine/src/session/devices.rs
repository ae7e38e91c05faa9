//! Decides which configuration of the device a trial gets.

use std::path::Path;

use case::{Case, Trial};
use device::{Config, FaultSpec, Level};
use plan::Version;

use super::{Session, SessionError};
use crate::{DeviceChoice, card, slots::Slot};

/// The only release whose HSA runtime was tested with the emulated device at the level `thunk`.
const RELEASE_WITH_THUNK: Version = Version::new(7, 2, 4);

impl Session {
    /// Checks that the level at which the device is emulated (`hsa` or `thunk`) supports the session's release.
    pub(crate) fn check_level(&self) -> Result<(), SessionError> {
        let level = self.emulated.config.level;
        let needs_release = level == Level::Thunk && self.device != DeviceChoice::Gpu;
        if !needs_release || self.rocm == Some(RELEASE_WITH_THUNK) {
            return Ok(());
        }
        let spec = &self.stack.spec;
        let found = match &self.rocm {
            Some(release) => format!("`{spec}` is ROCm {release}"),
            None => format!("the release of `{spec}` is unknown"),
        };
        let supported = RELEASE_WITH_THUNK.to_string().into();
        Err(SessionError::LevelRelease { level, supported, found: found.into() })
    }

    /// Returns the configuration of the emulated device with these faults; `None` on a GPU.
    pub fn device_config(&self, faults: Vec<FaultSpec>) -> Option<Config> {
        match self.device {
            DeviceChoice::Emulated(arch) => {
                Some(Config { arch, faults, ..self.emulated.config.clone() })
            }
            DeviceChoice::Gpu => None,
        }
    }

    /// Returns the configuration of the emulated device for a trial; `None` on a GPU. The case may require certain
    /// properties, but options of the command line take precedence.
    pub fn device_for(&self, case: &Case, trial: &Trial, faults: Vec<FaultSpec>) -> Option<Config> {
        let mut config = self.device_config(faults)?;
        config.devices = self.emulated_devices(case);
        for option in self.options_of(case, trial) {
            // The case parser has already rejected invalid values.
            config.set(&option).ok()?;
        }
        Some(config)
    }

    /// Returns the device options that the case sets and the command line does not.
    pub(crate) fn options_of(&self, case: &Case, trial: &Trial) -> Vec<String> {
        let mut options = case.device_options(trial);
        options.retain(|option| self.user_option(option).is_none());
        options
    }

    /// Returns the device option on the command line that sets the same property as `option`; `None` without such an
    /// option.
    fn user_option(&self, option: &str) -> Option<&String> {
        let name = option.split('=').next();
        self.emulated.options.iter().rev().find(|said| said.split('=').next() == name)
    }

    /// Returns the skip reason if the device does not have the properties that the trial needs.
    pub(crate) fn missing_properties(&self, case: &Case, trial: &Trial) -> Option<String> {
        for option in case.device_options(trial) {
            if self.device == DeviceChoice::Gpu {
                let has = card::large_bar(Path::new("/"));
                let why = match option.as_str() {
                    "large-bar=yes" if has == Some(true) => continue,
                    "large-bar=no" if has == Some(false) => continue,
                    "large-bar=yes" if has == Some(false) => {
                        "the host cannot access all memory of this GPU"
                    }
                    "large-bar=no" if has == Some(true) => {
                        "the host can access all memory of this GPU"
                    }
                    _ => "only the emulated device has this option",
                };
                return Some(format!("needs a device with {option}, and {why}"));
            }
            let (mut said, mut needed) =
                (self.emulated.config.clone(), self.emulated.config.clone());
            if let Some(typed) = self.user_option(&option)
                && said.set(typed).and(needed.set(&option)).is_ok()
                && said != needed
            {
                return Some(format!(
                    "needs a device with {option}, but `--device-option {typed}` contradicts it"
                ));
            }
        }
        self.device_for(case, trial, Vec::new())?.mistake()
    }

    fn emulated_devices(&self, case: &Case) -> u32 {
        match self.emulated.config.devices {
            1 => case.needs.devices.max(1),
            said => said,
        }
    }

    pub(crate) fn devices_for(&self, case: &Case) -> u32 {
        match (&self.device, &self.gpus.slots[..]) {
            (DeviceChoice::Emulated(_), _) => self.emulated_devices(case),
            (DeviceChoice::Gpu, [Slot { card: None, locks }]) => locks.len() as u32,
            (DeviceChoice::Gpu, _) => 1,
        }
    }
}
