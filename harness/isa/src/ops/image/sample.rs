//! Computes the texels that a sample reads, and their weights.

use crate::{
    image::{Border, Dimension, Image, Sampler, Wrap},
    machine::Machine,
    wave::Stop,
};

const FRACTION: u32 = 8;
const ONE: i64 = 1 << FRACTION;

/// The texels that a sample reads, with their weights.
pub(crate) struct Footprint {
    /// Address and weight of each texel. The address is `None` for a texel with the border colour.
    places: Vec<(Option<u64>, u64)>,
    border: Border,
}

/// One or two texels along one axis that contribute to a sample. Each has a position and a weight. The position is
/// `None` if the texel is outside of the image. The sum of the weights is `ONE`.
type Taken = Vec<(Option<u32>, i64)>;

impl Footprint {
    /// Returns the texels of a sample and their weights. If `all` is true, as for a gather, texels with weight zero are
    /// included too.
    pub(crate) fn new(
        image: &Image,
        sampler: &Sampler,
        coordinates: [f32; 3],
        all: bool,
    ) -> Footprint {
        let axis = |at: usize| {
            axis(
                coordinates[at],
                image.size[at],
                sampler.wrap[at],
                sampler.unnormalized,
                all || sampler.linear,
            )
        };
        let none = || vec![(Some(0), ONE)];
        let layer = || vec![(Some(layer(coordinates[2], image.size[2])), ONE)];
        let (x, y, z) = match image.dimension {
            Dimension::D1 => (axis(0), none(), none()),
            Dimension::D2 => (axis(0), axis(1), none()),
            Dimension::D3 => (axis(0), axis(1), axis(2)),
            Dimension::D1Array => (axis(0), none(), layer()),
            Dimension::D2Array => (axis(0), axis(1), layer()),
        };
        let mut places = Vec::with_capacity(x.len() * y.len() * z.len());
        for (z, in_z) in &z {
            for (y, in_y) in &y {
                for (x, in_x) in &x {
                    let weight = (in_x * in_y * in_z) as u64;
                    let at = match (x, y, z) {
                        (Some(x), Some(y), Some(z)) => image.texel([*x, *y, *z]),
                        _ => None,
                    };
                    if weight != 0 || all {
                        places.push((at, weight));
                    }
                }
            }
        }
        Footprint { places, border: sampler.border }
    }

    pub(crate) fn places(&self) -> &[(Option<u64>, u64)] {
        &self.places
    }

    pub(crate) fn is_filtered(&self) -> bool {
        self.places.len() > 1
    }

    /// Reads a texel and returns its components in the form in which a load writes them to registers.
    pub(crate) fn texel(
        &self,
        machine: &mut Machine<'_>,
        image: &Image,
        at: usize,
    ) -> Result<[u32; 4], Box<Stop>> {
        if let Some(address) = self.places[at].0 {
            let bytes = super::read(machine, address, image.format.bytes())?;
            return Ok(image.format.decode(bytes));
        }
        let one = if image.format.is_integer() { 1 } else { 1f32.to_bits() };
        Ok(match self.border {
            Border::Transparent => [0; 4],
            Border::Black => [0, 0, 0, one],
            Border::White => [one; 4],
        })
    }

    pub(crate) fn filtered(
        &self,
        machine: &mut Machine<'_>,
        image: &Image,
    ) -> Result<[u32; 4], Box<Stop>> {
        if !self.is_filtered() {
            return self.texel(machine, image, 0);
        }
        let (mut sums, mut whole) = ([0f64; 4], 0);
        for (at, (_, weight)) in self.places.iter().enumerate() {
            let texel = self.texel(machine, image, at)?;
            whole += weight;
            for (sum, bits) in sums.iter_mut().zip(texel) {
                *sum += *weight as f64 * f64::from(f32::from_bits(bits));
            }
        }
        // The result is rounded only once, because the sum is exact, as the weights are integers of at most 24 bits.
        Ok(sums.map(|sum| ((sum / whole as f64) as f32).to_bits()))
    }
}

fn layer(coordinate: f32, layers: u32) -> u32 {
    // The cast converts negative numbers and NaNs to 0.
    (coordinate.round_ties_even() as u32).min(layers - 1)
}

fn axis(coordinate: f32, size: u32, wrap: Wrap, unnormalized: bool, linear: bool) -> Taken {
    let mut place = f64::from(coordinate);
    let scale = if unnormalized { 1.0 } else { f64::from(size) };
    // In a repeating image, the coordinate is reduced to the first period (the first two if the image is mirrored), so
    // that it does not lose fractional bits.
    place = match wrap {
        Wrap::Repeat if !unnormalized => place - place.floor(),
        Wrap::Mirror if !unnormalized => place - 2.0 * (place / 2.0).floor(),
        _ => place,
    };
    // The cast converts NaNs to 0. The limits are much larger than any image.
    let far = (1i64 << 40) as f64;
    let fixed = (place * scale * ONE as f64).round_ties_even().clamp(-far, far) as i64;
    if !linear {
        return vec![(wrapped(fixed >> FRACTION, size, wrap), ONE)];
    }
    let fixed = fixed - ONE / 2;
    let (first, fraction) = (fixed >> FRACTION, fixed & (ONE - 1));
    vec![(wrapped(first, size, wrap), ONE - fraction), (wrapped(first + 1, size, wrap), fraction)]
}

/// Returns the index of the texel at position `at` of the infinite row that the wrap mode describes; `None` if the
/// texel has the border colour.
fn wrapped(at: i64, size: u32, wrap: Wrap) -> Option<u32> {
    let size = i64::from(size);
    let at = match wrap {
        Wrap::Repeat => at.rem_euclid(size),
        Wrap::Mirror => {
            let twice = at.rem_euclid(2 * size);
            twice.min(2 * size - 1 - twice)
        }
        Wrap::Edge => at.clamp(0, size - 1),
        Wrap::MirrorEdge => at.max(-1 - at).min(size - 1),
        Wrap::Border => {
            return u32::try_from(at).ok().filter(|at| i64::from(*at) < size);
        }
    };
    Some(at as u32)
}
