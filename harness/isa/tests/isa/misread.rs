//! Tests how instruction words are changed before they are passed to the disassembler, and how its text is corrected.

use device::Arch;
use isa::inside::misread::{instead, kills, with_constant, with_lanes};

fn bytes<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn quad_perm_is_corrected_from_the_word() {
    let given = bytes([0xd769_0008, 0x0002_18fa, 0xff00_b10a]);
    let (shown, right) = instead(Arch::Gfx1201, &given);
    assert_eq!(&*shown, bytes([0xd769_0008, 0x0002_18fa, 0xff00_e40a]));
    let text = right("v_cvt_pk_fp8_f32_e64_dpp v8, v10, v12 quad_perm:[0,1,2,3] row_mask:0xf");
    assert_eq!(text, "v_cvt_pk_fp8_f32_e64_dpp v8, v10, v12 quad_perm:[1,0,3,2] row_mask:0xf");
    // The words contain row_shr:2, belong to another architecture, or have no DPP.
    for (arch, words) in [
        (Arch::Gfx1201, [0xd769_0008, 0x0002_18fa, 0xff01_120a]),
        (Arch::Gfx1100, [0xd769_0008, 0x0002_18fa, 0xff00_b10a]),
        (Arch::Gfx1201, [0xd769_0008, 0x0002_190a, 0xff00_b10a]),
    ] {
        let given = bytes(words);
        assert_eq!(&*instead(arch, &given).0, given);
    }
}

#[test]
fn literals_in_long_encodings_crash_llvm_on_gfx9() {
    let compare = bytes([0xd010_0008, 0x043a_18ff, 0xc123_4567]);
    assert!(kills(Arch::Gfx90a, &compare));
    assert!(!kills(Arch::Gfx1100, &compare));
    assert!(!kills(Arch::Gfx90a, &bytes([0xd010_0008, 0x043a_190a])));
    // In this instruction, which is VOP2 and has one dword, the second dword has no meaning.
    assert!(!kills(Arch::Gfx90a, &bytes([0x0210_18ff, 0x043a_18ff])));
}

/// Released disassemblers crashed on some of these instructions. The others are similar but harmless.
#[test]
fn keeps_crashing_words_from_the_disassembler() {
    #[track_caller]
    fn check(arch: Arch, words: [u32; 2], dies: bool) {
        assert_eq!(kills(arch, &bytes(words)), dies, "{arch}: {words:08x?}");
    }
    check(Arch::Gfx950, [0xd256_3082, 0], true);
    check(Arch::Gfx950, [0xd257_3082, 0x100], false);
    check(Arch::Gfx942, [0xd256_3082, 0], false);
    check(Arch::Gfx906, [0xd289_00ff, 0xec], true);
    check(Arch::Gfx906, [0xd289_00fe, 0xec], false);
    check(Arch::Gfx1201, [0xbe80_50ff, 3], true);
    check(Arch::Gfx1201, [0xbe80_53ff, 3], false);
    check(Arch::Gfx1201, [0xbe80_5001, 3], false);
    check(Arch::Gfx1100, [0xbe80_50ff, 3], false);
    check(Arch::Gfx1100, [0x7158_1c01, 0xff], true);
    check(Arch::Gfx1100, [0x7158_1c01, 0xfe], false);
    check(Arch::Gfx1100, [0x5a58_1cff, 0xff], false);
    check(Arch::Gfx90a, [0x4866_915f, 0xff], true);
    check(Arch::Gfx90a, [0x4c66_915f, 0xff], false);
    // The words contain SDWA with reserved values for sources, for the result, and in unused bits.
    check(Arch::Gfx1030, [0x0649_ccf9, 0x5587_be2a], true);
    check(Arch::Gfx90a, [0x0019_26f9, 0x8327_0e93], true);
    check(Arch::Gfx90a, [0x0019_26f9, 0x0606_1e93], true);
    check(Arch::Gfx90a, [0x0019_26f9, 0x0606_0693], false);
    check(Arch::Gfx90a, [0x7c20_04f9, 0x0606_9f01], false);
    check(Arch::Gfx1100, [0x0649_ccf9, 0x5587_be2a], false);
    // A literal is in the field of a scalar result, or in that of the offset of a buffer.
    check(Arch::Gfx906, [0xd010_10ff, 0x49], true);
    check(Arch::Gfx906, [0xd010_10fe, 0x49], false);
    check(Arch::Gfx906, [0xea13_25f6, 0xff43_3647], true);
    check(Arch::Gfx906, [0xea13_25f6, 0x7f43_3647], false);
    check(Arch::Gfx950, [0xd261_1820, 3], true);
    check(Arch::Gfx950, [0xd261_1820, 0x103], false);
    check(Arch::Gfx942, [0xd261_1820, 3], false);
}

/// The instruction words and texts are from the comgr of ROCm 7.2.4 and of 6.4.3.
#[test]
fn lanes_and_constants_are_corrected_from_the_word() {
    let given = bytes([0x7eb0_44e9, 0x0000_8034]);
    let text = "v_ceil_f32_dpp v88, v52 dpp8:[0,0,0,0,0,0,0,0] fi:1".to_owned();
    let right = with_lanes(text, &given, 8);
    assert_eq!(right, "v_ceil_f32_dpp v88, v52 dpp8:[0,0,2,0,0,0,0,0] fi:1");
    let other = "v_ceil_f32_e32 v1, v2".to_owned();
    assert_eq!(with_lanes(other.clone(), &given, 8), other);
    #[track_caller]
    fn check(text: &str, words: &[u32], expected: &str) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = bytes.len() as u64;
        assert_eq!(with_constant(text.to_owned(), &bytes, size), expected);
    }
    let text = "v_madak_f32 v1, v1, v2, 0x0";
    check(text, &[0x3002_0501, 0x80], "v_madak_f32 v1, v1, v2, 0x80");
    check(text, &[0x3002_0501, 0], text);
    check(
        "v_fmamk_f32 v1, v1, 0x3f800000, v2",
        &[0x5802_0501, 0xf2],
        "v_fmamk_f32 v1, v1, 0xf2, v2",
    );
    check(
        "v_dual_fmaak_f32 v2, v1, v2, 0x80 :: v_dual_fmaak_f32 v1, s2, v0, 0x0",
        &[0xc842_0501, 0x0200_0002, 0x80],
        "v_dual_fmaak_f32 v2, v1, v2, 0x80 :: v_dual_fmaak_f32 v1, s2, v0, 0x80",
    );
    check("v_add_f32_e32 v1, 0x80, v2", &[0x0602_04ff, 0x80], "v_add_f32_e32 v1, 0x80, v2");
}
