//! Descriptors of images and samplers, and texel formats.
//!
//! Sources: the ISA guides of Vega, CDNA and RDNA 2 to 4 ("Image resource descriptor", "Image sampler") for the fields,
//! and the headers of ROCr's image library for the numbers of the formats. The interpreter stores texels row by row on
//! every architecture (`SW_MODE` 0, linear). A kernel accesses an image only with image instructions, so it cannot
//! observe how the image is tiled.

mod descriptor;
mod format;
mod sampler;

pub use descriptor::{Dimension, IMAGE_ALIGNMENT, Image, ROW_ALIGNMENT};
pub use format::{Format, Numeric};
pub use sampler::{Border, Sampler, Wrap};

use device::{Arch, Descriptors};

/// Returns the element format that the fourth dword of a buffer descriptor contains; `None` if the interpreter does not
/// support the format.
pub(crate) fn buffer_format(word: u32, arch: Arch) -> Option<Format> {
    let family = arch.facts().descriptors;
    let numbers = match family {
        Descriptors::Gfx9 => (field(word, 15, 4), field(word, 12, 3)),
        Descriptors::Gfx10 => (field(word, 12, 7), 0),
        Descriptors::Gfx11 | Descriptors::Gfx12 => (field(word, 12, 6), 0),
        Descriptors::Gfx1250 => return None,
    };
    Format::find(family, numbers)
}

/// Returns the fourth dword of a buffer descriptor for an element format and a component selection; `None` if the
/// architecture does not have the format.
pub fn buffer_word(format: Format, select: [u8; 4], arch: Arch) -> Option<u32> {
    let family = arch.facts().descriptors;
    let (format, number) = format.numbers(family)?;
    let selects: u32 = (0..4).map(|at| u32::from(select[at]) << (3 * at)).sum();
    Some(match family {
        Descriptors::Gfx9 => selects | number << 12 | format << 15,
        // Bit 24: RESOURCE_LEVEL.
        Descriptors::Gfx10 => selects | format << 12 | 1 << 24,
        Descriptors::Gfx11 | Descriptors::Gfx12 => selects | format << 12,
        Descriptors::Gfx1250 => return None,
    })
}

fn field(word: u32, low: u32, bits: u32) -> u32 {
    word >> low & ((1 << bits) - 1)
}
