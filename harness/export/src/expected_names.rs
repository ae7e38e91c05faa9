//! Names the C++ variables that contain the expected bytes of buffers.

use plan::BufferAddress;

use crate::names::{NameKind, Names};

/// Returns the name of the C++ variable that contains the expected bytes of a buffer.
pub(crate) fn expected_bytes_of(names: &mut Names, buffer: &str) -> String {
    format!("want_{}", names.identifier(NameKind::Buffer, buffer))
}

/// Returns a C++ expression for the expected bytes at a place in a buffer, as elements of the C++ type `ty`.
pub(crate) fn as_elements(names: &mut Names, place: &BufferAddress, ty: &str) -> String {
    let want = expected_bytes_of(names, &place.buffer);
    match place.offset {
        0 => format!("as<{ty}>({want})"),
        offset => format!("as<{ty}>({want}, {offset})"),
    }
}
