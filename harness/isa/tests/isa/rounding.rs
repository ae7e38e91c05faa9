//! Compares each rounding mode of the interpreter with the same mode of the host. MXCSR determines the rounding of SSE
//! arithmetic. The host can also compute references for binary16, because directed rounding may be done in two steps.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;

use device::Arch::{self, *};
use isa::inside::{
    float16::F16,
    program::{
        Detours,
        line::{self, bind},
        parse,
    },
    text::Site,
};
use proptest::prelude::*;

use super::{Nothing, wave};

/// Values of MODE.FP_ROUND, each with the value of MXCSR's rounding field for the same mode.
const MODES: [(u32, u32); 4] = [(0, 0), (1, 2), (2, 1), (3, 3)];

/// Returns the value of MXCSR for this rounding mode, with all exceptions masked.
fn mxcsr(rounding: u32) -> u32 {
    0x1f80 | rounding << 13
}

/// Defines a function `fn(mxcsr, a, b) -> result` for one instruction of the host with the operands `{a}` and `{b}`.
macro_rules! host {
    ($name:ident($($operand:ident: $type:ty),+) -> $result:ty: $text:literal) => {
        fn $name(rounding: u32, $($operand: $type),+) -> $result {
            let (set, usual) = (mxcsr(rounding), mxcsr(0));
            let result;
            // SAFETY: the code changes only MXCSR and registers, and restores MXCSR at the end. `CpuFeatures` exists,
            // so the processor supports FMA, and all processors with AVX2 also have F16C.
            unsafe {
                asm!(
                    "ldmxcsr [{set}]", $text, "ldmxcsr [{usual}]",
                    set = in(reg) &set, usual = in(reg) &usual,
                    $($operand = in(xmm_reg) $operand,)+ r = out(xmm_reg) result,
                    options(nostack, readonly),
                );
            }
            result
        }
    };
}

host!(add32(a: f32, b: f32) -> f32: "vaddss {r}, {a}, {b}");
host!(multiply32(a: f32, b: f32) -> f32: "vmulss {r}, {a}, {b}");
host!(add64(a: f64, b: f64) -> f64: "vaddsd {r}, {a}, {b}");
host!(multiply64(a: f64, b: f64) -> f64: "vmulsd {r}, {a}, {b}");
host!(narrow(a: f64) -> f32: "vcvtsd2ss {r}, {a}, {a}");
host!(fma32(a: f32, b: f32, c: f32) -> f32: "vmovaps {r}, {a}\nvfmadd213ss {r}, {b}, {c}");
host!(fma64(a: f64, b: f64, c: f64) -> f64: "vmovaps {r}, {a}\nvfmadd213sd {r}, {b}, {c}");
// MXCSR determines the rounding of this conversion too.
host!(half_bits(a: f32) -> f32: "vcvtps2ph {r}, {a}, 4");

fn half(rounding: u32, value: f64) -> u32 {
    half_bits(rounding, narrow(rounding, value)).to_bits() & 0xffff
}

fn wide(half: u32) -> f64 {
    F16(half as u16).to_f32().into()
}

/// Executes one instruction while the rounding fields of MODE are `single` and `double`. Returns v0 as the lower half
/// and v1 as the upper half of a 64-bit number.
fn run(arch: Arch, single: u32, double: u32, text: &str, sources: &[u32]) -> u64 {
    let mut wave = wave(arch);
    let mut machine = line::machine(&Nothing);
    for (index, value) in sources.iter().enumerate() {
        wave.set_lane(index + 1, 3, *value);
    }
    let name = if arch == Gfx1201 { "HW_REG_WAVE_MODE" } else { "HW_REG_MODE" };
    let set = format!("s_setreg_imm32_b32 hwreg({name}, 0, 4), {}", single | double << 2);
    let Ok(exec) = bind(&set, &Site::for_arch(arch)) else { panic!("not bound: {set}") };
    exec.run(&mut wave, &mut machine).expect("no stop");
    assert_eq!(wave.detours != 0, single | double != 0);
    let site = Site { address: 8, ..Site::for_arch(arch) };
    let Ok(exec) = bind(text, &site) else { panic!("not bound: {text}") };
    let mut detours = Detours::default();
    let Ok(other) =
        detours.find(text, &site, &parse(text, &site).unwrap_or_default(), &wave, false)
    else {
        panic!("refused: {text}")
    };
    other.unwrap_or(&*exec).run(&mut wave, &mut machine).expect("no stop");
    u64::from(wave.lane(0, 3)) | u64::from(wave.lane(1, 3)) << 32
}

/// Generates numbers whose sums need rounding, cancel, overflow and underflow more often than the sums of random bits.
fn single() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<u32>(),
        (0u32..4, 0u32..1 << 24).prop_map(|(high, low)| high << 30 | low),
        (any::<u32>(), prop_oneof![Just(0x3f80_0000), Just(0x7f00_0000)])
            .prop_map(|(bits, near)| (bits & 0x81ff_ffff).wrapping_add(near)),
        prop_oneof![Just(0), Just(1 << 31), Just(1), Just(0x0080_0000), Just(0x7f7f_ffff)],
    ]
    .prop_map(f32::from_bits)
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>(),
        (any::<u64>(), prop_oneof![Just(0x3ff0u64 << 48), Just(0x7fc0 << 48), Just(0)])
            .prop_map(|(bits, near)| (bits & 0x803f_ffff_ffff_ffff).wrapping_add(near)),
        single().prop_map(|value| f64::from(value).to_bits()),
    ]
    .prop_map(f64::from_bits)
}

fn same32(got: u64, expected: f32) -> bool {
    let got = f32::from_bits(got as u32);
    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan()
}

fn same64(got: u64, expected: f64) -> bool {
    got == expected.to_bits() || f64::from_bits(got).is_nan() && expected.is_nan()
}

fn same16(got: u64, expected: u32) -> bool {
    let nan = |bits: u32| bits & 0x7fff > 0x7c00;
    got as u32 & 0xffff == expected || nan(got as u32 & 0xffff) && nan(expected)
}

fn words(values: &[f64]) -> Vec<u32> {
    values
        .iter()
        .flat_map(|value| [value.to_bits() as u32, (value.to_bits() >> 32) as u32])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn singles(a in single(), b in single(), c in single()) {
        let sources = [a, b, c].map(f32::to_bits);
        for (mode, host) in MODES {
            // The rounding field for the other types contains another mode, which must have no effect.
            let run = |text: &str| run(Gfx1030, mode, (mode + 1) % 4, text, &sources);
            let check = |text: &str, expected: f32| {
                let got = run(text);
                assert!(same32(got, expected), "{text} of {a:e} {b:e} {c:e}, mode {mode}: {got:#x}, not {expected:e}");
            };
            check("v_add_f32 v0, v1, v2", add32(host, a, b));
            check("v_sub_f32 v0, v1, v2", add32(host, a, -b));
            check("v_subrev_f32 v0, v1, v2", add32(host, -a, b));
            check("v_mul_f32 v0, v1, -|v2|", multiply32(host, a, -b.abs()));
            check("v_fma_f32 v0, v1, v2, v3", fma32(host, a, b, c));
            check("v_mad_f32 v0, v1, v2, v3", add32(host, multiply32(host, a, b), c));
            let legacy = if a == 0.0 || b == 0.0 { 0.0 } else { multiply32(host, a, b) };
            check("v_mul_legacy_f32 v0, v1, v2", legacy);
            check("v_mad_legacy_f32 v0, v1, v2, v3", add32(host, legacy, c));
            check("v_mullit_f32 v0, v1, v2, 1.0", if b > -f32::MAX { legacy } else { -f32::MAX });
            check("v_fma_mix_f32 v0, v1, v2, v3", fma32(host, a, b, c));
            check("v_pk_fma_f32 v[0:1], v[1:2], v[1:2], v[1:2] op_sel:[0,1,0] op_sel_hi:[0,1,0]", fma32(host, a, b, a));
            check("v_cvt_f32_i32 v0, v1", narrow(host, f64::from(a.to_bits() as i32)));
            check("v_cvt_f32_u32 v0, v1", narrow(host, f64::from(a.to_bits())));
            check("v_ldexp_f32 v0, v1, -30", narrow(host, f64::from(a) * 2f64.powi(-30)));
        }
    }

    #[test]
    fn doubles(a in double(), b in double(), c in double()) {
        let sources = words(&[a, b, c]);
        for (mode, host) in MODES {
            let run = |text: &str| run(Gfx90a, (mode + 1) % 4, mode, text, &sources);
            let check = |text: &str, expected: f64| {
                let got = run(text);
                assert!(same64(got, expected), "{text} of {a:e} {b:e} {c:e}, mode {mode}: {got:#x}, not {expected:e}");
            };
            check("v_add_f64 v[0:1], v[1:2], -v[3:4]", add64(host, a, -b));
            check("v_mul_f64 v[0:1], v[1:2], v[3:4]", multiply64(host, a, b));
            check("v_fma_f64 v[0:1], v[1:2], v[3:4], v[5:6]", fma64(host, a, b, c));
            check("v_ldexp_f64 v[0:1], v[1:2], -60", multiply64(host, a, 2f64.powi(-60)));
            let got = run("v_cvt_f32_f64 v0, v[1:2]");
            assert!(same32(got, narrow(host, a)), "{a:e}, mode {mode}: {got:#x}");
        }
    }

    #[test]
    fn halves(a: u16, b: u16, c: u16, value in single()) {
        let sources = [a.into(), b.into(), c.into(), value.to_bits(), u32::from(a) << 16 | u32::from(b)];
        let (a, b, c) = (wide(a.into()), wide(b.into()), wide(c.into()));
        for (mode, host) in MODES {
            // Rounding in two steps is correct only with directed rounding.
            let exact = |value: f64| half(host, value);
            let check = |text: &str, expected: u32| {
                let got = run(Gfx1151, (mode + 1) % 4, mode, text, &sources);
                assert!(same16(got, expected), "{text} of {a} {b} {c} {value:e}, mode {mode}: {got:#x}, not {expected:#x}");
            };
            check("v_cvt_f16_f32 v0, v4", half(host, value.into()));
            check("v_cvt_f16_u16 v0, v1", exact(f64::from(sources[0])));
            check("v_cvt_f16_i16 v0, v1", exact(f64::from(sources[0] as i16)));
            if mode == 0 {
                continue;
            }
            check("v_add_f16 v0, v1, v2", exact(add64(host, a, b)));
            check("v_sub_f16 v0, v1, v2", exact(add64(host, a, -b)));
            check("v_mul_f16 v0, v1, v2", exact(a * b));
            check("v_fma_f16 v0, v1, v2, v3", exact(fma64(host, a, b, c)));
            check("v_pk_mul_f16 v0, v5, v5 op_sel:[0,1] op_sel_hi:[1,0]", exact(a * b));
            check("v_pk_add_f16 v0, v5, v5 op_sel:[0,1] op_sel_hi:[1,0]", exact(add64(host, a, b)));
            check("v_fma_mixlo_f16 v0, v4, v1, v2 op_sel_hi:[0,1,1]", half(host, value.mul_add(a as f32, b as f32).into()));
        }
    }
}

#[test]
fn sign_of_cancelled_zero_depends_on_the_mode() {
    for (mode, expected) in [(0, 0), (1, 0), (2, 0x8000_0000), (3, 0)] {
        let one = 1f32.to_bits();
        assert_eq!(run(Gfx1151, mode, 0, "v_sub_f32 v0, v1, v2", &[one, one]) as u32, expected);
        assert_eq!(run(Gfx1151, mode, 0, "v_add_f32 v0, v1, v2", &[1 << 31, 0]) as u32, expected);
        assert_eq!(run(Gfx1151, mode, 0, "v_fma_f32 v0, v1, v1, -v1", &[one]) as u32, expected);
        assert_eq!(run(Gfx1151, mode, 0, "v_add_f32 v0, v1, v1", &[0]) as u32, 0);
    }
}

#[test]
fn both_instructions_of_a_dual_issue_round() {
    let (one, least) = (1f32.to_bits(), 1);
    let text = "v_dual_add_f32 v0, v1, v2 :: v_dual_mov_b32 v1, v2";
    assert_eq!(run(Gfx1151, 1, 0, text, &[one, least]), u64::from(one + 1) | 1 << 32);
    // The second instruction reads a register that the first one writes.
    let text = "v_dual_mul_f32 v0, v1, v2 :: v_dual_fmac_f32 v1, v0, v2";
    assert_eq!(run(Gfx1151, 1, 0, text, &[one, least]), 1 | u64::from(one) << 32);
}

#[test]
fn rounding_and_denormals_compose() {
    // FP_DENORM is 0 for 32 bits, so denormal operands and results are flushed in every rounding mode.
    let least = f32::MIN_POSITIVE.to_bits();
    for (denormals, expected) in [(0, 0), (1, 0), (2, 0x0040_0000), (3, 0x0040_0000)] {
        let mut wave = wave(Gfx1030);
        wave.set_mode(1 | denormals << 4);
        wave.set_lane(1, 3, least);
        wave.set_lane(2, 3, 0.5f32.to_bits());
        let (text, mut detours) = ("v_mul_f32 v0, v1, v2", Detours::default());
        let site = Site::for_arch(Gfx1030);
        let Ok(Some(exec)) =
            detours.find(text, &site, &parse(text, &site).unwrap_or_default(), &wave, false)
        else {
            panic!()
        };
        exec.run(&mut wave, &mut line::machine(&Nothing)).expect("no stop");
        assert_eq!(wave.lane(0, 3), expected, "{denormals}");
    }
}

#[test]
fn conversions_with_fixed_rounding_ignore_the_mode() {
    let third = (1f32 / 3.0).to_bits();
    for mode in 0..4 {
        assert_eq!(
            run(Gfx1151, mode, mode, "v_cvt_pk_rtz_f16_f32 v0, v1, v1", &[third]) as u32,
            0x3555_3555
        );
        assert_eq!(
            run(Gfx1151, mode, mode, "v_cvt_i32_f32 v0, v1", &[1.75f32.to_bits()]) as u32,
            1
        );
        assert_eq!(
            run(Gfx1151, mode, mode, "v_rndne_f32 v0, v1", &[2.5f32.to_bits()]),
            u64::from(2f32.to_bits()) | u64::from(2.5f32.to_bits()) << 32
        );
    }
}

#[test]
fn byte_conversions_follow_the_rounding_mode() {
    for (single, expected) in [(1, 3), (2, 2), (3, 2)] {
        let value = [2.25f32.to_bits(), 0xaaaa_aa00];
        let got = run(Gfx1100, single, 0, "v_cvt_pk_u8_f32 v0, v1, 0, v2", &value);
        assert_eq!(got as u32, 0xaaaa_aa00 | expected, "{single}");
    }
}

/// As an f32, 1 + 2^-11 + 2^-30 is 1 + 2^-11, which is halfway between two binary16 numbers and rounds to the even one.
#[test]
fn mixed_half_is_rounded_to_f32_first() {
    let sources = [0x3f80_0000, 0x3f80_1000, 0x3080_0000];
    for (text, expected) in [
        ("v_fma_mixlo_f16 v0, v1, v2, v3 op_sel_hi:[0,0,0]", 0x3c00),
        ("v_fma_mixhi_f16 v0, v1, v2, v3 op_sel_hi:[0,0,0]", 0x3c00_0000),
    ] {
        assert_eq!(run(Gfx1151, 0, 0, text, &sources) as u32, expected, "{text}");
    }
}
