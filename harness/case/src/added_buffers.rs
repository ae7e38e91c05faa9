//! Host buffers that lowering adds for device buffers.

use plan::{Buffer, Memory};

/// Suffix of the names of host buffers into which checks copy device buffers, for example `dst.back`.
pub const BACK: &str = ".back";

/// Suffix of the names of host buffers from which set-up copies a pattern into device buffers.
pub(crate) const INITIAL: &str = ".initial";

/// Returns the host buffer that lowering adds for a device buffer, for its first content or for a check. It has guards
/// if the device buffer has them. Stream-ordered memory cannot have guards, but its host buffer does.
pub(crate) fn host_buffer_for(device: &Buffer) -> Buffer {
    Buffer {
        memory: Memory::HostPageable,
        bytes: device.bytes,
        guarded: device.guarded || device.memory == Memory::DeviceAsync,
    }
}
