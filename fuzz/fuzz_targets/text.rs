//! Fuzz target that parses lines of disassembly and executes them on one wave. Every line must be rejected, or its
//! execution must end.
//!
//! The input consists of a byte for the architecture, the lanes and the device sanitizer, and of the lines.

#![no_main]

use std::sync::{Arc, LazyLock};

use device::Arch;
use fuzz::{Block, Space};
use isa::{
    AddressSpace, Written,
    inside::{
        checks::Checks,
        program::{Detours, line, parse},
        text::{Site, register},
        wave::{State, Wave},
    },
};
use libfuzzer_sys::fuzz_target;

static MEMORY: LazyLock<[Block; 1]> = LazyLock::new(|| [Block::new(64)]);

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let arch = Arch::ALL[usize::from(first & 0x0f) % Arch::ALL.len()];
    let lanes = if first & 0x40 == 0 { 32 } else { 64 };
    let range = MEMORY[0].range();
    MEMORY[0].fill(range.start);
    let written = Arc::new(Written::new(range.start + 256, 256));
    let is_watched = first & 0x80 != 0;
    let space = Space { blocks: &*MEMORY, is_watched, written: Some(written) };
    execute(arch, lanes, text, range.start + 128, &space);
});

/// Executes instructions, one per line, until one of them fails. Unknown instructions are skipped.
///
/// Scalar registers contain small numbers, except that every fourth one and the next contain `pointer`. Vector
/// registers contain small numbers and `pointer` in the same way, in every lane.
fn execute(arch: Arch, lanes: usize, lines: &str, pointer: u64, space: &dyn AddressSpace) {
    let mut wave = Wave::new(lanes);
    wave.state = State::Running;
    for first in 0..register::VCC {
        wave.scalar[usize::from(first)] = first.into();
        for lane in 0..lanes {
            wave.set_lane(first.into(), lane, u32::from(first) + lane as u32);
        }
    }
    for first in (0..register::VCC - 1).step_by(4) {
        wave.set_pair(first, pointer);
        for lane in 0..lanes {
            wave.set_lane(first.into(), lane, pointer as u32);
            wave.set_lane(usize::from(first) + 1, lane, (pointer >> 32) as u32);
        }
    }
    wave.set_pair(register::EXEC, u64::MAX >> (64 - lanes));
    wave.scratch = vec![0; 256 * lanes];
    let mut machine = line::machine(space);
    machine.give_lds(1024, 1);
    if let Some(checks) = Checks::from_state(&mut machine.watch) {
        checks.begin(2, 0);
    }
    for (index, text) in lines.lines().enumerate() {
        // The address of the instruction, which branches use, and the bits of its first dword, which SOPK instructions
        // use, differ from line to line.
        let (address, immediate) = (0x1000 + index as u64 * 8, (index as u16).wrapping_mul(0x4321));
        let site = Site { arch, lanes, address, size: 8, immediate };
        let mut exec = line::bind(text, &site);
        if space.is_watched() {
            exec = line::watch(exec, text, &site);
        }
        let Ok(exec) = exec else { continue };
        let parts = parse(text, &site).unwrap_or_default();
        let mut detours = Detours::default();
        let exec = match wave.detours {
            0 => &*exec,
            _ => match detours.find(text, &site, &parts, &wave, space.is_watched()) {
                Ok(other) => other.unwrap_or(&*exec),
                Err(_) => continue,
            },
        };
        wave.pc = address + 8;
        if exec.run(&mut wave, &mut machine).is_err() {
            return;
        }
    }
}
