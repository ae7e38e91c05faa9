//! Tests SDWA, whose operands are bytes and 16-bit halves of registers.

use super::{
    claim::{Plain, row},
    encodings::Encoding,
    slot::{EXEC, State},
    types::{gives_half, sign},
};

/// Parts of a register, in the order of the SDWA values `BYTE_0` to `BYTE_3`, `WORD_0` and `WORD_1`. Each entry
/// contains the number of bits and the position of the lowest bit.
const PARTS: [(u32, u32); 6] = [(8, 0), (8, 8), (8, 16), (8, 24), (16, 0), (16, 16)];
/// Values of the SDWA field that selects how the remaining bits of a partly written register are set.
const UNUSED_SEXT: u32 = 1;
const UNUSED_PRESERVE: u32 = 2;

pub(super) fn parts(plain: &mut Plain) {
    let (encoding, whole) = (plain.encoding, plain.encoding.whole());
    let parts = || PARTS.into_iter().zip(0..);
    for source in 0..2 {
        // The sign extension exists only for integers.
        let extensions = if sign(plain.name, source).is_some() { 1 } else { 2 };
        for (((bits, at), select), extend) in
            parts().flat_map(|part| (0..extensions).map(move |extend| (part, extend)))
        {
            let place = 16 + 8 * source;
            let control = whole & !(7 << place) | select << place | extend << (place + 3);
            let words = encoding.sdwa(plain.words, control);
            let after = lower_halves(plain);
            let made = plain.claim("SDWA of a source", words).after(after);
            made.before(move |state| {
                for lane in &mut state.lanes {
                    lane[row(source)] = part(lane[row(source)], bits, at, extend == 1);
                }
            });
        }
    }
    if encoding == Encoding::Vopc {
        return;
    }
    for ((bits, at), select) in parts() {
        for unused in 0..=UNUSED_PRESERVE {
            let control = whole & !(7 << 8) | select << 8 | unused << 11;
            let words = encoding.sdwa(plain.words, control);
            plain.claim("SDWA of the result", words).after(move |given, _, like| {
                let on = |lane: &usize| EXEC >> lane & 1 == 1;
                for lane in (0..like.lanes.len()).filter(on) {
                    let result = part(like.lanes[lane][0], bits, 0, unused == UNUSED_SEXT) << at;
                    let others = given.lanes[lane][0] & !(u32::MAX >> (32 - bits) << at);
                    like.lanes[lane][0] =
                        if unused == UNUSED_PRESERVE { result | others } else { result };
                }
            });
        }
    }
}

/// Returns a function that clears the upper halves of 16-bit results in two states, so that a comparison ignores these
/// halves. On GFX9, the function does nothing. The guides to RDNA do not specify whether a 16-bit result under SDWA
/// keeps the upper half.
pub(super) fn lower_halves(plain: &Plain) -> impl Fn(&State, &mut State, &mut State) + use<> {
    let half = gives_half(plain.name) && !plain.arch.facts().microcode.is_gfx9();
    move |_, this, like| {
        if half {
            this.lanes.iter_mut().chain(&mut like.lanes).for_each(|lane| lane[0] &= 0xffff);
        }
    }
}

/// Returns a bit field of a word, sign- or zero-extended to 32 bits.
fn part(word: u32, bits: u32, at: u32, signed: bool) -> u32 {
    let high = word << (32 - bits - at);
    if signed { (high as i32 >> (32 - bits)) as u32 } else { high >> (32 - bits) }
}
