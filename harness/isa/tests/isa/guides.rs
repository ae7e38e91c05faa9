//! Tests behaviour that the ISA guides specify and that is easily misread.

use super::*;

/// Source: "NOTE: destination lane is MOD 32 regardless of wave size" (the RDNA 3 ISA guide, `DS_PERMUTE_B32` and
/// `DS_BPERMUTE_B32`). The guides of CDNA and RDNA 4 describe a permutation of all lanes of the wave.
#[test]
fn halves_permute_separately_before_gfx12() {
    let moved = |arch, text: &str| {
        let mut wave = Wave::new(64);
        wave.set_pair(EXEC, u64::MAX);
        for lane in 0..64 {
            wave.set_lane(1, lane, lane as u32 + 100);
            wave.set_lane(2, lane, 4 * (lane as u32 + 40));
        }
        execute(arch, &mut wave, text);
        (0..64).map(|lane| wave.lane(0, lane)).collect::<Vec<_>>()
    };
    for arch in [Gfx1030, Gfx1100, Gfx1151] {
        let pulled = moved(arch, "ds_bpermute_b32 v0, v2, v1");
        assert_eq!(
            [0, 23, 24, 31, 32, 63].map(|lane| pulled[lane]),
            [108, 131, 100, 107, 140, 139]
        );
        let pushed = moved(arch, "ds_permute_b32 v0, v2, v1");
        assert_eq!([8, 31, 0, 7, 40, 39].map(|lane| pushed[lane]), [100, 123, 124, 131, 132, 163]);
    }
    for arch in [Gfx906, Gfx90a, Gfx950, Gfx1201] {
        let pulled = moved(arch, "ds_bpermute_b32 v0, v2, v1");
        assert_eq!([0, 23, 24, 63].map(|lane| pulled[lane]), [140, 163, 100, 139]);
        let pushed = moved(arch, "ds_permute_b32 v0, v2, v1");
        assert_eq!([40, 63, 0, 39].map(|lane| pushed[lane]), [100, 123, 124, 163]);
    }
}

/// Source: "SCC = S0 >= S1" for `S_MAX`, "SCC = S0 < S1" for `S_MIN` (all ISA guides).
#[test]
fn scc_of_equal_operands_in_max_and_min() {
    for arch in Arch::of_each_generation() {
        for (name, [less, equal, more]) in [
            ("s_max_i32", [0, 1, 1]),
            ("s_max_u32", [0, 1, 1]),
            ("s_min_i32", [1, 0, 0]),
            ("s_min_u32", [1, 0, 0]),
        ] {
            for (first, expected) in [(4, less), (5, equal), (6, more)] {
                let mut wave = wave(arch);
                execute(arch, &mut wave, &format!("{name} s0, {first}, 5"));
                assert_eq!(wave.scalar[usize::from(SCC)], expected, "{arch} {name} {first}, 5");
            }
        }
    }
}

/// Source: "D0.u64 = (S0.u64 << S1.u32\[2:0\].u32) + S2.u64" (the CDNA 3 and CDNA 4 ISA guides).
#[test]
fn lshl_add_u64_uses_three_bits_of_the_shift() {
    for arch in [Gfx942, Gfx950] {
        for (count, expected) in [(0, 4), (1, 7), (7, 385), (8, 4), (9, 7), (63, 385)] {
            let text = "v_lshl_add_u64 v[0:1], v[1:2], v3, v[4:5]";
            assert_eq!(vector(arch, text, &[3, 0, count, 1, 0]), expected, "{arch} {count}");
        }
    }
}

/// Scaling rounds once, even if the power is far outside of the format's range.
#[test]
fn ldexp_rounds_once_for_extreme_powers() {
    let power = |n: i64| ((n + 1023) as u64) << 52;
    for (value, n, expected) in [
        (power(1000), -2000, power(-1000)),
        (power(1000), -1991, power(-991)),
        (power(1000), -1992, power(-992)),
        (power(1023), -2045, power(-1022)),
        (power(1023), -2097, 1),
        // Before rounding, the next three results are one and a half times the smallest denormal, exactly half of it,
        // and slightly more than half of it.
        (power(1023) | 1 << 51, -2097, 2),
        (power(1023), -2098, 0),
        (power(1023) | 1, -2098, 1),
        (power(1023), -5000, 0),
        (1 << 63 | power(1023), -5000, 1 << 63),
    ] {
        let sources = [value as u32, (value >> 32) as u32, n as u32];
        let got = vector(Gfx90a, "v_ldexp_f64 v[0:1], v[1:2], v3", &sources);
        assert_eq!(got, expected, "{value:#x} by {n} gives {got:#x}");
    }
}

/// Source for the range: LLVM's constant folder, `ConstantFolding.cpp`, "gfx8 and gfx9 architectures handle arguments
/// outside the range [-256, 256] differently". Source for the results 0 and 1: CLRX's documentation of GCN.
#[test]
fn sine_and_cosine_range_on_gfx9() {
    for arch in Arch::of_each_generation() {
        let reduced = !arch.facts().microcode.is_gfx9();
        let half = if arch.facts().selects_halves { ".l" } else { "" };
        for (turns, sine, cosine) in [(256.0, 0.0, 1.0), (-0.25, -1.0, 0.0), (0.25, 1.0, 0.0)] {
            check(arch, "v_sin_f32 v0, v1", &[f(turns)], f(sine));
            check(arch, "v_cos_f32 v0, v1", &[f(turns)], f(cosine));
        }
        for turns in [256.25, 1000.25, 8_000_000.25f32.next_down()] {
            let turns = (turns * 4.0f32).floor() / 4.0;
            let quarters = (turns * 4.0) as i64 % 4;
            let exact = |of_quarter: [f32; 4]| of_quarter[quarters as usize];
            let [sine, cosine] = [[0.0, 1.0, 0.0, -1.0], [1.0, 0.0, -1.0, 0.0]].map(exact);
            check(arch, "v_sin_f32 v0, v1", &[f(turns)], if reduced { f(sine) } else { 0 });
            check(arch, "v_cos_f32 v0, v1", &[f(turns)], if reduced { f(cosine) } else { f(1.0) });
        }
        // 0x5c04 is 257, a whole number of revolutions.
        check(arch, &format!("v_cos_f16 v0{half}, v1{half}"), &[0x5c04], 0x3c00);
        // 0x5cb1 is 300.25. It is outside of the range and a quarter revolution from a whole number.
        let expected = if reduced { 0x3c00 } else { 0 };
        check(arch, &format!("v_sin_f16 v0{half}, v1{half}"), &[0x5cb1], expected);
    }
}

/// LLVM's constant folder for `llvm.amdgcn.trig.preop` has a table of 37 words: "Return 0 for outbound segment
/// (hardware behavior)". The expected results for arguments within the table are from that folder too.
#[test]
fn trig_preop_past_the_end_of_its_table() {
    let preop = |value: u64, segment: u32| {
        let sources = [value as u32, (value >> 32) as u32, segment];
        vector(Gfx1100, "v_trig_preop_f64 v[0:1], v[1:2], v3", &sources)
    };
    let greatest = f64::MAX.to_bits();
    for segment in [3, 4, 20, 31] {
        assert_eq!(preop(greatest, segment), 0, "{segment}");
    }
    assert_eq!(preop(1f64.to_bits(), 20), 0x294a);
    assert_eq!(
        [0, 1, 2].map(|segment| preop(greatest, segment)),
        [0x0b43_dd63_f5f2_f8bc, 0x0809_e839_cfbc_5294, 0x04b2_ea6b_fb5f_b11f]
    );
    assert_eq!(preop(0x7ff0_0000_0000_0001, 0), 0x7ff8_0000_0000_0001);
}

/// The expected results are from LLVM's constant folder. An earlier version of the interpreter lost digits of the
/// results for small negative numbers, because it used `floor` for the reduction.
#[test]
fn sine_of_small_numbers_is_accurate() {
    for (turns, sine) in [
        (-1e-20, 0x9f94_5b86),
        (-3e-11, 0xaf4f_40c8),
        (-f32::from_bits(1), 0x8000_0006),
        (-1.000_000_1, 0xb549_0fdb),
        (-200.3, 0xbf73_780d),
        (0.7, 0xbf73_7870),
    ] {
        check(Gfx1100, "v_sin_f32 v0, v1", &[f(turns)], sine);
    }
    check(Gfx1100, "v_cos_f32 v0, v1", &[f(-1e-20)], f(1.0));
}

/// The carry of a lane that `row_mask` or `bank_mask` disables is still written. Source: "Row Mask Applies to the VGPR
/// destination write only" (the CDNA 4 ISA guide, "DPP").
#[test]
fn row_and_bank_masks_do_not_affect_carries() {
    for (arch, text) in [
        (Gfx90a, "v_add_co_u32_dpp v0, vcc, v1, v2 row_bcast:15 row_mask:0xa bank_mask:0x7"),
        (Gfx950, "v_addc_co_u32_dpp v0, vcc, v1, v2, vcc row_bcast:15 row_mask:0xa bank_mask:0x7"),
    ] {
        let mut wave = wave(arch);
        for lane in 0..64 {
            wave.set_lane(0, lane, 7);
            wave.set_lane(1, lane, if lane % 32 == 15 { u32::MAX } else { 5 });
            wave.set_lane(2, lane, lane as u32);
        }
        wave.set_pair(EXEC, !(1 << 20));
        execute(arch, &mut wave, text);
        // Rows 1 and 3 receive the values of lanes 15 and 47, row 2 receives the value of lane 31, and row 0 receives
        // nothing.
        let sums = [0, 16, 17, 20, 27, 28, 31, 40, 48, 60].map(|lane| wave.lane(0, lane));
        assert_eq!(sums, [7, 15, 16, 7, 26, 7, 7, 7, 47, 7], "{arch}");
        assert_eq!(wave.pair(VCC), 0xffff_0000_ffef_0000, "{arch}");
    }
}

/// Source: "65'I(S2.i64)" for `V_MAD_I64_I32`, "65'U(S2.u64)" for `V_MAD_U64_U32` (the CDNA 4 ISA guide).
#[test]
fn wide_mad_literals_follow_the_signedness() {
    let sum = |text: &str| vector(Gfx1100, text, &[3, 5]) as i64;
    assert_eq!(sum("v_mad_i64_i32 v[0:1], null, v1, v2, 0xffffff00"), 15 - 256);
    assert_eq!(sum("v_mad_u64_u32 v[0:1], null, v1, v2, 0xffffff00"), 15 - 256 + (1 << 32));
    assert_eq!(sum("v_mad_u64_u32 v[0:1], null, v1, v2, -2"), 13);
}

/// Source: "Input denormals are not flushed but output flushing is allowed" (the CDNA 4 ISA guide, `V_DIV_FMAS_F32`).
#[test]
fn div_fmas_flushes_only_its_result() {
    let least = f32::from_bits(1);
    for arch in Arch::of_each_generation() {
        for (a, b, vcc, kept, cleared) in [
            (1.0, -least, 0, -least, -0.0),
            (2f32.powi(30), least, 0, 2f32.powi(-119), 2f32.powi(-119)),
            // The instruction undoes the scaling: it multiplies the result by 2^-64.
            (2f32.powi(-40), -2f32.powi(-40), u64::MAX, -2f32.powi(-144), -0.0),
        ] {
            for (mode, expected) in [(0xf0, kept), (0xd0, cleared), (0xe0, kept), (0, cleared)] {
                let mut wave = wave(arch);
                wave.set_mode(mode);
                wave.set_pair(VCC, vcc);
                wave.set_lane(1, 3, f(a));
                wave.set_lane(2, 3, f(b));
                execute(arch, &mut wave, "v_div_fmas_f32 v0, v1, v2, v3");
                assert_eq!(wave.lane(0, 3), f(expected), "{arch}: {a:e} * {b:e} in {mode:#x}");
            }
        }
    }
}
