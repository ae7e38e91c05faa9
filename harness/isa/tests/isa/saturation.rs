//! Tests saturating results, and products with the rules of older graphics interfaces.

use proptest::prelude::*;

use super::*;

/// Returns the exact result, limited to the range from `least` to `greatest`.
fn stopped(exact: i128, least: i128, greatest: i128) -> u32 {
    exact.clamp(least, greatest) as u32
}

const EDGES: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_0000, 0xffff_fffe, u32::MAX];

#[test]
fn saturated_results_keep_their_carries() {
    for a in EDGES {
        for b in EDGES {
            for (name, exact) in [
                ("v_add_co_u32_e64", i128::from(a) + i128::from(b)),
                ("v_sub_co_u32_e64", i128::from(a) - i128::from(b)),
                ("v_subrev_co_u32_e64", i128::from(b) - i128::from(a)),
            ] {
                let expected = stopped(exact, 0, u32::MAX.into());
                let mut wave = wave(Gfx90a);
                wave.set_lane(1, 3, a);
                wave.set_lane(2, 3, b);
                execute(Gfx90a, &mut wave, &format!("{name} v0, s[4:5], v1, v2 clamp"));
                assert_eq!(wave.lane(0, 3), expected, "{name} of {a:#x} and {b:#x}");
                assert_eq!(wave.mask(4) >> 3 & 1 == 1, exact != i128::from(expected), "{name}");
                check(Gfx1100, &format!("{name} v0, s4, v1, v2 clamp"), &[a, b], expected);
            }
            // All lanes add a carry of one.
            let with = |arch, name: &str, exact: i128| {
                let text = format!("s_mov_b32 vcc_lo, -1\n{name} v0, vcc_lo, v1, v2, vcc_lo clamp");
                check(arch, &text, &[a, b], stopped(exact, 0, u32::MAX.into()));
            };
            with(Gfx1100, "v_add_co_ci_u32_e64", i128::from(a) + i128::from(b) + 1);
            with(Gfx1100, "v_sub_co_ci_u32_e64", i128::from(a) - i128::from(b) - 1);
            with(Gfx1100, "v_subrev_co_ci_u32_e64", i128::from(b) - i128::from(a) - 1);
        }
    }
}

proptest! {
    #[test]
    fn products_and_sums_saturate(a: u32, b: u32, c: u32) {
        let signed = |bits: u32, width: u32| i128::from((bits << (32 - width)) as i32 >> (32 - width));
        let unsigned = |bits: u32, width: u32| i128::from(bits << (32 - width) >> (32 - width));
        let sources = [a, b, c];
        let of = |name: &str, arch, expected: u32| {
            check(arch, &format!("{name} v0, v1, v2, v3 clamp"), &sources, expected);
        };
        let exact = |width: u32, addend: u32| unsigned(a, width) * unsigned(b, width) + unsigned(c, addend);
        let exact_signed = |width: u32, addend: u32| signed(a, width) * signed(b, width) + signed(c, addend);
        let (most, least) = (i128::from(i32::MAX), i128::from(i32::MIN));
        for arch in [Gfx906, Gfx942, Gfx1030, Gfx1201] {
            of("v_mad_u32_u24", arch, stopped(exact(24, 32), 0, u32::MAX.into()));
            of("v_mad_i32_i24", arch, stopped(exact_signed(24, 32), least, most));
            of("v_mad_u32_u16", arch, stopped(exact(16, 32), 0, u32::MAX.into()));
            of("v_mad_i32_i16", arch, stopped(exact_signed(16, 32), least, most));
            // The upper half of v0 was zero and stays zero.
            of("v_mad_u16", arch, stopped(exact(16, 16), 0, 0xffff));
            of("v_mad_i16", arch, stopped(exact_signed(16, 16), -0x8000, 0x7fff) & 0xffff);
            let half = |shift: u32| {
                let [a, b, c] = sources.map(|word| i128::from((word >> shift) as i16));
                stopped(a * b + c, -0x8000, 0x7fff) & 0xffff
            };
            of("v_pk_mad_i16", arch, half(0) | half(16) << 16);
        }
    }
}

#[test]
fn legacy_product_of_zero_is_zero() {
    let (infinity, nan) = (f(f32::INFINITY), f(f32::NAN));
    for anything in [infinity, nan, f(3.0)] {
        check(Gfx906, "v_mad_legacy_f32 v0, v1, v2, v3", &[f(0.0), anything, f(7.0)], f(7.0));
        check(Gfx90a, "v_mad_legacy_f32 v0, v1, v2, v3", &[anything, f(-0.0), f(7.0)], f(7.0));
        let fused = "v_mov_b32 v0, v3\nv_fmac_dx9_zero_f32 v0, v1, v2";
        check(Gfx1100, fused, &[f(0.0), anything, f(7.0)], f(7.0));
        check(Gfx1100, "v_mullit_f32 v0, v1, v2, v3", &[f(0.0), f(5.0), f(1.0)], f(0.0));
    }
    let fused = "v_mov_b32 v0, v3\nv_fmac_legacy_f32 v0, v1, v2";
    // The result differs if the product is rounded before the addition: (1 + 2^-12)^2 - 1.
    let next = f32::from_bits(0x3f80_0800);
    let once = (f64::from(next) * f64::from(next) - 1.0) as f32;
    check(Gfx1030, fused, &[f(next), f(next), f(-1.0)], f(once));
    let twice = next * next - 1.0;
    check(Gfx906, "v_mad_legacy_f32 v0, v1, v2, v3", &[f(next), f(next), f(-1.0)], f(twice));
    assert_ne!(once, twice);
}

/// Source: the RDNA ISA guides, `V_MULLIT_F32`.
#[test]
fn mullit_without_light_is_the_smallest_number() {
    let dark = f(-f32::MAX);
    let light = |sources: [f32; 3], expected| {
        check(Gfx1030, "v_mullit_f32 v0, v1, v2, v3", &sources.map(f), expected);
    };
    light([2.0, 3.0, 1.0], f(6.0));
    light([2.0, -3.0, f32::INFINITY], f(-6.0));
    light([2.0, 3.0, 0.0], dark);
    light([2.0, 3.0, -1.0], dark);
    light([2.0, 3.0, f32::NAN], dark);
    light([2.0, f32::NAN, 1.0], dark);
    light([2.0, f32::NEG_INFINITY, 1.0], dark);
    light([2.0, -f32::MAX, 1.0], dark);
    light([0.0, f32::INFINITY, 1.0], f(0.0));
    light([2.0, f32::INFINITY, 1.0], f(f32::INFINITY));
}

#[test]
fn legacy_div_fixup_of_halves() {
    // The quotients are 1 / 0, and an ordinary one, whose sign the instruction sets.
    check(Gfx90a, "v_div_fixup_legacy_f16 v0, v1, v2, v3", &[0x3c00, 0, 0x3c00], 0x7c00);
    check(Gfx90a, "v_div_fixup_legacy_f16 v0, v1, v2, v3", &[0x3800, 0xc000, 0x3c00], 0xb800);
}

#[test]
fn scalar_minima_propagate_nans() {
    let scalar = |text: &str, a: u32, b: u32, expected: u32| {
        let mut wave = wave(Gfx1201);
        (wave.scalar[1], wave.scalar[2]) = (a, b);
        execute(Gfx1201, &mut wave, text);
        assert_eq!(wave.scalar[0], expected, "{text} of {a:#x} and {b:#x}");
    };
    scalar("s_minimum_f32 s0, s1, s2", f(1.0), f(-2.0), f(-2.0));
    scalar("s_minimum_f32 s0, s1, s2", f(0.0), f(-0.0), f(-0.0));
    scalar("s_maximum_f32 s0, s1, s2", 0x7fc0_0001, f(9.0), 0x7fc0_0001);
    scalar("s_max_num_f32 s0, s1, s2", 0x7fc0_0001, f(9.0), f(9.0));
    scalar("s_minimum_f16 s0, s1, s2", 0x3c00, 0xc000, 0xc000);
    scalar("s_maximum_f16 s0, s1, s2", 0x3c00, 0x7e01, 0x7e01);
    scalar("s_maximum_f16 s0, s1, s2", 0x8000, 0x0000, 0x0000);
}

/// The codes are in OCP's formats, and their values are from OCP's specification.
#[test]
fn dot_products_of_bytes() {
    // The fp8 codes are 1, 1.5, -2 and 448. The bf8 codes are 1, 0.5, -3 and 57344.
    let (fp8, bf8) = (0x7ec0_3c38, 0x7bc2_383c);
    let of = |name: &str, a: u32, b: u32, expected: f32| {
        check(Gfx1201, &format!("{name} v0, v1, v2, v3"), &[a, b, f(0.25)], f(expected));
    };
    of("v_dot4_f32_fp8_fp8", fp8, fp8, 0.25 + 1.0 + 2.25 + 4.0 + 448.0 * 448.0);
    of("v_dot4_f32_fp8_bf8", fp8, bf8, 0.25 + 1.0 + 0.75 + 6.0 + 448.0 * 57344.0);
    of("v_dot4_f32_bf8_fp8", bf8, fp8, 0.25 + 1.0 + 0.75 + 6.0 + 448.0 * 57344.0);
    of("v_dot4_f32_bf8_bf8", 0x00c2_383c, 0x00c2_383c, 0.25 + 1.0 + 0.25 + 9.0);
}

/// In a block of 4 by 4 doubles, only one product is not zero. The test inverts the sign of each operand separately.
#[test]
fn signs_of_matrices_of_doubles() {
    for (signs, expected) in [
        ("", 2.0 * 3.0 + 7.0),
        (" neg:[1,0,0]", -2.0 * 3.0 + 7.0),
        (" neg:[0,1,0]", -2.0 * 3.0 + 7.0),
        (" neg:[0,0,1]", 2.0 * 3.0 - 7.0),
        (" neg:[1,1,1]", 2.0 * 3.0 - 7.0),
    ] {
        let mut wave = wave(Gfx942);
        let mut put = |row: usize, lane: usize, value: f64| {
            wave.set_lane(row, lane, value.to_bits() as u32);
            wave.set_lane(row + 1, lane, (value.to_bits() >> 32) as u32);
        };
        // In lane 0, row, column and k of block 0 are 0.
        put(2, 0, 2.0);
        put(4, 0, 3.0);
        put(6, 0, 7.0);
        let text = format!("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[2:3], v[4:5], v[6:7]{signs}");
        execute(Gfx942, &mut wave, &text);
        let got = u64::from(wave.lane(0, 0)) | u64::from(wave.lane(1, 0)) << 32;
        assert_eq!(f64::from_bits(got), expected, "{text}");
    }
}
