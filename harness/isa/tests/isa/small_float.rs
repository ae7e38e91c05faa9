use device::Arch;
use isa::inside::small_float::SmallFloat;

fn formats() -> [SmallFloat; 9] {
    let named = |name, arch| SmallFloat::with_a_scale(name, arch).expect("a format");
    [
        named("fp8", Arch::Gfx1201),
        named("bf8", Arch::Gfx1201),
        named("fp8", Arch::Gfx942),
        named("bf8", Arch::Gfx942),
        named("fp8", Arch::Gfx950),
        named("bf8", Arch::Gfx950),
        named("fp6", Arch::Gfx950),
        named("bf6", Arch::Gfx950),
        named("fp4", Arch::Gfx950),
    ]
}

fn rounded(format: SmallFloat, value: f32) -> u8 {
    format.round(value.into())
}

#[test]
fn codes_round_trip_through_f32() {
    for format in formats() {
        for bits in 0..(2 * u32::from(format.sign())) as u8 as u32 {
            let value = format.to_f32(bits as u8);
            let back = format.to_f32(rounded(format, value));
            assert!(value == back || value.is_nan() && back.is_nan(), "{format:?} {bits:#x}");
        }
    }
}

#[test]
fn midpoints_round_to_even() {
    for format in formats() {
        for bits in 0..format.greatest() {
            let (low, high) = (format.to_f32(bits), format.to_f32(bits + 1));
            let middle = low + (high - low) / 2.0;
            assert_eq!(rounded(format, middle), bits + (bits & 1), "{format:?} {bits:#x}");
            let above = f32::from_bits(middle.to_bits() + 1);
            assert_eq!(rounded(format, above), bits + 1, "{format:?} {bits:#x}");
        }
    }
}

#[test]
fn stochastic_rounding_follows_the_lost_fraction() {
    for (format, of) in formats().into_iter().flat_map(|f| [(f, 23), (f, 10), (f, 7)]) {
        let bits = of - format.fraction;
        for code in 0..format.greatest() {
            let (low, high) = (format.to_f32(code), format.to_f32(code + 1));
            let random = |part: u32| part << (32 - bits) | ((1 << (32 - bits)) - 1);
            let by = |value: f32, random| format.round_by_chance(value.into(), random, of);
            // Exact values do not change, whatever the random number is.
            assert_eq!(by(low, u32::MAX), code, "{format:?} {code:#x}");
            let quarter = low + (high - low) / 4.0;
            let up = by(quarter, random(3 << (bits - 2)));
            let down = by(quarter, random((3 << (bits - 2)) - 1));
            assert_eq!((down, up), (code, code + 1), "{format:?} {code:#x}");
            if code > 0 {
                assert_eq!(by(-quarter, 0), format.sign() | code);
            }
        }
    }
}

#[test]
fn known_values() {
    let [fp8, bf8, fp8_fnuz, bf8_fnuz, fp8_950, bf8_950, fp6, bf6, fp4] = formats();
    assert_eq!((rounded(fp8, 1.0), rounded(bf8, 1.0)), (0x38, 0x3c));
    assert_eq!((rounded(fp8_fnuz, 1.0), rounded(bf8_fnuz, 1.0)), (0x40, 0x40));
    assert_eq!((fp8.to_f32(0x7e), bf8.to_f32(0x7b)), (448.0, 57344.0));
    assert_eq!((fp8_fnuz.to_f32(0x7f), bf8_fnuz.to_f32(0x7f)), (240.0, 57344.0));
    assert_eq!((rounded(fp8, 1e9), rounded(bf8, -1e9)), (0x7f, 0xfc));
    assert_eq!((rounded(fp8_fnuz, -0.0), rounded(fp8_fnuz, f32::NAN)), (0, 0x80));
    assert_eq!((rounded(fp8_950, 1.0), rounded(bf8_950, 1.0)), (0x38, 0x3c));
    assert_eq!((rounded(fp8_950, -f32::NAN), rounded(bf8_950, f32::NAN)), (0xff, 0x7e));
    assert_eq!(
        (fp8_950.to_f32(0x7f).to_bits(), fp8.to_f32(0x7f).to_bits()),
        (0x7fc0_0000, 0xffc0_0000)
    );
    // The largest numbers are from the ISA guide's table of the formats.
    let greatest = [fp6, bf6, fp4].map(|format| format.to_f32(format.greatest()));
    assert_eq!(greatest, [7.5, 28.0, 6.0]);
    assert_eq!([fp6, bf6, fp4].map(|format| format.to_f32(1)), [0.125, 0.0625, 0.5]);
    assert_eq!([fp6, bf6, fp4].map(|format| rounded(format, -1e9)), [0x3f, 0x3f, 0xf]);
    assert_eq!([fp6, bf6, fp4].map(|format| rounded(format, 1.0)), [0x08, 0x0c, 0x2]);
}
