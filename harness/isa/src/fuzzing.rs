//! The way in for the fuzz target that has no disassembler: instructions from their text.

use device::Arch;

use crate::{
    AddressSpace,
    checks::Checks,
    program::{
        Detours,
        line::{bind, machine, watch},
        parse,
    },
    text::{Site, register},
    wave::{State, Wave},
};

/// Executes instructions, one a line, until one stops. Those that are unknown are passed over.
///
/// Scalar registers hold small numbers and, in every fourth pair, `pointer`; so do vector registers in every lane.
///
/// # Panics
/// On a processor that cannot execute vector instructions.
pub fn execute(arch: Arch, lanes: usize, text: &str, pointer: u64, space: &dyn AddressSpace) {
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
    let mut machine = machine(space);
    machine.give_lds(1024, 1);
    if let Some(checks) = Checks::of(&mut machine.watch) {
        checks.begin(2, 0);
    }
    for (index, line) in text.lines().enumerate() {
        // Where it is and what its first dword holds differ from line to line; branches and SOPK take both.
        let (address, immediate) = (0x1000 + index as u64 * 8, (index as u16).wrapping_mul(0x4321));
        let site = Site { arch, lanes, address, size: 8, immediate };
        let mut exec = bind(line, &site);
        if space.is_watched() {
            exec = watch(exec, line, &site);
        }
        let Ok(exec) = exec else { continue };
        let parts = parse(line, &site).unwrap_or_default();
        let mut detours = Detours::default();
        let exec = match wave.detours {
            0 => &*exec,
            _ => match detours.find(line, &site, &parts, &wave, space.is_watched()) {
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
