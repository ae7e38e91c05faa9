//! Decodes code of every architecture with the released disassembler and executes it with a limit. Every launch ends or traps.
//!
//! Input: a byte for the architecture and the device sanitizer, a byte for the work-items, the twelve bytes of the kernel
//! descriptor that set up a wave, then code. `libamd_comgr` must be loadable.

#![no_main]

use std::sync::{Arc, LazyLock};

use device::Arch;
use fuzz::{Block, Space};
use isa::{Executed, Launch, Trap, Turns, Written};
use libfuzzer_sys::fuzz_target;

/// Bytes of code.
const CODE: usize = 512;
/// The entry lies behind the descriptor.
const DESCRIPTOR: usize = 64;
/// The fields of the descriptor from COMPUTE_PGM_RSRC1 on.
const FIELDS: usize = 12;
const STEPS: u64 = 256;

/// Code, arguments and data.
static MEMORY: LazyLock<[Block; 3]> =
    LazyLock::new(|| [Block::new((DESCRIPTOR + CODE) / 8), Block::new(32), Block::new(256)]);

/// Launches the code with its descriptor, arguments and data, for the architecture that the flags name.
fn launch(flags: u8, items: u8, fields: &[u8; FIELDS], body: &[u8]) -> Result<Executed, Trap> {
    let [code, arguments, data] = &*MEMORY;
    code.fill(0);
    code.put(16, &(DESCRIPTOR as u64).to_le_bytes());
    code.put(48, fields);
    code.put(DESCRIPTOR, body);
    // Arguments and data are addresses, so that loads through them lead somewhere.
    let buffer = data.range();
    arguments.fill(buffer.start);
    data.fill(buffer.start + 1024);
    let written = Arc::new(Written::new(buffer.start + 1024, 1024));
    let space = Space { blocks: &*MEMORY, is_watched: flags & 0x80 != 0, written: Some(written) };
    let launch = Launch {
        kernel_name: "fuzz",
        descriptor: code.range().start,
        packet: arguments.range().start,
        queue: arguments.range().start,
        sync: None,
        kernarg: arguments.range().start,
        grid: [u32::from(items) + 1, 1, 1],
        workgroup: [u32::from(items % 160) + 1, 1, 1],
        group_segment_bytes: 1024,
        private_segment_bytes: 64,
        arch: Arch::ALL[usize::from(flags & 0x0f) % Arch::ALL.len()],
        step_limit: STEPS,
        threads: 1,
        turns: Turns::default(),
        late_results: flags & 0x40 != 0,
        patience: std::time::Duration::from_secs(5),
        room: 4,
    };
    isa::launch(&launch, &space)
}

/// Fails without a disassembler, because nothing would be fuzzed. An old one may lack architectures.
fn must_disassemble() {
    if let Err(Trap::NoDisassembler { reason }) = launch(0, 0, &[0; FIELDS], &[]) {
        panic!("{reason}");
    }
}

fuzz_target!(init: must_disassemble(), |bytes: &[u8]| {
    if let Some(([flags, items, fields @ ..], body)) = bytes.split_first_chunk::<{ 2 + FIELDS }>() {
        let _ = launch(*flags, *items, fields, body);
    }
});
