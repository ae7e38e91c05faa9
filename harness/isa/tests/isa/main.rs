//! Tests instructions and the parts of the interpreter. Instructions are given as text, and their results are compared
//! with values that were computed independently.

mod between;
mod checks;
mod constants;
mod float16;
mod gfx1250;
mod guides;
mod images;
mod lost_bits;
mod malformed;
mod matrix;
mod measured;
mod memory;
mod misread;
mod mode;
mod operations;
mod overflow;
mod registers;
mod residents;
mod rounding;
mod saturation;
mod scoreboard;
mod small;
mod small_float;
mod sums;
mod sync;
mod table;
mod text;
mod unnamed;
mod wave_sync;
mod workgroup;
mod written;

use device::Arch::{self, *};
use isa::{
    AddressSpace,
    inside::{
        program::line::{self, bind},
        text::{
            Site,
            register::{self, EXEC, SCC, VCC},
        },
        wave::Wave,
    },
};

struct Nothing;
// SAFETY: the address space has no memory.
unsafe impl AddressSpace for Nothing {
    fn range(&self, _: u64) -> Option<std::ops::Range<u64>> {
        None
    }
}

fn wave(arch: Arch) -> Wave {
    let mut wave = Wave::new(arch.wave_size() as usize);
    wave.set_pair(EXEC, u64::MAX);
    wave
}

fn execute(arch: Arch, wave: &mut Wave, text: &str) {
    let mut machine = line::machine(&Nothing);
    machine.give_lds(1024, 1);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Ok(exec) = bind(line, &Site { lanes: wave.lanes, ..Site::for_arch(arch) }) else {
            panic!("not bound: {line}")
        };
        exec.run(wave, &mut machine).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
    }
}

/// Sets v1, v2, ... to `sources` in all lanes and executes the text. Returns a 64-bit number of lane 3 with v0 as the
/// lower and v1 as the upper half.
fn vector(arch: Arch, text: &str, sources: &[u32]) -> u64 {
    let mut wave = wave(arch);
    for (index, value) in sources.iter().enumerate() {
        for lane in 0..wave.lanes {
            wave.set_lane(index + 1, lane, *value);
        }
    }
    execute(arch, &mut wave, text);
    u64::from(wave.lane(0, 3)) | u64::from(wave.lane(1, 3)) << 32
}

fn check(arch: Arch, text: &str, sources: &[u32], expected: u32) {
    let got = vector(arch, text, sources) as u32;
    assert_eq!(got, expected, "{arch}: {text} of {sources:x?} gives {got:#x}");
}

fn f(value: f32) -> u32 {
    value.to_bits()
}
