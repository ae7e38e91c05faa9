//! Words that the disassembler is not shown as they are.

use device::Arch;
use isa::inside::misread::{instead, kills};

fn bytes<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_quad_perm_is_that_of_the_word() {
    let given = bytes([0xd769_0008, 0x0002_18fa, 0xff00_b10a]);
    let (shown, right) = instead(Arch::Gfx1201, &given);
    assert_eq!(&*shown, bytes([0xd769_0008, 0x0002_18fa, 0xff00_e40a]));
    let text = right("v_cvt_pk_fp8_f32_e64_dpp v8, v10, v12 quad_perm:[0,1,2,3] row_mask:0xf");
    assert_eq!(text, "v_cvt_pk_fp8_f32_e64_dpp v8, v10, v12 quad_perm:[1,0,3,2] row_mask:0xf");
    // row_shr:2, another architecture, and no DPP.
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
fn literals_in_long_encodings_kill_on_gfx9_alone() {
    let compare = bytes([0xd010_0008, 0x043a_18ff, 0xc123_4567]);
    assert!(kills(Arch::Gfx90a, &compare));
    assert!(!kills(Arch::Gfx1100, &compare));
    assert!(!kills(Arch::Gfx90a, &bytes([0xd010_0008, 0x043a_190a])));
    // VOP2 has one dword.
    assert!(!kills(Arch::Gfx90a, &bytes([0x0210_18ff, 0x043a_18ff])));
}
