//! Tests the results of a few instructions of each kind.

use isa::inside::{ops, text::Text};
use proptest::prelude::*;

use super::*;

#[test]
fn integer_operations() {
    check(Gfx90a, "v_mad_u32_u24 v0, v1, v2, v3", &[0xff00_0003, 5, 7], 22);
    check(Gfx90a, "v_bfe_i32 v0, v1, 4, 4", &[0x80], 0xffff_fff8);
    check(Gfx90a, "v_alignbit_b32 v0, v1, v2, 8", &[0x1234_5678, 0x9abc_def0], 0x789a_bcde);
    let words = &[0x1234_5678, 0x9abc_def0, 0x0003_0008];
    check(Gfx1100, "v_alignbit_b32 v0, v1, v2, v3.l", words, 0x789a_bcde);
    check(Gfx1100, "v_alignbyte_b32 v0, v1, v2, v3.h op_sel:[0,0,1,0]", words, 0x3456_789a);
    check(
        Gfx90a,
        "v_perm_b32 v0, v1, v2, v3",
        &[0x8877_6655, 0x4433_2211, 0x0c07_000d],
        0x0088_11ff,
    );
    check(Gfx1100, "v_med3_i32 v0, v1, v2, v3", &[5, u32::MAX, 2], 2);
    check(Gfx1100, "v_add_nc_u32_e64 v0, v1, v2 clamp", &[u32::MAX, 2], u32::MAX);
    check(Gfx1100, "v_bcnt_u32_b32 v0, v1, v2", &[0xf0f0, 3], 11);
    check(Gfx1100, "v_sad_u8 v0, v1, v2, v3", &[0x0102_0304, 0x0403_0201, 10], 18);
    check(
        Gfx1100,
        "v_dot4_i32_iu8 v0, v1, v2, v3 neg_lo:[1,1,0]",
        &[0xff02_0304, 0x0101_0101, 10],
        18,
    );
}

#[test]
fn float_operations() {
    check(Gfx1100, "v_fma_f32 v0, |v1|, -v2, 1.0", &[f(-2.0), f(3.0)], f(-5.0));
    check(Gfx1100, "v_add_f32_e64 v0, v1, v2 clamp", &[f(0.75), f(3.0)], f(1.0));
    check(Gfx90a, "v_mul_f32 v0, 0.15915494, v1", &[f(1.0)], 0x3e22_f983);
    check(Gfx90a, "v_max_f32 v0, v1, v2", &[f(f32::NAN), f(-1.0)], f(-1.0));
    check(Gfx90a, "v_max_f32 v0, v1, v2", &[f(-0.0), f(0.0)], f(0.0));
    check(Gfx90a, "v_med3_f32 v0, v1, v2, v3", &[f(1.0), f(9.0), f(-3.0)], f(1.0));
    check(Gfx90a, "v_cvt_i32_f32 v0, v1", &[f(-1e20)], 0x8000_0000);
    check(Gfx90a, "v_cvt_u32_f32 v0, v1", &[f(f32::NAN)], 0);
    check(Gfx90a, "v_ldexp_f32 v0, v1, -149", &[f(1.5)], 2);
    check(Gfx90a, "v_sin_f32 v0, v1", &[f(0.25)], f(1.0));
    check(Gfx90a, "v_exp_f32 v0, v1", &[f(-1.0)], f(0.5));
    check(Gfx90a, "v_frexp_mant_f32 v0, v1", &[f(-12.0)], f(-0.75));
    check(Gfx90a, "v_frexp_exp_i32_f32 v0, v1", &[f(-12.0)], 4);
    assert_eq!(vector(Gfx90a, "v_add_f64 v[0:1], v[1:2], 1.0", &[0, 0x4000_0000]), 3f64.to_bits());
    assert_eq!(
        vector(Gfx90a, "v_mul_f64 v[0:1], v[1:2], 0x40080000", &[0, 0x4000_0000]),
        6f64.to_bits()
    );
}

#[test]
fn stochastic_conversions_write_one_byte() {
    let text = "v_mov_b32 v0, -1\nv_cvt_sr_fp8_f32 v0, v1, v2 op_sel:[0,0,1,0]";
    check(Gfx942, text, &[f(1.0), u32::MAX], 0xffff_40ff);
    let text = "v_mov_b32 v0, -1\nv_cvt_sr_fp8_f32 v0, -v1, v2 byte_sel:2";
    check(Gfx1201, text, &[f(1.0625), 0x7fff_ffff], 0xffb8_ffff);
    check(Gfx1201, text, &[f(1.0625), 0x8000_0000], 0xffb9_ffff);
    check(Gfx1201, "v_cvt_sr_bf8_f32 v0, v1, v2", &[f(1.25), 0], 0x3d);
}

#[test]
fn only_active_lanes_are_written() {
    let mut wave = wave(Gfx90a);
    wave.set_pair(EXEC, 0x8000_0001_0000_0006);
    for lane in 0..64 {
        wave.set_lane(1, lane, lane as u32);
    }
    execute(Gfx90a, &mut wave, "v_lshl_add_u32 v1, v1, 8, v1");
    let expected = |lane: u32| if [1, 2, 32, 63].contains(&lane) { lane * 257 } else { lane };
    assert!((0..64).all(|lane| wave.lane(1, lane as usize) == expected(lane)));
}

/// The expected values were computed by hand with the formulas of the RDNA 4 ISA guide.
#[test]
fn video_and_cube_operations() {
    let (a, b) = (0x0102_0304, 0x0403_0001);
    check(
        Gfx1100,
        "v_lerp_u8 v0, v1, v2, v3",
        &[0x0103_05ff, 0x0202_0401, 0x0100_0100],
        0x0202_0580,
    );
    check(Gfx1100, "v_sad_hi_u8 v0, v1, v2, v3", &[a, b, 10], (10 << 16) + 10);
    check(Gfx1100, "v_sad_u16 v0, v1, v2, v3", &[a, b, 10], 0x0301 + 0x0303 + 10);
    check(Gfx1100, "v_msad_u8 v0, v1, v2, v3", &[a, b, 10], 3 + 1 + 3 + 10);
    let pairs = vector(
        Gfx1100,
        "v_qsad_pk_u16_u8 v[0:1], v[1:2], v3, v[4:5]",
        &[0x0403_0201, 0x0807_0605, 0x0101_0101, 0xffff_0001, 5],
    );
    // The bytes 1, 2, 3 and 4 differ from ones by 6 in total. Each further position adds 4 to the sum. The second sum
    // wraps.
    assert_eq!(pairs, 7 | 9 << 16 | 19 << 32 | 18 << 48);
    let pairs = vector(
        Gfx1100,
        "v_mqsad_pk_u16_u8 v[0:1], v[1:2], v3, v[4:5]",
        &[0x0403_0201, 0x0807_0605, 0x0100_0001, 0, 0],
    );
    assert_eq!(pairs, 3 | 5 << 16 | 7 << 32 | 9 << 48);
    let words = vector(
        Gfx1100,
        "v_mqsad_u32_u8 v[0:3], v[1:2], v3, v[4:7]",
        &[0x0403_0201, 0x0807_0605, 0x0100_0001, 100, 200, 0, 0],
    );
    assert_eq!(words, 103 | 205 << 32);
    for (direction, face, s, t, major) in [
        ([3.0, 1.0, 2.0], 0.0, -2.0, -1.0, 6.0),
        ([-3.0, 1.0, 2.0], 1.0, 2.0, -1.0, -6.0),
        ([1.0, 3.0, 2.0], 2.0, 1.0, 2.0, 6.0),
        ([1.0, -3.0, 2.0], 3.0, 1.0, -2.0, -6.0),
        ([1.0, 2.0, 3.0], 4.0, 1.0, -2.0, 6.0),
        ([1.0, 2.0, -3.0], 5.0, -1.0, -2.0, -6.0),
    ] {
        for (name, expected) in [("id", face), ("sc", s), ("tc", t), ("ma", major)] {
            check(
                Gfx90a,
                &format!("v_cube{name}_f32 v0, v1, v2, v3"),
                &direction.map(f),
                f(expected),
            );
        }
    }
    check(Gfx1100, "v_cvt_off_f32_i4 v0, v1", &[0x78], f(-0.5));
    check(Gfx1201, "v_cvt_pk_i16_f32 v0, v1, v2", &[f(-1.5), f(1e9)], 0x7fff_ffff);
    check(Gfx1201, "v_cvt_pk_u16_f32 v0, v1, v2", &[f(-1.5), f(3.9)], 0x0003_0000);
    check(Gfx1201, "v_cvt_pk_norm_i16_f16 v0, v1, v2", &[0x3c00, 0xbc00], 0x8001_7fff);
    check(Gfx90a, "v_subrev_u32_e64 v0, v1, v2 clamp", &[5, 3], 0);
    check(Gfx90a, "v_subrev_u16_e64 v0, v1, v2 clamp", &[5, 3], 0);
}

#[test]
fn minima_that_propagate_nans() {
    let (quiet, signalling) = (0x7fc0_0001, 0x7f80_0002);
    check(Gfx1201, "v_minimum_f32 v0, v1, v2", &[f(1.0), quiet], quiet);
    check(Gfx1201, "v_maximum_f32 v0, v1, v2", &[quiet, signalling], 0x7fc0_0002);
    check(Gfx1201, "v_minimum_f32 v0, v1, v2", &[f(0.0), f(-0.0)], f(-0.0));
    check(Gfx1201, "v_maximum3_f32 v0, v1, v2, v3", &[f(1.0), f(3.0), f(2.0)], f(3.0));
    check(Gfx1201, "v_minimummaximum_f32 v0, v1, v2, v3", &[f(1.0), f(3.0), f(2.0)], f(2.0));
    check(Gfx1201, "v_maximum_f16 v0, v1, v2", &[0x3c00, 0x7e01], 0x7e01);
    check(Gfx1201, "v_pk_minimum_f16 v0, v1, v2", &[0x3c00_7e01, 0x4000_3c00], 0x3c00_7e01);
    // The operands are those of jnp.clip in half precision.
    check(Gfx1100, "v_maxmin_f16 v0, v1, v2, v3", &[0x4200, 0x3c00, 0x4000], 0x4000);
    check(Gfx1100, "v_minmax_f16 v0, v1, v2, v3", &[0x4200, 0x3c00, 0x4000], 0x4000);
    check(Gfx1100, "v_frexp_exp_i16_f16 v0, v1", &[0x4400], 3);
    check(Gfx1100, "v_frexp_mant_f16 v0, v1", &[0x4600], 0x3a00);
}

#[test]
fn lane_permutations_by_register_and_pattern() {
    let moved = |arch, text: &str, immediate: u16| {
        let mut wave = wave(arch);
        for lane in 0..wave.lanes {
            wave.set_lane(1, lane, lane as u32 + 100);
            wave.set_lane(2, lane, 4 * (lane as u32 + 3));
        }
        wave.set_pair(EXEC, !(1 << 4));
        let site = Site { immediate, ..Site::for_arch(arch) };
        let Ok(exec) = bind(text, &site) else { panic!("not bound: {text}") };
        exec.run(&mut wave, &mut line::machine(&Nothing)).expect("no stop");
        (0..wave.lanes).map(|lane| wave.lane(0, lane)).collect::<Vec<_>>()
    };
    let var = moved(Gfx1201, "v_permlane16_var_b32 v0, v1, v2", 0);
    // Lane 1 reads lane 16 modulo 16, which is lane 0. Lane 17 reads the first lane of its own row.
    assert_eq!((var[1], var[17], var[4]), (100, 116, 0));
    assert_eq!(moved(Gfx1201, "v_permlanex16_var_b32 v0, v1, v2", 0)[1], 116);
    assert_eq!(
        moved(Gfx1201, "ds_bpermute_fi_b32 v0, v2, v1", 0)[1],
        104,
        "inactive lanes are read"
    );
    assert_eq!(moved(Gfx1201, "ds_bpermute_b32 v0, v2, v1", 0)[1], 0);
    let rotated =
        moved(Gfx90a, "ds_swizzle_b32 v0, v1 offset:swizzle(ROTATE,0,3)", 0xc000 | 3 << 5);
    assert_eq!((rotated[0], rotated[30], rotated[32], rotated[63]), (103, 101, 135, 134));
    let right = moved(Gfx90a, "ds_swizzle_b32 v0, v1 offset:swizzle(ROTATE,1,3)", 0xc400 | 3 << 5);
    assert_eq!((right[0], right[3], right[33]), (129, 100, 162));
    let fft = moved(Gfx90a, "ds_swizzle_b32 v0, v1 offset:swizzle(FFT,0)", 0xe000);
    assert_eq!((fft[1], fft[2], fft[3], fft[33]), (116, 108, 124, 148));
    let fft = moved(Gfx90a, "ds_swizzle_b32 v0, v1 offset:swizzle(FFT,16)", 0xe010);
    assert_eq!((fft[1], fft[2], fft[17]), (108, 0, 124), "lane 2 reads the inactive lane 4");
}

#[test]
fn extreme_scales_and_bytes() {
    for arch in Arch::of_each_generation() {
        for (value, power) in
            [(f64::INFINITY, -5000), (f64::NEG_INFINITY, -1992), (f64::INFINITY, 5000)]
        {
            let bits = value.to_bits();
            let text = format!("v_ldexp_f64 v[0:1], v[1:2], {power}");
            let text = text
                .replace("v[1:2], 5000", "v[1:2], 0x1388")
                .replace("v[1:2], -5000", "v[1:2], 0xffffec78");
            let text = text.replace("-1992", "0xfffff838");
            assert_eq!(vector(arch, &text, &[bits as u32, (bits >> 32) as u32]), bits, "{text}");
        }
        for (value, rounded) in
            [(2.5, 2), (3.5, 4), (0.75, 1), (-3.0, 0), (254.5, 254), (300.0, 255)]
        {
            check(
                arch,
                "v_cvt_pk_u8_f32 v0, v1, 1, v2",
                &[f(value), 0xaaaa_aaaa],
                0xaaaa_00aa | rounded << 8,
            );
        }
    }
}

#[test]
fn dot_products() {
    let check = |arch, text, sources: &[u32], expected| check(arch, text, sources, expected);
    check(Gfx90a, "v_dot2_f32_f16 v0, v1, v2, v3", &[0x4000_3c00, 0x4200_4400, f(0.5)], f(10.5));
    check(Gfx1151, "v_dot2_f32_bf16 v0, v1, v2, v3", &[0x4000_3f80, 0x4040_4080, f(0.5)], f(10.5));
    check(
        Gfx90a,
        "v_mov_b32 v0, 1.0\nv_dot2c_f32_f16 v0, v1, v2",
        &[0x4000_3c00, 0x4200_4400],
        f(11.0),
    );
    check(Gfx90a, "v_dot4_i32_i8 v0, v1, v2, v3", &[0xff02_0304, 0x0101_0101, 10], 18);
    check(Gfx90a, "v_dot4_i32_i8 v0, v1, v2, v3 clamp", &[0x7f, 0x7f, 0x7fff_fff0], 0x7fff_ffff);
    check(Gfx90a, "v_dot4_u32_u8 v0, v1, v2, v3 clamp", &[0xff, 0xff, 0xffff_fff0], u32::MAX);
    check(Gfx90a, "v_dot8_i32_i4 v0, v1, v2, v3", &[0xf000_0007, 0x2000_0003, 100], 119);
    check(Gfx90a, "v_dot2_i32_i16 v0, v1, v2, v3", &[0xffff_0002, 0x0003_0004, 10], 15);
    check(Gfx1151, "v_dot8_i32_iu4 v0, v1, v2, v3 neg_lo:[1,0,0]", &[0xf, 0xf, 100], 85);
    check(
        Gfx1151,
        "v_dot4_i32_iu8 v0, v1, v2, v3 neg_lo:[1,1,0] clamp",
        &[0x80, 0x7f, 0x8000_0000],
        0x8000_0000,
    );
}

#[test]
fn registers_by_index() {
    let run = |arch, m0: u32, text: &str| {
        let mut wave = wave(arch);
        for row in 0..8 {
            wave.set_lane(row, 3, 100 + row as u32);
        }
        wave.scalar[usize::from(register::M0)] = m0;
        execute(arch, &mut wave, text);
        [0, 1, 5].map(|row| wave.lane(row, 3))
    };
    assert_eq!(run(Gfx1151, 4, "v_movrels_b32 v0, v1"), [105, 101, 105]);
    assert_eq!(run(Gfx1151, 4, "v_movreld_b32 v1, v0"), [100, 101, 100]);
    assert_eq!(run(Gfx1151, 0x0005_0001, "v_movrelsd_2_b32 v0, v0"), [100, 101, 101]);
    // If the register number is too large, a source operand is read from v0, and a destination is not written.
    assert_eq!(run(Gfx1151, 255, "v_movrels_b32 v1, v1"), [100, 100, 105]);
    assert_eq!(run(Gfx1151, 255, "v_movreld_b32 v1, v5"), [100, 101, 105]);
    // M0[9:0] is added to the register number of the source operand, and M0[25:16] to that of the destination.
    assert_eq!(run(Gfx1151, 0x0005_0100, "v_movrelsd_2_b32 v0, v1"), [100, 101, 100]);
}

#[test]
fn indexing_mode_offsets_register_numbers() {
    let moved = |text: &str, m0| {
        let text = Text::parse(text, &Site::for_arch(Gfx90a)).expect("text");
        ops::moved(&text, m0).map(|moved| moved.map(|moved| moved.operands))
    };
    let operands = |text: &str| Text::parse(text, &Site::for_arch(Gfx90a)).expect("text").operands;
    assert_eq!(moved("v_mov_b32 v0, v1", 0x1004), Ok(Some(operands("v_mov_b32 v0, v5"))));
    assert_eq!(moved("v_add_f32 v0, v1, v2", 0xa003), Ok(Some(operands("v_add_f32 v3, v1, v5"))));
    assert_eq!(moved("s_mov_b32 s0, s1", 0x1004), Ok(None));
    assert!(moved("v_mov_b32 v0, v200", 0x10ff).is_err());
    // The carries and flags are a second destination, which is not a vector register. The only destination of a
    // comparison is of this kind.
    let carry = operands("v_addc_co_u32 v4, vcc, v5, v2, vcc");
    assert_eq!(moved("v_addc_co_u32 v0, vcc, v1, v2, vcc", 0x9004), Ok(Some(carry)));
    let scale = operands("v_div_scale_f32 v0, vcc, v1, v2, v7");
    assert_eq!(moved("v_div_scale_f32 v0, vcc, v1, v2, v3", 0x4004), Ok(Some(scale)));
    let compare = operands("v_cmp_lt_u32 vcc, v5, v2");
    assert_eq!(moved("v_cmp_lt_u32 vcc, v1, v2", 0x9004), Ok(Some(compare)));
    assert!(moved("v_readlane_b32 s0, v1, s2", 0x1001).is_err());
}

#[test]
fn half_precision_keeps_or_clears_the_other_half() {
    // 1.0 + 2.0. GFX9 clears the upper half of the result, and later GPUs keep it.
    let sources = &[0x3c00, 0x4000];
    check(Gfx90a, "v_mov_b32 v0, -1\nv_add_f16 v0, v1, v2", sources, 0x0000_4200);
    check(Gfx1030, "v_mov_b32 v0, -1\nv_add_f16 v0, v1, v2", sources, 0xffff_4200);
    check(Gfx1100, "v_mov_b32 v0, -1\nv_add_f16_e64 v0.h, v1.l, v2.l", sources, 0x4200_ffff);
    check(Gfx1100, "v_pk_add_f16 v0, v1, v2", &[0x4000_3c00, 0xc000_4000], 0x0000_4200);
    check(Gfx1100, "v_pk_mul_f16 v0, v1, 2.0 op_sel_hi:[1,0]", &[0x4000_3c00], 0x4400_4000);
    check(
        Gfx1100,
        "v_fma_mix_f32 v0, v1, v2, -v3 op_sel:[1,0,0] op_sel_hi:[1,1,0]",
        &[0x4000_0000, 0x4200, f(1.0)],
        f(5.0),
    );
    check(Gfx90a, "v_pack_b32_f16 v0, v1, v2 op_sel:[1,0,0]", &[0x1234_0000, 0xabcd], 0xabcd_1234);
}

#[test]
fn parts_of_registers() {
    let sdwa = "v_add_u32_sdwa v0, v1, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:BYTE_0";
    check(Gfx90a, &format!("v_mov_b32 v0, -1\n{sdwa}"), &[0x0012_ffff, 0xff01], 0xffff_13ff);
    let extend = "v_add_u32_sdwa v0, sext(v1), v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:DWORD";
    check(Gfx90a, extend, &[0x80, 1], 0xffff_ff81);
}

#[test]
fn lane_moves() {
    let moved = |arch, text: &str| {
        let mut wave = wave(arch);
        for lane in 0..wave.lanes {
            wave.set_lane(1, lane, lane as u32 + 100);
        }
        execute(arch, &mut wave, text);
        (0..wave.lanes).map(|lane| wave.lane(0, lane)).collect::<Vec<_>>()
    };
    let quad =
        moved(Gfx1100, "v_mov_b32_dpp v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf");
    assert_eq!(quad[..4], [101, 100, 103, 102]);
    let left = moved(Gfx1100, "v_mov_b32_dpp v0, v1 row_shl:1 row_mask:0xf bank_mask:0xf");
    assert_eq!((left[0], left[15], left[16]), (101, 0, 117));
    let bounded =
        moved(Gfx90a, "v_mov_b32 v0, 7\nv_mov_b32_dpp v0, v1 row_shr:1 row_mask:0x3 bank_mask:0xf");
    assert_eq!((bounded[0], bounded[1], bounded[17], bounded[33]), (7, 100, 116, 7));
    let broadcast = moved(Gfx90a, "v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xa bank_mask:0xf");
    assert_eq!((broadcast[15], broadcast[16], broadcast[48], broadcast[32]), (0, 115, 147, 0));
    let eight = moved(Gfx1030, "v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]");
    assert_eq!(eight[..9], [107, 106, 105, 104, 103, 102, 101, 100, 115]);
    let rows = moved(Gfx1030, "v_permlanex16_b32 v0, v1, 0, 0");
    assert_eq!((rows[0], rows[16], rows[31]), (116, 100, 100));
    let pulled = moved(Gfx90a, "v_mov_b32 v2, 20\nds_bpermute_b32 v0, v2, v1");
    assert_eq!(pulled[63], 105);
}

#[test]
fn inactive_lanes_are_not_written() {
    let mut wave = wave(Gfx90a);
    wave.set_pair(EXEC, 0x8000_0000_0000_0002);
    execute(Gfx90a, &mut wave, "v_mov_b32 v0, 9\nv_cmp_eq_u32_e64 s[4:5], v0, 9");
    assert_eq!([0, 1, 2, 62, 63].map(|lane| wave.lane(0, lane)), [0, 9, 0, 0, 9]);
    assert_eq!(wave.pair(4), 0x8000_0000_0000_0002);
}

#[test]
fn masks_of_all_lanes() {
    let mut wave = wave(Gfx90a);
    wave.set_pair(EXEC, !(1 << 33));
    for lane in 0..64 {
        wave.set_lane(1, lane, if lane % 2 == 1 { u32::MAX } else { u32::MAX - 1 });
        wave.set_lane(2, lane, lane as u32);
    }
    let odd = 0xaaaa_aaaa_aaaa_aaaa & !(1 << 33);
    execute(Gfx90a, &mut wave, "v_add_co_u32 v0, vcc, 1, v1\nv_addc_co_u32 v3, s[6:7], 0, v2, vcc");
    assert_eq!((wave.pair(VCC), wave.pair(6)), (odd, 0));
    assert_eq!([2, 31, 33, 63].map(|lane| wave.lane(3, lane)), [2, 32, 0, 64]);
    execute(Gfx90a, &mut wave, "v_cmp_lt_u64_e64 s[4:5], v[1:2], v[2:3]");
    // The high dword of the first operand is v2, which contains the lane number. The high dword of the second operand
    // is v3, which is larger by one in odd lanes.
    assert_eq!(wave.pair(4), odd);
    execute(Gfx90a, &mut wave, "v_cndmask_b32 v4, v2, -1, s[4:5]\nv_cmpx_gt_i32 vcc, 0, v4");
    assert_eq!((wave.pair(VCC), wave.pair(EXEC)), (odd, odd));
}

#[test]
fn lane_mask_may_overwrite_its_source() {
    let run = |text: &str| {
        let mut wave = wave(Gfx90a);
        wave.set_pair(4, 0xffff_fff0);
        for lane in 0..64 {
            wave.set_lane(1, lane, 0x20 * (lane as u32 % 2));
        }
        execute(Gfx90a, &mut wave, text);
        (wave.pair(4), wave.lane(0, 2), wave.lane(0, 33))
    };
    let odd = 0xaaaa_aaaa_aaaa_aaaa;
    assert_eq!(run("v_add_co_u32_e64 v0, s[4:5], s4, v1"), (odd, 0xffff_fff0, 0x10));
    assert_eq!(run("v_cmp_gt_u32_e64 s[4:5], s4, v1").0, u64::MAX);
    assert_eq!(run("v_cmp_lt_u64_e64 s[4:5], v[1:2], s[4:5]").0, u64::MAX);
}

#[test]
fn dual_issue_reads_before_it_writes() {
    let text = "v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v1, v0, v2";
    let got = vector(Gfx1100, &format!("v_mov_b32 v0, 1.0\n{text}"), &[77, f(2.0)]);
    assert_eq!(got, 77 | u64::from(f(3.0)) << 32);
}

#[test]
fn scalar_operations() {
    let run = |text: &str| {
        let mut wave = wave(Gfx1151);
        wave.scalar[1] = 0xffff_fff0;
        wave.scalar[2] = 0x20;
        execute(Gfx1151, &mut wave, text);
        (wave.scalar[0], wave.scalar[usize::from(SCC)])
    };
    assert_eq!(run("s_add_u32 s0, s1, s2"), (0x10, 1));
    assert_eq!(run("s_sub_i32 s0, s1, s2"), (0xffff_ffd0, 0));
    assert_eq!(run("s_ashr_i32 s0, s1, 2"), (0xffff_fffc, 1));
    assert_eq!(run("s_bfe_i32 s0, s1, 0x40004"), (0xffff_ffff, 1));
    assert_eq!(run("s_ctz_i32_b32 s0, s1"), (4, 0));
    assert_eq!(run("s_cls_i32 s0, s1"), (28, 0));
    assert_eq!(run("s_lshl4_add_u32 s0, s2, 1"), (0x201, 0));
    assert_eq!(run("s_mul_hi_u32 s0, s1, s2"), (31, 0));
    assert_eq!(run("s_add_f32 s0, 1.0, 2.0"), (f(3.0), 0));
    assert_eq!(run("s_cmp_lt_i32 s1, s2\ns_cselect_b32 s0, 5, 6"), (5, 1));
    assert_eq!(run("s_sendmsg_rtn_b32 s0, sendmsg(MSG_RTN_GET_DOORBELL)").0, 0);
}

#[test]
fn unknown_instructions_and_modifiers_are_refused() {
    for text in [
        "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15] cbsz:1",
        "v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31] cbsz:1 abid:2",
        "v_dot4_i32_i8 v0, v1, v2, v3 op_sel_hi:[0,1,1]",
        "v_add_u32_e64 v0, v1, v2 frobnicate:1",
        "v_add_i16 v0, v1, v2 mul:3",
        "image_load v0, v1, s[0:7]",
        "s_set_gpr_idx_on s0, 1",
        "s_sendmsg_rtn_b32 s0, sendmsg(MSG_RTN_SAVE_WAVE)",
        "global_load_tr_b128 v[0:1], v2, s[0:1]",
    ] {
        assert!(bind(text, &Site::for_arch(Gfx90a)).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn shifts(a: u32, high: u32, n: u32) {
        let wide = u64::from(a) | u64::from(high) << 32;
        prop_assert_eq!(vector(Gfx90a, "v_lshlrev_b32 v0, v2, v1", &[a, n]) as u32, a << (n % 32));
        prop_assert_eq!(vector(Gfx90a, "v_lshrrev_b64 v[0:1], v3, v[1:2]", &[a, high, n]), wide >> (n % 64));
        prop_assert_eq!(
            vector(Gfx90a, "v_ashrrev_i64 v[0:1], v3, v[1:2]", &[a, high, n]),
            (i128::from(wide as i64) >> (n % 64)) as u64
        );
    }

    #[test]
    fn bit_fields(a: u32, offset: u32, width: u32) {
        let (o, w) = (offset % 32, width % 32);
        let expected = ((u128::from(a) >> o) % (1u128 << w)) as u32;
        prop_assert_eq!(vector(Gfx1100, "v_bfe_u32 v0, v1, v2, v3", &[a, offset, width]) as u32, expected);
    }

    #[test]
    fn wide_multiply_add(a: u32, b: u32, low: u32, high: u32) {
        let c = u64::from(low) | u64::from(high) << 32;
        let run = |line: &str, carry_out: u16| {
            let mut wave = wave(Gfx90a);
            for (row, value) in [(1, a), (2, b), (3, low), (4, high)] {
                wave.set_lane(row, 40, value);
            }
            execute(Gfx90a, &mut wave, line);
            let sum = u64::from(wave.lane(0, 40)) | u64::from(wave.lane(1, 40)) << 32;
            (sum, wave.pair(carry_out) >> 40 & 1 == 1)
        };
        let unsigned = (u64::from(a) * u64::from(b)).overflowing_add(c);
        prop_assert_eq!(run("v_mad_u64_u32 v[0:1], vcc, v1, v2, v[3:4]", VCC), unsigned);
        // The sum and the carry may be written to registers of the operands.
        prop_assert_eq!(run("v_mov_b32 v0, v1\nv_mov_b32 v1, v2\nv_mad_u64_u32 v[0:1], vcc, v0, v1, v[3:4]", VCC), unsigned);
        let text = "v_readlane_b32 s4, v1, 40\nv_readlane_b32 s5, v1, 40\nv_mad_u64_u32 v[0:1], s[4:5], v2, s4, v[3:4]";
        prop_assert_eq!(run(text, 4), unsigned);
        // The carry is the highest of 65 bits, "{ D1.i1, D0.i64 }" (the RDNA 4 and CDNA 4 ISA guides). It is the sign
        // of the exact sum.
        let sum = i128::from(a as i32) * i128::from(b as i32) + i128::from(c as i64);
        prop_assert_eq!(run("v_mad_i64_i32 v[0:1], vcc, v1, v2, v[3:4]", VCC), (sum as u64, sum < 0));
    }

    #[test]
    fn addition_with_carry(a: u64, b: u64) {
        let text = "v_add_co_u32 v0, vcc_lo, v1, v3\nv_add_co_ci_u32_e32 v1, vcc_lo, v2, v4, vcc_lo";
        let sources = [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32];
        prop_assert_eq!(vector(Gfx1100, text, &sources), a.wrapping_add(b));
        let text = "v_sub_co_u32 v0, vcc_lo, v1, v3\nv_sub_co_ci_u32_e32 v1, vcc_lo, v2, v4, vcc_lo";
        prop_assert_eq!(vector(Gfx1100, text, &sources), a.wrapping_sub(b));
    }

    /// Executes the instructions that the compiler emits for a correctly rounded quotient.
    #[test]
    fn division_is_correctly_rounded(n: u32, d: u32) {
        let text = "v_div_scale_f32 v3, s[4:5], v2, v2, v1
            v_rcp_f32 v4, v3
            v_fma_f32 v5, -v3, v4, 1.0
            v_fmac_f32 v4, v5, v4
            v_div_scale_f32 v5, vcc, v1, v2, v1
            v_mul_f32 v6, v5, v4
            v_fma_f32 v7, -v3, v6, v5
            v_fmac_f32 v6, v7, v4
            v_fma_f32 v3, -v3, v6, v5
            v_div_fmas_f32 v3, v3, v4, v6
            v_div_fixup_f32 v0, v3, v2, v1";
        let got = f32::from_bits(vector(Gfx90a, text, &[n, d]) as u32);
        let expected = f32::from_bits(n) / f32::from_bits(d);
        prop_assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
            "{:e} / {:e} is {:e}, not {:e}", f32::from_bits(n), f32::from_bits(d), got, expected);
    }

    /// Executes the instructions that the compiler emits for a correctly rounded quotient of doubles.
    #[test]
    fn division_of_doubles_is_correctly_rounded(n: u64, d: u64) {
        let text = "v_div_scale_f64 v[6:7], s[4:5], v[3:4], v[3:4], v[1:2]
            v_rcp_f64 v[8:9], v[6:7]
            v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0
            v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]
            v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0
            v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]
            v_div_scale_f64 v[10:11], vcc, v[1:2], v[3:4], v[1:2]
            v_mul_f64 v[12:13], v[10:11], v[8:9]
            v_fma_f64 v[6:7], -v[6:7], v[12:13], v[10:11]
            v_div_fmas_f64 v[6:7], v[6:7], v[8:9], v[12:13]
            v_div_fixup_f64 v[0:1], v[6:7], v[3:4], v[1:2]";
        let got = f64::from_bits(vector(Gfx90a, text, &[n as u32, (n >> 32) as u32, d as u32, (d >> 32) as u32]));
        let expected = f64::from_bits(n) / f64::from_bits(d);
        prop_assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
            "{:e} / {:e} is {:e}, not {:e}", f64::from_bits(n), f64::from_bits(d), got, expected);
    }
}
