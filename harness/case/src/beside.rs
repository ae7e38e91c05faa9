//! The host buffers that lowering adds beside device buffers.

use plan::{Buffer, Memory};

/// Ending of the names of host buffers that checks copy device buffers to.
pub const BACK: &str = ".back";

/// Ending of the names of host buffers whose pattern set-up copies to device buffers.
pub(crate) const INITIAL: &str = ".initial";

/// The host buffer that lowering adds beside a device buffer, for its first content or a check. It is guarded as that is;
/// memory of a pool, which cannot be, has it guarded.
pub(crate) fn beside(device: &Buffer) -> Buffer {
    Buffer {
        memory: Memory::HostPageable,
        bytes: device.bytes,
        guarded: device.guarded || device.memory == Memory::DeviceAsync,
    }
}
