//! Tests DS: loads, stores and atomics on the LDS.

use std::{collections::HashMap, rc::Rc};

use device::Arch;

use super::{
    ADDRESS, ADDRESS_ROW, DATA, DATA_ROW, Places,
    flat::moved_by,
    known,
    layout::local as words,
    moved::{self, Moved},
    moves, named, on,
};
use crate::opcodes::{
    Table,
    claim::{Change, Claim},
    encodings::FIRST,
    slot::{EXEC, LOCAL, Slot},
};

/// Second data register: v12. The first data operand occupies v10 and v11.
const SECOND: u32 = FIRST + 4;
const SECOND_ROW: usize = 4;
/// Combinations of registers with which an instruction may be encoded: the result, the address, and two data registers.
/// The disassembler accepts only zeros in the fields that the instruction does not use.
const REGISTERS: [[u32; 4]; 5] = [
    [FIRST, ADDRESS, 0, 0],
    [0, ADDRESS, DATA, 0],
    [FIRST, ADDRESS, DATA, 0],
    [0, ADDRESS, DATA, SECOND],
    [FIRST, ADDRESS, DATA, SECOND],
];

/// Plain form of an instruction: its opcode, and the registers that it uses.
#[derive(Clone, Copy)]
struct Plain {
    opcode: u32,
    registers: [u32; 4],
}

impl Plain {
    fn words(self, arch: Arch, offset: u32) -> Vec<u32> {
        words(arch, self.opcode, offset, self.registers)
    }
}

type Known = HashMap<String, Plain>;
const OFFSETS: [u32; 6] = [0, 1, 4, 0x1234, 0xef00, 0xf000];

pub(super) fn check(slot: &mut Slot, arch: Arch, table: &mut Table) {
    let mut all = Known::new();
    for registers in REGISTERS {
        let opcodes = named(slot, "ds_", |opcode| words(arch, opcode, 0, registers));
        let plain = |opcode| Plain { opcode, registers };
        all.extend(opcodes.into_iter().map(|(name, opcode)| (name, plain(opcode))));
    }
    let mut in_order: Vec<(&String, &Plain)> = all.iter().collect();
    in_order.sort_by_key(|(_, plain)| plain.opcode);
    for (name, plain) in in_order {
        let name = name.replace("read_", "load_").replace("write_", "store_");
        let claims = match (moved_by(&name), two(&name)) {
            (Some(moved), _) => of_moves(arch, *plain, moved),
            (None, Some(two)) => of_two(arch, *plain, two),
            (None, None) => atomics(arch, *plain, &name, &all),
        };
        claims.into_iter().for_each(|claim| table.take(slot, claim));
    }
}

/// Returns a change that sets the address register of each lane to the LDS address `of(lane)`.
fn addresses(of: impl Fn(usize) -> u32 + 'static) -> Change {
    Rc::new(move |state| {
        for (lane, registers) in state.lanes.iter_mut().enumerate() {
            registers[ADDRESS_ROW] = of(lane);
        }
    })
}

fn of_moves(arch: Arch, plain: Plain, moved: (bool, Moved)) -> Vec<Claim> {
    let (is_load, moved) = moved;
    let mut claims = Vec::new();
    for offset in OFFSETS {
        for places in Places::ALL {
            let relation = if offset == 0 { "LDS" } else { "LDS at an offset" };
            let mut claim = known(relation, plain.words(arch, offset), places.exec());
            claim.given = addresses(move |lane| LOCAL + places.of(lane, moved) as u32 - offset);
            let how = (is_load, arch.has_ecc());
            moves(
                &mut claim,
                moved,
                how,
                |state| &mut state.local,
                move |lane| Some(places.of(lane, moved)),
            );
            claims.push(claim);
        }
    }
    claims
}

/// An instruction that accesses two locations per lane.
#[derive(Clone, Copy)]
struct Two {
    is_load: bool,
    exchanges: bool,
    bytes: usize,
    /// Distance in bytes between the locations for two consecutive values of an offset field.
    step: usize,
}

fn two(name: &str) -> Option<Two> {
    let read = name.strip_prefix("read2").or(name.strip_prefix("load_2addr"));
    let write = name.strip_prefix("write2").or(name.strip_prefix("store_2addr"));
    let exchange = name.strip_prefix("wrxchg2").or(name.strip_prefix("storexchg_2addr"));
    let rest = read.or(write).or(exchange)?;
    let bytes = if rest.ends_with("b64") { 8 } else { 4 };
    let step = if rest.contains("64_") { 64 * bytes } else { bytes };
    Some(Two { is_load: write.is_none(), exchanges: exchange.is_some(), bytes, step })
}

fn of_two(arch: Arch, plain: Plain, two: Two) -> Vec<Claim> {
    let far = if two.step > 8 { 3 } else { 60 };
    let mut claims = Vec::new();
    for (first, second) in [(0, 1), (1, 0), (far, 2), (0, far), (1, 1)] {
        for exec in [EXEC, u64::MAX] {
            let offsets = first as u32 | (second as u32) << 8;
            let mut claim = known("two locations in the LDS", plain.words(arch, offsets), exec);
            // If the two locations are the same, no guide specifies the order of the two accesses.
            if first == second && (two.exchanges || !two.is_load) {
                continue;
            }
            // Different lanes must not access the same location, whatever the two offsets are.
            let lane_step = if exec == EXEC { 16 } else { 2 * two.bytes };
            let apart = first.min(second) * two.step;
            let place = move |lane: usize, which: usize| {
                apart + (which - first.min(second)) * two.step + lane_step * lane
            };
            claim.given = addresses(move |lane| LOCAL + (lane_step * lane) as u32);
            claim.set_after(move |given, _, expected| {
                let read = |at: usize| moved::read(&given.local, at, two.bytes);
                let word = Moved::named(if two.bytes == 8 { "b64" } else { "b32" });
                let word = word.expect("a name");
                if !two.is_load || two.exchanges {
                    for lane in on(given) {
                        for (which, row) in [(first, DATA_ROW), (second, SECOND_ROW)] {
                            let bytes = word.stored(&given.lanes[lane][row..]);
                            moved::write(&mut expected.local, place(lane, which), &bytes);
                        }
                    }
                }
                if two.is_load {
                    for lane in on(given) {
                        for (which, row) in [(first, 0), (second, two.bytes / 4)] {
                            let bytes = read(place(lane, which));
                            word.load(&bytes, &mut expected.lanes[lane][row..], false);
                        }
                    }
                }
            });
            claims.push(claim);
        }
    }
    claims
}

/// Returns claims about atomics with an offset. An atomic that returns the old value must have the same effect as a
/// load followed by the same atomic without a returned value.
fn atomics(arch: Arch, plain: Plain, name: &str, all: &Known) -> Vec<Claim> {
    let double = name.ends_with("64");
    let returns = name.contains("_rtn");
    let known_as = |names: &[&str]| names.iter().find_map(|name| all.get(*name)).copied();
    let (load, store) = match double {
        true => (known_as(&["read_b64", "load_b64"]), known_as(&["write_b64", "store_b64"])),
        false => (known_as(&["read_b32", "load_b32"]), known_as(&["write_b32", "store_b32"])),
    };
    // An exchange that returns the old value is compared with a store. Any other atomic that returns it is compared
    // with the atomic that has the same name without `_rtn`.
    let without = match name {
        "wrxchg_rtn_b32" | "wrxchg_rtn_b64" | "storexchg_rtn_b32" | "storexchg_rtn_b64" => store,
        _ if returns => all.get(&name.replace("_rtn", "")).copied(),
        // An atomic that does not return the old value is compared with itself at offset 0.
        _ if all.contains_key(&with_return(name)) => Some(plain),
        _ => None,
    };
    let (Some(load), Some(without)) = (load, without) else { return Vec::new() };
    let mut like = without.words(arch, 0);
    if returns {
        like = [load.words(arch, 0), like].concat();
    }
    let place = |lane: usize| Places::Scattered.of(lane, Moved::named("b32").expect("a name"));
    let mut claims = Vec::new();
    for offset in OFFSETS.into_iter().filter(|offset| offset % 8 == 0) {
        let relation = if returns { "LDS atomics that return" } else { "LDS atomics" };
        let mut claim = Claim::new(relation, plain.words(arch, offset), like.clone());
        (claim.without, claim.in_turn) = (None, true);
        let lead = addresses(move |lane| LOCAL + place(lane) as u32 - offset);
        claim.given = Rc::new(move |state| {
            lead(state);
            // The comparison succeeds in half of the lanes, whichever register contains the comparison value.
            for (lane, registers) in
                state.lanes.iter_mut().enumerate().filter(|(at, _)| at % 2 == 1)
            {
                let at = place(lane) / 4;
                let row = if lane % 4 == 1 { DATA_ROW } else { SECOND_ROW };
                registers[row..row + 2].copy_from_slice(&state.local[at..at + 2]);
            }
        });
        claim.before = addresses(move |lane| LOCAL + place(lane) as u32);
        claims.push(claim);
    }
    claims
}

/// Inserts `_rtn` into a name: `add_u32` becomes `add_rtn_u32`.
fn with_return(name: &str) -> String {
    match name.rsplit_once('_') {
        Some((operation, of)) => format!("{operation}_rtn_{of}"),
        None => String::new(),
    }
}
