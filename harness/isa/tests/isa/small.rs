//! Tests 4-bit, 6-bit and 8-bit formats on GFX950: products with and without scales, and conversions. Also tests other
//! instructions that GFX950 introduced.

use isa::inside::{float16::F16, small_float::SmallFloat};

use super::*;

const A: usize = 64;
const B: usize = 96;
const SCALES: [usize; 2] = [128, 129];

/// Formats in the order of the instruction field that selects a format. Each row contains the number of bits, and the
/// codes of the numbers 2 and 3.
const FORMATS: [(usize, u64, u64); 5] =
    [(8, 0x40, 0x44), (8, 0x40, 0x42), (6, 0x10, 0x14), (6, 0x10, 0x12), (4, 4, 5)];

/// Sizes of the matrices. Each row contains the size as written in the instruction's name, the number of rows (and
/// columns) of D, and the size of k.
const SHAPES: [(&str, usize, usize); 2] = [("16x16x128", 16, 128), ("32x32x64", 32, 64)];

/// Returns the group of lanes that contains element k, and the position of the element among the values of a lane.
/// Source: the tables of the CDNA 4 ISA guide.
fn place(n: usize, bits: usize, k: usize) -> (usize, usize) {
    match (bits, n) {
        (8, 16) => (k % 64 / 16, k % 16 + if k < 64 { 0 } else { 16 }),
        (8, _) => (k % 32 / 16, k % 16 + if k < 32 { 0 } else { 16 }),
        _ => (k / 32, k % 32),
    }
}

fn put(wave: &mut Wave, first: usize, lane: usize, at: usize, code: u64) {
    let shifted = code << (at % 32);
    for (word, bits) in [shifted as u32, (shifted >> 32) as u32].into_iter().enumerate() {
        let row = first + at / 32 + word;
        wave.set_lane(row, lane, wave.lane(row, lane) | bits);
    }
}

fn operand(first: usize, count: usize) -> String {
    format!("v[{first}:{}]", first + count - 1)
}

fn of_d(n: usize, i: usize, j: usize) -> (usize, usize) {
    if n == 16 { (i % 4, j + 16 * (i / 4)) } else { (4 * (i / 8) + i % 4, j + 32 * (i / 4 % 2)) }
}

/// Returns a wave with 2 in A\[i\]\[k\] and 3 in B\[k\]\[j\], and the operands of the instruction as text.
fn two_and_three(n: usize, formats: [usize; 2], [i, k, j]: [usize; 3]) -> (Wave, String) {
    let mut wave = wave(Gfx950);
    let d = operand(0, n * n / 64);
    let mut operands = d.clone();
    for (side, (first, index)) in [(A, i), (B, j)].into_iter().enumerate() {
        let (bits, two, three) = FORMATS[formats[side]];
        let (group, at) = place(n, bits, k);
        put(&mut wave, first, index + n * group, bits * at, [two, three][side]);
        operands += &format!(", {}", operand(first, bits));
    }
    (wave, format!("{operands}, {d}"))
}

#[track_caller]
fn only(wave: &Wave, n: usize, (i, j): (usize, usize), expected: f32, text: &str) {
    for register in 0..n * n / 64 {
        for lane in 0..64 {
            let here = (register, lane) == of_d(n, i, j);
            let got = f32::from_bits(wave.lane(register, lane));
            assert_eq!(got, if here { expected } else { 0.0 }, "{text}: v{register} lane {lane}");
        }
    }
}

#[test]
fn small_format_element_positions() {
    for (shape, n, all) in SHAPES {
        for (a, b) in (0..25).map(|pair| (pair / 5, pair % 5)) {
            for (i, k, j) in
                [(1, 0, 2), (5, 21, 9), (14, 40, 3), (n - 1, all - 1, n - 2), (9, all / 2 + 3, 0)]
            {
                let (mut wave, operands) = two_and_three(n, [a, b], [i, k, j]);
                let text = format!("v_mfma_f32_{shape}_f8f6f4 {operands} cbsz:{a} blgp:{b}");
                execute(Gfx950, &mut wave, &text);
                only(&wave, n, (i, j), 6.0, &text);
            }
        }
    }
}

#[test]
fn scale_depends_on_row_and_block_of_32() {
    for (shape, n, all) in SHAPES {
        for (format, (i, k, j)) in
            [(0, (3, 70, 8)), (2, (7, 33, 1)), (4, (15, 127, 15)), (1, (2, 17, 12))]
        {
            let k = k % all;
            for byte in 0..4 {
                let (mut wave, operands) = two_and_three(n, [format, 4 - format], [i, k, j]);
                // All other scales differ greatly from the two that must be used.
                for (row, index, code) in [(SCALES[0], i, 128u32), (SCALES[1], j, 124)] {
                    (0..64).for_each(|lane| wave.set_lane(row, lane, 0x9090_9090));
                    let one = 0x9090_9090 & !(0xff << (8 * byte)) | code << (8 * byte);
                    wave.set_lane(row, index + n * (k / 32), one);
                }
                let text = format!(
                    "v_mfma_scale_f32_{shape}_f8f6f4 {operands}, v128, v129 op_sel:[{0},{0},0] op_sel_hi:[{1},{1},0] \
                     cbsz:{format} blgp:{2}",
                    byte & 1,
                    byte >> 1,
                    4 - format
                );
                execute(Gfx950, &mut wave, &text);
                only(&wave, n, (i, j), 6.0 * 2.0 / 8.0, &text);
            }
        }
    }
}

#[test]
fn scale_may_be_nan_or_constant_and_c_is_added() {
    let (mut wave, operands) = two_and_three(16, [0, 0], [0, 0, 0]);
    let name = "v_mfma_scale_f32_16x16x128_f8f6f4";
    let by = |a: &str, b: &str| format!("{name} {operands}, {a}, {b} op_sel_hi:[0,0,0]");
    execute(Gfx950, &mut wave, &by("4.0", "0.5"));
    only(&wave, 16, (0, 0), 12.0, "constants");
    execute(Gfx950, &mut wave, &by("4.0", "0.5"));
    only(&wave, 16, (0, 0), 24.0, "twice");
    wave.set_lane(128, 0, 0xff);
    (0..64).for_each(|lane| wave.set_lane(129, lane, 0x7f));
    execute(Gfx950, &mut wave, &by("v128", "v129"));
    assert!(f32::from_bits(wave.lane(0, 0)).is_nan());
    // The scales of the other rows of A are the smallest power of two, not a NaN, so these rows have no NaN.
    assert_eq!(wave.lane(1, 0), 0);
    let refused = |text: &str| assert!(bind(text, &Site::for_arch(Gfx950)).is_err(), "{text}");
    // Each text has an error: a number of registers that does not fit the format, an invalid format, an integer as a
    // scale, or an instruction that GFX950 does not have.
    refused(&format!("{name} v[0:3], v[64:69], v[96:103], v[0:3], v128, v129"));
    refused(&format!("{name} v[0:3], v[64:71], v[96:103], v[0:3], v128, v129 cbsz:5"));
    refused(&format!("{name} v[0:3], v[64:71], v[96:103], v[0:3], v128, 1"));
    refused("v_mfma_f32_16x16x8_xf32 v[0:3], v[64:65], v[96:97], v[0:3]");
}

#[test]
fn scaled_conversions_write_their_part() {
    let to = |text: &str, sources: &[u32], expected| {
        check(Gfx950, &format!("v_mov_b32 v0, -1\n{text}"), sources, expected);
    };
    let two = [f(4.0), f(-6.0), f(2.0)];
    to("v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, v3", &two, 0xffff_c440);
    to("v_cvt_scalef32_pk_fp8_f32 v0, -v1, |v2|, v3 op_sel:[0,0,0,1]", &two, 0x44c0_ffff);
    to("v_cvt_scalef32_pk_bf8_f32 v0, v1, v2, v3", &two, 0xffff_c240);
    // If the scale is a NaN, the results are NaNs with the signs of the operands. The 4-bit format has no NaN, so its
    // results are the largest numbers.
    let none = [f(-1.0), f(1.0), f(f32::INFINITY)];
    to("v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, v3", &none, 0xffff_7fff);
    to("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3", &none, 0xffff_ff7f);
    to("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3 op_sel:[0,0,1,0]", &two, 0xffff_d4ff);
    // Only the exponent of the scale operand matters.
    to(
        "v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3 op_sel:[0,0,0,1]",
        &[two[0], two[1], f(-3.5)],
        0xffd4_ffff,
    );
    to("v_cvt_scalef32_pk_fp8_f16 v0, v1, v2 op_sel:[0,0,1]", &[0x4200_4000, f(1.0)], 0x4440_ffff);
    to("v_cvt_scalef32_pk_bf8_bf16 v0, v1, v2", &[0x4040_4000, f(1.0)], 0xffff_4240);
    to(
        "v_cvt_scalef32_pk_fp4_f16 v0, v1, v2 op_sel:[0,0,1,1]",
        &[0x4200_4000, f(1.0)],
        0x54ff_ffff,
    );
    // The operands are a number that is too large, one that is too small, and a NaN.
    let ends = [f(1e9), f(-0.2), f(1.0)];
    to("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3", &ends, 0xffff_ff87);
    to("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3", &[f(-f32::NAN), f(0.75), f(1.0)], 0xffff_ff2f);
    to(
        "v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, v3",
        &[f(1.0), f(1.0), f(f32::INFINITY)],
        0xffff_7f7f,
    );
    // Stochastic rounding of half a unit rounds up for large random numbers.
    let half = |seed| [f(1.0625), seed, f(1.0)];
    to(
        "v_cvt_scalef32_sr_fp8_f32 v0, v1, v2, v3 op_sel:[0,0,1,1]",
        &half(0x7fff_ffff),
        0x38ff_ffff,
    );
    to(
        "v_cvt_scalef32_sr_fp8_f32 v0, v1, v2, v3 op_sel:[0,0,0,1]",
        &half(0x8000_0000),
        0xff39_ffff,
    );
    to("v_cvt_scalef32_sr_fp8_f16 v0, v1, v2, v3", &[0x3c40, 0x7fff_ffff, f(1.0)], 0xffff_ff38);
    to("v_cvt_scalef32_sr_fp8_bf16 v0, v1, v2, v3", &[0x3f88, 0x8000_0000, f(1.0)], 0xffff_ff39);
    // The second number uses the next random number, which is small.
    let text = "v_cvt_scalef32_sr_pk_fp4_f32 v0, v[1:2], v3, v4";
    to(text, &[f(2.5), f(2.5), 0x8000_0000, f(1.0)], 0xffff_ff45);
}

#[test]
fn scaled_conversions_read_their_part() {
    let wide = |text: &str, source: u32, scale: f32| vector(Gfx950, text, &[source, f(scale)]);
    let pair = |low: f32, high: f32| u64::from(f(low)) | u64::from(f(high)) << 32;
    let text = "v_cvt_scalef32_pk_f32_fp8 v[0:1], v1, v2 op_sel:[1,0,0]";
    assert_eq!(wide(text, 0xc440_0000, 0.5), pair(1.0, -1.5));
    assert_eq!(wide("v_cvt_scalef32_pk_f32_bf8 v[0:1], v1, v2", 0xc240, 4.0), pair(8.0, -12.0));
    let text = "v_cvt_scalef32_pk_f32_fp4 v[0:1], v1, v2 op_sel:[1,1,0]";
    assert_eq!(wide(text, 0xd400_0000, 2.0), pair(4.0, -6.0));
    check(
        Gfx950,
        "v_cvt_scalef32_f32_fp8 v0, v1, v2 op_sel:[0,1,0]",
        &[0x0044_0000, f(4.0)],
        f(12.0),
    );
    check(
        Gfx950,
        "v_cvt_scalef32_pk_f16_fp4 v0, v1, v2 op_sel:[1,0,0]",
        &[0x5400, f(1.0)],
        0x4200_4000,
    );
    check(Gfx950, "v_cvt_scalef32_pk_bf16_bf8 v0, v1, v2", &[0x4240, f(1.0)], 0x4040_4000);
    let text = "v_mov_b32 v0, -1\nv_cvt_scalef32_f16_bf8 v0, v1, v2 op_sel:[1,0,1]";
    check(Gfx950, text, &[0x4200, f(2.0)], 0x4600_ffff);
    // The first results are too large for 16 bits. The scale of the second conversion is a NaN.
    check(Gfx950, "v_cvt_scalef32_pk_f16_fp8 v0, v1, v2", &[0xfe7e, f(65536.0)], 0xfc00_7c00);
    let nan = wide("v_cvt_scalef32_f32_fp8 v0, v1, v2", 0x40, f32::NAN) as u32;
    assert!(f32::from_bits(nan).is_nan());
}

#[test]
fn wide_denormals_follow_the_mode() {
    // The scale is 2^-127, half of the smallest normal number.
    for (mode, expected) in [(0xf0, 0x3030_3030u32), (0, 0)] {
        let mut wave = wave(Gfx950);
        wave.set_mode(mode);
        wave.set_lane(1, 0, 0x0020_0000);
        let narrow = "v_cvt_scalef32_pk_fp8_f32 v0, v1, v1, v2";
        execute(Gfx950, &mut wave, &format!("{narrow}\n{narrow} op_sel:[0,0,0,1]"));
        assert_eq!(wave.lane(0, 0), expected, "{mode:#x}");
    }
}

#[test]
fn thirty_two_six_bit_numbers_are_packed() {
    let mut wave = wave(Gfx950);
    // v10 to v25 contain all non-negative codes of fp6, converted to halves. v40 contains the scale.
    for code in 0..32u32 {
        let value = SmallFloat::with_a_scale("fp6", Gfx950)
            .map(|format| format.to_f32(code as u8))
            .expect("a format");
        let half = u32::from(F16::from_f32(2.0 * value).0);
        let row = 10 + code as usize / 2;
        wave.set_lane(row, 3, wave.lane(row, 3) | half << (code % 2 * 16));
        // v64 to v95 contain the values as 32-bit floats, first those with even numbers.
        wave.set_lane(64 + code as usize / 2 + 16 * (code as usize % 2), 3, f(2.0 * value));
    }
    wave.set_lane(40, 3, f(2.0));
    execute(
        Gfx950,
        &mut wave,
        "v_cvt_scalef32_pk32_fp6_f16 v[0:5], v[10:25], v40
         v_cvt_scalef32_2xpk16_fp6_f32 v[44:49], v[64:79], v[80:95], v40
         v_cvt_scalef32_pk32_f32_fp6 v[100:131], v[0:5], v40
         v_cvt_scalef32_pk32_bf6_f16 v[50:55], v[10:25], v40",
    );
    let all = (0..32u32).fold([0u32; 6], |mut words, code| {
        let (word, shift) = (code as usize * 6 / 32, code * 6 % 32);
        words[word] |= code << shift;
        if shift > 26 {
            words[word + 1] |= code >> (32 - shift);
        }
        words
    });
    for (word, expected) in all.into_iter().enumerate() {
        assert_eq!(wave.lane(word, 3), expected, "v{word}");
        assert_eq!(wave.lane(44 + word, 3), expected, "v{}", 44 + word);
    }
    // The largest number of the format is 7.5. The scale doubles it.
    assert_eq!(wave.lane(131, 3), f(15.0));
    // 3.25 is halfway between 3 and 3.5. It rounds to the even neighbour, 3, whose code is 0x12. Number 21 starts at
    // bit 126.
    assert_eq!(wave.lane(53, 3) >> 30 | (wave.lane(54, 3) & 0xf) << 2, 0x12);
}

#[test]
fn gfx950_misc_instructions() {
    check(Gfx950, "v_prng_b32_e32 v0, v1", &[0x8000_0001], 2 ^ 197);
    check(Gfx950, "v_prng_b32_e32 v0, v1", &[0x4000_0001], 0x8000_0002);
    let sources = [0xffff_fe00, 0x7f00, 4];
    check(Gfx950, "v_mov_b32 v0, -1\nv_ashr_pk_i8_i32 v0, v1, v2, v3", &sources, 0xffff_7fe0);
    let text = "v_mov_b32 v0, -1\nv_ashr_pk_u8_i32 v0, v1, v2, v3 op_sel:[0,0,0,1]";
    check(Gfx950, text, &sources, 0xff00_ffff);
    check(Gfx950, "v_cvt_f32_bf16_e32 v0, v1", &[0x1234_3fc0], f(1.5));
    check(Gfx950, "v_cvt_f32_bf16_e64 v0, -v1", &[0x3fc0], f(-1.5));
    let text = "v_mov_b32 v0, -1\nv_bitop3_b16 v0, v1, v2, v3 bitop3:0x6c op_sel:[1,0,0,1]";
    // The truth table 0x6c is b ^ (a & c).
    check(Gfx950, text, &[0xff00_0000, 0x0f0f, 0x3333], 0x3c0f_ffff);
    let text = "v_pk_minimum3_f16 v0, v1, v2, v3";
    check(Gfx950, text, &[0x3c00_4000, 0x7e00_c000, 0x4200_0000], 0x7e00_c000);
    let text = "v_pk_maximum3_f16 v0, v1, v2, v3 neg_lo:[0,1,0] op_sel_hi:[1,0,1]";
    check(Gfx950, text, &[0x3c00_4000, 0x7e00_c200, 0x4400_0000], 0x4400_4200);
    // GFX950 adds the addend last, after two products that cancel. GFX1100 adds the addend to the first product, which
    // is so large that the addend is lost.
    let large = [0x7f00_7f00, 0x3f80_bf80, f(1.0)];
    check(Gfx950, "v_dot2_f32_bf16 v0, v1, v2, v3", &large, f(1.0));
    check(Gfx1100, "v_dot2_f32_bf16 v0, v1, v2, v3", &large, 0);
    // GFX950 uses the formats of OCP, not those of GFX942. NaNs keep their signs.
    check(Gfx950, "v_cvt_pk_fp8_f32 v0, v1, v2", &[f(1.0), f(-f32::NAN)], 0xff38);
    check(Gfx942, "v_cvt_pk_fp8_f32 v0, v1, v2", &[f(1.0), f(-f32::NAN)], 0x8040);
    for (text, first, second) in [
        ("v_permlane16_swap_b32_e32 v0, v1", [5, 105, 37, 137], [21, 121, 53, 153]),
        ("v_permlane32_swap_b32_e32 v0, v1", [5, 21, 105, 121], [37, 53, 137, 153]),
    ] {
        let mut wave = wave(Gfx950);
        for lane in 0..64 {
            wave.set_lane(0, lane, lane as u32);
            wave.set_lane(1, lane, 100 + lane as u32);
        }
        execute(Gfx950, &mut wave, text);
        let of_rows = |row| [5, 21, 37, 53].map(|lane| wave.lane(row, lane));
        assert_eq!((of_rows(0), of_rows(1)), (first, second), "{text}");
    }
}
