//! Tests MODE.DX10_CLAMP and MODE.FP16_OVFL: NaNs under `clamp`, and results that are too large.
//!
//! The expected codes were computed by hand from the ISA guides' tables of formats.

use isa::inside::{
    launch::initial_mode,
    program::{Detours, parse},
};

use super::*;

const OVERFLOW: &str = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n";
const KEEPS_NANS: &str = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), 0\n";

/// Binary16 codes of the largest number, infinity, 2, -0 (the sign bit) and a NaN.
const GREATEST: u32 = 0x7bff;
const INFINITY: u32 = 0x7c00;
const TWO: u32 = 0x4000;
const MINUS: u32 = 0x8000;
const NAN: u32 = 0x7e00;

#[track_caller]
fn both(arch: Arch, text: &str, sources: &[u32], [clear, set]: [u32; 2]) {
    check(arch, text, sources, clear);
    check(arch, &format!("{OVERFLOW}{text}"), sources, set);
    let cleared = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 0";
    check(arch, &format!("{OVERFLOW}{cleared}\n{text}"), sources, clear);
}

#[test]
fn new_wave_has_the_requested_mode() {
    // The bits are FLOAT_MODE 0xc0, ENABLE_DX10_CLAMP, ENABLE_IEEE_MODE and FP16_OVFL.
    for (rsrc1, before, gfx12) in [
        (0xc0 << 12, 0xc0, 0xc0),
        (0xc0 << 12 | 1 << 21, 0x1c0, 0xc0),
        (0xc0 << 12 | 1 << 23, 0x2c0, 0xc0),
        (0xc0 << 12 | 1 << 26, 0x80_00c0, 0x80_00c0),
    ] {
        for arch in [Gfx906, Gfx942, Gfx950, Gfx1030, Gfx1100, Gfx1151] {
            assert_eq!(initial_mode(rsrc1, arch), before, "{arch} {rsrc1:#x}");
        }
        assert_eq!(initial_mode(rsrc1, Gfx1201), gfx12, "{rsrc1:#x}");
    }
}

#[test]
fn too_large_halves_saturate() {
    let of_vectors = |arch, half: &str| {
        let sum = |name: &str| format!("{name} v0{half}, v1{half}, v2{half}");
        for (name, sources, clear, set) in [
            ("v_add_f16_e64", [GREATEST, GREATEST], INFINITY, GREATEST),
            ("v_mul_f16_e64", [GREATEST, TWO | MINUS], INFINITY | MINUS, GREATEST | MINUS),
            ("v_sub_f16_e64", [GREATEST, INFINITY], INFINITY | MINUS, INFINITY | MINUS),
            ("v_add_f16_e64", [INFINITY, TWO], INFINITY, INFINITY),
            ("v_add_f16_e64", [INFINITY, INFINITY | MINUS], 0xfe00, 0xfe00),
            ("v_add_f16_e64", [GREATEST, 0x3c00], GREATEST, GREATEST),
            ("v_max_f16_e64", [INFINITY, TWO], INFINITY, INFINITY),
            ("v_ldexp_f16_e64", [TWO, 20], INFINITY, GREATEST),
            ("v_ldexp_f16_e64", [INFINITY, 20], INFINITY, INFINITY),
        ] {
            both(arch, &sum(name), &sources, [clear, set]);
        }
        let fused = format!("v_fma_f16 v0{half}, v1{half}, v2{half}, v3{half}");
        both(arch, &fused, &[GREATEST, TWO, 0], [INFINITY, GREATEST]);
        both(arch, &fused, &[GREATEST, TWO, INFINITY], [INFINITY, INFINITY]);
    };
    of_vectors(Gfx90a, "");
    of_vectors(Gfx1030, "");
    of_vectors(Gfx1100, ".l");
    both(Gfx942, "v_mad_f16 v0, v1, v2, v3", &[GREATEST, TWO, 0], [INFINITY, GREATEST]);
    both(Gfx942, "v_mac_f16 v0, v1, v2", &[GREATEST, TWO], [INFINITY, GREATEST]);
    let high = "v_add_f16_e64 v0.h, v1.h, v2.h op_sel:[1,1,1]";
    both(Gfx1100, high, &[GREATEST << 16; 2], [INFINITY << 16, GREATEST << 16]);
}

/// Source: "Regardless of round mode" (the ISA guides). In the rounding mode upward, the sum of the largest number and
/// the smallest denormal overflows.
#[test]
fn other_roundings_saturate() {
    for (mode, expected) in [("", INFINITY), (OVERFLOW, GREATEST)] {
        let mut wave = wave(Gfx906);
        wave.set_lane(1, 3, GREATEST);
        wave.set_lane(2, 3, 1);
        let up = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 1";
        execute(Gfx906, &mut wave, &format!("{mode}{up}"));
        let (text, site) = ("v_add_f16_e64 v0, v1, v2", Site::for_arch(Gfx906));
        let (parts, mut detours) = (parse(text, &site).unwrap_or_default(), Detours::default());
        let Ok(Some(exec)) = detours.find(text, &site, &parts, &wave, false) else { panic!() };
        exec.run(&mut wave, &mut line::machine(&Nothing)).expect("no stop");
        assert_eq!(wave.lane(0, 3), expected, "{mode}");
    }
}

#[test]
fn conversions_to_halves_and_mixed_ones_saturate() {
    let too_large = f(65520.0);
    for arch in [Gfx906, Gfx90a, Gfx950, Gfx1030] {
        let convert = "v_cvt_f16_f32_e32 v0, v1";
        both(arch, convert, &[f(65519.0)], [GREATEST; 2]);
        both(arch, convert, &[too_large], [INFINITY, GREATEST]);
        both(arch, convert, &[f(-1e30)], [INFINITY | MINUS, GREATEST | MINUS]);
        both(arch, convert, &[f(f32::INFINITY)], [INFINITY; 2]);
        both(arch, convert, &[f(f32::NAN)], [NAN; 2]);
        both(arch, "v_cvt_f16_u16_e32 v0, v1", &[0xffff], [INFINITY, GREATEST]);
    }
    let pair = "v_cvt_pk_f16_f32 v0, v1, v2";
    let expected = [INFINITY | INFINITY << 16, GREATEST | INFINITY << 16];
    both(Gfx950, pair, &[too_large, f(f32::INFINITY)], expected);
    let mixed = "v_fma_mixlo_f16 v0, v1, v2, v3";
    let sources = [f(1e4), f(10.0), f(f32::NEG_INFINITY)];
    both(Gfx1030, mixed, &[sources[0], sources[1], 0], [INFINITY, GREATEST]);
    both(Gfx1030, mixed, &sources, [INFINITY | MINUS; 2]);
    let high = "v_fma_mixhi_f16 v0, v1, v2, v3";
    both(Gfx950, high, &[sources[0], sources[1], 0], [INFINITY << 16, GREATEST << 16]);
    // 32-bit results do not change.
    both(Gfx950, "v_mul_f32 v0, v1, v2", &[f(1e30); 2], [f(f32::INFINITY); 2]);
}

#[test]
fn packed_halves_saturate_separately() {
    let sources = [GREATEST << 16 | INFINITY, GREATEST << 16 | GREATEST];
    let [clear, set] = [INFINITY << 16 | INFINITY, GREATEST << 16 | INFINITY];
    for arch in [Gfx906, Gfx942, Gfx1030, Gfx1201] {
        both(arch, "v_pk_add_f16 v0, v1, v2", &sources, [clear, set]);
        let product = [TWO << 16 | TWO, (GREATEST | MINUS) << 16 | 0x3c00, 0];
        let expected = [(INFINITY | MINUS) << 16 | TWO, (GREATEST | MINUS) << 16 | TWO];
        both(arch, "v_pk_fma_f16 v0, v1, v2, v3", &product, expected);
        both(arch, "v_pk_max_f16 v0, v1, v1", &sources, [sources[0]; 2]);
    }
    // One operand is a constant in a single half, the other a register with exchanged halves.
    both(
        Gfx942,
        "v_pk_mul_f16 v0, v1, 4.0 op_sel:[1,0] op_sel_hi:[0,0]",
        &sources,
        [clear, { INFINITY << 16 | GREATEST }],
    );
}

#[test]
fn division_by_zero_is_infinite_except_on_gfx12() {
    for (arch, half, by_zero) in
        [(Gfx942, "", INFINITY), (Gfx1100, ".l", INFINITY), (Gfx1201, ".l", GREATEST)]
    {
        let one = |name: &str| format!("{name} v0{half}, v1{half}");
        both(arch, &one("v_rcp_f16_e64"), &[0], [INFINITY, by_zero]);
        both(arch, &one("v_rcp_f16_e64"), &[MINUS], [INFINITY | MINUS, by_zero | MINUS]);
        both(arch, &one("v_rsq_f16_e64"), &[0], [INFINITY, by_zero]);
        both(arch, &one("v_log_f16_e64"), &[0], [INFINITY | MINUS, by_zero | MINUS]);
        // The reciprocal of 2^-24 is too large, and so is 2 to the power of 17.
        both(arch, &one("v_rcp_f16_e64"), &[1], [INFINITY, GREATEST]);
        both(arch, &one("v_exp_f16_e64"), &[0x4c40], [INFINITY, GREATEST]);
        both(arch, &one("v_exp_f16_e64"), &[INFINITY], [INFINITY; 2]);
        both(arch, &one("v_rcp_f16_e64"), &[NAN], [NAN; 2]);
    }
    let fixup = "v_div_fixup_f16 v0, v1, v2, v3";
    both(Gfx942, fixup, &[0x3c00, 0, 0x3c00], [INFINITY; 2]);
}

#[test]
fn scaled_results_saturate_again() {
    // This value of MODE does not keep denormal results and has no IEEE rules. Otherwise output modifiers would have no
    // effect.
    let mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 16), 0x130\n";
    let scaled = |modifier: &str| format!("{mode}v_add_f16_e64 v0, v1, v2 {modifier}");
    both(Gfx906, &scaled("mul:4"), &[GREATEST, 0], [INFINITY, GREATEST]);
    both(Gfx906, &scaled("mul:4"), &[INFINITY, 0], [INFINITY; 2]);
    // The result saturates before the output modifier halves it to 32752.
    both(Gfx906, &scaled("div:2"), &[GREATEST, GREATEST], [INFINITY, 0x77ff]);
    both(Gfx906, &scaled("mul:2 clamp"), &[GREATEST, GREATEST], [0x3c00; 2]);
}

/// Source: the table "FP16_OVFL rule" of the ISA guides. Infinities also become the largest number, except on GFX12. A
/// NaN stays a NaN.
#[test]
fn conversions_to_fp8_and_bf8_saturate() {
    let (large, infinite, nan) = (f(1e6), f(f32::INFINITY), f(f32::NAN));
    let minus = |value: u32| value | 1 << 31;
    for (arch, name, greatest, overflow, of_nan) in [
        (Gfx942, "fp8", 0x7f, [0x80; 2], 0x80),
        (Gfx942, "bf8", 0x7f, [0x80; 2], 0x80),
        (Gfx950, "fp8", 0x7e, [0x7f, 0xff], 0x7f),
        (Gfx950, "bf8", 0x7b, [0x7c, 0xfc], 0x7e),
        (Gfx1201, "fp8", 0x7e, [0x7f, 0xff], 0xff),
        (Gfx1201, "bf8", 0x7b, [0x7c, 0xfc], 0xfe),
    ] {
        let pair = format!("v_cvt_pk_{name}_f32 v0, v1, v2");
        let [up, down] = overflow;
        let [top, bottom] = [greatest, greatest | 0x80];
        both(arch, &pair, &[large, minus(large)], [up | down << 8, top | bottom << 8]);
        let kept = if arch == Gfx1201 { overflow } else { [top, bottom] };
        let kept = kept[0] | kept[1] << 8;
        both(arch, &pair, &[infinite, minus(infinite)], [up | down << 8, kept]);
        both(arch, &pair, &[nan, f(1.0)], {
            let one = if arch == Gfx942 {
                0x40
            } else if name == "fp8" {
                0x38
            } else {
                0x3c
            };
            [of_nan | one << 8; 2]
        });
        let by_chance = format!("v_cvt_sr_{name}_f32 v0, v1, v2");
        both(arch, &by_chance, &[minus(large), 0], [down, bottom]);
        both(arch, &by_chance, &[nan, 0], [of_nan; 2]);
    }
    // The first operand of each pair still rounds to the largest number, which is 240 or 448. The second one is too
    // large.
    let fp8 = "v_cvt_pk_fp8_f32 v0, v1, v2";
    both(Gfx942, fp8, &[f(247.9), f(248.0)], [0x807f, 0x7f7f]);
    both(Gfx950, fp8, &[f(464.0), f(464.1)], [0x7f7e, 0x7e7e]);
}

/// Source: "Conversion to F4/F6 does not support FP16_OVFL, while to F8 does" (the CDNA 4 ISA guide).
#[test]
fn scaled_conversions_saturate() {
    let pair = "v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, 1.0";
    both(Gfx950, pair, &[f(1e6), f(f32::NEG_INFINITY)], [0xff7f, 0xfe7e]);
    let of_halves = "v_cvt_scalef32_pk_bf8_f16 v0, v1, 0.5";
    both(Gfx950, of_halves, &[GREATEST << 16 | TWO], [0x7c44, 0x7b44]);
    let chance = "v_cvt_scalef32_sr_fp8_f32 v0, v1, v2, 1.0";
    both(Gfx950, chance, &[f(1e6), 0], [0x7f, 0x7e]);
    both(Gfx950, "v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, 1.0", &[f(1e6), f(-1e6)], [0xf7; 2]);
    // In the conversion to binary16, 57344 times 2 is too large. The infinity stays infinite.
    let to_halves = "v_cvt_scalef32_pk_f16_bf8 v0, v1, 2.0";
    both(Gfx950, to_halves, &[0x7c7b], [INFINITY << 16 | INFINITY, INFINITY << 16 | GREATEST]);
}

#[test]
fn half_precision_dot_and_matrix_products_saturate() {
    let dot = "v_dot2_f16_f16 v0, v1, v2, v3";
    let all = GREATEST << 16 | GREATEST;
    both(Gfx1100, dot, &[all, TWO << 16 | TWO, 0], [INFINITY, GREATEST]);
    both(Gfx1100, dot, &[INFINITY, TWO, 0], [INFINITY; 2]);
    both(Gfx1100, dot, &[all, TWO << 16 | TWO, INFINITY], [INFINITY; 2]);
    let product = |mode: &str, factor: u32| {
        let mut wave = wave(Gfx1201);
        (0..wave.lanes).for_each(|lane| wave.set_lane(8, lane, factor << 16 | factor));
        (0..wave.lanes).for_each(|lane| wave.set_lane(16, lane, TWO << 16 | TWO));
        let text = "v_wmma_f16_16x16x16_f16 v[0:3], v[8:11], v[16:19], v[0:3]";
        execute(Gfx1201, &mut wave, &format!("{mode}{text}"));
        wave.lane(2, 7)
    };
    assert_eq!(product("", GREATEST), INFINITY << 16 | INFINITY);
    assert_eq!(product(OVERFLOW, GREATEST), GREATEST << 16 | GREATEST);
    assert_eq!(product(OVERFLOW, INFINITY), INFINITY << 16 | INFINITY);
}

/// The instruction first adds the products for k from 0 to 3, then those for k from 8 to 11, from 4 to 7, and from 12
/// to 15, according to measurements by others on a gfx1201.
#[test]
fn gfx12_matrix_products_saturate_after_four_of_k() {
    let product = |mode: &str, at_4: u32| {
        let mut wave = wave(Gfx1201);
        for lane in 0..wave.lanes {
            let first = lane < 16;
            wave.set_lane(
                8,
                lane,
                if first { GREATEST << 16 | GREATEST } else { GREATEST | MINUS },
            );
            wave.set_lane(16, lane, if first { TWO << 16 | TWO } else { 0x3c00 });
            wave.set_lane(10, lane, if first { at_4 } else { 0 });
            wave.set_lane(18, lane, TWO);
        }
        let text = "v_wmma_f16_16x16x16_f16 v[0:3], v[8:11], v[16:19], v[0:3]";
        execute(Gfx1201, &mut wave, &format!("{mode}{text}"));
        wave.lane(2, 7)
    };
    assert_eq!(product("", 0), INFINITY << 16 | INFINITY);
    assert_eq!(product(OVERFLOW, 0), 0);
    assert_eq!(product(OVERFLOW, GREATEST), GREATEST << 16 | GREATEST);
}

#[test]
fn scalar_halves_saturate() {
    let run = |mode: &str, name: &str, a: u32, b: u32| {
        let mut wave = wave(Gfx1201);
        let text = format!("{mode}s_mov_b32 s1, {a:#x}\ns_mov_b32 s2, {b:#x}\n{name}");
        execute(Gfx1201, &mut wave, &text);
        wave.scalar[0] & 0xffff
    };
    for (name, a, b, clear, set) in [
        ("s_mul_f16 s0, s1, s2", GREATEST, TWO, INFINITY, GREATEST),
        ("s_add_f16 s0, s1, s2", INFINITY, TWO, INFINITY, INFINITY),
        ("s_cvt_f16_f32 s0, s1", f(-1e6), 0, INFINITY | MINUS, GREATEST | MINUS),
        ("s_cvt_f16_f32 s0, s1", f(f32::INFINITY), 0, INFINITY, INFINITY),
        ("s_fmac_f16 s0, s1, s2", GREATEST, TWO, INFINITY, GREATEST),
    ] {
        assert_eq!(run("", name, a, b), clear, "{name}");
        assert_eq!(run(OVERFLOW, name, a, b), set, "{name}");
    }
}

#[test]
fn mode_decides_about_nans_under_clamp() {
    let with = |arch, text: &str, sources: &[u32], [set, clear]: [u32; 2]| {
        check(arch, text, sources, set);
        check(arch, &format!("{KEEPS_NANS}{text}"), sources, clear);
    };
    let nan = 0x7fc0_0000;
    for arch in [Gfx906, Gfx90a, Gfx942, Gfx950, Gfx1030, Gfx1100, Gfx1151, Gfx1201] {
        let keeps = |value: u32| if arch == Gfx1201 { 0 } else { value };
        with(arch, "v_add_f32_e64 v0, v1, v2 clamp", &[nan, f(1.0)], [0, keeps(nan)]);
        with(arch, "v_add_f32_e64 v0, v1, v2 clamp", &[f(-3.0), f(1.0)], [0, 0]);
        with(arch, "v_add_f32_e64 v0, v1, v2 clamp", &[f(f32::INFINITY), 0], [f(1.0); 2]);
        let mixed = "v_pk_fma_f16 v0, v1, 1.0, v2 op_sel_hi:[1,0,1] clamp";
        let halves = [NAN << 16 | TWO, 0];
        with(arch, mixed, &halves, [0x3c00, keeps(NAN << 16) | 0x3c00]);
    }
    let low = "v_fma_mixlo_f16 v0, v1, v2, v3 clamp";
    with(Gfx1030, low, &[nan, f(1.0), 0], [0, NAN]);
    with(Gfx1201, low, &[nan, f(1.0), 0], [0, 0]);
    with(Gfx942, "v_pk_mul_f32 v[0:1], v[1:2], v[1:2] clamp", &[nan, f(0.5)], [0, nan]);
    with(Gfx942, "v_cvt_f16_f32_e64 v0, v1 clamp", &[nan], [0, NAN]);
}

/// The expected values were measured on a Radeon RX 9070 XT.
#[test]
fn clamp_makes_negative_zero_positive() {
    check(Gfx1201, "v_add_f32_e64 v0, v1, v2 clamp", &[f(-0.0), f(-0.0)], 0);
    check(Gfx90a, "v_pk_add_f16 v0, v1, v1 clamp", &[0x8000_8000], 0);
}
