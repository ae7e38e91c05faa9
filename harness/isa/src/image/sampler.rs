//! The descriptor of a sampler, four words.

use device::Arch;

use super::{Family, field};

/// What becomes of coordinates outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// The image repeats.
    Repeat,
    /// It repeats, every other time mirrored.
    Mirror,
    /// The texels at the edge go on.
    Edge,
    /// Mirrored once, then as at the edge.
    MirrorEdge,
    /// There is the border.
    Border,
}

/// The colour of the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// All zeros.
    Transparent,
    /// Zeros, alpha is 1.
    Black,
    /// All ones.
    White,
}

/// How an image is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// In x, y and z.
    pub wrap: [Wrap; 3],
    /// Coordinates count texels, and are not parts of the image.
    pub unnormalized: bool,
    /// Results lie between texels.
    pub linear: bool,
    /// The colour of the border.
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

    /// The descriptor.
    pub fn words(&self, arch: Arch) -> [u32; 4] {
        let wrap = |wanted: Wrap| {
            Self::WRAPS.iter().find(|(wrap, _)| *wrap == wanted).map_or(0, |(_, bits)| *bits)
        };
        let [x, y, z] = self.wrap.map(wrap);
        let filter = u32::from(self.linear);
        let border = Self::BORDERS.iter().position(|border| *border == self.border);
        // The highest level that is sampled is as high as it can be.
        let levels = if Family::of(arch) == Family::Gfx12 { 4095 << 13 } else { 4095 << 12 };
        [
            x | y << 3 | z << 6 | u32::from(self.unnormalized) << 15,
            levels,
            filter << 20 | filter << 22,
            (border.unwrap_or(0) as u32) << 30,
        ]
    }

    /// What a descriptor says; its fields are where they are on every architecture.
    ///
    /// # Errors
    /// What of it is not emulated.
    pub fn read(words: &[u32; 4]) -> Result<Sampler, &'static str> {
        let wrap = |low: u32| {
            let bits = field(words[0], low, 3);
            Self::WRAPS.iter().find(|(_, known)| *known == bits).map(|(wrap, _)| *wrap)
        };
        let wraps = [wrap(0), wrap(3), wrap(6)];
        let [Some(x), Some(y), Some(z)] = wraps else { return Err("half a border") };
        if field(words[0], 9, 3) != 0 {
            return Err("anisotropic filtering");
        }
        // FILTER_MODE: blends, the smallest, the largest. TRUNC_COORD, DISABLE_CUBE_WRAP and the like are not for compute.
        if field(words[0], 29, 2) != 0 || field(words[0], 27, 1) != 0 {
            return Err("the filter mode of its sampler");
        }
        let (enlarges, reduces) = (field(words[2], 20, 2), field(words[2], 22, 2));
        // With one level, which of the two is used depends on how far the coordinates of neighbours are apart.
        if enlarges != reduces || enlarges > 1 || field(words[2], 26, 2) > 1 {
            return Err("the filters of its sampler");
        }
        let z_filter = field(words[2], 24, 2);
        if z_filter != 0 && (z_filter == 2) != (enlarges == 1) {
            return Err("a filter in z of its own");
        }
        let border = Self::BORDERS.get(field(words[3], 30, 2) as usize);
        let border = *border.ok_or("a border of a colour of its own")?;
        let unnormalized = field(words[0], 15, 1) != 0;
        Ok(Sampler { wrap: [x, y, z], unnormalized, linear: enlarges == 1, border })
    }
}
