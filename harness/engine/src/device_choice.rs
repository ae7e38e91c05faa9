//! The choice of the device for trials: the emulated device, or a GPU of this machine.

use device::Arch;

/// The device below the HIP runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceChoice {
    /// The emulated device of this architecture.
    Emulated(Arch),
    /// A GPU of this machine.
    Gpu,
}

impl DeviceChoice {
    /// Chooses the GPU of this machine if it has one, and otherwise the emulated device of architecture `arch`.
    pub fn detect(arch: Arch) -> DeviceChoice {
        if gpu_present() { DeviceChoice::Gpu } else { DeviceChoice::Emulated(arch) }
    }

    /// Returns the architecture that device 0 must report; `None` for a GPU.
    pub(crate) fn gfx(&self) -> Option<&'static str> {
        match self {
            DeviceChoice::Emulated(arch) => Some(arch.name()),
            DeviceChoice::Gpu => None,
        }
    }
}

/// Returns true if this user can open the driver's device file for compute, `/dev/kfd`.
fn gpu_present() -> bool {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/kfd").is_ok()
}
