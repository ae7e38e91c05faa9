//! Tests memory instructions in each form of the address. Values of loads and effects of stores are compared byte by
//! byte. An atomic that returns the old value is compared with a load followed by the same atomic without a returned
//! value.

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
    claim::Claim,
    encodings::FIRST,
    slot::{EXEC, NOP, Slot, State},
};
use layout::{Flat, Segment};
use moved::Moved;

/// Function that tests instructions with many registers. These registers are loaded before the instruction and stored
/// after it.
type Matrices = fn(&mut Slot, Arch, &mut Table, &Around);

pub(super) fn check(
    arch: Arch,
    wave64: bool,
    table: &mut Table,
    matrices: Matrices,
) -> Result<(), String> {
    let mut slot = Slot::with_memory(arch, wave64)?;
    let globals = flat::check(&mut slot, arch, table);
    buffer::check(&mut slot, arch, table, &globals);
    local::check(&mut slot, arch, table);
    scalars::check(&mut slot, arch, table);
    if let Some(around) = Around::new(arch, &globals) {
        matrices(&mut slot, arch, table, &around);
    }
    Ok(())
}

/// Opcodes of memory instructions by name, without the prefix for the segment, such as `global_`.
type Named = HashMap<String, u32>;

/// Returns the opcodes that the disassembler knows and whose names begin with `start`. The key is the rest of the name.
/// `words` encodes an instruction with a given opcode.
fn named(slot: &mut Slot, start: &str, words: impl Fn(u32) -> Vec<u32>) -> Named {
    let name = |opcode| {
        let text = slot.text(&words(opcode))?;
        let name = text.split_whitespace().next()?.strip_prefix(start)?;
        Some((name.to_owned(), opcode))
    };
    (0..256).filter_map(name).collect()
}

/// Returns the opcodes in ascending order, so that every run tests them in the same order.
fn in_order(named: &Named) -> Vec<(&str, u32)> {
    let mut all: Vec<(&str, u32)> =
        named.iter().map(|(name, opcode)| (name.as_str(), *opcode)).collect();
    all.sort_by_key(|(_, opcode)| *opcode);
    all
}

/// First address register: v[14:15]. Loads write to v8 and the following registers, and stores store v10 and the
/// following ones.
const ADDRESS: u32 = FIRST + 6;
const DATA: u32 = FIRST + 2;
/// Index of the first address register (`ADDRESS_ROW`) and of the first data register (`DATA_ROW`) among the vector
/// registers that a test sets.
const ADDRESS_ROW: usize = 6;
const DATA_ROW: usize = 2;

/// Arrangement of the bytes that the lanes access.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Places {
    /// The positions are scattered, and some lanes are inactive.
    Scattered,
    /// The positions are consecutive, and all lanes are active. The interpreter has separate code for this common case.
    InOrder,
}

/// Byte offset in memory at which the accesses start. There is space for the accesses of all lanes before and after it.
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

/// Returns a claim that compares an instruction with a result that the test computes, because no other instruction has
/// the same effect.
fn known(relation: &'static str, words: Vec<u32>, exec: u64) -> Claim {
    let mut claim = Claim::new(relation, words, vec![NOP]);
    (claim.without, claim.in_turn, claim.exec) = (None, true, exec);
    claim
}

fn on(state: &State) -> impl Iterator<Item = usize> + use<> {
    let exec = state.exec;
    (0..state.lanes.len()).filter(move |lane| exec >> lane & 1 == 1)
}

/// Adds to a claim that the instruction has the effect of a load (if `is_load` is true) or of a store. `of` selects the
/// memory in the state: device memory or LDS. `at` returns the offset of a lane's bytes in this memory, or `None` if
/// the lane is out of range. `clears` is true if a load to half of a register clears the other half.
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
                // A load that is out of range returns zero.
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

/// Returns a change that sets the address registers of each lane to the 64-bit address `of(lane)`.
fn addresses(of: impl Fn(usize) -> u64 + 'static) -> super::claim::Change {
    Rc::new(move |state| {
        for (lane, registers) in state.lanes.iter_mut().enumerate() {
            let address = of(lane);
            registers[ADDRESS_ROW] = address as u32;
            registers[ADDRESS_ROW + 1] = (address >> 32) as u32;
        }
    })
}

/// Loads and stores for registers that the test kernel does not set. The loads run before the tested instruction, and
/// the stores after it. Each lane has its own part of memory.
pub(super) struct Around {
    arch: Arch,
    load: u32,
    store: u32,
}

/// Bit in the second dword of a load or store. On GFX90A and later, a set bit means that the register is an
/// accumulator.
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

    /// Returns instructions that load four registers each, `times` of them, starting with register `first`. In the
    /// memory of a lane, v16 comes first.
    pub(super) fn load(&self, first: u32, times: u32) -> Vec<u32> {
        let four = |n| self.words(self.load, first + 4 * n, 4 * (first - 16 + 4 * n));
        (0..times).flat_map(four).collect()
    }

    pub(super) fn store(&self, first: u32, times: u32) -> Vec<u32> {
        let four = |n| self.words(self.store, first + 4 * n, 4 * (first - 16 + 4 * n));
        (0..times).flat_map(four).collect()
    }

    /// Returns instructions that load four accumulators each, `times` of them, starting with accumulator `first`. The
    /// data of accumulator `first` is at offset `place` in the lane's memory.
    pub(super) fn load_accumulators(&self, first: u32, times: u32, place: u32) -> Vec<u32> {
        let four = |n| self.words(self.load, first + 4 * n, place + 16 * n);
        accumulators((0..times).flat_map(four).collect())
    }

    pub(super) fn store_accumulators(&self, first: u32, times: u32) -> Vec<u32> {
        accumulators(self.store(first, times))
    }
}

/// Sets the accumulator bit in each instruction. Each instruction has two dwords, because this is the size of loads and
/// stores on architectures with accumulators.
fn accumulators(mut words: Vec<u32>) -> Vec<u32> {
    words.iter_mut().skip(1).step_by(2).for_each(|word| *word |= ACCUMULATOR);
    words
}
