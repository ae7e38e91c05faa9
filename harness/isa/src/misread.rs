//! Words that LLVM's disassembler takes for what they are not, or that it dies of. `kernels words` found them.

use std::borrow::Cow;

use device::{Arch, Generation};

/// `v_cvt_pk_fp8_f32` and `v_cvt_pk_bf8_f32` of GFX12 in VOP3, whose `quad_perm` LLVM 22 misprints: `[1,0,3,0]` for
/// `[1,0,3,2]`.
const MISPRINTED: [u32; 2] = [0x369, 0x36a];
/// The first source stands in the third dword, with its DPP.
const DPP16: u32 = 0xfa;
const LITERAL: u32 = 0xff;
/// `quad_perm:[0,1,2,3]`, which is printed as it is.
const IN_ORDER: u8 = 0b11_10_01_00;

/// Whether LLVM dies of them: VOP3 and VOP3P with a literal, which GFX9 has not, print a message that is gone by then.
pub fn kills(arch: Arch, bytes: &[u8]) -> bool {
    let Some([first, second]) = dwords(bytes) else { return false };
    let sources = [second, second >> 9, second >> 18];
    arch.generation().is_gfx9()
        && first >> 26 == 0x34
        && sources.iter().any(|source| source & 0x1ff == LITERAL)
}

/// What to show the disassembler instead, and what then becomes of its text.
pub fn instead(arch: Arch, bytes: &[u8]) -> (Cow<'_, [u8]>, impl Fn(&str) -> String + use<>) {
    let control = misprinted(arch, bytes);
    let shown = match control {
        Some(_) => {
            let mut shown = bytes.to_vec();
            shown[9] = IN_ORDER;
            Cow::Owned(shown)
        }
        None => Cow::Borrowed(bytes),
    };
    let right = move |text: &str| match control {
        Some(control) => {
            let [a, b, c, d] = [0, 2, 4, 6].map(|bit| control >> bit & 3);
            text.replace("quad_perm:[0,1,2,3]", &format!("quad_perm:[{a},{b},{c},{d}]"))
        }
        None => text.to_owned(),
    };
    (shown, right)
}

/// `DPP_CTRL` of an instruction that is misprinted.
fn misprinted(arch: Arch, bytes: &[u8]) -> Option<u8> {
    let [first, second] = dwords(bytes)?;
    let concerned = arch.generation() == Generation::Rdna4
        && first >> 26 == 0x35
        && MISPRINTED.contains(&(first >> 16 & 0x3ff))
        && second & 0x1ff == DPP16;
    // From 0x100 on it is no `quad_perm`.
    let control = bytes.get(9..11).filter(|control| control[1] & 1 == 0)?;
    concerned.then(|| control[0])
}

fn dwords(bytes: &[u8]) -> Option<[u32; 2]> {
    let (dwords, _) = bytes.as_chunks::<4>();
    Some([u32::from_le_bytes(*dwords.first()?), u32::from_le_bytes(*dwords.get(1)?)])
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
