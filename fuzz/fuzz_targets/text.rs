//! Lines of disassembly to operations that run on one wave: whatever the lines are, they are refused or end.
//!
//! Input: a byte for the architecture and the device sanitizer, then lines.

#![no_main]

use std::sync::{Arc, LazyLock};

use device::Arch;
use fuzz::{Block, Space};
use isa::Written;
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
    isa::fuzzing::execute(arch, lanes, text, range.start + 128, &space);
});
