//! Image formats of `hsa_ext_image.h` that the device supports. The source is ROCr's tables for hardware (`ImageLutKv`,
//! `ImageLutGfx11`).

use isa::image::{Dimension, Format, Numeric};

/// `hsa_ext_image_format_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ImageFormat {
    /// `hsa_ext_image_channel_type_t`.
    pub(crate) kind: u32,
    /// `hsa_ext_image_channel_order_t`.
    pub(crate) order: u32,
}

/// `hsa_ext_image_geometry_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Geometry {
    D1,
    D2,
    D3,
    D1Array,
    D2Array,
    Buffer,
    Depth,
    DepthArray,
}

impl Geometry {
    pub(crate) fn from_c(value: u32) -> Option<Geometry> {
        use Geometry::{Buffer, D1, D1Array, D2, D2Array, D3, Depth, DepthArray};
        [D1, D2, D3, D1Array, D2Array, Buffer, Depth, DepthArray].get(value as usize).copied()
    }

    /// Returns the dimension for the image descriptor; `None` for a buffer, whose descriptor has another format.
    pub(crate) fn dimension(self) -> Option<Dimension> {
        match self {
            Geometry::D1 => Some(Dimension::D1),
            Geometry::D2 | Geometry::Depth => Some(Dimension::D2),
            Geometry::D3 => Some(Dimension::D3),
            Geometry::D1Array => Some(Dimension::D1Array),
            Geometry::D2Array | Geometry::DepthArray => Some(Dimension::D2Array),
            Geometry::Buffer => None,
        }
    }

    /// Returns the largest width, height, depth and number of layers. Source: ROCr, `kMaxDimensionLut_`.
    pub(crate) fn max_size(self) -> [u32; 4] {
        match self {
            Geometry::D1 => [16384, 1, 1, 1],
            Geometry::D2 | Geometry::Depth => [16384, 16384, 1, 1],
            Geometry::D3 => [16384, 16384, 8192, 1],
            Geometry::D1Array => [16384, 1, 1, 8192],
            Geometry::D2Array | Geometry::DepthArray => [16384, 16384, 1, 8192],
            Geometry::Buffer => [u32::MAX, 1, 1, 1],
        }
    }
}

/// Representation of an image format in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    pub(crate) format: Format,
    /// Source of each component of a loaded value: 0 and 1 are constants, and numbers from 4 on select a component of
    /// the texel.
    pub(crate) select: [u8; 4],
    /// `hsa_ext_image_capability_t`.
    pub(crate) capability: u32,
}

const READ: u32 = 1;
const READ_OR_WRITE: u32 = READ | 2;
const READ_WRITE: u32 = READ_OR_WRITE | 4;

/// Values for [`Property::select`].
mod select {
    pub(super) const ZERO: u8 = 0;
    pub(super) const ONE: u8 = 1;
    pub(super) const X: u8 = 4;
    pub(super) const Y: u8 = 5;
    pub(super) const Z: u8 = 6;
    pub(super) const W: u8 = 7;
}

/// Returns the representation of a format in the device; `None` if hardware does not support the format.
pub(crate) fn property(wanted: ImageFormat, geometry: Geometry) -> Option<Property> {
    use select::{ONE, W, X, Y, Z, ZERO};
    let is_depth = matches!(geometry, Geometry::Depth | Geometry::DepthArray);
    // Channel types that describe a whole texel.
    let packed = match wanted.kind {
        5 => Some([5, 5, 5, 1]),
        6 => Some([5, 6, 5, 0]),
        7 => Some([10, 10, 10, 2]),
        _ => None,
    };
    // Channel types that describe one component.
    let plain = match wanted.kind {
        0 => Some((8, Numeric::Snorm)),
        1 => Some((16, Numeric::Snorm)),
        2 => Some((8, Numeric::Unorm)),
        3 => Some((16, Numeric::Unorm)),
        8 => Some((8, Numeric::Sint)),
        9 => Some((16, Numeric::Sint)),
        10 => Some((32, Numeric::Sint)),
        11 => Some((8, Numeric::Uint)),
        12 => Some((16, Numeric::Uint)),
        13 => Some((32, Numeric::Uint)),
        14 => Some((16, Numeric::Float)),
        15 => Some((32, Numeric::Float)),
        _ => None,
    };
    let of = |components, select, capability| {
        let (bits, numeric) = plain?;
        Some(Property { format: Format::of(components, bits, numeric), select, capability })
    };
    let bytes_only = plain.is_some_and(|(bits, _)| bits == 8);
    let is_integer = matches!(plain, Some((_, Numeric::Uint | Numeric::Sint)));
    let found = match wanted.order {
        // A, R, RG, RA
        0 => of(1, [ZERO, ZERO, ZERO, X], READ_WRITE),
        1 => of(1, [X, ZERO, ZERO, ONE], READ_WRITE),
        3 => of(2, [X, Y, ZERO, ONE], READ_WRITE),
        5 => of(2, [X, ZERO, ZERO, Y], READ_WRITE),
        // RGB
        6 if geometry == Geometry::Buffer && wanted.kind != 7 => None,
        6 => packed.map(|bits| Property {
            format: Format { bits, numeric: Numeric::Unorm },
            select: [Z, Y, X, ONE],
            capability: READ_WRITE,
        }),
        // RGBA, BGRA, ARGB
        8 => of(4, [X, Y, Z, W], READ_WRITE),
        9 if bytes_only => of(4, [Z, Y, X, W], READ_WRITE),
        10 if bytes_only => of(4, [Y, Z, W, X], READ_WRITE),
        // SRGBA
        14 if wanted.kind == 2 && geometry != Geometry::Buffer => Some(Property {
            format: Format::of(4, 8, Numeric::Srgb),
            select: [X, Y, Z, W],
            capability: READ,
        }),
        // INTENSITY, LUMINANCE
        16 if !is_integer => of(1, [X; 4], READ_WRITE),
        17 if !is_integer => of(1, [X, X, X, ONE], READ_WRITE),
        // DEPTH
        18 if [3, 15].contains(&wanted.kind) => of(1, [X, ZERO, ZERO, ZERO], READ_OR_WRITE),
        _ => None,
    };
    let fits = !is_depth || wanted.order == 18;
    found.filter(|property| fits && property.format.is_known())
}
