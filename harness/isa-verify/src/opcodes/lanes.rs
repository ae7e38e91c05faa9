//! Tests instructions with inactive lanes, and source operands that are read from other lanes (DPP).

use std::rc::Rc;

use super::{
    claim::{Change, Plain, row, signed},
    parts::lower_halves,
    slot::{EXEC, State},
    types::sign,
};

/// Adds claims that an inactive lane keeps its registers and does not affect other lanes.
pub(super) fn off(plain: &mut Plain) {
    if plain.name.contains("mbcnt") {
        return;
    }
    let compares = plain.name.starts_with("v_cmpx_");
    let made = plain.claim("lanes that are inactive", Some(plain.words.to_vec())).without(None);
    made.before(|state| state.exec = u64::MAX).after(move |given, _, like| {
        let all = like.exec;
        leave(given, like, false, |lane| EXEC >> lane & 1 == 0);
        like.exec = if compares { all & given.exec } else { given.exec };
    });
}

/// A DPP permutation: the value of `DPP_CTRL`, and a function that returns the lane from which a lane reads, or `None`
/// if it reads from no lane.
type Way = (u32, fn(usize) -> Option<usize>);

const WAYS: [Way; 15] = [
    // quad_perm:[1,0,3,2] and [2,2,0,3]
    (0b1011_0001, |lane| Some(lane ^ 1)),
    (0b1100_1010, |lane| Some(lane & !3 | [2, 2, 0, 3][lane & 3])),
    // row_shl:3, row_shr:2 and row_ror:3
    (0x103, |lane| (lane & 15 < 13).then_some(lane + 3)),
    (0x112, |lane| (lane & 15 >= 2).then(|| lane - 2)),
    (0x123, |lane| Some(lane & !15 | (lane + 13) & 15)),
    // wave_shl:1, wave_rol:1, wave_shr:1 and wave_ror:1
    (0x130, |lane| (lane < 63).then_some(lane + 1)),
    (0x134, |lane| Some((lane + 1) & 63)),
    (0x138, |lane| lane.checked_sub(1)),
    (0x13c, |lane| Some((lane + 63) & 63)),
    // row_mirror and row_half_mirror
    (0x140, |lane| Some(lane ^ 15)),
    (0x141, |lane| Some(lane ^ 7)),
    // row_bcast:15 and row_bcast:31
    (0x142, |lane| (lane & !15).checked_sub(1)),
    (0x143, |lane| (lane >= 32).then_some(31)),
    // row_newbcast:5 or row_share:5, and row_xmask:3
    (0x155, |lane| Some(lane & !15 | 5)),
    (0x163, |lane| Some(lane ^ 3)),
];
/// The permutation `row_shr`, in which some lanes have no source lane.
const SHIFT: Way = WAYS[3];
const BOUND_CTRL: u32 = 1 << 19;
const ALL_ROWS: u32 = 0xff << 24;

/// Adds claims about a first source operand that is read from other lanes. In these claims, all lanes are active.
pub(super) fn others(plain: &mut Plain) {
    let (encoding, compares) = (plain.encoding, plain.name.starts_with("v_cmpx_"));
    // The row mask does not apply to carries, so the carries of `v_add_co_u32` and similar instructions are always
    // written.
    let carries = plain.name.contains("_co_");
    for (control, way) in WAYS {
        let words = encoding.dpp16(plain.words, control, ALL_ROWS);
        let made = plain.claim("DPP", words).before(move |state| from_lanes(state, way)).all_on();
        // Without bound control, a lane without a source lane keeps its registers.
        made.after(move |given, _, like| leave(given, like, compares, |lane| way(lane).is_none()));
    }
    let (control, shift) = SHIFT;
    let words = encoding.dpp16(plain.words, control, ALL_ROWS | BOUND_CTRL);
    let made = plain.claim("DPP with bound control", words).all_on();
    made.before(move |state| from_lanes(state, shift));
    // The masks enable some rows of 16 lanes, and in each enabled row some banks of four lanes.
    let (control, way) = WAYS[0];
    let words = encoding.dpp16(plain.words, control, 0b0101 << 28 | 0b1010 << 24);
    let made = plain
        .claim("DPP in some rows and banks", words)
        .before(move |state| from_lanes(state, way));
    made.all_on().after(move |given, _, like| {
        let these = |lane: usize| lane >> 4 & 1 == 1 || lane >> 2 & 1 == 0;
        if carries {
            keep(given, like, these);
        } else {
            leave(given, like, compares, these);
        }
    });
    let order = [7, 1, 0, 2, 4, 4, 5, 3];
    let words = encoding.dpp8(plain.words, order, false);
    plain.claim("DPP8", words).all_on().before(move |state| {
        from_lanes(state, |lane| Some(lane & !7 | order[lane & 7] as usize));
    });
}

/// Mask of active lanes for claims about reading from inactive lanes. Some groups of two or three neighbouring lanes
/// and the ends of rows are inactive.
const SOME_OFF: u64 = 0x7ffe_e7d3_3ffb_9f6d;
const FETCH_INACTIVE: u32 = 1 << 18;

/// Adds claims about lanes that read from inactive lanes. If FETCH_INACTIVE is set, an inactive lane provides its
/// value. Otherwise the lane that reads has no source lane.
pub(super) fn others_off(plain: &mut Plain) {
    let (encoding, compares) = (plain.encoding, plain.name.starts_with("v_cmpx_"));
    let gfx9 = plain.arch.facts().microcode.is_gfx9();
    let fetches = if gfx9 { &[false][..] } else { &[false, true] };
    for (control, way) in [WAYS[1], SHIFT] {
        for (fetch, bounds) in fetches.iter().flat_map(|fetch| [(*fetch, false), (*fetch, true)]) {
            let from = move |lane| way(lane).filter(|from| fetch || SOME_OFF >> from & 1 == 1);
            let rest = (u32::from(fetch) * FETCH_INACTIVE) | (u32::from(bounds) * BOUND_CTRL);
            let words = encoding.dpp16(plain.words, control, ALL_ROWS | rest);
            let made = plain.claim("DPP of inactive lanes", words).with_on(SOME_OFF);
            let made = made.before(move |state| from_lanes(state, from));
            made.after(move |given, _, like| {
                leave(given, like, compares, |lane| !bounds && from(lane).is_none());
            });
        }
    }
    for fetch in [false, true] {
        let order = [7, 1, 0, 2, 4, 4, 5, 3];
        let words = encoding.dpp8(plain.words, order, fetch);
        plain.claim("DPP8 of inactive lanes", words).with_on(SOME_OFF).before(move |state| {
            let of = |lane: usize| lane & !7 | order[lane & 7] as usize;
            from_lanes(state, |lane| {
                Some(of(lane)).filter(|from| fetch || SOME_OFF >> from & 1 == 1)
            });
        });
    }
}

/// Names of relations about properties that the instruction itself encodes, for example the selected half of a
/// register. The DPP dword does not encode them.
const SAID: [&str; 4] = [
    "an upper half",
    "another sign modifier",
    "halves of a packed source",
    "sign modifiers of a packed source",
];

/// Adds claims about halves and sign modifiers in combination with DPP, and about sign modifiers with SDWA.
pub(super) fn others_and_more(plain: &mut Plain) {
    let encoding = plain.encoding;
    let (control, way) = WAYS[0];
    let dpp = |words: &[u32], rest: u32| encoding.dpp16(words, control, ALL_ROWS | rest);
    let without = dpp(plain.words, 0);
    let add = |plain: &mut Plain, words: Option<Vec<u32>>, change: Change| {
        let made = plain.claim("DPP and other modifiers", words).without(without.clone()).all_on();
        made.before(move |state| {
            from_lanes(state, way);
            change(state);
        });
    };
    if encoding.is_long() {
        let said: Vec<(Vec<u32>, Change)> = (plain.claims.iter())
            .filter(|claim| SAID.contains(&claim.relation))
            .map(|claim| (claim.words.clone(), claim.before.clone()))
            .collect();
        for (words, change) in said {
            add(plain, dpp(&words, 0), change);
        }
        return;
    }
    for source in 0..2 {
        let Some((at, bit)) = sign(plain.name, source) else { continue };
        for (negate, absolute) in [(true, false), (false, true), (true, true)] {
            let change = signed(at, bit, negate, absolute);
            let bits = u32::from(negate) | u32::from(absolute) << 1;
            add(plain, dpp(plain.words, bits << (20 + 2 * source)), Rc::new(change));
            let words = encoding.sdwa(plain.words, encoding.whole() | bits << (20 + 8 * source));
            let after = lower_halves(plain);
            plain.claim("SDWA and other modifiers", words).before(change).after(after);
        }
    }
}

/// Replaces the first source operand of each lane with that of the lane `way(lane)`, or with 0 if `way` returns `None`.
fn from_lanes(state: &mut State, way: impl Fn(usize) -> Option<usize>) {
    let old = state.lanes.clone();
    for (lane, registers) in state.lanes.iter_mut().enumerate() {
        for at in [row(0), row(0) + 1] {
            registers[at] = way(lane).map_or(0, |from| old[from][at]);
        }
    }
}

/// Copies the registers of the lanes that `these` selects from the initial state `given` to the expected state `like`.
/// Returns these lanes as a mask.
fn keep(given: &State, like: &mut State, these: impl Fn(usize) -> bool) -> u64 {
    let mut bits = 0;
    for lane in (0..like.lanes.len()).filter(|lane| these(*lane)) {
        like.lanes[lane] = given.lanes[lane];
        bits |= 1 << lane;
    }
    bits
}

/// Changes the expected state `like` as if the instruction did not write the lanes that `these` selects. Copies the
/// registers of these lanes from the initial state `given`, and clears their bits in each lane mask that the
/// instruction has changed. If `compares` is true, also clears their bits in EXEC, to which the instruction writes its
/// result.
fn leave(given: &State, like: &mut State, compares: bool, these: impl Fn(usize) -> bool) {
    let bits = keep(given, like, these);
    like.clear(given, bits);
    if compares {
        like.exec &= !bits;
    }
}
