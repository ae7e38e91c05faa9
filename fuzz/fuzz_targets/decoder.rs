//! Fuzz target that decodes code for every architecture with a released disassembler, and executes it with a limit on
//! steps. Every launch must end or trap.
//!
//! The input consists of a byte for the architecture and the device sanitizer, a byte for the number of work-items, the
//! twelve bytes of the kernel descriptor that set up a wave, and the code. `libamd_comgr` must be loadable.

#![no_main]

use std::sync::{Arc, LazyLock};

use device::Arch;
use fuzz::{Block, Space};
use isa::{Executed, Launch, Trap, TurnLength, Written};
use libfuzzer_sys::fuzz_target;

/// Maximum size of the code, in bytes.
const CODE: usize = 512;
/// Size of the kernel descriptor in bytes. The code follows the descriptor.
const DESCRIPTOR: usize = 64;
/// Size in bytes of the descriptor's fields from COMPUTE_PGM_RSRC1 on, which come from the input.
const FIELDS: usize = 12;
const STEPS: u64 = 256;

/// Memory for the code, the arguments and the data.
static MEMORY: LazyLock<[Block; 3]> =
    LazyLock::new(|| [Block::new((DESCRIPTOR + CODE) / 8), Block::new(32), Block::new(256)]);

/// Launches the code for the architecture in `flags`, with `items` + 1 work-items and the given fields of the
/// descriptor.
fn launch(flags: u8, items: u8, fields: &[u8; FIELDS], body: &[u8]) -> Result<Executed, Trap> {
    let [code, arguments, data] = &*MEMORY;
    code.fill(0);
    code.put(16, &(DESCRIPTOR as u64).to_le_bytes());
    code.put(48, fields);
    code.put(DESCRIPTOR, body);
    // Arguments and data contain addresses of the data, so that loads through them read mapped memory.
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
        turns: TurnLength::default(),
        late_results: flags & 0x40 != 0,
        patience: std::time::Duration::from_secs(5),
        room: 4,
    };
    isa::launch(&launch, &space)
}

/// Panics if no disassembler can be loaded, because nothing would be fuzzed. A disassembler that lacks architectures is
/// accepted.
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
