//! Tests SMEM: scalar loads from memory and from buffers.

use std::rc::Rc;

use device::{Arch, Microcode};

use super::{
    in_order, known, layout,
    moved::{self, Moved},
    named,
};
use crate::opcodes::{
    Table,
    claim::{Change, Claim},
    encodings::FIRST,
    slot::{EXEC, ROWS, Slot, State},
};

/// First register of the base address, s[14:15]. The descriptor of a buffer is in s[12:15], and the offset register is
/// s10.
const BASE: u32 = FIRST + 6;
const BASE_ROW: usize = 6;
const DESCRIPTOR: u32 = FIRST + 4;
const DESCRIPTOR_ROW: usize = 4;
const ADDED: u32 = FIRST + 2;
const ADDED_ROW: usize = 2;
/// First register of the result for loads of more than eight registers, whose result does not fit in the registers from
/// s8 on.
const MORE: u32 = 16;
/// Byte offsets in memory at which the loaded data starts.
const PLACES: [usize; 3] = [1024, 1604, 2304];

pub(super) fn check(slot: &mut Slot, arch: Arch, table: &mut Table) {
    let memory = slot.address();
    for (start, relation, is_buffer) in
        [("s_load_", "scalar loads", false), ("s_buffer_load_", "scalar loads of buffers", true)]
    {
        let base = if is_buffer { DESCRIPTOR } else { BASE };
        let words = |opcode| layout::scalar(arch, opcode, (FIRST, base), 4, None);
        for (name, opcode) in in_order(&named(slot, start, words)) {
            let Some(size) = size(name) else { continue };
            for claim in claims(arch, (opcode, size), relation, is_buffer, memory) {
                table.take(slot, claim);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Size {
    Words(usize),
    Piece(Moved),
}

fn size(name: &str) -> Option<Size> {
    Some(match name {
        "dwordx8" | "b256" => Size::Words(8),
        "dwordx16" | "b512" => Size::Words(16),
        _ => {
            let moved = Moved::named(name)?;
            if moved.bytes < 4 { Size::Piece(moved) } else { Size::Words(moved.bytes / 4) }
        }
    })
}

/// Returns the tested combinations of a constant offset and the value of an offset register. `None` means that the
/// instruction has no offset register.
fn offsets(arch: Arch, is_buffer: bool) -> Vec<(i32, Option<u32>)> {
    let (least, most) = layout::reach_of_scalar(arch);
    let mut offsets = vec![(0, None), (4, None), (0x7c, None), (most & !3, None)];
    offsets.extend([(0, Some(0x40)), (0, Some(4)), (12, Some(0x44)), (0x80, Some(0x8000_0000))]);
    if !is_buffer {
        // Negative offsets are tested only without a buffer, because a buffer has no data before its start.
        offsets.extend([(-4, None), (least, None), (-8, Some(0x60))]);
    }
    offsets
}

fn claims(
    arch: Arch,
    (opcode, size): (u32, Size),
    relation: &'static str,
    is_buffer: bool,
    memory: u64,
) -> Vec<Claim> {
    let bytes = match size {
        Size::Words(words) => 4 * words,
        Size::Piece(moved) => moved.bytes,
    };
    let base = if is_buffer { DESCRIPTOR } else { BASE };
    // The 16 registers of the largest load are compared in two halves, because a slot reads only eight registers.
    let halves = if bytes == 64 { 2 } else { 1 };
    let mut claims = Vec::new();
    for (constant, register) in offsets(arch, is_buffer) {
        for (place, half) in
            PLACES.into_iter().flat_map(|at| (0..halves).map(move |half| (at, half)))
        {
            let place = match size {
                Size::Words(_) => place,
                Size::Piece(moved) => place + moved.bytes * 3,
            };
            let result = if bytes == 64 { MORE } else { FIRST };
            let words =
                layout::scalar(arch, opcode, (result, base), constant, register.map(|_| ADDED));
            let mut claim = known(relation, words, EXEC);
            if bytes == 64 {
                // The last instructions copy the results to registers that the slot reads: s_mov_b64 s[8:9], s[16:17],
                // and so on.
                claim.last = (0..4)
                    .map(|pair| moved_pair(arch, FIRST + 2 * pair, MORE + 8 * half + 2 * pair))
                    .collect();
            }
            let from = (place as i64 - i64::from(constant)) - i64::from(register.unwrap_or(0));
            claim.given = match is_buffer {
                false => based(memory.wrapping_add_signed(from), register),
                // The buffer ends directly after the loaded data.
                true => described(
                    memory.wrapping_add_signed(from),
                    (place as i64 - from) as u64 + bytes as u64,
                    register,
                ),
            };
            claim.set_after(move |given, _, expected| {
                let found = moved::read(&given.memory, place, bytes);
                match size {
                    Size::Piece(moved) => moved.load(&found, &mut expected.scalars, false),
                    Size::Words(words) => {
                        let first = if words == 16 { 8 * half as usize } else { 0 };
                        let all = found.chunks_exact(4).skip(first).take(ROWS);
                        for (register, word) in expected.scalars.iter_mut().zip(all) {
                            *register = u32::from_le_bytes(word.try_into().expect("four"));
                        }
                    }
                }
            });
            claims.push(claim);
        }
    }
    claims
}

fn based(base: u64, register: Option<u32>) -> Change {
    Rc::new(move |state: &mut State| {
        (state.scalars[BASE_ROW], state.scalars[BASE_ROW + 1]) = (base as u32, (base >> 32) as u32);
        state.scalars[ADDED_ROW] = register.unwrap_or(0xdead_beef);
    })
}

fn described(base: u64, bytes: u64, register: Option<u32>) -> Change {
    Rc::new(move |state: &mut State| {
        let descriptor = [base as u32, (base >> 32) as u32 & 0xffff, bytes as u32, 0];
        state.scalars[DESCRIPTOR_ROW..].copy_from_slice(&descriptor);
        state.scalars[ADDED_ROW] = register.unwrap_or(0xdead_beef);
    })
}

fn moved_pair(arch: Arch, to: u32, from: u32) -> u32 {
    let opcode = match arch.facts().microcode {
        Microcode::Gfx10 => 4,
        Microcode::Gfx9 | Microcode::Gfx11 | Microcode::Gfx12 | Microcode::Gfx1250 => 1,
    };
    0x17d << 23 | to << 16 | opcode << 8 | from
}
