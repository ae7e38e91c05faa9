//! What trials run on: the emulated device, or a GPU of this machine.

use device::Arch;

use crate::args::DeviceKind;

/// What stands under the HIP runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceChoice {
    /// The emulated device of this architecture.
    Emulated(Arch),
    /// The first AMD GPU of this machine.
    Gpu,
}

impl DeviceChoice {
    /// What an option means here. The architecture is that of the emulated device.
    pub(crate) fn of(kind: DeviceKind, arch: Arch) -> DeviceChoice {
        let gpu = match kind {
            DeviceKind::Auto => gpu_present(),
            DeviceKind::Emulated => false,
            DeviceKind::Gpu => true,
        };
        if gpu { DeviceChoice::Gpu } else { DeviceChoice::Emulated(arch) }
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
