//! Tests the positions of the elements of A, B and D in registers. For every instruction, the tests multiply matrices
//! that each have a single non-zero element.

use device::Arch::{self, *};
use isa::inside::{
    float16::{Bf16, F16},
    wave::Wave,
};

use super::execute;

/// Position of an element: number of the register, lane, and lowest bit.
type Place = (usize, usize, u32);

/// Architecture, wave size and name of an instruction, how many registers A, B and D occupy, and the positions of one
/// element of each.
type Row = (Arch, usize, &'static str, (usize, usize, usize), Place, Place, Place);

/// Positions of one A\[i\]\[k\], one B\[k\]\[j\] and one D\[i\]\[j\] for each instruction, from AMD's matrix
/// instruction calculator.
#[rustfmt::skip]
const PLACES: &[Row] = &[
    (Gfx90a, 64, "v_mfma_f32_32x32x1f32", (1, 1, 32), (0, 20, 0), (0, 9, 0), (8, 41, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x1f32", (1, 1, 32), (0, 4, 0), (0, 6, 0), (0, 38, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x1f32", (1, 1, 16), (0, 54, 0), (0, 49, 0), (14, 17, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x1f32", (1, 1, 16), (0, 13, 0), (0, 2, 0), (1, 50, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x1f32", (1, 1, 4), (0, 31, 0), (0, 28, 0), (3, 28, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x1f32", (1, 1, 4), (0, 28, 0), (0, 31, 0), (0, 31, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x2f32", (1, 1, 16), (0, 34, 0), (0, 40, 0), (2, 8, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x2f32", (1, 1, 16), (0, 41, 0), (0, 39, 0), (5, 7, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x4f32", (1, 1, 4), (0, 35, 0), (0, 38, 0), (3, 6, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x4f32", (1, 1, 4), (0, 18, 0), (0, 17, 0), (2, 1, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x4f16", (2, 2, 32), (1, 59, 16), (1, 52, 16), (31, 20, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x4f16", (2, 2, 32), (0, 23, 16), (0, 19, 16), (11, 51, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x4f16", (2, 2, 16), (1, 55, 0), (1, 50, 0), (15, 18, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x4f16", (2, 2, 16), (1, 10, 0), (1, 14, 0), (2, 46, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x4f16", (2, 2, 4), (0, 40, 16), (0, 43, 16), (0, 43, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x4f16", (2, 2, 4), (1, 5, 16), (1, 7, 16), (1, 7, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x8f16", (2, 2, 16), (0, 36, 16), (0, 52, 16), (0, 52, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x8f16", (2, 2, 16), (0, 31, 16), (0, 29, 16), (15, 61, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x16f16", (2, 2, 4), (1, 8, 0), (1, 15, 0), (0, 47, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x16f16", (2, 2, 4), (0, 41, 16), (0, 46, 16), (1, 46, 0)),
    (Gfx90a, 64, "v_mfma_i32_32x32x4i8", (1, 1, 32), (0, 54, 24), (0, 33, 24), (26, 33, 0)),
    (Gfx90a, 64, "v_mfma_i32_32x32x4i8", (1, 1, 32), (0, 10, 24), (0, 7, 24), (6, 7, 0)),
    (Gfx90a, 64, "v_mfma_i32_16x16x4i8", (1, 1, 16), (0, 22, 8), (0, 25, 8), (6, 25, 0)),
    (Gfx90a, 64, "v_mfma_i32_16x16x4i8", (1, 1, 16), (0, 12, 24), (0, 12, 24), (0, 60, 0)),
    (Gfx90a, 64, "v_mfma_i32_4x4x4i8", (1, 1, 4), (0, 33, 24), (0, 35, 24), (1, 35, 0)),
    (Gfx90a, 64, "v_mfma_i32_4x4x4i8", (1, 1, 4), (0, 53, 16), (0, 55, 16), (1, 55, 0)),
    (Gfx90a, 64, "v_mfma_i32_32x32x8i8", (1, 1, 16), (0, 22, 24), (0, 24, 24), (10, 56, 0)),
    (Gfx90a, 64, "v_mfma_i32_32x32x8i8", (1, 1, 16), (0, 5, 16), (0, 11, 16), (1, 43, 0)),
    (Gfx90a, 64, "v_mfma_i32_16x16x16i8", (1, 1, 4), (0, 55, 24), (0, 48, 24), (3, 16, 0)),
    (Gfx90a, 64, "v_mfma_i32_16x16x16i8", (1, 1, 4), (0, 8, 0), (0, 9, 0), (0, 41, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x4bf16_1k", (2, 2, 32), (1, 26, 0), (1, 23, 0), (14, 23, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x4bf16_1k", (2, 2, 32), (1, 35, 16), (1, 61, 16), (19, 29, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x4bf16_1k", (2, 2, 16), (0, 60, 0), (0, 60, 0), (12, 60, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x4bf16_1k", (2, 2, 16), (0, 12, 16), (0, 1, 16), (0, 49, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x4bf16_1k", (2, 2, 4), (0, 13, 16), (0, 15, 16), (1, 15, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x4bf16_1k", (2, 2, 4), (0, 2, 0), (0, 0, 0), (2, 0, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x8bf16_1k", (2, 2, 16), (0, 41, 16), (0, 38, 16), (5, 6, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x8bf16_1k", (2, 2, 16), (1, 36, 0), (1, 45, 0), (0, 45, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x16bf16_1k", (2, 2, 4), (1, 40, 16), (1, 43, 16), (0, 43, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x16bf16_1k", (2, 2, 4), (1, 51, 16), (1, 51, 16), (3, 3, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x2bf16", (1, 1, 32), (0, 30, 16), (0, 30, 16), (14, 62, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x2bf16", (1, 1, 32), (0, 41, 16), (0, 38, 16), (21, 6, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x2bf16", (1, 1, 16), (0, 31, 0), (0, 21, 0), (7, 53, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x2bf16", (1, 1, 16), (0, 43, 0), (0, 36, 0), (11, 36, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x2bf16", (1, 1, 4), (0, 20, 16), (0, 22, 16), (0, 22, 0)),
    (Gfx90a, 64, "v_mfma_f32_4x4x2bf16", (1, 1, 4), (0, 30, 16), (0, 29, 16), (2, 29, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x4bf16", (1, 1, 16), (0, 44, 16), (0, 47, 16), (4, 47, 0)),
    (Gfx90a, 64, "v_mfma_f32_32x32x4bf16", (1, 1, 16), (0, 44, 0), (0, 63, 0), (4, 63, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x8bf16", (1, 1, 4), (0, 48, 16), (0, 56, 16), (0, 8, 0)),
    (Gfx90a, 64, "v_mfma_f32_16x16x8bf16", (1, 1, 4), (0, 54, 16), (0, 59, 16), (2, 27, 0)),
    (Gfx90a, 64, "v_mfma_f64_16x16x4f64", (2, 2, 8), (0, 27, 0), (0, 18, 0), (4, 50, 0)),
    (Gfx90a, 64, "v_mfma_f64_16x16x4f64", (2, 2, 8), (0, 23, 0), (0, 31, 0), (2, 63, 0)),
    (Gfx90a, 64, "v_mfma_f64_4x4x4f64", (2, 2, 2), (0, 13, 0), (0, 15, 0), (0, 31, 0)),
    (Gfx90a, 64, "v_mfma_f64_4x4x4f64", (2, 2, 2), (0, 14, 0), (0, 12, 0), (0, 44, 0)),
    (Gfx942, 64, "v_mfma_i32_32x32x16_i8", (2, 2, 16), (1, 12, 8), (1, 30, 8), (4, 62, 0)),
    (Gfx942, 64, "v_mfma_i32_32x32x16_i8", (2, 2, 16), (1, 53, 0), (1, 37, 0), (9, 37, 0)),
    (Gfx942, 64, "v_mfma_i32_16x16x32_i8", (2, 2, 4), (0, 28, 16), (0, 18, 16), (0, 50, 0)),
    (Gfx942, 64, "v_mfma_i32_16x16x32_i8", (2, 2, 4), (0, 20, 8), (0, 16, 8), (0, 16, 0)),
    (Gfx942, 64, "v_mfma_f32_16x16x8_xf32", (2, 2, 4), (1, 36, 0), (1, 47, 0), (0, 31, 0)),
    (Gfx942, 64, "v_mfma_f32_16x16x8_xf32", (2, 2, 4), (0, 4, 0), (0, 0, 0), (0, 16, 0)),
    (Gfx942, 64, "v_mfma_f32_32x32x16_fp8_bf8", (2, 2, 16), (1, 8, 16), (1, 27, 16), (4, 27, 0)),
    (Gfx942, 64, "v_mfma_f32_32x32x16_fp8_bf8", (2, 2, 16), (1, 1, 16), (1, 16, 16), (1, 16, 0)),
    (Gfx942, 64, "v_mfma_f32_16x16x32_fp8_fp8", (2, 2, 4), (0, 39, 0), (0, 42, 0), (3, 26, 0)),
    (Gfx942, 64, "v_mfma_f32_16x16x32_fp8_fp8", (2, 2, 4), (1, 36, 16), (1, 33, 16), (0, 17, 0)),
    // The calculator does not support CDNA 4. The following rows are from the formulas of the ISA guide, "General input
    // and output layout".
    (Gfx950, 64, "v_mfma_f32_16x16x32_f16", (4, 4, 4), (2, 37, 16), (2, 41, 16), (1, 25, 0)),
    (Gfx950, 64, "v_mfma_f32_16x16x32_bf16", (4, 4, 4), (0, 30, 0), (0, 19, 0), (2, 51, 0)),
    (Gfx950, 64, "v_mfma_f32_32x32x16_bf16", (4, 4, 16), (1, 51, 16), (1, 62, 16), (11, 30, 0)),
    (Gfx950, 64, "v_mfma_f32_32x32x16_f16", (4, 4, 16), (3, 4, 16), (3, 0, 16), (0, 32, 0)),
    (Gfx950, 64, "v_mfma_i32_16x16x64_i8", (4, 4, 4), (3, 34, 8), (3, 47, 8), (2, 15, 0)),
    (Gfx950, 64, "v_mfma_i32_32x32x32_i8", (4, 4, 16), (0, 63, 0), (0, 33, 0), (15, 33, 0)),
    (Gfx950, 64, "v_mfma_f32_16x16x32_fp8_fp8", (2, 2, 4), (0, 39, 0), (0, 42, 0), (3, 26, 0)),
    (Gfx1151, 32, "v_wmma_f32_16x16x16_f16", (8, 8, 8), (2, 13, 0), (2, 4, 0), (6, 20, 0)),
    (Gfx1151, 32, "v_wmma_f32_16x16x16_f16", (8, 8, 8), (0, 14, 0), (0, 5, 0), (7, 5, 0)),
    (Gfx1151, 32, "v_wmma_f32_16x16x16_bf16", (8, 8, 8), (7, 5, 16), (7, 4, 16), (2, 20, 0)),
    (Gfx1151, 32, "v_wmma_f32_16x16x16_bf16", (8, 8, 8), (7, 1, 16), (7, 10, 16), (0, 26, 0)),
    (Gfx1151, 32, "v_wmma_f16_16x16x16_f16", (8, 8, 8), (3, 1, 0), (3, 7, 0), (0, 23, 0)),
    (Gfx1151, 32, "v_wmma_f16_16x16x16_f16", (8, 8, 8), (7, 1, 0), (7, 3, 0), (0, 19, 0)),
    (Gfx1151, 32, "v_wmma_bf16_16x16x16_bf16", (8, 8, 8), (5, 2, 0), (5, 14, 0), (1, 14, 0)),
    (Gfx1151, 32, "v_wmma_bf16_16x16x16_bf16", (8, 8, 8), (7, 8, 16), (7, 14, 16), (4, 14, 0)),
    (Gfx1151, 32, "v_wmma_i32_16x16x16_iu8", (4, 4, 8), (3, 8, 16), (3, 6, 16), (4, 6, 0)),
    (Gfx1151, 32, "v_wmma_i32_16x16x16_iu8", (4, 4, 8), (3, 13, 0), (3, 3, 0), (6, 19, 0)),
    (Gfx1151, 32, "v_wmma_i32_16x16x16_iu4", (2, 2, 8), (0, 10, 28), (0, 2, 28), (5, 2, 0)),
    (Gfx1151, 32, "v_wmma_i32_16x16x16_iu4", (2, 2, 8), (1, 2, 4), (1, 6, 4), (1, 6, 0)),
    (Gfx1151, 64, "v_wmma_f32_16x16x16_f16", (8, 8, 4), (2, 4, 0), (2, 11, 0), (1, 11, 0)),
    (Gfx1151, 64, "v_wmma_f32_16x16x16_f16", (8, 8, 4), (3, 4, 16), (3, 14, 16), (1, 14, 0)),
    (Gfx1151, 64, "v_wmma_f32_16x16x16_bf16", (8, 8, 4), (2, 12, 16), (2, 15, 16), (3, 15, 0)),
    (Gfx1151, 64, "v_wmma_f32_16x16x16_bf16", (8, 8, 4), (6, 5, 0), (6, 13, 0), (1, 29, 0)),
    (Gfx1151, 64, "v_wmma_f16_16x16x16_f16", (8, 8, 4), (5, 13, 16), (5, 6, 16), (3, 22, 0)),
    (Gfx1151, 64, "v_wmma_f16_16x16x16_f16", (8, 8, 4), (0, 2, 0), (0, 11, 0), (0, 43, 0)),
    (Gfx1151, 64, "v_wmma_bf16_16x16x16_bf16", (8, 8, 4), (0, 14, 0), (0, 14, 0), (3, 46, 0)),
    (Gfx1151, 64, "v_wmma_bf16_16x16x16_bf16", (8, 8, 4), (1, 10, 0), (1, 9, 0), (2, 41, 0)),
    (Gfx1151, 64, "v_wmma_i32_16x16x16_iu8", (4, 4, 4), (0, 7, 16), (0, 3, 16), (1, 51, 0)),
    (Gfx1151, 64, "v_wmma_i32_16x16x16_iu8", (4, 4, 4), (1, 8, 8), (1, 1, 8), (2, 1, 0)),
    (Gfx1151, 64, "v_wmma_i32_16x16x16_iu4", (2, 2, 4), (1, 4, 0), (1, 13, 0), (1, 13, 0)),
    (Gfx1151, 64, "v_wmma_i32_16x16x16_iu4", (2, 2, 4), (1, 4, 8), (1, 15, 8), (1, 15, 0)),
    (Gfx1201, 32, "v_wmma_f32_16x16x16_f16", (4, 4, 8), (0, 24, 16), (0, 17, 16), (0, 17, 0)),
    (Gfx1201, 32, "v_wmma_f32_16x16x16_f16", (4, 4, 8), (0, 2, 0), (0, 8, 0), (2, 8, 0)),
    (Gfx1201, 32, "v_wmma_f16_16x16x16_f16", (4, 4, 4), (1, 24, 16), (1, 18, 16), (0, 18, 0)),
    (Gfx1201, 32, "v_wmma_f16_16x16x16_f16", (4, 4, 4), (3, 24, 0), (3, 19, 0), (0, 19, 0)),
    (Gfx1201, 32, "v_wmma_i32_16x16x16_iu8", (2, 2, 8), (0, 26, 0), (0, 29, 0), (2, 29, 0)),
    (Gfx1201, 32, "v_wmma_i32_16x16x16_iu8", (2, 2, 8), (0, 1, 24), (0, 7, 24), (1, 7, 0)),
    (Gfx1201, 32, "v_wmma_f32_16x16x16_fp8_bf8", (2, 2, 8), (1, 8, 8), (1, 1, 8), (0, 17, 0)),
    (Gfx1201, 32, "v_wmma_f32_16x16x16_fp8_bf8", (2, 2, 8), (1, 9, 16), (1, 9, 16), (1, 25, 0)),
    (Gfx1201, 64, "v_wmma_f32_16x16x16_f16", (2, 2, 4), (0, 46, 0), (0, 37, 0), (2, 53, 0)),
    (Gfx1201, 64, "v_wmma_f32_16x16x16_f16", (2, 2, 4), (0, 0, 16), (0, 8, 16), (0, 8, 0)),
    (Gfx1201, 64, "v_wmma_f16_16x16x16_f16", (2, 2, 2), (1, 48, 16), (1, 54, 16), (0, 6, 0)),
    (Gfx1201, 64, "v_wmma_f16_16x16x16_f16", (2, 2, 2), (0, 62, 16), (0, 51, 16), (1, 51, 0)),
    (Gfx1201, 64, "v_wmma_i32_16x16x16_iu8", (1, 1, 4), (0, 44, 16), (0, 41, 16), (0, 57, 0)),
    (Gfx1201, 64, "v_wmma_i32_16x16x16_iu8", (1, 1, 4), (0, 42, 0), (0, 38, 0), (2, 22, 0)),
    (Gfx1201, 64, "v_wmma_f32_16x16x16_fp8_bf8", (1, 1, 4), (0, 43, 0), (0, 33, 0), (3, 17, 0)),
    (Gfx1201, 64, "v_wmma_f32_16x16x16_fp8_bf8", (1, 1, 4), (0, 50, 8), (0, 56, 8), (2, 8, 0)),
];

/// Returns the codes of three numbers: 2 in the format of A, 3 in the format of B, and 6 in the format of D.
fn values(arch: Arch, name: &str) -> (u64, u64, u64) {
    let output = match name.split('_').nth(2) {
        Some("i32") => 6,
        Some("f64") => 6f64.to_bits(),
        Some("f16") => 0x4600,
        Some("bf16") => 0x40c0,
        _ => u64::from(6f32.to_bits()),
    };
    let single = (u64::from(2f32.to_bits()), u64::from(3f32.to_bits()));
    let (a, b) = match name.rsplit_once('x').map_or("", |(_, rest)| rest) {
        rest if rest.ends_with("f64") => (2f64.to_bits(), 3f64.to_bits()),
        rest if rest.contains("bf16") => (0x4000, 0x4040),
        rest if rest.ends_with("f16") => (0x4000, 0x4200),
        rest if rest.ends_with("fp8_fp8") && arch == Gfx950 => (0x40, 0x44),
        rest if rest.ends_with("fp8_fp8") => (0x48, 0x4c),
        rest if rest.ends_with("fp8_bf8") && arch == Gfx942 => (0x48, 0x46),
        rest if rest.ends_with("fp8_bf8") => (0x40, 0x42),
        rest if rest.ends_with("i8") || rest.ends_with("iu8") || rest.ends_with("iu4") => (2, 3),
        _ => single,
    };
    (a, b, output)
}

/// Returns the registers of A, B and D as the disassembler prints them. For RDNA, the disassembler assumes waves of 32
/// lanes.
fn printed(arch: Arch, lanes: usize, [a, b, d]: [usize; 3]) -> [String; 3] {
    let [a, b, d] = match (arch, lanes) {
        (Gfx1151, 64) => [a, b, 2 * d],
        (Gfx1201, 64) => [2 * a, 2 * b, 2 * d],
        _ => [a, b, d],
    };
    [registers(A, a), registers(B, b), registers(0, d)]
}

/// Numbers of the first registers of A, of B, and of the indices of a sparse A. D starts at register 0.
const A: usize = 64;
const B: usize = 96;
const INDEX: usize = 128;

fn registers(first: usize, count: usize) -> String {
    if count == 1 { format!("v{first}") } else { format!("v[{first}:{}]", first + count - 1) }
}

#[test]
fn dense_element_positions() {
    for &(arch, lanes, name, (a_words, b_words, d_words), a, b, d) in PLACES {
        let mut wave = Wave::new(lanes);
        let (two, three, six) = values(arch, name);
        let mut put = |first: usize, (register, lane, shift): Place, value: u64| {
            // On GFX11, each group of 16 lanes must contain a copy of A and B.
            let repeats = if arch == Gfx1151 { lanes / 16 } else { 1 };
            for group in 0..repeats {
                let lane = if repeats > 1 { lane % 16 + 16 * group } else { lane };
                wave.set_lane(first + register, lane, (value << shift) as u32);
                if value > u64::from(u32::MAX) {
                    wave.set_lane(first + register + 1, lane, (value >> 32) as u32);
                }
            }
        };
        put(A, a, two);
        put(B, b, three);
        let [a, b, c] = printed(arch, lanes, [a_words, b_words, d_words]);
        let text = format!("{name} {c}, {a}, {b}, {c}");
        execute(arch, &mut wave, &text);
        let wide = six > u64::from(u32::MAX);
        for register in 0..d_words {
            for lane in 0..lanes {
                let expected = match (register.wrapping_sub(d.0), lane == d.1) {
                    (0, true) => (six << d.2) as u32,
                    (1, true) if wide => (six >> 32) as u32,
                    _ => 0,
                };
                let got = wave.lane(register, lane);
                assert_eq!(got, expected, "{arch}, {lanes} lanes: {text}: v{register} lane {lane}");
            }
        }
    }
}

/// Like [`Row`], for a sparse A. Between the positions of A and B, a row also contains the position of the index bits
/// for a group of four elements, and the index.
type SparseRow =
    (Arch, usize, &'static str, (usize, usize, usize), Place, Place, u32, Place, Place);

/// Positions from AMD's matrix instruction calculator. For a group of four elements, the calculator returns the
/// position of the first of the two stored elements.
#[rustfmt::skip]
const SPARSE_PLACES: &[SparseRow] = &[
    (Gfx942, 64, "v_smfmac_f32_16x16x32_f16", (2, 4, 4), (0, 8, 0), (0, 8, 0), 1, (0, 11, 16), (0, 43, 0)),
    (Gfx942, 64, "v_smfmac_f32_16x16x32_f16", (2, 4, 4), (0, 14, 0), (0, 14, 0), 3, (1, 7, 16), (2, 55, 0)),
    (Gfx942, 64, "v_smfmac_f32_32x32x16_bf16", (2, 4, 16), (0, 42, 0), (0, 42, 0), 3, (1, 39, 16), (6, 7, 0)),
    (Gfx942, 64, "v_smfmac_f32_32x32x16_bf16", (2, 4, 16), (1, 62, 0), (0, 62, 4), 0, (2, 47, 0), (14, 47, 0)),
    (Gfx942, 64, "v_smfmac_i32_16x16x64_i8", (2, 4, 4), (0, 3, 0), (0, 3, 0), 1, (0, 7, 8), (3, 7, 0)),
    (Gfx942, 64, "v_smfmac_i32_16x16x64_i8", (2, 4, 4), (0, 38, 0), (0, 38, 0), 3, (0, 45, 24), (2, 29, 0)),
    (Gfx942, 64, "v_smfmac_i32_32x32x32_i8", (2, 4, 16), (1, 11, 0), (0, 11, 8), 2, (2, 24, 16), (7, 24, 0)),
    (Gfx942, 64, "v_smfmac_i32_32x32x32_i8", (2, 4, 16), (1, 36, 16), (0, 36, 12), 0, (3, 40, 0), (0, 40, 0)),
    (Gfx942, 64, "v_smfmac_f32_16x16x64_fp8_bf8", (2, 4, 4), (0, 4, 0), (0, 4, 0), 0, (0, 4, 0), (0, 20, 0)),
    (Gfx942, 64, "v_smfmac_f32_16x16x64_fp8_bf8", (2, 4, 4), (1, 16, 0), (0, 16, 8), 3, (2, 22, 24), (0, 6, 0)),
    // For CDNA 4, A has the layout of a dense matrix with half of K (the ISA guide, "Sparse Matrix Multiply"). Over all
    // groups of lanes, the first half of K of B comes before the second half, according to published measurements on an
    // MI350.
    (Gfx950, 64, "v_smfmac_f32_16x16x64_f16", (4, 8, 4), (3, 8, 0), (0, 8, 12), 1, (2, 27, 16), (0, 43, 0)),
    (Gfx950, 64, "v_smfmac_f32_32x32x32_bf16", (4, 8, 16), (0, 40, 0), (0, 40, 0), 2, (5, 1, 0), (4, 1, 0)),
    (Gfx950, 64, "v_smfmac_i32_32x32x64_i8", (4, 8, 16), (1, 35, 0), (0, 35, 8), 2, (6, 7, 16), (3, 7, 0)),
    (Gfx950, 64, "v_smfmac_f32_16x16x128_fp8_bf8", (4, 8, 4), (1, 31, 0), (0, 31, 8), 3, (2, 34, 24), (3, 50, 0)),
    (Gfx1201, 32, "v_swmmac_f32_16x16x32_f16", (4, 8, 8), (2, 5, 0), (0, 5, 8), 2, (5, 5, 0), (5, 5, 0)),
    (Gfx1201, 32, "v_swmmac_f32_16x16x32_f16", (4, 8, 8), (1, 26, 0), (0, 26, 4), 1, (2, 22, 16), (2, 22, 0)),
    (Gfx1201, 32, "v_swmmac_f16_16x16x32_f16", (4, 8, 4), (2, 21, 0), (0, 21, 8), 0, (4, 22, 0), (2, 6, 16)),
    (Gfx1201, 32, "v_swmmac_f16_16x16x32_f16", (4, 8, 4), (3, 9, 0), (0, 9, 12), 3, (7, 0, 16), (0, 16, 16)),
    (Gfx1201, 32, "v_swmmac_i32_16x16x32_iu8", (2, 4, 8), (1, 13, 0), (0, 13, 8), 1, (2, 5, 8), (5, 21, 0)),
    (Gfx1201, 32, "v_swmmac_i32_16x16x32_iu8", (2, 4, 8), (0, 24, 16), (0, 24, 4), 1, (1, 18, 8), (0, 18, 0)),
    (Gfx1201, 32, "v_swmmac_f32_16x16x32_fp8_bf8", (2, 4, 8), (0, 25, 16), (0, 25, 4), 1, (1, 16, 8), (1, 16, 0)),
    (Gfx1201, 32, "v_swmmac_f32_16x16x32_fp8_bf8", (2, 4, 8), (0, 18, 16), (0, 18, 4), 2, (1, 25, 16), (2, 9, 0)),
    (Gfx1201, 32, "v_swmmac_i32_16x16x32_iu4", (1, 2, 8), (0, 25, 8), (0, 25, 4), 0, (0, 31, 16), (1, 31, 0)),
    (Gfx1201, 32, "v_swmmac_i32_16x16x32_iu4", (1, 2, 8), (0, 21, 24), (0, 21, 12), 2, (1, 31, 24), (5, 15, 0)),
    (Gfx1201, 64, "v_swmmac_f32_16x16x32_f16", (2, 4, 4), (0, 37, 0), (0, 37, 0), 0, (0, 33, 0), (1, 33, 0)),
    (Gfx1201, 64, "v_swmmac_f32_16x16x32_f16", (2, 4, 4), (0, 48, 0), (0, 48, 0), 1, (0, 59, 16), (0, 11, 0)),
    (Gfx1201, 64, "v_swmmac_f16_16x16x32_f16", (2, 4, 2), (1, 32, 0), (0, 32, 4), 3, (3, 45, 16), (0, 13, 0)),
    (Gfx1201, 64, "v_swmmac_f16_16x16x32_f16", (2, 4, 2), (1, 60, 0), (0, 60, 4), 0, (2, 48, 0), (0, 48, 0)),
    (Gfx1201, 64, "v_swmmac_i32_16x16x32_iu8", (1, 2, 4), (0, 33, 16), (0, 33, 4), 0, (1, 37, 0), (1, 5, 0)),
    (Gfx1201, 64, "v_swmmac_i32_16x16x32_iu8", (1, 2, 4), (0, 51, 16), (0, 51, 4), 1, (1, 55, 8), (3, 7, 0)),
    (Gfx1201, 64, "v_swmmac_f32_16x16x32_fp8_bf8", (1, 2, 4), (0, 27, 0), (0, 27, 0), 0, (0, 27, 0), (3, 27, 0)),
    (Gfx1201, 64, "v_swmmac_f32_16x16x32_fp8_bf8", (1, 2, 4), (0, 30, 16), (0, 30, 4), 3, (1, 19, 24), (2, 51, 0)),
];

#[test]
fn sparse_element_positions() {
    for &(arch, lanes, name, (a_words, b_words, d_words), a, index, k, b, d) in SPARSE_PLACES {
        let (two, three, six) = values(arch, name);
        let bits = match name {
            _ if name.ends_with("f16") => 16,
            _ if name.ends_with("iu4") => 4,
            _ => 8,
        };
        // This loop also tests the second of the two stored elements, and the last set of indices in the register.
        let set_bits = (a_words * 32 / bits * 2) as u32;
        let set = 32 / set_bits - 1;
        for (value, set) in [(0, 0), (1, 0), (1, set)] {
            let mut wave = Wave::new(lanes);
            wave.set_lane(A + a.0, a.1, (two << (a.2 + value * bits as u32)) as u32);
            wave.set_lane(B + b.0, b.1, (three << b.2) as u32);
            let at = set * set_bits + index.2 + 2 * value;
            wave.set_lane(INDEX, index.1, k << at);
            let choice = match (arch, set) {
                (_, 0) => String::new(),
                (Gfx942 | Gfx950, set) => format!(" abid:{set}"),
                (_, set) => format!(" index_key:{set}"),
            };
            let [a_text, b_text, d_text] = printed(arch, lanes, [a_words, b_words, d_words]);
            let text = format!("{name} {d_text}, {a_text}, {b_text}, v{INDEX}{choice}");
            // The indices of all other elements are 0. If the instruction used one of them, the result would be wrong.
            execute(arch, &mut wave, &text);
            for register in 0..d_words {
                for lane in 0..lanes {
                    let expected =
                        if (register, lane) == (d.0, d.1) { (six << d.2) as u32 } else { 0 };
                    let got = wave.lane(register, lane);
                    assert_eq!(
                        got, expected,
                        "{arch}, {lanes} lanes: {text}: v{register} lane {lane}"
                    );
                }
            }
            // The instruction adds the product to D, so a second execution changes the result.
            execute(arch, &mut wave, &text);
            assert_ne!(wave.lane(d.0, d.1), (six << d.2) as u32, "{text}");
        }
    }
}

/// If all elements of A and B are 1, each element of D is the number of products. The instructions are written as the
/// disassembler prints them, and are executed by waves of both sizes.
#[test]
fn all_ones_give_the_number_of_products() {
    let rows: [(Arch, &str, [usize; 3]); 18] = [
        (Gfx1100, "v_wmma_f32_16x16x16_f16", [8, 8, 8]),
        (Gfx1100, "v_wmma_f32_16x16x16_bf16", [8, 8, 8]),
        (Gfx1100, "v_wmma_i32_16x16x16_iu8", [4, 4, 8]),
        (Gfx1100, "v_wmma_i32_16x16x16_iu4", [2, 2, 8]),
        (Gfx1201, "v_wmma_f32_16x16x16_f16", [4, 4, 8]),
        (Gfx1201, "v_wmma_f32_16x16x16_bf16", [4, 4, 8]),
        (Gfx1201, "v_wmma_f16_16x16x16_f16", [4, 4, 4]),
        (Gfx1201, "v_wmma_bf16_16x16x16_bf16", [4, 4, 4]),
        (Gfx1201, "v_wmma_i32_16x16x16_iu8", [2, 2, 8]),
        (Gfx1201, "v_wmma_i32_16x16x16_iu4", [1, 1, 8]),
        (Gfx1201, "v_wmma_i32_16x16x32_iu4", [2, 2, 8]),
        (Gfx1201, "v_wmma_f32_16x16x16_fp8_fp8", [2, 2, 8]),
        (Gfx1201, "v_swmmac_f32_16x16x32_f16", [4, 8, 8]),
        (Gfx1201, "v_swmmac_f16_16x16x32_f16", [4, 8, 4]),
        (Gfx1201, "v_swmmac_i32_16x16x32_iu8", [2, 4, 8]),
        (Gfx1201, "v_swmmac_i32_16x16x32_iu4", [1, 2, 8]),
        (Gfx1201, "v_swmmac_i32_16x16x64_iu4", [2, 4, 8]),
        (Gfx1201, "v_swmmac_f32_16x16x32_bf8_fp8", [2, 4, 8]),
    ];
    for (arch, name, words) in rows {
        let [a, b, d] = [(A, words[0]), (B, words[1]), (0, words[2])].map(|(r, n)| registers(r, n));
        let sparse = name.starts_with("v_swmmac");
        let text = format!("{name} {d}, {a}, {b}, {}", if sparse { "v128" } else { &d });
        let ones = |input: &str| match input {
            "f16" => 0x3c00_3c00,
            "bf16" => 0x3f80_3f80,
            "iu8" => 0x0101_0101,
            "iu4" => 0x1111_1111,
            "bf8" => 0x3c3c_3c3c,
            _ => 0x3838_3838u32,
        };
        let parts: Vec<&str> = name.split('_').collect();
        let count: u32 = parts[3].rsplit('x').next().expect("K").parse().expect("K");
        let count = if sparse { count / 2 } else { count };
        let one_half =
            [F16::from_f32(count as f32).0, Bf16::from_f32(count as f32).0].map(u32::from);
        let expected = match (parts[2], arch) {
            ("f32", _) => (count as f32).to_bits(),
            ("i32", _) => count,
            ("f16", _) => one_half[0] * 0x1_0001,
            _ => one_half[1] * 0x1_0001,
        };
        for lanes in [32, 64] {
            let mut wave = Wave::new(lanes);
            for lane in 0..lanes {
                for row in 0..8 {
                    wave.set_lane(A + row, lane, ones(parts[4]));
                    wave.set_lane(B + row, lane, ones(parts[parts.len() - 1]));
                }
                wave.set_lane(INDEX, lane, 0x4444_4444);
            }
            execute(arch, &mut wave, &text);
            let used = words[2] * 32 / lanes;
            for row in 0..words[2] {
                for lane in 0..lanes {
                    let expected = if row < used { expected } else { 0 };
                    let got = wave.lane(row, lane);
                    assert_eq!(got, expected, "{arch}, {lanes} lanes: {text}: v{row} lane {lane}");
                }
            }
        }
    }
}

/// Tests which block's A each block uses, and which lane's B each lane uses, for products of 4 by 1 and 1 by 4 matrices
/// in 16 blocks. Source: the CDNA 3 ISA guide, "MFMA broadcasting values".
#[test]
fn broadcasts_blocks_and_lanes() {
    let run = |modifiers: &str| {
        let mut wave = Wave::new(64);
        for lane in 0..64 {
            wave.set_lane(A, lane, (lane as f32 + 1.0).to_bits());
            wave.set_lane(B, lane, (1000.0 * (lane as f32 + 1.0)).to_bits());
        }
        execute(
            Gfx90a,
            &mut wave,
            &format!("v_mfma_f32_4x4x1f32 v[0:3], v{A}, v{B}, 0 {modifiers}"),
        );
        // v1 contains row 1 of D: the second of the four rows of A times the column of B.
        [0, 5, 20, 63].map(|lane| f32::from_bits(wave.lane(1, lane)))
    };
    let product = |a: f32, b: f32| 1000.0 * (a + 1.0) * (b + 1.0);
    assert_eq!(run(""), [product(1., 0.), product(5., 5.), product(21., 20.), product(61., 63.)]);
    // Each group of four blocks uses the A of the third block of the group.
    let shared = [product(9., 0.), product(9., 5.), product(25., 20.), product(57., 63.)];
    assert_eq!(run("cbsz:2 abid:2"), shared);
    for (blgp, lanes) in [
        (1, [0., 5., 20., 31.]),
        (2, [32., 37., 52., 63.]),
        (3, [16., 21., 36., 15.]),
        (4, [0., 5., 4., 15.]),
        (7, [48., 53., 52., 63.]),
    ] {
        let expected = [
            product(1., lanes[0]),
            product(5., lanes[1]),
            product(21., lanes[2]),
            product(61., lanes[3]),
        ];
        assert_eq!(run(&format!("blgp:{blgp}")), expected, "{blgp}");
    }
}
