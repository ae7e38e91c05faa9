//! Checks the results of the kernels in `cdna4.hip`: matrix products and conversions of small floats. This module
//! computes the expected results from the tables of the CDNA 4 ISA guide, without code of the interpreter.

use super::checks::{Check, equal, f16_bits, launch, random};
use crate::device_memory::{Device, mapped};

pub(crate) const SOURCE: &str = include_str!("cdna4.hip");

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("scaled", scaled),
    ("dense", dense),
    ("narrow pairs", narrow_pairs),
    ("narrow fp4", narrow_fp4),
    ("narrow many", narrow_many),
    ("odds", odds),
    ("transposes", transposes),
    ("loads_to_lds", loads_to_lds),
    ("large_lds", large_lds),
];

/// A small float format, given by its numbers of exponent bits and of fraction bits.
#[derive(Clone, Copy)]
struct Format(u32, u32);

const FP8: Format = Format(4, 3);
const BF8: Format = Format(5, 2);
const FP6: Format = Format(2, 3);
const BF6: Format = Format(3, 2);
const FP4: Format = Format(2, 1);
/// Formats in the order of the instruction field that selects a format.
const FORMATS: [Format; 5] = [FP8, BF8, FP6, BF6, FP4];

impl Format {
    fn bits(self) -> u32 {
        1 + self.0 + self.1
    }

    fn value(self, code: u32) -> f64 {
        let fraction = f64::from(code & ((1 << self.1) - 1)) / f64::from(1 << self.1);
        let exponent = code >> self.1 & ((1 << self.0) - 1);
        let bias = (1 << (self.0 - 1)) - 1;
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(1 - bias),
            _ => (1.0 + fraction) * 2f64.powi(exponent as i32 - bias),
        };
        if code >> (self.0 + self.1) & 1 == 1 { -magnitude } else { magnitude }
    }

    fn greatest(self) -> u32 {
        match self.0 {
            4 => 0x7e,
            5 => 0x7b,
            _ => (1 << (self.0 + self.1)) - 1,
        }
    }

    /// Returns the code of the largest number of this format that is at most the magnitude of `value`. Also returns how
    /// far the magnitude is from this number, as a fraction of the distance to the next larger number.
    fn around(self, value: f64) -> (u32, f64) {
        let low = (0..=self.greatest()).rev().find(|code| self.value(*code) <= value.abs());
        let low = low.unwrap_or(0);
        if low == self.greatest() {
            return (low, 0.0);
        }
        let (below, above) = (self.value(low), self.value(low + 1));
        (low, (value.abs() - below) / (above - below))
    }

    fn signed(self, value: f64, code: u32) -> u32 {
        code | u32::from(value.is_sign_negative()) << (self.0 + self.1)
    }

    fn nearest(self, value: f64) -> u32 {
        let (low, part) = self.around(value);
        let up = part > 0.5 || part == 0.5 && low % 2 == 1;
        self.signed(value, low + u32::from(up))
    }

    /// Rounds `value` stochastically: the random number `seed` decides whether it is rounded up or down. `of` is the
    /// number of fraction bits of the format from which `value` is converted.
    fn by_chance(self, value: f64, seed: u32, of: u32) -> u32 {
        let (low, part) = self.around(value);
        let bits = of - self.1;
        let chance = f64::from(seed >> (32 - bits)) / f64::from(1 << bits);
        self.signed(value, low + u32::from(part + chance >= 1.0))
    }

    fn random(self, next: &mut impl FnMut() -> u32) -> u32 {
        let bits = next();
        self.signed(if bits >> 31 == 1 { -1.0 } else { 1.0 }, bits % (self.greatest() + 1))
    }
}

/// Writes the lowest `bits` bits of `value` to the registers of a lane, starting at bit `at`. The registers of each
/// lane are consecutive in `words`. Each lane has `in_lane` registers.
fn put(words: &mut [u32], lane: usize, in_lane: usize, at: usize, bits: u32, value: u32) {
    for bit in 0..bits as usize {
        let place = at + bit;
        words[lane * in_lane + place / 32] |= (value >> bit & 1) << (place % 32);
    }
}

/// Returns the number of the register and the number of the lane that contain element (`i`, `j`) of D, an n by n
/// matrix.
fn of_d(n: usize, i: usize, j: usize) -> (usize, usize) {
    if n == 16 { (i % 4, j + 16 * (i / 4)) } else { (4 * (i / 8) + i % 4, j + 32 * (i / 4 % 2)) }
}

struct Operand {
    values: Vec<f64>,
    words: Vec<u32>,
}

/// Draws a random matrix with n rows and k columns: the matrix A, or the transpose of B. `number` draws an element: its
/// code and its value. A code has `bits` bits, and each lane has `in_lane` registers. `place` returns where the element
/// in a given column is stored: the number of the group of n lanes, and the position among the elements of a lane.
fn operand(
    (n, k): (usize, usize),
    (bits, in_lane): (u32, usize),
    place: impl Fn(usize) -> (usize, usize),
    mut number: impl FnMut() -> (u32, f64),
) -> Operand {
    let mut operand = Operand { values: vec![0.0; n * k], words: vec![0; 64 * in_lane] };
    for i in 0..n {
        for at in 0..k {
            let (code, value) = number();
            operand.values[i * k + at] = value;
            let (group, item) = place(at);
            put(&mut operand.words, i + n * group, in_lane, item * bits as usize, bits, code);
        }
    }
    operand
}

/// Runs the kernel `name`, which multiplies two matrices and adds a third one, and compares each element of the result
/// D with the expected one. `weight` returns the factor by which the product of element (i, k) of A and element (k, j)
/// of B is multiplied; its arguments are `scales`, i, j and k. `whole` is true if D contains integers, and false if D
/// contains f32 numbers.
fn product(
    device: &Device,
    name: &str,
    (n, k): (usize, usize),
    (mut a, mut b): (Operand, Operand),
    mut scales: Vec<u32>,
    weight: impl Fn(&[u32], usize, usize, usize) -> f64,
    whole: bool,
) -> Result<(), String> {
    let registers = n * n / 64;
    let number = |index: usize| (index % 29) as f32 - 14.0;
    let bits = |index| if whole { number(index) as i32 as u32 } else { number(index).to_bits() };
    let mut c: Vec<u32> = (0..64 * registers).map(bits).collect();
    let mut o = vec![0u32; 64 * registers];
    let arguments = [
        (&mut a.words).into(),
        (&mut b.words).into(),
        (&mut c).into(),
        (&mut scales).into(),
        (&mut o).into(),
    ];
    let ranges = [mapped(&a.words), mapped(&b.words), mapped(&c), mapped(&scales), mapped(&o)];
    device
        .launch(name, [1, 1, 1], [64, 1, 1], 0, &arguments, &ranges)
        .map_err(|trap| format!("{name}: {trap}"))?;
    for i in 0..n {
        for j in 0..n {
            let (register, lane) = of_d(n, i, j);
            let at = lane * registers + register;
            let products = (0..k)
                .map(|at| a.values[i * k + at] * b.values[j * k + at] * weight(&scales, i, j, at));
            let (sum, size) =
                products.fold((0.0, 0.0), |(sum, size), one: f64| (sum + one, size + one.abs()));
            let want = sum + f64::from(number(at));
            let got =
                if whole { f64::from(o[at] as i32) } else { f64::from(f32::from_bits(o[at])) };
            if (got - want).abs() > 1e-5 * (size + 14.0) {
                return Err(format!("{name}: D[{i}][{j}] is {got}, must be {want}"));
            }
        }
    }
    Ok(())
}

/// Name of a kernel, the size of A in rows and columns, the formats of A and B, and for kernels with scales the numbers
/// of the register bytes that contain the scales of A and of B.
type Scaled = (&'static str, (usize, usize), [usize; 2], Option<[usize; 2]>);
const SCALED: [Scaled; 8] = [
    ("scaled_16_00", (16, 128), [0, 0], Some([0, 0])),
    ("scaled_16_14", (16, 128), [1, 4], Some([1, 2])),
    ("scaled_16_32", (16, 128), [3, 2], Some([3, 1])),
    ("scaled_32_11", (32, 64), [1, 1], Some([2, 0])),
    ("scaled_32_20", (32, 64), [2, 0], Some([0, 3])),
    ("scaled_32_43", (32, 64), [4, 3], Some([1, 1])),
    ("plain_16_04", (16, 128), [0, 4], None),
    ("plain_32_32", (32, 64), [3, 2], None),
];

fn scaled(device: &Device) -> Result<(), String> {
    let mut next = random(31);
    for (name, (n, k), formats, bytes) in SCALED {
        let operands = formats.map(|format| {
            let format = FORMATS[format];
            let groups = 64 / n;
            // According to the tables of the guide, the 8-bit elements of a lane form two runs.
            let place = |at: usize| match format.bits() {
                8 => (at % (16 * groups) / 16, at % 16 + 16 * (at / (16 * groups))),
                _ => (at / 32, at % 32),
            };
            operand((n, k), (format.bits(), 8), place, || {
                let code = format.random(&mut next);
                (code, format.value(code))
            })
        });
        let scales =
            (0..128).map(|_| (0..4).fold(0, |word, _| word << 8 | (120 + next() % 15))).collect();
        let weight = |scales: &[u32], i: usize, j: usize, at: usize| {
            let Some([of_a, of_b]) = bytes else { return 1.0 };
            let exponent =
                |index: usize, byte: usize| (scales[index] >> (8 * byte) & 0xff) as i32 - 127;
            let block = n * (at / 32);
            2f64.powi(exponent(i + block, of_a) + exponent(64 + j + block, of_b))
        };
        let [a, b] = operands;
        product(device, name, (n, k), (a, b), scales, weight, false)?;
    }
    Ok(())
}

fn dense(device: &Device) -> Result<(), String> {
    let mut next = random(32);
    for (name, n, k, bits) in [
        ("dense_16_f16", 16, 32, 16),
        ("dense_32_f16", 32, 16, 16),
        ("dense_16_bf16", 16, 32, 16),
        ("dense_32_bf16", 32, 16, 16),
        ("dense_16_i8", 16, 64, 8),
        ("dense_32_i8", 32, 32, 8),
    ] {
        let in_lane = k / (64 / n);
        let mut make = || {
            operand(
                (n, k),
                (bits, 4),
                |at| (at / in_lane, at % in_lane),
                || {
                    let number = next() as i8 as i32;
                    let code = match name.rsplit('_').next() {
                        Some("f16") => u32::from(f16_bits(number.into())),
                        Some("bf16") => (number as f32).to_bits() >> 16,
                        _ => number as u32,
                    };
                    (code, number.into())
                },
            )
        };
        let (a, b) = (make(), make());
        let whole = name.ends_with("i8");
        product(device, name, (n, k), (a, b), vec![0; 128], |_, _, _, _| 1.0, whole)?;
    }
    Ok(())
}

/// Draws `count` numbers that both binary16 and bfloat16 can represent exactly, 64 seeds for stochastic rounding, and
/// 64 powers of two.
fn numbers(seed: u32, count: usize) -> (Vec<f32>, Vec<u32>, Vec<f32>) {
    let mut next = random(seed);
    let values = (0..count).map(|_| next() as i8 as f32 * 2f32.powi((next() % 9) as i32 - 8));
    let values = values.collect();
    let seeds = (0..64).map(|_| next()).collect();
    (values, seeds, (0..64).map(|_| 2f32.powi((next() % 5) as i32 - 1)).collect())
}

fn narrow_pairs(device: &Device) -> Result<(), String> {
    for (name, format) in [("narrow_fp8", FP8), ("narrow_bf8", BF8)] {
        let (mut a, mut seeds, mut scales) = numbers(33, 128);
        let mut o = vec![0u32; 320];
        let arguments =
            [(&mut a).into(), (&mut seeds).into(), (&mut scales).into(), (&mut o).into()];
        let ranges = [mapped(&a), mapped(&seeds), mapped(&scales), mapped(&o)];
        device
            .launch(name, [1, 1, 1], [64, 1, 1], 0, &arguments, &ranges)
            .map_err(|t| t.to_string())?;
        equal(&o, |index| {
            let i = index % 64;
            let scale = f64::from(scales[i]);
            let [x, y] = [a[2 * i], a[2 * i + 1]].map(|value| f64::from(value) / scale);
            let near = [x, y].map(|value| format.nearest(value));
            let back = |code| ((format.value(code) * scale) as f32).to_bits();
            let chance = |value, of| format.by_chance(value, seeds[i], of);
            match index / 64 {
                0 => (near[0] | near[1] << 8) * 0x1_0001,
                1 => chance(x, 23) | chance(x, 10) << 8 | chance(y, 7) << 16 | chance(y, 23) << 24,
                2 | 4 => back(near[0]),
                _ => back(near[1]),
            }
        })
        .map_err(|problem| format!("{name}: {problem}"))?;
    }
    Ok(())
}

/// Returns the state of the pseudo-random generator that follows the state `seed`. An instruction that rounds several
/// numbers uses one state after another.
fn stepped(seed: u32) -> u32 {
    seed << 1 ^ if seed >> 31 == 1 { 0xc5 } else { 0 }
}

fn narrow_fp4(device: &Device) -> Result<(), String> {
    let (mut a, mut seeds, mut scales) = numbers(34, 128);
    let mut o = vec![0u32; 384];
    launch!(
        device,
        "narrow_fp4",
        1,
        64,
        [&mut a, &mut seeds, &mut scales, &mut o],
        [a, seeds, scales, o]
    );
    equal(&o, |index| {
        let i = index % 64;
        let scale = f64::from(scales[i]);
        let [x, y] = [a[2 * i], a[2 * i + 1]].map(|value| f64::from(value) / scale);
        let near = [x, y].map(|value| FP4.nearest(value));
        let by_chance = |of| {
            let second = FP4.by_chance(y, stepped(seeds[i]), of);
            FP4.by_chance(x, seeds[i], of) | second << 4
        };
        let pair = near[0] | near[1] << 4;
        let half = |code| u32::from(f16_bits(FP4.value(code) * scale));
        match index / 64 {
            0 => pair * 0x100_0001,
            4 => by_chance(23) << 8,
            5 => by_chance(10) << 24,
            3 => half(near[0]) | half(near[1]) << 16,
            word => ((FP4.value(near[word - 1]) * scale) as f32).to_bits(),
        }
    })
}

fn narrow_many(device: &Device) -> Result<(), String> {
    for (name, format) in [("narrow_fp6", FP6), ("narrow_bf6", BF6)] {
        let (mut a, mut seeds, mut scales) = numbers(35, 64 * 32);
        let (mut o, mut back) = (vec![0u32; 18 * 64], vec![0f32; 64 * 32]);
        let arguments = [
            (&mut a).into(),
            (&mut seeds).into(),
            (&mut scales).into(),
            (&mut o).into(),
            (&mut back).into(),
        ];
        let ranges = [mapped(&a), mapped(&seeds), mapped(&scales), mapped(&o), mapped(&back)];
        device
            .launch(name, [1, 1, 1], [64, 1, 1], 0, &arguments, &ranges)
            .map_err(|t| t.to_string())?;
        let mut want = vec![0u32; 18 * 64];
        for lane in 0..64 {
            let mut seed = seeds[lane];
            for at in 0..32 {
                let value = f64::from(a[lane * 32 + at]) / f64::from(scales[lane]);
                let near = format.nearest(value);
                put(&mut want[..384], lane, 6, 6 * at, 6, near);
                put(&mut want[384..768], lane, 6, 6 * at, 6, near);
                put(&mut want[768..], lane, 6, 6 * at, 6, format.by_chance(value, seed, 23));
                seed = stepped(seed);
                let wide = (format.value(near) * f64::from(scales[lane])) as f32;
                if back[lane * 32 + at] != wide {
                    return Err(format!(
                        "{name}: number {at} of lane {lane} is converted back to {}, must be {wide}",
                        back[lane * 32 + at]
                    ));
                }
            }
        }
        equal(&o, |index| want[index]).map_err(|problem| format!("{name}: {problem}"))?;
    }
    Ok(())
}

fn odds(device: &Device) -> Result<(), String> {
    let mut next = random(36);
    let mut numbers = || (0..64).map(|_| next()).collect::<Vec<u32>>();
    let (mut a, mut b, mut c, mut o) = (numbers(), numbers(), numbers(), vec![0u32; 576]);
    launch!(device, "odds", 1, 64, [&mut a, &mut b, &mut c, &mut o], [a, b, c, o]);
    equal(&o, |index| {
        let i = index % 64;
        let (x, y, z) = (a[i], b[i], c[i]);
        let table = |rows: u32| {
            (0..32).fold(0, |word, bit| {
                let row = (x >> bit & 1) << 2 | (y >> bit & 1) << 1 | z >> bit & 1;
                word | (rows >> row & 1) << bit
            })
        };
        let bytes = |least: i32, most: i32| {
            let one = |value: u32| ((value as i32 >> (z & 31)).clamp(least, most) & 0xff) as u32;
            one(x) | one(y) << 8
        };
        // The instruction exchanges odd rows of the first register with even rows of the second.
        let (near, far) = (i / 16 % 2 == 1, i / 32 == 1);
        match index / 64 {
            0 => stepped(x),
            1 => table(0x6c),
            2 => table(0xd1) & 0xffff,
            3 => bytes(-128, 127),
            4 => bytes(0, 255),
            5 => {
                if near {
                    b[i - 16]
                } else {
                    x
                }
            }
            6 => {
                if near {
                    y
                } else {
                    a[i + 16]
                }
            }
            7 => {
                if far {
                    b[i - 32]
                } else {
                    x
                }
            }
            _ => {
                if far {
                    y
                } else {
                    a[i + 32]
                }
            }
        }
    })
}

fn transposes(device: &Device) -> Result<(), String> {
    let mut next = random(37);
    let mut a: Vec<u32> = (0..256).map(|_| next()).collect();
    let mut o = vec![0u32; 576];
    launch!(device, "transposes", 1, 64, [&mut a, &mut o], [a, o]);
    let mut want = vec![0u32; 576];
    for (bits, words, first) in [(16, 2, 0), (8, 2, 128), (4, 2, 256), (6, 3, 384)] {
        let columns = 32 * words / bits;
        for lane in 0..64 {
            for row in 0..columns {
                // The 16 numbers of a row are distributed over as many lanes as they need.
                let (group, column) = (lane / 16 * 16, lane % 16);
                let from = group + (16 * row + column) / columns;
                // A lane with three dwords occupies the space of four.
                let apart = if words == 3 { 4 } else { words };
                let at = 32 * apart * from + bits * (column % columns);
                let number = (0..bits).fold(0, |number, bit| {
                    number | (a[(at + bit) / 32] >> ((at + bit) % 32) & 1) << bit
                });
                put(&mut want[first..], lane, words, bits * row, bits as u32, number);
            }
        }
    }
    equal(&o, |index| want[index])
}

fn loads_to_lds(device: &Device) -> Result<(), String> {
    let (mut a, mut o) = ((0..256).collect::<Vec<u32>>(), vec![0u32; 576]);
    launch!(device, "loads_to_lds", 1, 64, [&mut a, &mut o], [a, o]);
    equal(&o, |index| {
        let index = index as u32;
        match index {
            0..256 => 4 * (63 - index / 4) + index % 4,
            // The load leaves the fourth dword of a lane unchanged.
            256..512 if index % 4 == 3 => 7,
            256..512 => 3 * (index / 4 - 64) + index % 4,
            _ => (index - 512) ^ 1,
        }
    })
}

fn large_lds(device: &Device) -> Result<(), String> {
    let mut o = vec![0u32; 256];
    launch!(device, "large_lds", [1, 1, 1], [256, 1, 1], lds 160 << 10, [&mut o], [o])
        .map_err(|trap| trap.to_string())?;
    equal(&o, |i| {
        (0..160).map(|k| (160 * 256 - 1 - (i as u32 + 256 * k)) * 7).fold(0, u32::wrapping_add)
    })
}
