//! Sums of products for CDNA 1 to 3. The results are bit-exact with measurements on hardware.
//!
//! Source: Xie and others, "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores" (arXiv 2511.10909),
//! and the model of that name. This module does not handle products of f32 and f64: [`Multiply`] adds them in ascending
//! order of k, each with a fused multiply-add that rounds once.

use device::{Arch, MatrixSums};

use super::{MAX_VALUES, Multiply, Shape, dense, element::Input};
use crate::{
    exec::{Bound, Lanes, bind_lanes},
    small_float::SmallFloat,
    text::Text,
    wave::Wave,
};

/// Method by which an instruction adds its products to each other and to the addend.
#[derive(Clone, Copy)]
pub(super) enum Sums {
    /// The products of a lane are added in pairs. Then the sums of the pairs are added to each other, and the result to
    /// the addend. Each sum is rounded.
    Pairs {
        /// True if denormals of A, B and C are flushed to positive zeros.
        inputs: bool,
        /// True if denormal sums are flushed to zeros of the same sign.
        sums: bool,
    },
    /// Products are added as integers with a common exponent, `products` of them at a time. The sum of each such group
    /// of products is added to the addend and rounded.
    Aligned {
        products: usize,
        /// True if the products with even k and those with odd k are first added separately.
        halves: bool,
        /// Minimum exponents of the elements of A and B.
        least: [i32; 2],
    },
}

/// Exponent that is used for zero, and minimum exponent of the addend.
const MIN_EXPONENT: i32 = -126;

fn least(input: Input) -> i32 {
    match input {
        Input::F16 => -14,
        Input::Fp8(format) => SmallFloat::least_exponent(format),
        _ => MIN_EXPONENT,
    }
}

impl Sums {
    pub(super) fn of(arch: Arch, a: Input, b: Input, k: usize) -> Option<Sums> {
        let (products, halves) = match (arch.facts().matrix_sums, a) {
            (MatrixSums::Pairs, Input::F16 | Input::Bf16) => {
                return Some(Sums::Pairs { inputs: false, sums: false });
            }
            // Products of normal f16 numbers are multiples of 2^-48. The sum of such a product and a normal addend is
            // therefore never a denormal.
            (MatrixSums::PairsOfNormals, Input::F16 | Input::Bf16) => {
                return Some(Sums::Pairs { inputs: true, sums: a == Input::Bf16 });
            }
            (MatrixSums::Aligned, Input::F16 | Input::Bf16) => (8.min(k), false),
            (MatrixSums::Aligned, Input::Xf32) => (4, false),
            (MatrixSums::Aligned, Input::Fp8(_)) => (16, true),
            (MatrixSums::Ascending, _)
            | (MatrixSums::Pairs | MatrixSums::PairsOfNormals | MatrixSums::Aligned, _) => {
                return None;
            }
        };
        Some(Sums::Aligned { products, halves, least: [least(a), least(b)] })
    }
}

struct Measured<const N: usize> {
    of: Multiply<f32, N, false>,
    sums: Sums,
}

pub(super) fn bind<const N: usize>(text: &Text, shape: Shape, sums: Sums) -> Bound {
    bind_lanes(Measured { of: dense::<f32, N>(text, shape)?, sums })
}

#[inline(always)]
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Returns two to the power of the exponent of `value`, at least `least`. For zero, returns two to the power of
/// [`MIN_EXPONENT`].
#[inline(always)]
fn exponent(value: f32, least: f64) -> f64 {
    let wide = f64::from(value);
    let exponent = f64::from_bits(wide.to_bits() & 0x7ff << 52);
    if wide == 0.0 { power(MIN_EXPONENT) } else { exponent.max(least) }
}

/// Returns +0 for a denormal, which is a number whose absolute value is below `least`. Returns any other number
/// unchanged.
#[inline(always)]
fn flushed(value: f32, least: f32) -> f32 {
    if value.abs() < least { 0.0 } else { value }
}

/// Rounds down. A zero becomes +0.
#[inline(always)]
fn floor(value: f64) -> f64 {
    value.floor() + 0.0
}

/// Elements of A or B. The first index is the number of the element in its lane, the second index is the lane.
type Side<T> = [[T; 64]; MAX_VALUES];

#[inline(always)]
fn exponents(sides: [&Side<f32>; 2], values: usize, least: [i32; 2]) -> [Side<f64>; 2] {
    let mut exponents = [[[0f64; 64]; MAX_VALUES]; 2];
    for ((exponents, side), least) in exponents.iter_mut().zip(sides).zip(least) {
        for (exponents, side) in exponents.iter_mut().zip(side).take(values) {
            *exponents = side.map(|value| exponent(value, power(least)));
        }
    }
    exponents
}

#[inline(always)]
fn kept<const N: usize>(mut values: [f32; N], flush: bool) -> [f32; N] {
    if flush {
        for value in &mut values {
            let bits = value.to_bits();
            let is_normal = bits & 0x7f80_0000 != 0;
            *value = f32::from_bits(if is_normal { bits } else { bits & 1 << 31 });
        }
    }
    values
}

#[inline(always)]
fn add<const N: usize>(mut to: [f32; N], values: [f32; N], flush: bool) -> [f32; N] {
    for (to, value) in to.iter_mut().zip(values) {
        *to += value;
    }
    kept(to, flush)
}

/// Adds products as integers. For each column, returns two to the power of the largest exponent, and the sum in units
/// of 2^-24 of that power. `factors` yields for each k the element of A and two to the power of its exponent, and then,
/// for all columns, the elements of B and two to the powers of their exponents.
#[inline(always)]
fn aligned<const N: usize>(
    factors: impl Iterator<Item = (f64, f64, [f64; N], [f64; N])> + Clone,
) -> ([f64; N], [f64; N]) {
    let (mut greatest, mut sum) = ([0f64; N], [0f64; N]);
    for (_, of_a, _, of_b) in factors.clone() {
        for (greatest, of_b) in greatest.iter_mut().zip(&of_b) {
            *greatest = greatest.max(of_a * of_b);
        }
    }
    let units = greatest.map(|greatest| power(24) / greatest);
    for (a, _, b, _) in factors {
        for ((sum, unit), b) in sum.iter_mut().zip(&units).zip(&b) {
            *sum += (a * b * unit).trunc();
        }
    }
    (greatest, sum)
}

impl<const N: usize> Lanes for Measured<N> {
    // All lanes take part, because the instruction ignores EXEC.
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let of = &self.of;
        let mut a: Side<f32> = of.load(wave, of.a, of.values);
        let mut b: Side<f32> = of.load(wave, of.b, of.values);
        if of.share.lanes != 0 {
            for lanes in &mut b {
                *lanes = std::array::from_fn(|lane| lanes[of.share.lane(lane)]);
            }
        }
        let flushes = matches!(self.sums, Sums::Pairs { inputs: true, .. });
        if flushes {
            let least = power(least(of.a.1)) as f32;
            for value in a.as_flattened_mut().iter_mut().chain(b.as_flattened_mut()) {
                *value = flushed(*value, least);
            }
        }
        let exponents = match self.sums {
            Sums::Aligned { least, .. } => Some(exponents([&a, &b], of.values, least)),
            Sums::Pairs { .. } => None,
        };
        let groups = wave.lanes / N;
        let elements = of.elements.min(of.places.len() / groups);
        // All results are computed before the first write, because D may overlap A, B or C.
        let mut results = [[0f32; 64]; 32];
        for (index, result) in results.iter_mut().enumerate().take(elements) {
            let addend = of.addend(wave, index);
            for group in 0..groups {
                let (row, block) = of.places[index * groups + group];
                let first_of_a =
                    |k: usize| N * (of.share.block(block) + of.blocks * (k / of.values)) + row;
                let first_of_b = |k: usize| N * (block + of.blocks * (k / of.values));
                let value = |k: usize| k % of.values;
                let mut sum = [0f32; N];
                sum.copy_from_slice(&addend[group * N..][..N]);
                if flushes {
                    sum = sum.map(|sum| flushed(sum, f32::MIN_POSITIVE));
                }
                let ks = of.values * of.k_groups;
                match self.sums {
                    // The loop contains no closures, because a closure that the compiler does not inline would be
                    // compiled without AVX2.
                    Sums::Pairs { sums: flush, .. } => {
                        for first in (0..ks).step_by(of.values) {
                            let mut products = [[0f32; N]; 4];
                            for (k, products) in (first..).zip(&mut products).take(of.values) {
                                let scalar = a[value(k)][first_of_a(k)];
                                let vector = &b[value(k)][first_of_b(k)..][..N];
                                for (product, element) in products.iter_mut().zip(vector) {
                                    *product = scalar.mul_add(*element, 0.0);
                                }
                                *products = kept(*products, flush);
                            }
                            let [first, second, third, fourth] = products;
                            let mut pairs = add(first, second, flush);
                            if of.values == 4 {
                                pairs = add(pairs, add(third, fourth, flush), flush);
                            }
                            sum = add(sum, pairs, flush);
                        }
                    }
                    Sums::Aligned { products, halves, .. } => {
                        let exponents = exponents.as_ref().expect("aligned sums have exponents");
                        let factors = |k: usize| {
                            let (value, of_a, of_b) = (value(k), first_of_a(k), first_of_b(k));
                            let column = |lane: usize| of_b + lane;
                            (
                                f64::from(a[value][of_a]),
                                exponents[0][value][of_a],
                                std::array::from_fn(|lane| f64::from(b[value][column(lane)])),
                                std::array::from_fn(|lane| exponents[1][value][column(lane)]),
                            )
                        };
                        for first in (0..ks).step_by(products) {
                            let these = first..ks.min(first + products);
                            sum = fuse(sum, these, halves, factors);
                        }
                    }
                }
                result[group * N..][..N].copy_from_slice(&sum);
            }
        }
        for (index, result) in results.iter().enumerate().take(elements) {
            of.store(wave, index, result);
        }
    }
}

/// Adds the products of the elements whose k is in `ks` to the addend. Products and addend are converted to integers
/// with a common exponent. [`Sums::Aligned`] explains `halves`. `factors` returns for a k the values that [`aligned`]
/// requires.
#[inline(always)]
fn fuse<const N: usize>(
    addend: [f32; N],
    ks: std::ops::Range<usize>,
    halves: bool,
    factors: impl Fn(usize) -> (f64, f64, [f64; N], [f64; N]) + Copy,
) -> [f32; N] {
    let (greatest, sum) = if halves {
        let even = aligned(ks.clone().step_by(2).map(factors));
        let odd = aligned(ks.clone().skip(1).step_by(2).map(factors));
        let greatest: [f64; N] = std::array::from_fn(|lane| even.0[lane].max(odd.0[lane]));
        let sum = std::array::from_fn(|lane| {
            let down =
                |(of, sum): &([f64; N], [f64; N])| floor(sum[lane] * (of[lane] / greatest[lane]));
            down(&even) + down(&odd)
        });
        (greatest, sum)
    } else {
        aligned(ks.clone().map(factors))
    };
    // If the ordinary floating-point sum is an infinity or a NaN, it is the result.
    let (mut plain, mut beyond) = (addend.map(f64::from), [[false; N]; 2]);
    for (a, _, b, _) in ks.map(factors) {
        for (lane, plain) in plain.iter_mut().enumerate() {
            let product = a * b[lane];
            *plain += product;
            beyond[0][lane] |= product >= power(128);
            beyond[1][lane] |= product <= -power(128);
        }
    }
    std::array::from_fn(|lane| {
        if !plain[lane].is_finite() {
            return plain[lane] as f32;
        }
        match [beyond[0][lane], beyond[1][lane]] {
            [true, true] => return f32::NAN,
            [true, false] => return f32::INFINITY,
            [false, true] => return f32::NEG_INFINITY,
            [false, false] => {}
        }
        let of_addend = exponent(addend[lane], power(MIN_EXPONENT));
        let top = greatest[lane].max(of_addend);
        // The unit is 2^-31 of the largest number. The addend is a multiple of 2^7 units.
        let products = floor(sum[lane] * (greatest[lane] / top) * power(7));
        let counts = !halves || of_addend * power(25) >= top;
        let addend = if counts { f64::from(addend[lane]) } else { 0.0 };
        let addend = floor(addend / top * power(24)) * power(7);
        ((products + addend) * (top * power(-31))) as f32
    })
}
