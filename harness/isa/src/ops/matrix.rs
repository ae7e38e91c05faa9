//! Matrix multiply-accumulate: MFMA of CDNA and WMMA of RDNA, and their sparse forms SMFMAC and SWMMAC.
//!
//! Source for the layouts: the CDNA and RDNA ISA guides and AMD's matrix instruction calculator. No guide specifies the
//! order of the additions inside one instruction. Unless the order has been measured ([`measured`]), products are added
//! in ascending order of k, each with a fused multiply-add that rounds once.

mod element;
mod measured;
mod share;
mod small;

use std::marker::PhantomData;

use device::{Arch, MatrixUnit};
use element::{Accumulator, Input};
use share::Share;

use crate::{
    exec::{Bound, Lanes, bind_lanes},
    float16::{Bf16, F16},
    registers::HALF,
    small_float::SmallFloat,
    source::Place,
    text::{Base, Text, Unsupported},
    value::Value,
    wave::Wave,
};

/// Layout of the elements of C and D in registers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Output {
    /// One element per register, or per register pair.
    Whole,
    /// One 16-bit element per register, in the low or high half. The other half is kept.
    OneHalf { bfloat: bool, high: bool },
    /// Two 16-bit elements per register.
    Packed { bfloat: bool },
}

/// Maximum sizes of arrays: elements of A per lane (`MAX_VALUES`), elements of B per lane if A is sparse
/// (`MAX_SPARSE_VALUES`), and registers that contain these elements (`MAX_WORDS`).
const MAX_VALUES: usize = 16;
const MAX_SPARSE_VALUES: usize = 2 * MAX_VALUES;
const MAX_WORDS: usize = 8;

/// Registers and bits that contain the indices of a sparse A. Of each four neighbouring elements in a row of A, two are
/// zero and are not stored.
#[derive(Clone, Copy)]
struct Sparse {
    /// Register that contains the indices. The index of each stored element has two bits: the position of the element
    /// among the four neighbours.
    row: usize,
    shift: usize,
    /// True if A has the layout of a dense matrix with half of K. Then each lane contains elements of B from the first
    /// half of K, followed by elements from the second half ([`Multiply::partner`]).
    in_runs: bool,
}

/// An instruction that multiplies N by K matrices with K by N matrices, one pair of matrices per block.
struct Multiply<T, const N: usize, const SPARSE: bool> {
    a: (usize, Input),
    b: (usize, Input),
    c: Place,
    d: usize,
    /// Number of elements of A in each lane. B has as many elements in each lane, or twice as many if A is sparse.
    values: usize,
    sparse: Sparse,
    share: Share,
    blocks: usize,
    /// Number of groups of lanes that contain elements with different k. Each group has N lanes per block.
    k_groups: usize,
    output: Output,
    elements: usize,
    /// Row and block of D to which elements of D belong. The wave consists of groups of N lanes, and each lane of a
    /// group contains another column of D. The entry for the element number `index` of the lanes in the group number
    /// `group` has the index `index * groups + group`, where `groups` is the number of groups.
    places: Vec<(usize, usize)>,
    clamp: bool,
    negate: [bool; 3],
    of: PhantomData<fn(T)>,
}

impl<T: Accumulator, const N: usize, const SPARSE: bool> Multiply<T, N, SPARSE> {
    /// Reads the elements of A or B, converted to `T`. The first index of the result is the number of the element in
    /// its lane, the second index is the lane.
    #[inline(always)]
    fn load<const MOST: usize>(
        &self,
        wave: &Wave,
        (row, input): (usize, Input),
        values: usize,
    ) -> [[T; 64]; MOST] {
        let mut elements = [[T::ZERO; 64]; MOST];
        let rows = (values * input.bits()).div_ceil(32);
        for half in 0..wave.halves() {
            let mut words = [&wave.vector[row][half]; MAX_WORDS];
            for (word, register) in words.iter_mut().enumerate().take(rows) {
                *register = &wave.vector[row + word][half];
            }
            for (index, lanes) in elements.iter_mut().enumerate().take(values) {
                let lanes = &mut lanes[half * HALF..][..HALF];
                for (lane, element) in lanes.iter_mut().enumerate() {
                    *element = T::element(input, &words, index, lane);
                }
            }
        }
        elements
    }

    /// Returns the position of the element of B that is multiplied with an element of a sparse A: its number in the
    /// lane, and the group of lanes that contains it. Within that group, the element of B is in the block of the
    /// element of A.
    ///
    /// Source for the layout if `in_runs` is true: the CDNA 4 ISA guide, "Sparse Matrix Multiply", which says that A is
    /// packed like a dense matrix. Measurements by others on an MI350 showed that the elements of B from the first half
    /// of K are distributed over all groups, and after them those from the second half.
    #[inline(always)]
    fn partner(&self, wave: &Wave, value: usize, k_group: usize, lane: usize) -> (usize, usize) {
        let bits = wave.lane(self.sparse.row, lane) >> (self.sparse.shift + 2 * value);
        let within = value / 2 * 4 + (bits & 3) as usize;
        if !self.sparse.in_runs {
            return (within, k_group);
        }
        let (k, run) = (2 * self.values * k_group + within, self.values * self.k_groups);
        (k / run * self.values + k % self.values, k % run / self.values)
    }

    #[inline(always)]
    fn addend(&self, wave: &Wave, index: usize) -> [T; 64] {
        let row = match self.c {
            Place::Vector(row) => usize::from(row),
            Place::Constant(bits) => return [T::from_words(bits as u32, (bits >> 32) as u32); 64],
            _ => return [T::ZERO; 64],
        };
        let (register, shift, bfloat) = match self.output {
            Output::Whole => (index * T::WORDS, None, false),
            Output::OneHalf { bfloat, high } => (index, Some(if high { 16 } else { 0 }), bfloat),
            Output::Packed { bfloat } => (index / 2, Some(16 * (index % 2)), bfloat),
        };
        std::array::from_fn(|lane| {
            let (half, lane) = (lane / HALF, lane % HALF);
            let low = wave.vector[row + register][half][lane];
            match shift {
                None if T::WORDS == 2 => {
                    T::from_words(low, wave.vector[row + register + 1][half][lane])
                }
                None => T::from_words(low, 0),
                Some(shift) => {
                    let bits = (low >> shift) as u16;
                    let wide = if bfloat { Bf16(bits).to_f32() } else { F16(bits).to_f32() };
                    T::from_words(wide.to_bits(), 0)
                }
            }
        })
    }

    #[inline(always)]
    fn store(&self, wave: &mut Wave, index: usize, results: &[T; 64]) {
        let round = F16::rounding(wave.saturates());
        for half in 0..wave.halves() {
            let results = &results[half * HALF..][..HALF];
            let (register, shift, bfloat) = match self.output {
                Output::Whole => {
                    for word in 0..T::WORDS {
                        let row = &mut wave.vector[self.d + index * T::WORDS + word][half];
                        for (lane, result) in row.iter_mut().zip(results) {
                            *lane = result.words()[word];
                        }
                    }
                    continue;
                }
                Output::OneHalf { bfloat, high } => (index, if high { 16 } else { 0 }, bfloat),
                Output::Packed { bfloat } => (index / 2, 16 * (index % 2), bfloat),
            };
            let row = &mut wave.vector[self.d + register][half];
            for (lane, result) in row.iter_mut().zip(results) {
                let value = f32::from_bits(result.words()[0]);
                let bits = if bfloat { Bf16::from_f32(value).0 } else { round(value).0 };
                *lane = (*lane & !(0xffff << shift)) | u32::from(bits) << shift;
            }
        }
    }
}

impl<T: Accumulator, const N: usize, const SPARSE: bool> Lanes for Multiply<T, N, SPARSE> {
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        if SPARSE {
            self.multiply::<MAX_SPARSE_VALUES>(wave, 2 * self.values);
        } else {
            self.multiply::<MAX_VALUES>(wave, self.values);
        }
    }
}

impl<T: Accumulator, const N: usize, const SPARSE: bool> Multiply<T, N, SPARSE> {
    // All lanes take part, because the instruction ignores EXEC.
    #[inline(always)]
    fn multiply<const MOST: usize>(&self, wave: &mut Wave, in_b: usize) {
        let mut a = self.load::<MAX_VALUES>(wave, self.a, self.values);
        let mut b = self.load::<MOST>(wave, self.b, in_b);
        if self.share.lanes != 0 {
            for lanes in &mut b {
                *lanes = std::array::from_fn(|lane| lanes[self.share.lane(lane)]);
            }
        }
        for (negate, lanes) in [(self.negate[0], &mut a[..]), (self.negate[1], &mut b[..])] {
            if negate {
                lanes
                    .as_flattened_mut()
                    .iter_mut()
                    .for_each(|element| *element = element.negated());
            }
        }
        // On GFX12, half-precision results are rounded after every four products, according to measurements by others
        // on a Radeon AI PRO R9700.
        let steps = !SPARSE && self.output == Output::Packed { bfloat: false };
        let step = if steps { 4 } else { MAX_VALUES };
        let round = F16::rounding(wave.saturates());
        let groups = wave.lanes / N;
        let elements = self.elements.min(self.places.len() / groups);
        // All results are computed before the first write, because D may overlap A, B or C.
        let mut results = [[T::ZERO; 64]; 32];
        for (index, result) in results.iter_mut().enumerate().take(elements) {
            let addend = self.addend(wave, index);
            let mut sums = [T::ZERO; 64];
            for group in 0..groups {
                let (row, block) = self.places[index * groups + group];
                let mut sum = [T::ZERO; N];
                sum.copy_from_slice(&addend[group * N..][..N]);
                if self.negate[2] {
                    sum = sum.map(T::negated);
                }
                let start = sum;
                if self.clamp {
                    sum = [T::ZERO; N];
                }
                let ks = (0..self.values).step_by(step);
                for (from, k_group) in ks.flat_map(|k| (0..self.k_groups).map(move |g| (k, g))) {
                    let first = N * (block + self.blocks * k_group);
                    let first_of_a = N * (self.share.block(block) + self.blocks * k_group);
                    let to = self.values.min(from + step);
                    for (value, scalars) in a.iter().enumerate().take(to).skip(from) {
                        let scalar = scalars[first_of_a + row];
                        let (index, group_of_b) = if SPARSE {
                            self.partner(wave, value, k_group, first + row)
                        } else {
                            (value, k_group)
                        };
                        let first = N * (block + self.blocks * group_of_b);
                        let vector = &b[index][first..first + N];
                        for (sum, element) in sum.iter_mut().zip(vector) {
                            *sum = sum.multiply_add(scalar, *element);
                        }
                    }
                    if steps {
                        sum = sum.map(|sum| element::in_half(sum, round));
                    }
                }
                if self.clamp {
                    for (sum, start) in sum.iter_mut().zip(start) {
                        *sum = start.saturating_add(*sum);
                    }
                }
                sums[group * N..][..N].copy_from_slice(&sum);
            }
            *result = sums;
        }
        for (index, result) in results.iter().enumerate().take(elements) {
            self.store(wave, index, result);
        }
    }
}

/// Parts of an instruction's name, for example `v_mfma_f32_32x32x8f16` or `v_wmma_f32_16x16x16_bf16`.
struct Name<'a> {
    output: &'a str,
    size: usize,
    k: usize,
    /// The rest of the name after the sizes, which starts with the type of A and B.
    input: &'a str,
}

fn name(rest: &str) -> Option<Name<'_>> {
    let (output, rest) = rest.split_once('_')?;
    let mut numbers = rest.splitn(3, 'x');
    let (rows, columns, rest) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let (k, input) = rest.split_at(digits);
    let size = rows.parse().ok()?;
    (rows == columns).then_some(Name {
        output,
        size,
        k: k.parse().ok()?,
        input: without_blocks(input.strip_prefix('_').unwrap_or(input)),
    })
}

/// Returns the name without the number of blocks, for example without `4b_`. GFX940 adds this number to names, but it
/// also follows from the registers.
fn without_blocks(input: &str) -> &str {
    match input.split_once("b_") {
        Some((count, rest)) if count.parse::<u8>().is_ok() => rest,
        _ => input,
    }
}

fn inputs(name: &str, arch: Arch) -> Option<(Input, Input)> {
    let float8 = |name: &str| SmallFloat::named(name, arch).map(Input::Fp8);
    let same = |input| Some((input, input));
    match name {
        "f64" => same(Input::F64),
        "f32" => same(Input::F32),
        "xf32" if arch.facts().has_xf32 => same(Input::Xf32),
        "f16" => same(Input::F16),
        "bf16" | "bf16_1k" => same(Input::Bf16),
        "i8" => same(Input::Int8 { signed: true }),
        "iu8" => same(Input::Int8 { signed: false }),
        "iu4" => same(Input::Int4 { signed: false }),
        _ => {
            let (a, b) = name.split_once('_')?;
            Some((float8(a)?, float8(b)?))
        }
    }
}

pub(crate) fn bind(text: &Text) -> Bound {
    let (family, rest) = text
        .mnemonic
        .strip_prefix("v_")
        .and_then(|name| name.split_once('_'))
        .ok_or(Unsupported)?;
    if rest.ends_with("_f8f6f4") {
        return small::bind(text, rest);
    }
    let name = name(rest).ok_or(Unsupported)?;
    match family {
        "mfma" => mfma(text, &name, false),
        "smfmac" => mfma(text, &name, true),
        "wmma" => wmma(text, &name, false),
        "swmmac" => wmma(text, &name, true),
        _ => Err(Unsupported),
    }
}

fn mfma(text: &Text, name: &Name<'_>, sparse: bool) -> Bound {
    // For a sparse A, `cbsz` and `abid` select the set of indices. From GFX940 on, the `blgp` field contains the signs
    // of doubles (LLVM, `printBLGP` in AMDGPUInstPrinter.cpp).
    let doubles = name.input == "f64" && text.site.arch.facts().negates_f64_matrices;
    text.only(match (sparse, doubles) {
        (true, _) => &["cbsz", "abid"],
        (false, true) => &["cbsz", "abid", "neg"],
        (false, false) => &["cbsz", "abid", "blgp"],
    })?;
    let signs = text.list("neg").unwrap_or_default();
    let negate = [0, 1, 2].map(|source| signs.get(source) == Some(&1));
    let (input, _) = inputs(name.input, text.site.arch).ok_or(Unsupported)?;
    let (a_row, words) = registers(text, 1)?;
    let values = words * 32 / input.bits();
    let (size, elements) = (name.size, name.size * name.k);
    let in_b = if sparse { 2 * values } else { values };
    if values == 0 || values > MAX_VALUES || elements == 0 || 64 * in_b % elements != 0 {
        return Err(Unsupported);
    }
    let blocks = 64 * in_b / elements;
    let groups = 64 / size;
    let wide = name.output == "f64";
    let mut places = Vec::new();
    for index in 0..size * size * blocks / 64 {
        for group in 0..groups {
            places.push(match (size, wide) {
                (4, false) => (index, group),
                (4, true) => (group / 4, group % 4),
                (16, true) => (4 * index + group, 0),
                (16, false) => (4 * group + index % 4, index / 4),
                (32, false) => (8 * (index % 16 / 4) + 4 * group + index % 4, index / 16),
                _ => return Err(Unsupported),
            });
        }
    }
    let shape = Shape {
        a: (a_row, input),
        b: (registers(text, 2)?.0, inputs(name.input, text.site.arch).ok_or(Unsupported)?.1),
        values,
        sparse: match sparse {
            // With this many values, the indices fill the register. Then there is only one set of indices, and `cbsz`
            // and `abid` have no effect.
            true if values == MAX_VALUES || text.number("cbsz")? != 0 => Some(0),
            true => Some(text.number("abid")?),
            false => None,
        },
        share: if sparse { Share::default() } else { Share::parse(text, blocks)? },
        blocks,
        k_groups: groups.checked_div(blocks).filter(|n| *n > 0).ok_or(Unsupported)?,
        output: Output::Whole,
        elements: size * size * blocks / 64,
        places,
        clamp: false,
        negate,
    };
    if let Some(sums) = measured::Sums::of(text.site.arch, shape.a.1, shape.b.1, name.k)
        && !sparse
    {
        return match size {
            32 => measured::bind::<32>(text, shape, sums),
            16 => measured::bind::<16>(text, shape, sums),
            _ => measured::bind::<4>(text, shape, sums),
        };
    }
    match (name.output, size) {
        ("f32", 32) => multiply::<f32, 32>(text, shape),
        ("f32", 16) => multiply::<f32, 16>(text, shape),
        ("f32", 4) => multiply::<f32, 4>(text, shape),
        ("i32", 32) => multiply::<i32, 32>(text, shape),
        ("i32", 16) => multiply::<i32, 16>(text, shape),
        ("i32", 4) => multiply::<i32, 4>(text, shape),
        ("f64", 16) => multiply::<f64, 16>(text, shape),
        ("f64", 4) => multiply::<f64, 4>(text, shape),
        _ => Err(Unsupported),
    }
}

fn wmma(text: &Text, name: &Name<'_>, sparse: bool) -> Bound {
    text.only(if sparse {
        &["index_key", "neg_lo", "clamp"]
    } else {
        &["op_sel", "neg_lo", "clamp"]
    })?;
    let (mut a, mut b) = inputs(name.input, text.site.arch).ok_or(Unsupported)?;
    let negate = text.list("neg_lo").unwrap_or_default();
    let set = |source: usize| negate.get(source) == Some(&1);
    match (&mut a, &mut b) {
        (Input::Int8 { signed: a }, Input::Int8 { signed: b })
        | (Input::Int4 { signed: a }, Input::Int4 { signed: b }) => (*a, *b) = (set(0), set(1)),
        _ if negate.contains(&1) => return Err(Unsupported),
        _ => {}
    }
    let (a_row, words) = registers(text, 1)?;
    let (_, d_words) = registers(text, 0)?;
    let half = matches!(name.output, "f16" | "bf16");
    let bfloat = name.output == "bf16";
    // On GFX11, each group of 16 lanes contains a copy of A and B. On GFX12, the groups contain elements with different
    // k.
    let spread = match text.site.arch.facts().matrix {
        MatrixUnit::WmmaRepeated => false,
        MatrixUnit::WmmaSpread => true,
        MatrixUnit::Absent | MatrixUnit::Mfma | MatrixUnit::Wmma1250 => {
            return Err(Unsupported);
        }
    };
    let (elements, output) = match (half, spread) {
        (false, _) => (d_words, Output::Whole),
        (true, true) => (2 * d_words, Output::Packed { bfloat }),
        (true, false) => {
            let high = text.list("op_sel").is_some_and(|bits| bits.get(2) == Some(&1));
            (d_words, Output::OneHalf { bfloat, high })
        }
    };
    // D has 256 elements, which are distributed over all lanes.
    if elements == 0 || 256 % elements != 0 || name.size != 16 {
        return Err(Unsupported);
    }
    let groups = 256 / elements / 16;
    let k_groups = if spread { groups } else { 1 };
    // 4-bit elements may fill only half of a register.
    let values = name.k / k_groups / if sparse { 2 } else { 1 };
    if (values * a.bits()).div_ceil(32) != words || groups * 16 != text.site.lanes {
        return Err(Unsupported);
    }
    let in_b = if sparse { 2 * values } else { values };
    if values > MAX_VALUES || in_b * k_groups != name.k || !matches!(groups, 2 | 4) {
        return Err(Unsupported);
    }
    let mut places = Vec::new();
    for index in 0..elements {
        for group in 0..groups {
            let spread_row = 8 * (group % 2) + 4 * (group / 2) + index;
            places.push((if spread { spread_row } else { groups * index + group }, 0));
        }
    }
    let shape = Shape {
        a: (a_row, a),
        b: (registers(text, 2)?.0, b),
        values,
        sparse: if sparse { Some(text.number("index_key")?) } else { None },
        share: Share::default(),
        blocks: 1,
        k_groups,
        output,
        elements,
        places,
        clamp: text.has("clamp"),
        negate: [false; 3],
    };
    match name.output {
        "f32" | "f16" | "bf16" if !shape.clamp => multiply::<f32, 16>(text, shape),
        "i32" => multiply::<i32, 16>(text, shape),
        _ => Err(Unsupported),
    }
}

/// Returns the first register of a vector operand, and the number of its registers.
fn registers(text: &Text, index: usize) -> Result<(usize, usize), Unsupported> {
    match text.operand(index)?.base {
        Base::Vector { first, count } => Ok((first.into(), count.into())),
        _ => Err(Unsupported),
    }
}

/// Properties of a [`Multiply`] that do not depend on its type parameters.
struct Shape {
    a: (usize, Input),
    b: (usize, Input),
    values: usize,
    /// Number of the selected set of indices in its register; `None` if A is not sparse.
    sparse: Option<i64>,
    share: Share,
    blocks: usize,
    k_groups: usize,
    output: Output,
    elements: usize,
    places: Vec<(usize, usize)>,
    clamp: bool,
    negate: [bool; 3],
}

fn multiply<T: Accumulator + Value, const N: usize>(text: &Text, shape: Shape) -> Bound {
    let Some(set) = shape.sparse else { return bind_lanes(dense::<T, N>(text, shape)?) };
    let shift = usize::try_from(set).map_err(|_| Unsupported)? * 2 * shape.values;
    if shift + 2 * shape.values > 32 {
        return Err(Unsupported);
    }
    // An operand of at most two registers has the layout of CDNA 3.
    let is_larger = shape.values * shape.a.1.bits() > 64;
    let in_runs = is_larger && text.site.arch.facts().sparse_in_runs;
    let sparse = Sparse { row: text.row(3, 1)?, shift, in_runs };
    bind_lanes(resolve::<T, N, true>(text, shape, sparse)?)
}

fn dense<T: Accumulator + Value, const N: usize>(
    text: &Text,
    shape: Shape,
) -> Result<Multiply<T, N, false>, Unsupported> {
    resolve(text, shape, Sparse { row: 0, shift: 0, in_runs: false })
}

fn resolve<T: Accumulator + Value, const N: usize, const SPARSE: bool>(
    text: &Text,
    shape: Shape,
    sparse: Sparse,
) -> Result<Multiply<T, N, SPARSE>, Unsupported> {
    let (d, d_words) = registers(text, 0)?;
    // If A is sparse, the operand at the position of C contains the indices, and D is also the addend.
    let c = match &text.operand(if SPARSE { 0 } else { 3 })?.base {
        Base::Vector { first, count } if usize::from(*count) == d_words => Place::Vector(*first),
        Base::Constant(constant) if shape.output == Output::Whole => {
            Place::Constant(<T as Value>::constant(*constant))
        }
        _ => return Err(Unsupported),
    };
    // The loops assume as many registers as the shape requires, and the disassembler prints exactly this number.
    let wanted = match shape.output {
        Output::Whole => shape.elements * <T as Accumulator>::WORDS,
        Output::OneHalf { .. } => shape.elements,
        Output::Packed { .. } => shape.elements / 2,
    };
    let in_b = if SPARSE { 2 * shape.values } else { shape.values };
    let b_words = (in_b * shape.b.1.bits()).div_ceil(32);
    if d_words < wanted || b_words > MAX_WORDS.min(registers(text, 2)?.1) {
        return Err(Unsupported);
    }
    let plain = text.operands.iter().all(|operand| !operand.negate && !operand.absolute);
    if !plain || shape.places.iter().any(|(row, block)| *row >= N || *block >= shape.blocks) {
        return Err(Unsupported);
    }
    Ok(Multiply {
        a: shape.a,
        b: shape.b,
        c,
        d,
        values: shape.values,
        sparse,
        share: shape.share,
        blocks: shape.blocks,
        k_groups: shape.k_groups,
        output: shape.output,
        elements: shape.elements,
        places: shape.places,
        clamp: shape.clamp,
        negate: shape.negate,
        of: PhantomData,
    })
}
