//! What a device makes of each instruction, written down: a probe that runs on any device of the HIP runtime, its result file, and
//! the differences between two of them.
//!
//! The instructions are not listed here: every opcode of the encodings of vector, matrix and scalar arithmetic is given to the
//! stack's own disassembler, and what has a name there is executed on the same inputs ([`instructions`]). Beside them stand
//! rows of what the emulated device infers about hardware. Nothing here says what is right.

mod compare;
mod decoder;
mod encodings;
mod file;
mod rows;
mod run;
mod source;
mod tally;

pub use compare::{Difference, Differences, compare};
pub use decoder::{Decoded, Decoder};
pub use encodings::{Group, Instruction, instructions};
pub use file::{File, Header, Probe, Refused, VERSION};
use rows::{Row, rows};
pub use run::{Failed, on_device};
pub use tally::{Opcode, Tally};

/// Work-items that execute an instruction, in workgroups of [`GROUP`].
pub const ITEMS: usize = 512;

/// Work-items of a workgroup.
pub const GROUP: usize = 64;
