//! Tests how MODE affects operands and results.

use super::*;

#[test]
fn mode_decides_about_denormals() {
    let (denormal, least) = (0x8000_0001, f32::MIN_POSITIVE);
    let run = |denormals: u32, text: &str| {
        let mut wave = wave(Gfx1030);
        for (row, value) in [(1, denormal), (2, f(least)), (3, f(0.5))] {
            wave.set_lane(row, 3, value);
        }
        let site = Site { immediate: denormals as u16, ..Site::for_arch(Gfx1030) };
        let Ok(exec) = bind("s_denorm_mode 0", &site) else { panic!() };
        exec.run(&mut wave, &mut line::machine(&Nothing)).expect("no stop");
        execute(Gfx1030, &mut wave, text);
        wave.lane(0, 3)
    };
    // Bit 0 keeps denormal operands, and bit 1 keeps denormal results.
    for (denormals, source, result) in [
        (3, denormal, 0x0040_0000),
        (1, 0x8000_0000, 0),
        (2, 0x8000_0000, 0x0040_0000),
        (0, 0x8000_0000, 0),
    ] {
        assert_eq!(run(denormals, "v_max_f32 v0, v1, v1"), source, "{denormals}");
        assert_eq!(run(denormals, "v_mul_f32 v0, v2, v3"), result, "{denormals}");
        assert_eq!(run(denormals, "v_cndmask_b32 v0, v1, v1, vcc_lo"), denormal, "moves are exact");
    }
    assert_eq!(run(0, "v_pk_mul_f16 v0, v1, 1.0"), denormal, "halves have separate bits");
}

/// Source: "If output denormals are enabled, then output modifiers are ignored"; "-0 is flushed to +0". Output
/// modifiers are ignored under IEEE rules too.
#[test]
fn mode_enables_output_modifiers() {
    let with = |mode: u32, text: &str, sources: &[u32], expected: u32| {
        let text = format!("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 16), {mode:#x}\n{text}");
        check(Gfx1100, &text, sources, expected);
    };
    let sum = "v_add_f32_e64 v0, v1, v2 mul:2";
    let (a, b) = (f(0.75), f(3.0));
    with(0, sum, &[a, b], f(7.5));
    // This MODE keeps only denormals of 16-bit and 64-bit floats.
    with(0x80, sum, &[a, b], f(7.5));
    for mode in [0x20, 0xf0, 0x200, 0x2f0] {
        with(mode, sum, &[a, b], f(3.75));
    }
    let half = "v_add_f32_e64 v0, v1, v2 div:2";
    with(0, half, &[f(-0.0), f(-0.0)], 0);
    // A flushed denormal result keeps its sign, and a flushed denormal operand becomes +0.
    with(0, half, &[f(-f32::MIN_POSITIVE), f(-0.0)], f(-0.0));
    with(0, "v_add_f16_e64 v0.l, v1.l, v2.l div:2", &[0x8400, 0], 0x8000);
    with(0, "v_add_f16_e64 v0.l, v1.l, v2.l mul:4", &[0x8200, 0], 0);
    with(0x20, half, &[f(-0.0), f(-0.0)], f(-0.0));
    let of_16 = "v_add_f16_e64 v0.l, v1.l, v2.l mul:4";
    with(0x20, of_16, &[0x3c00, 0], 0x4400);
    with(0x80, of_16, &[0x3c00, 0], 0x3c00);
}

/// Source: "OMOD is allowed regardless of MODE.denorm setting, but flushes output denorms when OMOD!=0" (the RDNA 4
/// guide).
#[test]
fn gfx12_scales_results_with_any_denormal_mode() {
    for mode in [0, 0x20, 0xf0] {
        let with = |text: &str, sources: &[u32], expected: u32| {
            let text = format!("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 16), {mode:#x}\n{text}");
            check(Gfx1201, &text, sources, expected);
        };
        with("v_add_f32_e64 v0, v1, v2 mul:2", &[f(0.75), f(3.0)], f(7.5));
        with("v_add_f32_e64 v0, v1, v2 mul:4", &[0x0020_0000, 0], 0);
        with("v_add_f32_e64 v0, v1, v2 div:2", &[f(-f32::MIN_POSITIVE), 0], f(-0.0));
        with("v_add_f16_e64 v0.l, v1.l, v2.l mul:4", &[0x3c00, 0], 0x4400);
        with("v_ldexp_f32 v0, v1, v2 mul:4 clamp", &[f(0.25), 0], f(1.0));
        with("v_add_f64 v[0:1], 0.5, 0.5 div:2", &[], 0);
    }
}

/// Source: "1ULP accuracy, denormals are flushed" (the ISA guides). The instructions flush denormals even if MODE keeps
/// them.
#[test]
fn transcendental_instructions_flush_f32_denormals() {
    let (denormal, least, large) = (0x0040_0000, 0x8000_0001, 0x7f00_0000);
    for arch in [Gfx906, Gfx90a, Gfx942, Gfx950, Gfx1030, Gfx1100, Gfx1201] {
        for (name, source, expected) in [
            ("v_rcp_f32", denormal, f(f32::INFINITY)),
            ("v_rcp_f32", large, 0),
            ("v_rcp_f32", large | 1 << 31, 1 << 31),
            ("v_rcp_iflag_f32", least, f(f32::NEG_INFINITY)),
            ("v_rsq_f32", denormal, f(f32::INFINITY)),
            ("v_sqrt_f32", denormal, 0),
            ("v_exp_f32", f(-126.0), f(f32::MIN_POSITIVE)),
            ("v_exp_f32", f(-127.0), 0),
            ("v_log_f32", denormal, f(f32::NEG_INFINITY)),
        ] {
            check(arch, &format!("{name}_e32 v0, v1"), &[source], expected);
        }
        check(arch, "v_mul_f32 v0, v1, v2", &[denormal, f(1.0)], denormal);
    }
    let mut wave = wave(Gfx1201);
    execute(Gfx1201, &mut wave, "s_mov_b32 s1, 0x400000\nv_s_rcp_f32 s0, s1");
    assert_eq!(wave.scalar[0], f(f32::INFINITY));
}

const IEEE: &str = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 9, 1), 1\n";
const FLUSH: &str = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n";

/// Source: `V_MIN_F32` and similar instructions in the CDNA 3, CDNA 4 and RDNA 3 ISA guides. For a signalling NaN and a
/// number, the result is a quiet NaN if MODE.IEEE is set, otherwise the number.
#[test]
fn signalling_nans_take_precedence_under_ieee_rules() {
    let (one, two, signalling) = (f(1.0), f(2.0), 0x7f80_0001);
    for arch in [Gfx906, Gfx90a, Gfx950, Gfx1030, Gfx1100] {
        let rules = |text: &str, sources: &[u32], [set, clear]: [u32; 2]| {
            check(arch, &format!("{IEEE}{text}"), sources, set);
            check(arch, text, sources, clear);
        };
        for name in ["v_min_f32", "v_max_f32"] {
            let text = format!("{name} v0, v1, v2");
            rules(&text, &[signalling, one], [0x7fc0_0001, one]);
            rules(&text, &[one, signalling], [0x7fc0_0001, one]);
            rules(&text, &[0x7fc0_0000, one], [one, one]);
        }
        // The instruction computes the minimum of the first two operands, and then the minimum of that result and the
        // third operand.
        rules("v_min3_f32 v0, v1, v2, v3", &[signalling, one, two], [two, one]);
        rules("v_med3_f32 v0, v1, v2, v3", &[signalling, one, two], [two, one]);
        for name in ["v_min_f64", "v_max_f64"] {
            let text = format!("{name} v[0:1], v[1:2], v[3:4]\nv_mov_b32 v0, v1");
            rules(&text, &[0, 0x7ff0_0001, 0, 0x3ff0_0000], [0x7ff8_0001, 0x3ff0_0000]);
        }
        if arch != Gfx1100 {
            rules("v_min_f16 v0, v1, v2", &[0x7c01, 0x3c00], [0x7e01, 0x3c00]);
            rules("v_max_f16 v0, v1, v2", &[0x3c00, 0x7c01], [0x7e01, 0x3c00]);
        }
        let pair = [0x7c01_3c00, 0x4000_7c01];
        rules("v_pk_max_f16 v0, v1, v2", &pair, [0x7e01_7e01, 0x4000_3c00]);
    }
    let text = "s_min_f32 s0, 0x7f800001, 1.0\nv_mov_b32 v0, s0";
    check(Gfx1151, text, &[], one);
    check(Gfx1151, &format!("{IEEE}{text}"), &[], 0x7fc0_0001);
}

/// Source: "isNAN(S0) ... D0 = S1" (the RDNA 4 ISA guide, `V_MIN_NUM_F32`, `S_MIN_NUM_F32`, `DS_MIN_NUM_F32` and
/// similar). This applies to signalling and quiet NaNs. Two NaNs result in a quiet NaN.
#[test]
fn numbers_take_precedence_over_nans_on_gfx12() {
    let (one, signalling) = (f(1.0), 0x7f80_0001);
    let check = |text: &str, sources: &[u32], expected| check(Gfx1201, text, sources, expected);
    for name in ["v_min_num_f32", "v_max_num_f32"] {
        check(&format!("{name} v0, v1, v2"), &[signalling, one], one);
        check(&format!("{name} v0, v1, v2"), &[one, signalling], one);
        check(&format!("{name} v0, v1, v2"), &[0xff80_0002, signalling], 0xffc0_0002);
    }
    let three = [signalling, f(2.0), one];
    check("v_min3_num_f32 v0, v1, v2, v3", &three, one);
    check("v_max3_num_f32 v0, v1, v2, v3", &three, f(2.0));
    check("v_med3_num_f32 v0, v1, v2, v3", &three, one);
    check("v_maxmin_num_f32 v0, v1, v2, v3", &three, one);
    check("v_minmax_num_f32 v0, v1, v2, v3", &three, f(2.0));
    check("v_min_num_f16 v0.l, v1.l, v2.l", &[0x7c01, 0x3c00], 0x3c00);
    check("v_max_num_f16 v0.l, v1.l, v2.l", &[0x7c01, 0xfc01], 0x7e01);
    check("v_pk_min_num_f16 v0, v1, v2", &[0x7c01_3c00, 0x4000_7c01], 0x4000_3c00);
    let wide = [0, 0x7ff0_0001, 0, 0x3ff0_0000];
    check("v_max_num_f64 v[0:1], v[1:2], v[3:4]\nv_mov_b32 v0, v1", &wide, 0x3ff0_0000);
    check("s_max_num_f32 s0, 0x7f800001, 1.0\nv_mov_b32 v0, s0", &[], one);
    let of_lds = |name: &str| {
        let text = "v_mov_b32 v3, 0\nds_store_b32 v3, v1\n";
        format!("{text}{name} v3, v2\nds_load_b32 v0, v3")
    };
    check(&of_lds("ds_min_num_f32"), &[one, signalling], one);
    check(&of_lds("ds_max_num_f32"), &[signalling, one], one);
}

/// Source: "cmp_class ignores the FP mode and faithfully reports the unmodified source value" (LLVM,
/// `VOPCInstructions.td`).
#[test]
fn class_test_ignores_denormal_flushing() {
    let (denormal, zero) = (1 << 7, 1 << 6);
    for arch in [Gfx90a, Gfx1030, Gfx1201] {
        let vcc = if wave(arch).lanes == 64 { "vcc" } else { "vcc_lo" };
        let chosen = format!("v_cndmask_b32 v0, 0, 1, {vcc}");
        for (mask, expected) in [(denormal, 1), (zero, 0)] {
            let text = format!("{FLUSH}v_cmp_class_f32 {vcc}, v1, v2\n{chosen}");
            check(arch, &text, &[0x0040_0000, mask], expected);
        }
        let text = format!("{FLUSH}v_cmp_eq_f32 {vcc}, 0, v1\n{chosen}");
        check(arch, &text, &[0x0040_0000], 1);
    }
}

/// The expected values were measured on gfx90a and gfx950 (llvm-project#205101). The product is that of -2^-24, a
/// denormal half, and 2^-14. The dot product is tested with several values of MODE, and `v_fma_mix_f32` with a MODE
/// that keeps denormals and one that flushes them.
#[test]
fn denormal_factors_are_flushed_as_measured() {
    let (factors, product) = ([0x8001, 0x0400], 0xac80_0000);
    for (arch, expected) in [(Gfx90a, 0), (Gfx950, product)] {
        for mode in ["", IEEE, FLUSH] {
            check(arch, &format!("{mode}v_dot2_f32_f16 v0, v1, v2, 0"), &factors, expected);
            check(arch, &format!("{mode}v_dot2c_f32_f16 v0, v1, v2"), &factors, expected);
        }
        let mixed = "v_fma_mix_f32 v0, v1, v2, 0 op_sel_hi:[1,1,0]";
        check(arch, mixed, &factors, product);
        check(arch, &format!("{FLUSH}{mixed}"), &factors, 0);
    }
}

/// Source: "fdot2_f32_f16 always flushes fp32 denormal operand and output to zero, regardless of the denorm mode
/// setting" (LLVM).
#[test]
fn dot2_flushes_denormal_sums() {
    let denormal = 0x0040_0000;
    for arch in [Gfx906, Gfx90a, Gfx950, Gfx1030, Gfx1100, Gfx1201] {
        let text = "v_dot2_f32_f16 v0, v1, v2, v3";
        check(arch, text, &[0, 0, denormal], 0);
        check(arch, text, &[0x3c00, 0x3c00, denormal], f(1.0));
        check(arch, text, &[0, 0, f(f32::MIN_POSITIVE)], f(f32::MIN_POSITIVE));
    }
}

/// MODE.FP_DENORM applies to all operations that compute in 32 bits.
#[test]
fn mixed_and_scalar_floats_follow_the_denormal_mode() {
    let denormal = 0x8040_0000;
    let half = f(0.5);
    let both = |arch, text: &str, sources: &[u32], [kept, flushed]: [u32; 2]| {
        check(arch, text, sources, kept);
        check(arch, &format!("{FLUSH}{text}"), sources, flushed);
    };
    for arch in [Gfx906, Gfx90a, Gfx1030, Gfx1100, Gfx1201] {
        let text = "v_fma_mix_f32 v0, v1, v2, v3";
        both(arch, text, &[denormal, f(1.0), f(-0.0)], [denormal, f(-0.0)]);
        both(arch, text, &[f(f32::MIN_POSITIVE), half, 0], [0x0040_0000, 0]);
        // If an operand is flushed, the sign modifier still applies to it.
        both(arch, "v_fma_mix_f32 v0, 0, 0, -v1", &[0x0040_0000], [denormal, 0]);
    }
    for arch in [Gfx1151, Gfx1201] {
        let of = |text: &str| format!("{text}\nv_mov_b32 v0, s0");
        both(arch, &of("s_add_f32 s0, 0x80400000, 0x80000000"), &[], [denormal, f(-0.0)]);
        both(arch, &of("s_mov_b32 s1, 0x00800000\ns_mul_f32 s0, s1, 0.5"), &[], [0x0040_0000, 0]);
        let fused = "s_mov_b32 s0, 0x00400000\ns_fmac_f32 s0, 0, 0";
        both(arch, &of(fused), &[], [0x0040_0000, 0]);
        let less = "s_mov_b32 s1, 0x00400000\ns_cmp_lt_f32 0, s1\ns_cselect_b32 s0, 1, 0";
        both(arch, &of(less), &[], [1, 0]);
        both(arch, &of("s_mov_b32 s0, 0x00400000"), &[], [0x0040_0000, 0x0040_0000]);
    }
}

/// Source: "DS atomic fadd F32 does respect the denormal mode" (LLVM, pull request 89468).
#[test]
fn lds_additions_follow_the_denormal_mode() {
    for (arch, [store, load]) in
        [(Gfx90a, ["write", "read"]), (Gfx1030, ["write", "read"]), (Gfx1201, ["store", "load"])]
    {
        for (mode, expected) in [("", 0x0040_0000), (FLUSH, 0)] {
            let mut wave = wave(arch);
            wave.set_pair(EXEC, 1 << 3);
            wave.set_lane(1, 3, 0x0030_0000);
            wave.set_lane(2, 3, 0x0010_0000);
            let text =
                format!("{mode}ds_{store}_b32 v3, v1\nds_add_f32 v3, v2\nds_{load}_b32 v0, v3");
            execute(arch, &mut wave, &text);
            assert_eq!(wave.lane(0, 3), expected, "{arch} {mode}");
        }
    }
}
