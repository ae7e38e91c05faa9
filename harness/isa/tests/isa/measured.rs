//! Tests behaviour that was measured on hardware by others, where the ISA guides specify something else or nothing.

use super::*;

fn words(value: f64) -> [u32; 2] {
    [value.to_bits() as u32, (value.to_bits() >> 32) as u32]
}

/// Executes `v_div_scale`. `sources` are the value, the denominator and the numerator. Returns the result and the flag.
fn scaled(arch: Arch, text: &str, sources: &[u32], mode: Option<u32>) -> (u64, bool) {
    let mut wave = wave(arch);
    for (index, value) in sources.iter().enumerate() {
        wave.set_lane(index + 1, 3, *value);
    }
    if let Some(mode) = mode {
        wave.set_mode(mode);
    }
    execute(arch, &mut wave, text);
    let result = u64::from(wave.lane(0, 3)) | u64::from(wave.lane(1, 3)) << 32;
    (result, wave.mask(VCC) >> 3 & 1 == 1)
}

/// Only the exponents determine the scaling, as measured for rocjitsu (`division.h`, gfx1100 and gfx1201) and tinygrad
/// (`test_vop3.py`, RDNA 3). The guides additionally require scaling for denormal quotients.
#[test]
fn exponents_decide_division_scaling() {
    let power = |n: i32| 2f64.powi(n);
    // The numerator, the denominator, the values of these two after scaling, and the flag.
    for (n, d, of_n, of_d, flag) in [
        (power(0), power(0), power(0), power(0), false),
        // The exponents are far apart.
        (power(95), power(0), power(95), power(0), false),
        (power(96), power(0), power(96), power(64), true),
        (power(127), power(-126), power(127), power(-62), true),
        (-power(96), -power(0), -power(96), -power(64), true),
        (power(-95), power(0), power(-95), power(0), false),
        (power(-96), power(0), power(-32), power(0), true),
        (power(-126), power(0), power(-62), power(0), true),
        // The denominator is large.
        (power(100), power(125), power(100), power(125), false),
        (power(100), power(126), power(36), power(62), false),
        (power(31), power(126), power(-33), power(62), false),
        (power(30), power(126), power(30), power(62), true),
        (power(0), power(127), power(0), power(63), true),
        // The numerator is small.
        (power(-102), power(-100), power(-102), power(-100), false),
        (power(-103), power(-100), power(-39), power(-36), false),
        // The denominator is denormal.
        (power(-120), power(-149), power(-56), power(-85), false),
        (power(-149), power(-140), power(-85), power(-76), false),
        (power(0), power(-149), power(0), power(-85), true),
    ] {
        for (value, expected) in [(n, of_n), (d, of_d)] {
            let sources = [value, d, n].map(|value| f(value as f32));
            for arch in Arch::of_each_generation() {
                let (got, set) =
                    scaled(arch, "v_div_scale_f32 v0, vcc, v1, v2, v3", &sources, None);
                let (got, expected) = ((got as u32, set), (f(expected as f32), flag));
                assert_eq!(got, expected, "{arch}: {value:e} of {n:e} / {d:e}");
            }
        }
    }
    for (n, d, of_n, of_d, flag) in [
        (power(767), power(0), power(767), power(0), false),
        (power(768), power(0), power(768), power(128), true),
        (power(-767), power(0), power(-767), power(0), false),
        (power(-768), power(0), power(-640), power(0), true),
        (power(0), power(1021), power(128), power(1021), true),
        (power(0), power(1022), power(0), power(894), true),
        (power(900), power(1022), power(772), power(894), false),
        (power(-969), power(-969), power(-969), power(-969), false),
        (power(-970), power(-969), power(-842), power(-841), false),
    ] {
        for (value, expected) in [(n, of_n), (d, of_d)] {
            let sources = [words(value), words(d), words(n)].concat();
            let text = "v_div_scale_f64 v[0:1], vcc, v[1:2], v[3:4], v[5:6]";
            let got = scaled(Gfx90a, text, &sources, None);
            assert_eq!(got, (expected.to_bits(), flag), "{value:e} of {n:e} / {d:e}");
        }
    }
}

/// For a zero, the result is a NaN. The flag depends on the exponents as for other numbers, according to the
/// measurements cited above. If MODE flushes denormals, they are treated as zeros.
#[test]
fn div_scale_of_zero_is_nan() {
    let keeps = 0xf0;
    let least = f32::from_bits(1);
    for (n, d, mode) in
        [(1.0, 0.0, keeps), (0.0, 1.0, keeps), (1.0, least, 0), (least, 1.0, 0), (0.0, -1.0, 0)]
    {
        for value in [n, d] {
            let sources = [value, d, n].map(f);
            let text = "v_div_scale_f32 v0, vcc, v1, v2, v3";
            for arch in [Gfx1100, Gfx1201] {
                let (result, flag) = scaled(arch, text, &sources, Some(mode));
                let result = f32::from_bits(result as u32);
                assert!(result.is_nan() && flag, "{arch}: {value:e} of {n:e} / {d:e}: {result:e}");
            }
        }
    }
}

/// The expected values are from the results of 65536 lanes on a gfx1201.
#[test]
fn permutations_may_read_inactive_lanes() {
    let moved = |text: &str| {
        let mut wave = wave(Gfx1201);
        for lane in 0..wave.lanes {
            wave.set_lane(0, lane, 7);
            wave.set_lane(1, lane, lane as u32 + 100);
            // Each lane reads the next lane of its row.
            wave.set_lane(2, lane, lane as u32 + 1);
        }
        wave.set_pair(EXEC, 0xfff0_ffef);
        execute(Gfx1201, &mut wave, text);
        // Lanes 0 and 15 read active lanes, lanes 3 and 31 read inactive ones, and lanes 4 and 16 are inactive
        // themselves.
        [0, 3, 15, 31, 4, 16].map(|lane| wave.lane(0, lane))
    };
    let within = "v_permlane16_var_b32 v0, v1, v2";
    assert_eq!(moved(within), [101, 7, 100, 7, 7, 7]);
    assert_eq!(moved(&format!("{within} op_sel:[1,0]")), [101, 104, 100, 116, 7, 7]);
    assert_eq!(moved(&format!("{within} op_sel:[0,1]")), [101, 0, 100, 0, 7, 7]);
    assert_eq!(moved(&format!("{within} op_sel:[1,1]")), [101, 104, 100, 116, 7, 7]);
    let across = "v_permlanex16_var_b32 v0, v1, v2";
    assert_eq!(moved(across), [7, 120, 7, 100, 7, 7]);
    assert_eq!(moved(&format!("{across} op_sel:[1,0]")), [117, 120, 116, 100, 7, 7]);
    assert_eq!(moved(&format!("{across} op_sel:[0,1]")), [0, 120, 0, 100, 7, 7]);
}
