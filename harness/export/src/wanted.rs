//! The variables with the bytes that buffers must hold.

use plan::Place;

use crate::names::{Kind, Names};

/// The variable with the bytes that a buffer must hold.
pub(crate) fn want(names: &mut Names, buffer: &str) -> String {
    format!("want_{}", names.of(Kind::Buffer, buffer))
}

/// What lies at a place, as numbers of a type.
pub(crate) fn as_elements(names: &mut Names, place: &Place, ty: &str) -> String {
    let want = want(names, &place.buffer);
    match place.offset {
        0 => format!("as<{ty}>({want})"),
        offset => format!("as<{ty}>({want}, {offset})"),
    }
}
