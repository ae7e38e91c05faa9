//! Reads and writes image descriptors, which consist of eight dwords.

use device::{Arch, Descriptors};

use super::{field, format::Format};

/// Type of an image, as given in the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A single row of texels.
    D1,
    /// Rows of texels.
    D2,
    /// Slices, each of several rows.
    D3,
    /// Layers, each of a single row.
    D1Array,
    /// Layers, each of several rows.
    D2Array,
}

impl Dimension {
    const TYPES: [(Dimension, u32); 5] = [
        (Dimension::D1, 8),
        (Dimension::D2, 9),
        (Dimension::D3, 10),
        (Dimension::D1Array, 12),
        (Dimension::D2Array, 13),
    ];

    pub(crate) fn parse(name: &str) -> Option<Dimension> {
        Some(match name.strip_prefix("SQ_RSRC_IMG_")? {
            "1D" => Dimension::D1,
            "2D" => Dimension::D2,
            "3D" => Dimension::D3,
            "1D_ARRAY" => Dimension::D1Array,
            "2D_ARRAY" => Dimension::D2Array,
            _ => return None,
        })
    }

    /// Returns the number of coordinates of a texel. For an array, the layer counts as a coordinate.
    pub fn coordinates(self) -> usize {
        match self {
            Dimension::D1 => 1,
            Dimension::D2 | Dimension::D1Array => 2,
            Dimension::D3 | Dimension::D2Array => 3,
        }
    }

    /// Returns true if the last coordinate is a layer.
    pub fn is_array(self) -> bool {
        matches!(self, Dimension::D1Array | Dimension::D2Array)
    }
}

/// Alignment of rows in bytes if the descriptor contains no pitch.
pub const ROW_ALIGNMENT: u32 = 256;

/// Alignment of the address of an image in bytes. Descriptors omit the lowest eight bits of the address.
pub const IMAGE_ALIGNMENT: u64 = 256;

/// Reason why an image descriptor cannot be read on GFX1250, which has no images.
const NO_IMAGES: &str = "an image on an architecture without images";

/// An image in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Address of the first byte of the image.
    pub address: u64,
    /// Format of the texels.
    pub format: Format,
    /// Type of the image.
    pub dimension: Dimension,
    /// Number of texels in a row, number of rows, and number of slices or layers.
    pub size: [u32; 3],
    /// Rule for each component of a loaded value: 0 and 1 mean the constants zero and one, and 4 to 7 select a
    /// component of the texel.
    pub select: [u8; 4],
    /// Distance between rows, in texels.
    pub pitch: u32,
}

impl Image {
    /// Returns the distance between rows, in texels, that applies if the descriptor contains no pitch.
    pub fn natural_pitch(width: u32, format: Format) -> u32 {
        let bytes = format.bytes() as u32;
        (width * bytes).next_multiple_of(ROW_ALIGNMENT) / bytes
    }

    /// Returns true if the descriptor of an image of this type contains a pitch.
    pub fn has_pitch(arch: Arch, dimension: Dimension) -> bool {
        let is_plane = matches!(dimension, Dimension::D1 | Dimension::D2);
        match arch.facts().descriptors {
            Descriptors::Gfx9 => true,
            Descriptors::Gfx10 | Descriptors::Gfx11 | Descriptors::Gfx12 | Descriptors::Gfx1250 => {
                is_plane
            }
        }
    }

    /// Returns the distance between the starts of two rows, in bytes.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.pitch) * self.format.bytes() as u64
    }

    /// Returns the distance between the starts of two slices or layers, in bytes.
    pub fn slice_bytes(&self) -> u64 {
        self.row_bytes() * u64::from(self.size[1])
    }

    /// Returns the size of the image, in bytes.
    pub fn bytes(&self) -> u64 {
        self.slice_bytes() * u64::from(self.size[2])
    }

    /// Returns the address of the texel at these coordinates; `None` outside of the image.
    pub fn texel(&self, [x, y, z]: [u32; 3]) -> Option<u64> {
        let inside = x < self.size[0] && y < self.size[1] && z < self.size[2];
        let offset = u64::from(z) * self.slice_bytes()
            + u64::from(y) * self.row_bytes()
            + u64::from(x) * self.format.bytes() as u64;
        inside.then(|| self.address + offset)
    }

    /// Returns the components of a texel in the order that the descriptor selects.
    pub(crate) fn selected(&self, texel: [u32; 4]) -> [u32; 4] {
        let one = if self.format.is_integer() { 1 } else { 1f32.to_bits() };
        self.select.map(|select| match select {
            0 => 0,
            1 => one,
            component => texel[usize::from(component & 3)],
        })
    }

    /// Converts the components that a store writes to those of the texel. This is the inverse of [`Image::selected`].
    pub(crate) fn unselected(&self, result: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|component| {
            let from = self.select.iter().position(|select| *select == component as u8 + 4);
            from.map_or(0, |at| result[at])
        })
    }

    /// Returns the bytes of the texel for the components that a store writes; `None` if the format cannot be written.
    pub fn texel_of(&self, result: [u32; 4]) -> Option<Vec<u8>> {
        let texel = self.format.encode(self.unselected(result))?;
        Some(texel[..self.format.bytes()].to_vec())
    }

    /// Returns the dwords of the descriptor; `None` for a format that hardware does not support.
    pub fn words(&self, arch: Arch) -> Option<[u32; 8]> {
        let family = arch.facts().descriptors;
        let (format, number) = self.format.numbers(family)?;
        let [width, height, depth] = self.size.map(|size| size.saturating_sub(1));
        let kind = Dimension::TYPES.iter().find(|(known, _)| *known == self.dimension)?.1;
        let select = |(at, select): (usize, &u8)| u32::from(*select) << (3 * at);
        let selects: u32 = self.select.iter().enumerate().map(select).sum();
        let (low, high) = ((self.address >> 8) as u32, (self.address >> 40) as u32 & 0xff);
        let pitched = Image::has_pitch(arch, self.dimension);
        let (pitch, last) = (self.pitch - 1, if pitched { self.pitch - 1 } else { depth });
        let width_low = (width & 3) << 30;
        let (second, third, fifth) = match family {
            Descriptors::Gfx9 => {
                (format << 20 | number << 26, width | height << 14, depth | pitch << 13)
            }
            // Bit 31: RESOURCE_LEVEL.
            Descriptors::Gfx10 => {
                (format << 20 | width_low, width >> 2 | height << 14 | 1 << 31, last & 0x3fff)
            }
            Descriptors::Gfx11 => {
                (format << 20 | width_low, width >> 2 | height << 14, last & 0x3fff)
            }
            Descriptors::Gfx12 => {
                (format << 17 | width_low, width >> 2 | height << 14, last & 0xffff)
            }
            Descriptors::Gfx1250 => return None,
        };
        Some([low, high | second, third, selects | kind << 28, fifth, 0, 0, 0])
    }

    /// Parses an image descriptor.
    ///
    /// # Errors
    /// Returns the name of a feature that the descriptor uses and the interpreter does not support.
    pub fn read(words: &[u32; 8], arch: Arch) -> Result<Image, &'static str> {
        let family = arch.facts().descriptors;
        let (row_bits, depth_bits) = match family {
            Descriptors::Gfx9 | Descriptors::Gfx10 | Descriptors::Gfx11 => (14, 13),
            Descriptors::Gfx12 => (16, 14),
            Descriptors::Gfx1250 => return Err(NO_IMAGES),
        };
        let numbers = match family {
            Descriptors::Gfx9 => (field(words[1], 20, 6), field(words[1], 26, 4)),
            Descriptors::Gfx10 => (field(words[1], 20, 9), 0),
            Descriptors::Gfx11 => (field(words[1], 20, 8), 0),
            Descriptors::Gfx12 => (field(words[1], 17, 8), 0),
            Descriptors::Gfx1250 => return Err(NO_IMAGES),
        };
        let format = Format::find(family, numbers).ok_or("the format of its image")?;
        let kind = field(words[3], 28, 4);
        let dimension = Dimension::TYPES.iter().find(|(_, known)| *known == kind);
        let dimension = dimension.ok_or("the type of its image")?.0;
        let width = match family {
            Descriptors::Gfx9 => field(words[2], 0, 14),
            Descriptors::Gfx12 => field(words[1], 30, 2) | field(words[2], 0, 14) << 2,
            Descriptors::Gfx1250 => return Err(NO_IMAGES),
            Descriptors::Gfx10 | Descriptors::Gfx11 => {
                field(words[1], 30, 2) | field(words[2], 0, 12) << 2
            }
        };
        let rows = 1 + field(words[2], 14, row_bits);
        let (base_level, last_level) = match family {
            Descriptors::Gfx12 => (field(words[1], 25, 5), field(words[3], 15, 5)),
            Descriptors::Gfx1250 => return Err(NO_IMAGES),
            Descriptors::Gfx9 | Descriptors::Gfx10 | Descriptors::Gfx11 => {
                (field(words[3], 12, 4), field(words[3], 16, 4))
            }
        };
        if base_level != 0 || last_level != 0 {
            return Err("an image of several levels");
        }
        if field(words[3], 20, 5) != 0 {
            return Err("a tiled image");
        }
        let base_array = match family {
            Descriptors::Gfx9 => field(words[5], 0, 13),
            Descriptors::Gfx10 | Descriptors::Gfx11 => field(words[4], 16, 13),
            Descriptors::Gfx12 => field(words[4], 16, 14),
            Descriptors::Gfx1250 => return Err(NO_IMAGES),
        };
        if base_array != 0 {
            return Err("an image whose first layer is not 0");
        }
        let depth = 1 + field(words[4], 0, depth_bits);
        let width = width + 1;
        let pitch = match family {
            _ if !Image::has_pitch(arch, dimension) => Image::natural_pitch(width, format),
            Descriptors::Gfx9 => 1 + field(words[4], 13, 16),
            Descriptors::Gfx10 | Descriptors::Gfx11 => 1 + field(words[4], 0, 14),
            Descriptors::Gfx12 => 1 + field(words[4], 0, 16),
            Descriptors::Gfx1250 => return Err(NO_IMAGES),
        };
        let size = match dimension {
            Dimension::D1 => [width, 1, 1],
            Dimension::D2 => [width, rows, 1],
            Dimension::D1Array => [width, 1, depth],
            Dimension::D3 | Dimension::D2Array => [width, rows, depth],
        };
        let select = std::array::from_fn(|at| field(words[3], 3 * at as u32, 3) as u8);
        if select.iter().any(|select| (2..4).contains(select)) {
            return Err("the component selection of its image");
        }
        let address = u64::from(words[0]) << 8 | u64::from(words[1] & 0xff) << 40;
        Ok(Image { address, format, dimension, size, select, pitch })
    }
}
