//! Reads and writes sampler descriptors, which consist of four dwords.

use device::{Arch, Descriptors};

use super::field;

/// Handling of coordinates outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// The image repeats.
    Repeat,
    /// The image repeats. Every second copy is mirrored.
    Mirror,
    /// Texels outside of the image have the colour of the nearest texel at its edge.
    Edge,
    /// The image is followed by one mirrored copy. Past that copy, texels have the colour of the nearest texel at its
    /// edge.
    MirrorEdge,
    /// Texels outside of the image have the border colour.
    Border,
}

/// Colour of texels outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// All components are zero.
    Transparent,
    /// The colour components are zero, and alpha is one.
    Black,
    /// All components are one.
    White,
}

/// Rules by which an instruction reads an image at fractional coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Handling of coordinates outside of the image, for x, y and z.
    pub wrap: [Wrap; 3],
    /// True if coordinates count texels. False if they are fractions of the size of the image.
    pub unnormalized: bool,
    /// True if results are interpolated between texels.
    pub linear: bool,
    /// Colour of texels outside of the image, for [`Wrap::Border`].
    pub border: Border,
}

impl Sampler {
    const WRAPS: [(Wrap, u32); 5] = [
        (Wrap::Repeat, 0),
        (Wrap::Mirror, 1),
        (Wrap::Edge, 2),
        (Wrap::MirrorEdge, 3),
        (Wrap::Border, 6),
    ];
    const BORDERS: [Border; 3] = [Border::Transparent, Border::Black, Border::White];

    /// Returns the dwords of the descriptor.
    pub fn words(&self, arch: Arch) -> [u32; 4] {
        let wrap = |wanted: Wrap| {
            Self::WRAPS.iter().find(|(wrap, _)| *wrap == wanted).map_or(0, |(_, bits)| *bits)
        };
        let [x, y, z] = self.wrap.map(wrap);
        let filter = u32::from(self.linear);
        let border = Self::BORDERS.iter().position(|border| *border == self.border);
        // The descriptor contains the largest number of levels, so that it does not limit the level.
        let levels = match arch.facts().descriptors {
            Descriptors::Gfx9 | Descriptors::Gfx10 | Descriptors::Gfx11 => 4095 << 12,
            // The value does not matter, because GFX1250 has no samplers.
            Descriptors::Gfx12 | Descriptors::Gfx1250 => 4095 << 13,
        };
        [
            x | y << 3 | z << 6 | u32::from(self.unnormalized) << 15,
            levels,
            filter << 20 | filter << 22,
            (border.unwrap_or(0) as u32) << 30,
        ]
    }

    /// Parses a sampler descriptor. The fields that the interpreter uses have the same positions on all architectures.
    ///
    /// # Errors
    /// Returns the name of a feature that the descriptor uses and the interpreter does not support.
    pub fn read(words: &[u32; 4]) -> Result<Sampler, &'static str> {
        let wrap = |low: u32| {
            let bits = field(words[0], low, 3);
            Self::WRAPS.iter().find(|(_, known)| *known == bits).map(|(wrap, _)| *wrap)
        };
        let wraps = [wrap(0), wrap(3), wrap(6)];
        let [Some(x), Some(y), Some(z)] = wraps else { return Err("a half-border wrap mode") };
        if field(words[0], 9, 3) != 0 {
            return Err("anisotropic filtering");
        }
        // FILTER_MODE selects whether texels are blended, or their minimum or maximum is used. TRUNC_COORD,
        // DISABLE_CUBE_WRAP and similar fields do not affect compute kernels.
        if field(words[0], 29, 2) != 0 || field(words[0], 27, 1) != 0 {
            return Err("the filter mode of its sampler");
        }
        let (enlarges, reduces) = (field(words[2], 20, 2), field(words[2], 22, 2));
        // Hardware chooses the filter for enlarging or the one for reducing, depending on the distance between the
        // coordinates of neighbouring lanes. The interpreter supports only samplers with two equal filters.
        if enlarges != reduces || enlarges > 1 || field(words[2], 26, 2) > 1 {
            return Err("the filters of its sampler");
        }
        let z_filter = field(words[2], 24, 2);
        if z_filter != 0 && (z_filter == 2) != (enlarges == 1) {
            return Err("a different filter for z");
        }
        let border = Self::BORDERS.get(field(words[3], 30, 2) as usize);
        let border = *border.ok_or("a custom border colour")?;
        let unnormalized = field(words[0], 15, 1) != 0;
        Ok(Sampler { wrap: [x, y, z], unnormalized, linear: enlarges == 1, border })
    }
}
