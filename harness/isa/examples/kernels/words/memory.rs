//! Memory instructions: what a load finds and a store leaves, byte by byte, in each form of its address; and atomics that return
//! what was there against a load and one that does not.

mod buffer;
mod flat;
mod layout;
mod local;
mod moved;
mod scalars;

use std::{collections::HashMap, rc::Rc};

use device::Arch;

use super::{
    Table,
    claim::{Claim, EXEC},
    matrix,
    slot::{FIRST, NOP, Slot, State},
};
use layout::{Flat, Segment};
use moved::Moved;

/// Tries all claims about memory instructions.
pub(super) fn check(arch: Arch, wave64: bool, table: &mut Table) -> Result<(), String> {
    let mut slot = Slot::with_memory(arch, wave64)?;
    let globals = flat::check(&mut slot, arch, table);
    buffer::check(&mut slot, arch, table, &globals);
    local::check(&mut slot, arch, table);
    scalars::check(&mut slot, arch, table);
    if let Some(around) = Around::new(arch, &globals) {
        matrix::check(&mut slot, arch, table, &around);
    }
    Ok(())
}

/// Opcodes, by the names of instructions without what they reach.
type Named = HashMap<String, u32>;

/// The opcodes that the disassembler names, by what their words are; of names that begin so, what follows.
fn named(slot: &mut Slot, start: &str, words: impl Fn(u32) -> Vec<u32>) -> Named {
    let name = |opcode| {
        let text = slot.text(&words(opcode))?;
        let name = text.split_whitespace().next()?.strip_prefix(start)?;
        Some((name.to_owned(), opcode))
    };
    (0..256).filter_map(name).collect()
}

/// In the order of the opcodes, so that each run is the same.
fn in_order(named: &Named) -> Vec<(&str, u32)> {
    let mut all: Vec<(&str, u32)> =
        named.iter().map(|(name, opcode)| (name.as_str(), *opcode)).collect();
    all.sort_by_key(|(_, opcode)| *opcode);
    all
}

/// The registers that have addresses: v[14:15]. What is loaded is in v8 and behind, what is stored in v10 and behind.
const ADDRESS: u32 = FIRST + 6;
const DATA: u32 = FIRST + 2;
/// The first of their rows.
const ADDRESS_ROW: usize = 6;
const DATA_ROW: usize = 2;

/// Where the lanes' bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Places {
    /// All over, in lanes of which some are off.
    Scattered,
    /// One behind the other, with all lanes on: what most kernels do, for which the interpreter has other ways.
    InOrder,
}

/// In bytes, from the start of memory: there is room before and behind what the lanes access.
const MIDDLE: usize = 2048;

impl Places {
    const ALL: [Places; 2] = [Places::Scattered, Places::InOrder];

    fn of(self, lane: usize, moved: Moved) -> usize {
        match self {
            Places::Scattered => MIDDLE + 16 * ((lane * 5 + 3) % 64) + moved.skew(lane),
            Places::InOrder => MIDDLE + moved.bytes * lane,
        }
    }

    fn exec(self) -> u64 {
        if self == Places::Scattered { EXEC } else { u64::MAX }
    }
}

/// A claim about words whose result is known by other means than by running others.
fn known(relation: &'static str, words: Vec<u32>, exec: u64) -> Claim {
    let mut claim = Claim::new(relation, words, vec![NOP]);
    (claim.without, claim.in_turn, claim.exec) = (None, true, exec);
    claim
}

/// Lanes that are on, of those that there are.
fn on(state: &State) -> impl Iterator<Item = usize> + use<> {
    let exec = state.exec;
    (0..state.lanes.len()).filter(move |lane| exec >> lane & 1 == 1)
}

/// What a load or a store of these words must leave: `at` says where a lane's bytes are, in the memory that `of` picks.
fn moves(
    claim: &mut Claim,
    moved: Moved,
    (is_load, clears): (bool, bool),
    of: fn(&mut State) -> &mut Vec<u32>,
    at: impl Fn(usize) -> Option<usize> + 'static,
) {
    claim.set_after(move |given, _, expected| {
        for lane in on(given) {
            let place = at(lane);
            if is_load {
                // What is out of range is zero.
                let bytes = match place {
                    Some(at) => moved::read(of(expected), at, moved.bytes),
                    None => vec![0; moved.bytes],
                };
                moved.load(&bytes, &mut expected.lanes[lane], clears);
            } else if let Some(at) = place {
                let bytes = moved.stored(&given.lanes[lane][DATA_ROW..]);
                moved::write(of(expected), at, &bytes);
            }
        }
    });
}

/// Gives each lane an address of 64 bits.
fn addresses(of: impl Fn(usize) -> u64 + 'static) -> super::claim::Change {
    Rc::new(move |state| {
        for (lane, registers) in state.lanes.iter_mut().enumerate() {
            let address = of(lane);
            registers[ADDRESS_ROW] = address as u32;
            registers[ADDRESS_ROW + 1] = (address >> 32) as u32;
        }
    })
}

/// Loads and stores of four registers around an instruction that has many, from the address of a lane.
pub(super) struct Around {
    arch: Arch,
    load: u32,
    store: u32,
}

/// In the second dword of GFX90A and later: the register is an accumulator.
const ACCUMULATOR: u32 = 1 << 23;

impl Around {
    fn new(arch: Arch, globals: &Named) -> Option<Around> {
        let of = |names: [&str; 2]| names.iter().find_map(|name| globals.get(*name)).copied();
        let load = of(["load_dwordx4", "load_b128"])?;
        Some(Around { arch, load, store: of(["store_dwordx4", "store_b128"])? })
    }

    fn words(&self, opcode: u32, register: u32, offset: u32) -> Vec<u32> {
        let (data, offset) = (register, offset as i32);
        let plain = flat::plain(Segment::Global);
        Flat { opcode, result: register, data, offset, ..plain }.words(self.arch)
    }

    /// So many times four registers, whose place in memory is that of v16 and those behind it.
    pub(super) fn load(&self, first: u32, times: u32) -> Vec<u32> {
        let four = |n| self.words(self.load, first + 4 * n, 4 * (first - 16 + 4 * n));
        (0..times).flat_map(four).collect()
    }

    pub(super) fn store(&self, first: u32, times: u32) -> Vec<u32> {
        let four = |n| self.words(self.store, first + 4 * n, 4 * (first - 16 + 4 * n));
        (0..times).flat_map(four).collect()
    }

    /// The same of accumulators, from this place on.
    pub(super) fn load_accumulators(&self, first: u32, times: u32, place: u32) -> Vec<u32> {
        let four = |n| self.words(self.load, first + 4 * n, place + 16 * n);
        accumulators((0..times).flat_map(four).collect())
    }

    pub(super) fn store_accumulators(&self, first: u32, times: u32) -> Vec<u32> {
        accumulators(self.store(first, times))
    }
}

/// The architectures that have them load and store with two dwords.
fn accumulators(mut words: Vec<u32>) -> Vec<u32> {
    words.iter_mut().skip(1).step_by(2).for_each(|word| *word |= ACCUMULATOR);
    words
}
