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
