//! Tests the instructions FLAT, GLOBAL and SCRATCH with all forms of their addresses.

use std::rc::Rc;

use device::Arch;

use super::{
    ADDRESS, ADDRESS_ROW, DATA, DATA_ROW, Named, Places, addresses, in_order, known,
    layout::{self, Flat, Policy, Segment},
    moved::{self, Moved},
    moves, named, on,
};
use crate::opcodes::{
    Table,
    claim::{Change, Claim},
    encodings::FIRST,
    slot::{EXEC, Slot, State},
};

/// First register of the scalar base address, s[12:13] (`BASE`), and the index of this register among the scalar
/// registers that a test sets.
const BASE: u32 = FIRST + 4;
const BASE_ROW: usize = 4;

/// Names of the relation for forms with only a vector address, one for each segment: flat, scratch and global. The next
/// lists contain the names of other relations, in the same order.
const AS_THEY_ARE: [&str; 3] = ["flat memory", "scratch", "global memory"];
const AT_AN_OFFSET: [&str; 3] =
    ["flat memory at an offset", "scratch at an offset", "global memory at an offset"];
const BY_A_SCALAR: [&str; 3] = [
    "flat memory with a scalar address",
    "scratch with a scalar address",
    "global memory with a scalar address",
];
const WITH_CACHES: [&str; 3] =
    ["flat memory and cache bits", "scratch and cache bits", "global memory and cache bits"];
const ATOMICS: [&str; 3] = ["flat atomics", "", "global atomics"];
const THAT_RETURN: [&str; 3] = ["flat atomics that return", "", "global atomics that return"];

/// Tests the FLAT, SCRATCH and GLOBAL instructions. Returns the opcodes of the GLOBAL instructions, which the tests of
/// other encodings use.
pub(super) fn check(slot: &mut Slot, arch: Arch, table: &mut Table) -> Named {
    let mut globals = Named::new();
    for (segment, start) in
        [(Segment::Flat, "flat_"), (Segment::Scratch, "scratch_"), (Segment::Global, "global_")]
    {
        let plain = plain(segment);
        let opcodes = named(slot, start, |opcode| Flat { opcode, ..plain }.words(arch));
        for (name, opcode) in in_order(&opcodes) {
            let plain = Flat { opcode, ..plain };
            let claims = match (moved_by(name), segment) {
                (Some((is_load, moved)), Segment::Scratch) => {
                    in_scratch(arch, plain, (is_load, moved), &opcodes)
                }
                (Some((is_load, moved)), _) => {
                    in_memory(arch, plain, (is_load, moved), slot.address())
                }
                (None, Segment::Scratch) => Vec::new(),
                (None, _) if name.starts_with("atomic_") => {
                    atomics(arch, plain, name, &opcodes, slot.address())
                }
                _ => Vec::new(),
            };
            claims.into_iter().for_each(|claim| table.take(slot, claim));
        }
        globals = opcodes;
    }
    globals
}

/// Returns the form that has only a vector address, with opcode 0.
pub(super) fn plain(segment: Segment) -> Flat {
    Flat {
        segment,
        opcode: 0,
        result: FIRST,
        data: DATA,
        address: Some(ADDRESS),
        scalar: None,
        offset: 0,
        policy: Policy::default(),
    }
}

/// Parses the name of a load or store. Returns true for a load and false for a store, with the data format; `None` for
/// other instructions.
pub(super) fn moved_by(name: &str) -> Option<(bool, Moved)> {
    let load = name.strip_prefix("load_").map(|rest| (true, rest));
    let (is_load, rest) = load.or(name.strip_prefix("store_").map(|rest| (false, rest)))?;
    Some((is_load, Moved::named(rest)?))
}

/// Returns the address forms that are tested, each with the name of its relation.
fn forms(arch: Arch, plain: Flat) -> Vec<(&'static str, Flat)> {
    let segment = plain.segment as usize;
    let (least, most) = layout::reach(arch, plain.segment);
    // Larger offsets would be outside of scratch memory.
    let (least, most) = match plain.segment {
        Segment::Scratch => (least.max(-4096), most.min(4095)),
        _ => (least, most),
    };
    let mut forms = vec![(AS_THEY_ARE[segment], plain)];
    let offsets = [4, -4, 0x5a8, most & !3, least, most, least + 1];
    let offsets = offsets.into_iter().filter(|offset| (least..=most).contains(offset));
    let by_scalar = Flat { scalar: Some(BASE), ..plain };
    for offset in offsets.filter(|offset| *offset != 0) {
        forms.push((AT_AN_OFFSET[segment], Flat { offset, ..plain }));
        forms.push((BY_A_SCALAR[segment], Flat { offset, ..by_scalar }));
    }
    forms.push((BY_A_SCALAR[segment], by_scalar));
    for policy in Policy::each(arch) {
        forms.push((WITH_CACHES[segment], Flat { policy, ..plain }));
    }
    forms
}

/// Returns a change that sets the address registers so that lane `lane` accesses the address `to(lane)`.
fn leads(arch: Arch, form: Flat, to: impl Fn(usize) -> u64 + 'static) -> Change {
    let offset = i64::from(form.offset);
    if form.scalar.is_none() {
        return addresses(move |lane| to(lane).wrapping_add_signed(-offset));
    }
    // The vector register contains a 32-bit offset. The instruction ignores the next register.
    let far: u32 = 0x9000_0000;
    let signed = arch.facts().signed_vector_offsets;
    let extended = if signed { i64::from(far as i32) as u64 } else { u64::from(far) };
    Rc::new(move |state| {
        let base = to(0).wrapping_add_signed(-offset).wrapping_sub(extended);
        (state.scalars[BASE_ROW], state.scalars[BASE_ROW + 1]) = (base as u32, (base >> 32) as u32);
        for (lane, registers) in state.lanes.iter_mut().enumerate() {
            registers[ADDRESS_ROW] = (to(lane).wrapping_sub(to(0)).wrapping_add(extended)) as u32;
        }
    })
}

/// Returns the text that the disassembler must print for the scalar base of a form. The text is empty for a form
/// without a scalar base.
fn told(form: Flat) -> &'static str {
    match (form.scalar, form.segment) {
        (None, _) => "",
        (Some(_), Segment::Scratch) => "s12",
        (Some(_), _) => "s[12:13]",
    }
}

fn in_memory(arch: Arch, plain: Flat, moved: (bool, Moved), memory: u64) -> Vec<Claim> {
    let (is_load, moved) = moved;
    let all = forms(arch, plain).into_iter();
    all.flat_map(|form| Places::ALL.map(|places| (form, places)))
        .map(|((relation, form), places)| {
            let mut claim = known(relation, form.words(arch), places.exec());
            claim.told = told(form);
            claim.given = leads(arch, form, move |lane| memory + places.of(lane, moved) as u64);
            let how = (is_load, arch.has_ecc());
            moves(
                &mut claim,
                moved,
                how,
                |state| &mut state.memory,
                move |lane| Some(places.of(lane, moved)),
            );
            claim
        })
        .collect()
}

/// Returns claims about loads and stores in scratch memory. Other instructions first copy 16 bytes from registers to
/// the scratch memory of each lane.
fn in_scratch(arch: Arch, plain: Flat, moved: (bool, Moved), opcodes: &Named) -> Vec<Claim> {
    /// Offset of the accessed bytes in the scratch memory of a lane.
    const PLACE: u32 = 6144;
    let (is_load, moved) = moved;
    let of = |names: [&str; 2]| names.iter().find_map(|name| opcodes.get(*name)).copied();
    let (Some(store), Some(load)) =
        (of(["store_dwordx4", "store_b128"]), of(["load_dwordx4", "load_b128"]))
    else {
        return Vec::new();
    };
    let place = |lane: usize| PLACE + 32 * (lane as u32 % 16);
    let mut all = forms(arch, plain);
    let with_scalar = all.iter().filter(|(_, form)| form.scalar.is_some());
    let more: Vec<_> =
        with_scalar.map(|(name, form)| (*name, Flat { address: None, ..*form })).collect();
    let both = layout::adds_both_in_scratch(arch);
    all.retain(|(_, form)| both || form.scalar.is_none());
    all.extend(more);
    let whole = Flat { address: Some(ADDRESS + 1), ..plain };
    let mut claims = Vec::new();
    for (relation, form) in all {
        // The tested store stores v8 and the following registers.
        let form = Flat { data: FIRST, ..form };
        let mut claim = known(relation, form.words(arch), EXEC);
        claim.told = told(form);
        claim.first = Flat { opcode: store, ..whole }.words(arch);
        if !is_load {
            claim.last = Flat { opcode: load, ..whole }.words(arch);
        }
        let alone = form.address.is_none();
        // Without a vector register, all lanes use the same offset.
        let place = move |lane: usize| if alone { PLACE } else { place(lane) };
        let skew = move |lane: usize| if alone { moved.skew(3) } else { moved.skew(lane) };
        claim.given = Rc::new(move |state: &mut State| {
            let base = if form.scalar.is_some() { 1020 } else { 0 };
            state.scalars[BASE_ROW] = base;
            if alone {
                let to = PLACE + moved.skew(3) as u32;
                state.scalars[BASE_ROW] = to.wrapping_add_signed(-form.offset);
            }
            for (lane, registers) in state.lanes.iter_mut().enumerate() {
                let to = place(lane) + skew(lane) as u32 - base;
                registers[ADDRESS_ROW] = to.wrapping_add_signed(-form.offset);
                registers[ADDRESS_ROW + 1] = place(lane);
            }
        });
        let clears = arch.has_ecc();
        claim.set_after(move |given, _, expected| {
            for lane in on(given) {
                let mut there = given.lanes[lane][DATA_ROW..DATA_ROW + 4].to_vec();
                let registers = &mut expected.lanes[lane];
                if is_load {
                    let bytes = moved::read(&there, skew(lane), moved.bytes);
                    moved.load(&bytes, registers, clears);
                } else {
                    let bytes = moved.stored(&given.lanes[lane]);
                    moved::write(&mut there, skew(lane), &bytes);
                    registers[..4].copy_from_slice(&there);
                }
            }
        });
        claims.push(claim);
    }
    claims
}

pub(super) fn is_double(name: &str) -> bool {
    name.ends_with("_x2") || ["b64", "u64", "i64", "f64"].iter().any(|end| name.ends_with(end))
}

/// Sets the comparison value of a compare-and-swap (v11, or v[12:13] for 64 bits) to the current contents of memory in
/// every second lane, so that the comparison succeeds in half of the lanes.
pub(super) fn finds(
    state: &mut State,
    of: fn(&State) -> &Vec<u32>,
    place: impl Fn(usize) -> usize,
    double: bool,
) {
    let there = of(state).clone();
    for (lane, registers) in state.lanes.iter_mut().enumerate().filter(|(lane, _)| lane % 2 == 1) {
        let at = place(lane) / 4;
        match double {
            true => registers[DATA_ROW + 2..DATA_ROW + 4].copy_from_slice(&there[at..at + 2]),
            false => registers[DATA_ROW + 1] = there[at],
        }
    }
}

fn atomics(arch: Arch, plain: Flat, name: &str, opcodes: &Named, memory: u64) -> Vec<Claim> {
    let segment = plain.segment as usize;
    let double = is_double(name);
    let names = if double { ["load_dwordx2", "load_b64"] } else { ["load_dword", "load_b32"] };
    let Some(load) = names.iter().find_map(|name| opcodes.get(*name)) else { return Vec::new() };
    let load = Flat { opcode: *load, ..plain }.words(arch);
    let place = |lane: usize| Places::Scattered.of(lane, Moved::named("dword").expect("a name"));
    let returning = Policy::returning(arch);
    let mut claims = Vec::new();
    for (_, form) in forms(arch, plain) {
        if form.policy.0 & returning.0 != 0 {
            continue;
        }
        for returns in [false, true] {
            let policy = Policy(form.policy.0 | if returns { returning.0 } else { 0 });
            let words = Flat { policy, ..form }.words(arch);
            let like = plain.words(arch);
            let (relation, like) = match returns {
                true => (THAT_RETURN[segment], [load.clone(), like].concat()),
                false => (ATOMICS[segment], like),
            };
            let mut claim = Claim::new(relation, words, like);
            (claim.without, claim.in_turn, claim.told) = (None, true, told(form));
            let lead = leads(arch, form, move |lane| memory + place(lane) as u64);
            claim.given = Rc::new(move |state| {
                lead(state);
                finds(state, |state| &state.memory, place, double);
            });
            claim.before = addresses(move |lane| memory + place(lane) as u64);
            claims.push(claim);
        }
    }
    claims
}
