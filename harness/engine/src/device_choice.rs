//! What trials run on: the emulated device, or a GPU of this machine.

use device::Arch;

/// What stands under the HIP runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceChoice {
    /// The emulated device of this architecture.
    Emulated(Arch),
    /// The first AMD GPU of this machine.
    Gpu,
}

impl DeviceChoice {
    /// Returns the GPU of this machine if there is one, else the emulated device of this architecture.
    pub fn detect(arch: Arch) -> DeviceChoice {
        if gpu_present() { DeviceChoice::Gpu } else { DeviceChoice::Emulated(arch) }
    }

    /// The architecture that device 0 must have; none on a GPU, whose own word is taken.
    pub(crate) fn gfx(&self) -> Option<&'static str> {
        match self {
            DeviceChoice::Emulated(arch) => Some(arch.name()),
            DeviceChoice::Gpu => None,
        }
    }
}

/// Whether the kernel driver offers an AMD GPU for compute to this user.
fn gpu_present() -> bool {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/kfd").is_ok()
}
