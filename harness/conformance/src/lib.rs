//! Instruction conformance: executes every instruction on any device of the HIP runtime, writes the results to a file,
//! and compares two such files.
//!
//! The crate does not contain a list of instructions. [`instructions`] lets the disassembler of the stack decode every
//! opcode of the vector, matrix and scalar encodings. Every opcode that the disassembler knows is executed on the same
//! inputs. Further tests check assumptions of the emulated device about hardware, which are the rows of a table in
//! `docs/inferred-hardware.md`. This crate does not determine which result is correct.

mod barrier_flow;
mod barriers;
mod compare;
mod decode_cache;
mod decoder;
mod encodings;
mod opcode_counter;
mod result_file;
mod rows;
mod run;
mod source;

pub use barriers::{BarrierReader, KernelBarriers, MemoryOperation, Outstanding};
pub use compare::{Differences, ResultDifference, compare};
pub use decoder::{DecodedInstruction, Decoder};
pub use encodings::{Instruction, InstructionGroup, instructions};
pub use opcode_counter::{OpcodeCounter, OpcodeCounts};
pub use result_file::{FORMAT_VERSION, FileError, InstructionResult, ResultFile, ResultHeader};
use rows::{Row, rows};
pub use run::{RunError, run_on_device};

/// Number of work-items that execute each instruction, in workgroups of [`GROUP`].
pub const ITEMS: usize = 512;

/// Number of work-items in a workgroup.
pub const GROUP: usize = 64;
