//! Tests MUBUF: loads, stores and atomics through a buffer descriptor, with all combinations of index, offset and
//! scalar offset.

use std::rc::Rc;

use device::Arch;

use super::{
    ADDRESS, ADDRESS_ROW, DATA, MIDDLE, Named, Places, addresses,
    flat::{finds, is_double, moved_by, plain as flat_plain},
    in_order, known,
    layout::{self, Buffer, Flat, Policy, Segment},
    moved::Moved,
    moves, named,
};
use crate::opcodes::{
    Table,
    claim::{Change, Claim},
    encodings::FIRST,
    slot::{EXEC, Slot, State, WORDS},
};

/// First register of the buffer descriptor, s[8:11]. The scalar offset is in s12.
const DESCRIPTOR: u32 = FIRST;
const ADDED: u32 = FIRST + 4;
const ADDED_ROW: usize = 4;
/// Operand number of the inline constant 48, which is used as a scalar offset.
const CONSTANT: u32 = 128 + 48;
/// End of a buffer that is shorter than the device memory of the test, in bytes (`END`) and in elements (`ELEMENTS`).
/// The end is not inside the data of a lane.
const END: usize = MIDDLE + 288;
const ELEMENTS: usize = 17;
/// Number of bytes per element, for accesses with an index.
const STRIDE: u32 = 16;

/// A combination of address operands of a buffer instruction.
#[derive(Clone, Copy)]
struct Way {
    relation: &'static str,
    by_index: bool,
    by_offset: bool,
    /// Operand number and value of the scalar offset; `None` without a scalar offset.
    added: Option<(u32, u32)>,
    offset: u32,
    /// Number of bytes by which the base address in the buffer descriptor lies below the start of the device memory.
    before: usize,
    policy: Policy,
}

fn ways(arch: Arch) -> Vec<Way> {
    let none = Policy::default();
    let way = |relation, by_index, by_offset| Way {
        relation,
        by_index,
        by_offset,
        added: None,
        offset: 0,
        before: 0,
        policy: none,
    };
    let most = layout::reach_of_buffer(arch);
    let offset = way("a buffer at an offset", false, true);
    let index = way("a buffer at an index", true, false);
    let both = way("a buffer at an index and an offset", true, true);
    // With an index, offsets must stay inside of an element, which has 16 bytes.
    let mut ways = vec![offset, index, Way { offset: 4, ..index }, both, Way { offset: 4, ..both }];
    ways.extend([1, 4, 0x2a8, 2000].map(|fixed| Way { offset: fixed, ..offset }));
    ways.push(Way { offset: most, before: most as usize, ..offset });
    let nothing = way("a buffer without an address register", false, false);
    ways.extend([Way { offset: 1024, ..nothing }, Way { offset: 1028, ..nothing }]);
    let added = |way: Way, operand, value| Way {
        relation: "a buffer and a scalar offset",
        added: Some((operand, value)),
        ..way
    };
    for way in [offset, index, both, Way { offset: 512, ..nothing }, Way { offset: 4, ..offset }] {
        ways.push(added(way, ADDED, 512));
        if layout::adds_constants(arch) {
            ways.push(added(way, CONSTANT, 48));
        }
    }
    for policy in Policy::each(arch) {
        ways.push(Way { relation: "a buffer and cache bits", policy, ..offset });
    }
    ways
}

pub(super) fn check(slot: &mut Slot, arch: Arch, table: &mut Table, globals: &Named) {
    let plain = Buffer {
        opcode: 0,
        data: DATA,
        address: ADDRESS,
        descriptor: DESCRIPTOR,
        scalar: None,
        by_index: false,
        by_offset: true,
        offset: 0,
        policy: Policy::default(),
    };
    let memory = slot.address();
    let opcodes = named(slot, "buffer_", |opcode| Buffer { opcode, ..plain }.words(arch));
    for (name, opcode) in in_order(&opcodes) {
        let plain = Buffer { opcode, ..plain };
        let claims = match moved_by(name) {
            Some(moved) => of_moves(arch, plain, moved, memory),
            None if name.starts_with("atomic_") => atomics(arch, plain, name, globals, memory),
            None => Vec::new(),
        };
        claims.into_iter().for_each(|claim| table.take(slot, claim));
    }
}

impl Way {
    fn form(self, plain: Buffer) -> Buffer {
        let Way { by_index, by_offset, offset, policy, .. } = self;
        let scalar = self.added.map(|(operand, _)| operand);
        Buffer { scalar, by_index, by_offset, offset, policy, ..plain }
    }

    /// Returns the sum of the address parts that are the same for all lanes.
    fn fixed(self) -> usize {
        self.offset as usize + self.added.map_or(0, |(_, value)| value as usize)
    }

    /// Returns the offset in device memory of the bytes that a lane accesses. Without an index register and an offset
    /// register, it is the same for all lanes.
    fn place(self, lane: usize, places: Places, moved: Moved) -> usize {
        match (self.by_index, self.by_offset) {
            (false, false) => self.fixed(),
            (false, true) => places.of(lane, moved),
            // The position is that of the lane's element, plus the offset of the lane's bytes in the element.
            (true, _) => {
                let of_lane = (lane * 5 + 3) % 32 * STRIDE as usize;
                of_lane + self.fixed() + if self.by_offset { self.inside(lane, moved) } else { 0 }
            }
        }
    }

    /// Returns the value of a lane's offset register in accesses with an index: the offset of the lane's bytes in its
    /// element.
    fn inside(self, lane: usize, moved: Moved) -> usize {
        if moved.bytes < 4 && self.offset == 0 { moved.skew(lane) } else { 0 }
    }

    /// Returns a change of the initial state: sets the address registers, and the descriptor of a buffer with `records`
    /// bytes or elements.
    fn given(self, arch: Arch, places: Places, moved: Moved, memory: u64, records: u32) -> Change {
        let memory = memory - self.before as u64;
        let records = if self.by_index { records } else { records + self.before as u32 };
        // OOB_SELECT determines whether the range is counted in elements or in bytes. On GFX9, this depends on the
        // instruction.
        let checked = match self.by_index {
            _ if arch.facts().microcode.is_gfx9() => 0,
            true => 1 << 28,
            false => 3 << 28,
        };
        Rc::new(move |state: &mut State| {
            let stride = if self.by_index { STRIDE } else { 0 };
            // The other bits of the descriptor are the format, which only other instructions use.
            state.scalars[0] = memory as u32;
            state.scalars[1] = (memory >> 32) as u32 & 0xffff | stride << 16;
            state.scalars[2] = records;
            state.scalars[3] = checked;
            state.scalars[ADDED_ROW] = self.added.map_or(0xdead_beef, |(_, value)| value);
            for (lane, registers) in state.lanes.iter_mut().enumerate() {
                let index = ((lane * 5 + 3) % 32) as u32;
                let offset = match self.by_index {
                    true => self.inside(lane, moved),
                    false if self.by_offset => places.of(lane, moved) + self.before - self.fixed(),
                    false => 0,
                };
                (registers[ADDRESS_ROW], registers[ADDRESS_ROW + 1]) =
                    match (self.by_index, self.by_offset) {
                        (true, true) => (index, offset as u32),
                        (true, false) => (index, 0xdead_beef),
                        (false, _) => (offset as u32, 0xdead_beef),
                    };
            }
        })
    }
}

fn of_moves(arch: Arch, plain: Buffer, moved: (bool, Moved), memory: u64) -> Vec<Claim> {
    let (is_load, moved) = moved;
    let plain = Buffer { data: if is_load { FIRST } else { DATA }, ..plain };
    let how = (is_load, arch.has_ecc());
    let mut claims = Vec::new();
    for way in ways(arch) {
        for places in Places::ALL {
            let mut claim = known(way.relation, way.form(plain).words(arch), places.exec());
            claim.given = way.given(arch, places, moved, memory, 4 * WORDS as u32);
            moves(
                &mut claim,
                moved,
                how,
                |state| &mut state.memory,
                move |lane| Some(way.place(lane, places, moved)),
            );
            claims.push(claim);
        }
    }
    // If the access is out of range, a load returns zero, and a store has no effect. Forms with a scalar offset or with
    // cache bits are left out here.
    for way in ways(arch).into_iter().filter(|way| way.added.is_none() && way.policy.0 == 0) {
        for places in Places::ALL {
            let relation = "a buffer's end";
            let mut claim = known(relation, way.form(plain).words(arch), places.exec());
            let records = if way.by_index { ELEMENTS } else { END } as u32;
            claim.given = way.given(arch, places, moved, memory, records);
            moves(
                &mut claim,
                moved,
                how,
                |state| &mut state.memory,
                move |lane| {
                    let place = way.place(lane, places, moved);
                    let inside = match way.by_index {
                        true => (lane * 5 + 3) % 32 < ELEMENTS,
                        false => place + moved.bytes <= END,
                    };
                    inside.then_some(place)
                },
            );
            claims.push(claim);
        }
    }
    claims
}

/// Returns claims that a buffer atomic has the same effect as the GLOBAL atomic of this name at the same addresses.
fn atomics(arch: Arch, plain: Buffer, name: &str, globals: &Named, memory: u64) -> Vec<Claim> {
    let Some(opcode) = globals.get(name) else { return Vec::new() };
    let moved = Moved::named("dword").expect("a name");
    let double = is_double(name);
    let returning = Policy::returning(arch);
    let mut claims = Vec::new();
    // Without an address register, all lanes access the same location, one after another.
    for way in ways(arch).into_iter().filter(|way| way.policy.0 & returning.0 == 0) {
        for returns in [false, true] {
            let policy = Policy(way.policy.0 | if returns { returning.0 } else { 0 });
            let relation = if returns { "buffer atomics that return" } else { "buffer atomics" };
            let words = Way { policy, ..way }.form(plain).words(arch);
            // An atomic that returns the old value writes it to its data register.
            let policy = Policy(if returns { returning.0 } else { 0 });
            let like =
                Flat { opcode: *opcode, result: DATA, policy, ..flat_plain(Segment::Global) };
            let mut claim = Claim::new(relation, words, like.words(arch));
            (claim.without, claim.exec) = (None, EXEC);
            let place = move |lane| way.place(lane, Places::Scattered, moved);
            // A location that is aligned to 4 bytes may be misaligned for an 8-byte atomic.
            if double && (way.offset % 8 != 0 || way.fixed() % 8 != 0) {
                continue;
            }
            let given = way.given(arch, Places::Scattered, moved, memory, 4 * WORDS as u32);
            claim.given = Rc::new(move |state| {
                given(state);
                finds(state, |state| &state.memory, place, double);
            });
            claim.before = addresses(move |lane| memory + place(lane) as u64);
            claims.push(claim);
        }
    }
    claims
}
