//! Host buffers that are added for device buffers when a case is lowered to a plan.

use plan::{Buffer, Memory};

/// Suffix of the names of host buffers into which checks copy device buffers. For example, a check of `dst` copies it
/// into `dst.back`.
pub const BACK: &str = ".back";

/// Suffix of the names of host buffers that contain the initial pattern of a device buffer. Before the steps of the
/// case run, the plan copies the pattern from the host buffer to the device buffer.
pub(crate) const INITIAL: &str = ".initial";

/// Returns the host buffer that is added for a device buffer. It holds either the initial content of the device buffer,
/// or the copy of the device buffer that a check compares. The host buffer has guards (extra bytes around its content
/// that must not change) if the device buffer has guards. Stream-ordered device memory cannot have guards, so its host
/// buffer always has them.
pub(crate) fn host_buffer_for(device: &Buffer) -> Buffer {
    Buffer {
        memory: Memory::HostPageable,
        bytes: device.bytes,
        guarded: device.guarded || device.memory == Memory::DeviceAsync,
    }
}
