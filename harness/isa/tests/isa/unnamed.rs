//! Tests instructions that a disassembler does not know, with fake disassemblers that know only a few instructions.

use isa::inside::unnamed::{Encoding, Named, encoding, name_by, without_sources};

/// Imitates a disassembler before LLVM 20 that knows three instructions.
fn old(bytes: &[u8]) -> Named {
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let (source, second, target) = (word & 0x1ff, word >> 9 & 0xff, word >> 17 & 0xff);
    let low = |register: u32| register & 0xff < 128;
    let text = match encoding(word) {
        // v_cvt_f32_f16 has a 32-bit result, which may be above v127.
        Encoding::Vop1 if second == 11 && low(source) => {
            format!("v_cvt_f32_f16_e32 v{target}, v{}", source & 0xff)
        }
        Encoding::Vop1 if second == 105 && low(source) && low(target) => {
            format!("v_not_b16_e32 v{target}, v{}", source & 0xff)
        }
        Encoding::Vopc if low(source) && low(second) => {
            format!("v_cmp_lt_f16_e32 vcc_lo, v{}, v{second}", source & 0xff)
        }
        Encoding::Vop2 if word >> 25 == 0x32 && low(source) && low(second) && low(target) => {
            format!("v_add_f16_e32 v{target}, v{}, v{second}", source & 0xff)
        }
        _ => return Ok(None),
    };
    Ok(Some((text, 4)))
}

#[track_caller]
fn check(word: u32, expected: Option<&str>) {
    let bytes: Vec<u8> = word.to_le_bytes().into_iter().chain([0; 28]).collect();
    let named = name_by(&bytes, &old).expect("a disassembler");
    assert_eq!(named.as_ref().map(|(text, _)| text.as_str()), expected, "{word:#010x}");
}

/// Imitates a disassembler before LLVM 22, which requires zeros in unused fields. It knows one VOP3 instruction for
/// each number of source operands.
fn strict(bytes: &[u8]) -> Named {
    let all = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let source = |nth: u32| all >> (32 + 9 * nth) & 0x1ff;
    let text = match (all >> 16 & 0x3ff, source(0), source(1), source(2)) {
        (_, _, _, 0x80) => return Ok(None),
        (1, a, 0, 0) => format!("one {a}"),
        (2, a, b, 0) => format!("two {a} {b}"),
        (3, a, b, c) => format!("three {a} {b} {c}"),
        _ => return Ok(None),
    };
    Ok(Some((text, 8)))
}

#[test]
fn unused_sources_are_ignored() {
    let check = |opcode: u64, sources: [u64; 3], expected: Option<&str>| {
        let sources = sources[0] << 32 | sources[1] << 41 | sources[2] << 50;
        let bytes = (0x35 << 26 | opcode << 16 | sources).to_le_bytes();
        let named = without_sources(0x35, &bytes, &strict).unwrap();
        assert_eq!(named.as_ref().map(|it| it.0.as_str()), expected, "{opcode} {sources:#x}");
        assert_eq!(without_sources(0x34, &bytes, &strict), Ok(None), "of another encoding");
    };
    check(1, [5, 0x80, 0x80], Some("one 5"));
    check(2, [5, 6, 0x80], Some("two 5 6"));
    check(2, [5, 0x80, 0x80], Some("two 5 128"));
    let packed = (0x198 << 23 | 1 << 16 | 5 << 32 | 0x80 << 41 | 0x80u64 << 50).to_le_bytes();
    let named = without_sources(0x35, &packed, &strict).unwrap();
    assert_eq!(named.map(|it| it.0).as_deref(), Some("one 5"), "VOP3P");
    // The instruction has three source operands, so the third one must stay.
    check(3, [5, 6, 0x80], None);
    check(4, [5, 6, 0x80], None);
    // An unused field is recognised only by the constant 0. Any other value may have a meaning.
    check(1, [5, 7, 0x80], None);
    check(2, [5, 6, 0x81], None);
    assert_eq!(without_sources(0x35, &[0; 4], &strict), Ok(None));
}

#[test]
fn disassembles_upper_halves() {
    // v0.h = v1.h + v2.l
    check(0x32 << 25 | 0x80 << 17 | 2 << 9 | 0x181, Some("v_add_f16_e32 v0.h, v1.h, v2"));
    check(0x32 << 25 | 3 << 17 | 0x85 << 9 | 0x101, Some("v_add_f16_e32 v3, v1, v5.h"));
    // The result is the whole register v200.
    check(0x3f << 25 | 200 << 17 | 11 << 9 | 0x181, Some("v_cvt_f32_f16_e32 v200, v1.h"));
    check(0x3e << 25 | 0x83 << 9 | 0x101, Some("v_cmp_lt_f16_e32 vcc_lo, v1, v3.h"));
    check(0x3f << 25 | 0x82 << 17 | 28 << 9 | 0x101, Some("v_mov_b16_e32 v2.h, v1"));
    check(0x3f << 25 | 2 << 17 | 102 << 9 | 0x181, Some("v_swap_b16_e32 v2, v1.h"));
    check(0x3f << 25 | 2 << 17 | 200 << 9 | 0x181, None);
    check(0xffff_ffff, None);
}
