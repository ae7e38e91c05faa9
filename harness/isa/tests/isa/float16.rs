use isa::inside::float16::{Bf16, F16};

#[test]
fn f16_round_trips_through_f32() {
    for bits in 0..=u16::MAX {
        let value = F16(bits).to_f32();
        if value.is_nan() {
            assert!(F16::from_f32(value).to_f32().is_nan(), "{bits:#x}");
        } else {
            assert_eq!(F16::from_f32(value), F16(bits), "{bits:#x}");
            assert_eq!(F16::from_f64(f64::from(value)), F16(bits), "{bits:#x}");
        }
    }
}

#[test]
fn midpoints_round_to_even() {
    for bits in 0..0x7bffu16 {
        let (low, high) = (F16(bits).to_f32(), F16(bits + 1).to_f32());
        let middle = low + (high - low) / 2.0;
        assert_eq!(F16::from_f32(middle).0, bits + (bits & 1), "{bits:#x}");
        assert_eq!(F16::from_f32(f32::from_bits(middle.to_bits() + 1)).0, bits + 1);
        assert_eq!(F16::truncate_f32(middle).0, bits);
    }
    assert_eq!(F16::from_f32(65520.0).0, 0x7c00);
    assert_eq!(F16::from_f32(65519.9).0, 0x7bff);
}

#[test]
fn known_values() {
    assert_eq!(F16::from_f32(1.0).0, 0x3c00);
    assert_eq!(F16::from_f32(-2.5).0, 0xc100);
    assert_eq!(F16(0x0001).to_f32(), 2f32.powi(-24));
    assert_eq!(Bf16::from_f32(1.0).0, 0x3f80);
    assert_eq!(Bf16::from_f32(f32::from_bits(0x3f80_8000)).0, 0x3f80);
    assert_eq!(Bf16::from_f32(f32::from_bits(0x3f81_8000)).0, 0x3f82);
}

#[test]
fn fused_multiply_add_rounds_once() {
    // 1.0009765625^2 = 1.00195407867... is halfway between two numbers with 11-bit significands. The addend determines
    // the rounding.
    let x = F16(0x3c01);
    assert_eq!(x.mul_add(x, F16(0x0000)).0, 0x3c02);
    assert_eq!(F16(0x3c00).mul_add(F16(0x6800), F16(0x0001)).0, 0x6800);
}
