//! Interpreter for AMDGPU machine code. It executes kernels on the host, one wave after another, instruction by
//! instruction.
//!
//! The crate decodes and executes code, and models registers and memory. It does not contain HSA queues and signals. A
//! device address is a host address of the same process.
//!
//! The interpreter does not model timing, caches, the memory model (every access is immediately visible), arithmetic
//! hazards, or the order in which hardware runs waves. Each host thread runs one workgroup after another. If a
//! workgroup does not end soon, the thread starts more workgroups and runs them in turns.

mod able;
mod audit;
mod checks;
mod control;
mod disassembler;
mod exec;
mod finding;
mod float16;
pub mod image;
#[doc(hidden)]
pub mod inside;
mod launch;
mod lost_bits;
mod machine;
mod masks;
mod misread;
mod operands;
mod operation;
mod ops;
mod program;
mod registers;
mod residents;
mod rounding;
mod scalar;
mod small_float;
mod source;
mod sync;
mod text;
mod unnamed;
mod value;
mod vector;
mod wave;
mod workgroup;
mod written;

use std::{
    fmt,
    ops::{ControlFlow, Range},
    sync::Arc,
    time::Duration,
};

pub use audit::{ListedInstruction, executed, instruction, listing};
pub use checks::access::Kind as AccessKind;
pub use finding::Finding;
pub use launch::LARGEST_WORKGROUP;
pub use sync::WaveSync;
pub use written::Written;

/// Memory that kernels may access. If [`AddressSpace::is_watched`] returns true, the sanitizer checks each launch; such
/// a launch is called a checked launch.
///
/// # Safety
/// Ranges from [`AddressSpace::range`] and [`AddressSpace::pages`] must stay mapped, readable and writable until the
/// launch returns. Until then no Rust reference to them may exist, because kernels read and write them as raw bytes. If
/// host threads write to these ranges at the same time, a kernel reads any mixture of old and new bytes, as on a GPU.
pub unsafe trait AddressSpace: Sync {
    /// Returns the mapped range that contains `address`; `None` if a GPU would page-fault there.
    fn range(&self, address: u64) -> Option<Range<u64>>;

    /// Returns true if an injected fault breaks the compute unit that runs this workgroup. In a broken unit, the first
    /// work-item of each wave has the id of the second work-item.
    fn breaks(&self, _workgroup: u64) -> bool {
        false
    }

    /// Returns the range of pages around `address` that a GPU can access although they belong to no allocation; `None`
    /// if `address` is not in such a page. Only checked launches call this function.
    fn pages(&self, _address: u64) -> Option<Range<u64>> {
        None
    }

    /// Receives an error of the kernel in a checked launch. Returns `Continue` to let the launch continue, or `Break`
    /// to end it. A launch reports the same error only once.
    fn found(&self, _finding: &Finding) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    /// Receives a [`Trap::Hang`] when the launch has made no progress for [`Launch::patience`]. Called at most once per
    /// launch. Returns `Continue` to let the launch wait on, or `Break` to end it.
    fn report_hang(&self, _hang: &Trap) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    /// Returns true if launches are checked launches: the sanitizer checks each of their instructions, which is slow.
    /// The result must not change during a launch.
    fn is_watched(&self) -> bool {
        false
    }

    /// Returns the [`Written`] that tracks which bytes of the allocation at `address` are initialised; `None` if these
    /// bytes are not tracked. Used only in checked launches.
    fn written(&self, _address: u64) -> Option<Arc<Written>> {
        None
    }

    /// Records an access of a checked launch.
    ///
    /// # Errors
    /// Returns an earlier access by other work, if no synchronisation orders it before this access.
    fn touch(&self, _kind: AccessKind, _range: Range<u64>) -> Result<(), Unordered> {
        Ok(())
    }

    /// Returns true if [`AddressSpace::trace_instruction`] must be called in checked launches. The result must not
    /// change during a launch.
    fn is_traced(&self) -> bool {
        false
    }

    /// Receives each instruction of a checked launch before it is executed, if [`AddressSpace::is_traced`] returns
    /// true.
    fn trace_instruction(&self, _executing: &Executing<'_>) {}

    /// Returns true if computing with uninitialised memory is an error in checked launches.
    fn reports_never_written(&self) -> bool {
        true
    }
}

/// An instruction that a wave is about to execute.
pub struct Executing<'a> {
    /// Number of the workgroup in the grid, counted from 0.
    pub workgroup: u64,
    /// Number of the wave in the workgroup.
    pub wave: u32,
    /// Address of the instruction.
    pub pc: u64,
    /// Text of the instruction, as the disassembler prints it.
    pub text: &'a str,
    registers: &'a wave::Wave,
}

impl Executing<'_> {
    /// Returns the active lanes, as a bit mask.
    pub fn lanes(&self) -> u64 {
        self.registers.exec()
    }

    /// Returns the value of a vector register in one lane.
    pub fn vector(&self, register: usize, lane: usize) -> u32 {
        self.registers.lane(register, lane)
    }
}

/// Default for [`Launch::step_limit`].
pub const DEFAULT_STEP_LIMIT: u64 = 1 << 32;

/// One kernel dispatch.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Name of the kernel, for messages.
    pub kernel_name: &'a str,
    /// Address of the 64-byte amdhsa kernel descriptor.
    pub descriptor: u64,
    /// Address of the AQL dispatch packet, for kernels that read it.
    pub packet: u64,
    /// Address of the `amd_queue_t`, for kernels that read it.
    pub queue: u64,
    /// Global wave sync of the queue, with which waves of all workgroups wait for each other; `None` if the queue does
    /// not support it.
    pub sync: Option<&'a WaveSync>,
    /// Address of the kernel argument segment.
    pub kernarg: u64,
    /// Grid size, in work-items.
    pub grid: [u32; 3],
    /// Workgroup size, in work-items.
    pub workgroup: [u32; 3],
    /// LDS of a workgroup, static and dynamic, in bytes.
    pub group_segment_bytes: u32,
    /// Scratch memory of one work-item, in bytes.
    pub private_segment_bytes: u32,
    /// Architecture for which the kernel was compiled.
    pub arch: device::Arch,
    /// Maximum number of instructions per wave, see [`DEFAULT_STEP_LIMIT`].
    pub step_limit: u64,
    /// Number of threads that execute workgroups, at least one. With several threads, the order in which different
    /// workgroups access memory varies from run to run.
    pub threads: u32,
    /// Maximum number of workgroups that are on the device at the same time, at least one. Workgroups that wait for
    /// each other must all be on the device, otherwise the launch hangs.
    pub room: u32,
    /// Maximum time without progress before the launch is reported as hung. Time in which the process is suspended is
    /// excluded.
    pub patience: Duration,
    /// Number of instructions that a wave executes before the next wave of its workgroup runs.
    pub turns: TurnLength,
    /// True if a loaded value reaches its register only when the wave waits for it, which is as late as hardware may
    /// deliver it.
    pub late_results: bool,
}

/// Rule that determines how many instructions a wave executes before the next wave of its workgroup runs. Waves take
/// turns because a wave may wait for another one without a barrier, and because accesses of several waves may race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnLength {
    /// A fixed number, at least one.
    Fixed(u64),
    /// Pseudo-random numbers between one and a few thousand, generated from this seed.
    Seeded(u64),
}

impl Default for TurnLength {
    /// Returns a rule with a small number of instructions: hardware issues the waves of a workgroup concurrently, so no
    /// wave gets far ahead of the others.
    fn default() -> TurnLength {
        TurnLength::Fixed(16)
    }
}

/// Numbers of instructions and waves that a finished dispatch has executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Number of executed instructions. An instruction that a whole wave executes is counted once.
    pub instructions: u64,
    /// Number of executed waves.
    pub waves: u64,
}

/// Reason why a launch stopped early.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trap {
    /// The interpreter does not support the instruction, one of its operands or one of its modifiers.
    Unimplemented {
        /// Text of the instruction, and its position in the kernel.
        instruction: At,
    },
    /// An access to an address that is not mapped.
    PageFault {
        /// Address of the first unmapped byte.
        address: u64,
        /// True for a write or an atomic.
        write: bool,
        /// Instruction that made the access.
        instruction: At,
    },
    /// The bytes at the program counter are not an instruction of the architecture.
    IllegalInstruction {
        /// Position of the bytes in the kernel.
        instruction: At,
    },
    /// The kernel ended with `s_trap`: a device-side assert or abort.
    Abort {
        /// The `s_trap` instruction.
        instruction: At,
    },
    /// An error of the kernel that stops the launch; only in checked launches.
    Found(Box<Finding>),
    /// No workgroup on the device has ended or made other progress for [`Launch::patience`]. The fields describe one of
    /// the waiting waves.
    Hang {
        /// Number of the waiting wave's workgroup.
        workgroup: u64,
        /// Number of the waiting wave in that workgroup.
        wave: u32,
        /// Load that the wave repeats in a spin loop.
        instruction: At,
        /// Address from which the load reads; `None` if it is unknown.
        address: Option<u64>,
        /// Number of workgroups that are on the device.
        present: usize,
        /// True if all workgroups have been started. False if workgroups remain that can only start when others end.
        all_begun: bool,
    },
    /// A wave executed [`Launch::step_limit`] instructions.
    StepLimit {
        /// The limit, in instructions.
        limit: u64,
        /// Instruction at which the wave stopped.
        instruction: At,
    },
    /// No disassembler is available, so no kernel can run.
    NoDisassembler {
        /// Reason why no disassembler is available.
        reason: String,
    },
    /// The kernel descriptor or the kernel's arguments are not mapped.
    Unmapped {
        /// Name of the data that is not mapped.
        what: &'static str,
        /// Address of the data.
        address: u64,
    },
    /// The launch requires a feature that the interpreter or the host does not support.
    InvalidLaunch {
        /// Description of the feature, or of the mistake in the launch.
        reason: String,
    },
}

/// Two unordered accesses to the same bytes, at least one of them a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unordered {
    /// Address of the first byte that both accesses contain.
    pub address: u64,
    /// Description of the access that was executed second in this run.
    pub this: String,
    /// Description of the access that was executed first in this run.
    pub other: String,
    /// Description of the work that made the other access, for example a kernel or a copy. The text is the same in each
    /// run of the program.
    pub rival: String,
}

impl fmt::Display for Unordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unordered { address, this, other, .. } = self;
        write!(f, "unordered accesses at {address:#x}: {this}; {other}")
    }
}

/// One of the two accesses of a race in the LDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdsAccess {
    /// `read`, `write` or `atomic`.
    pub kind: &'static str,
    /// Number of the wave in its workgroup.
    pub wave: u32,
    /// Instruction that made the access.
    pub instruction: At,
}

impl fmt::Display for LdsAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {} in wave {}", self.kind, self.instruction, self.wave)
    }
}

/// One of the two accesses of a race in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// `read`, `write` or `atomic`.
    pub kind: &'static str,
    /// Number of the workgroup.
    pub workgroup: u64,
    /// Number of the wave in the workgroup.
    pub wave: u32,
    /// Instruction that made the access.
    pub instruction: At,
}

impl fmt::Display for MemoryAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryAccess { kind, workgroup, wave, instruction } = self;
        write!(f, "{kind} by {instruction} in wave {wave} of workgroup {workgroup}")
    }
}

/// An instruction of a kernel, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Text of the instruction, as the disassembler prints it.
    pub text: String,
    /// Offset from the kernel's entry in bytes. It is negative for code before the kernel, for example a called
    /// function.
    pub offset: i64,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.offset < 0 { "-" } else { "+" };
        write!(f, "`{}` at {sign}{:#x}", self.text, self.offset.unsigned_abs())
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trap::Unimplemented { instruction } => {
                write!(f, "instruction not emulated: {instruction}")
            }
            Trap::PageFault { address, write, instruction } => {
                let access = if *write { "write to" } else { "read of" };
                write!(f, "page fault: {access} unmapped address {address:#x} by {instruction}")
            }
            Trap::IllegalInstruction { instruction } => {
                write!(f, "illegal instruction: {instruction}")
            }
            Trap::Abort { instruction } => write!(f, "device-side abort: {instruction}"),
            Trap::Found(finding) => finding.fmt(f),
            Trap::Hang { workgroup, wave, instruction, address, present, all_begun } => {
                write!(f, "wave {wave} of workgroup {workgroup} waits at {instruction}")?;
                if let Some(address) = address {
                    write!(f, " for another value at {address:#x}")?;
                }
                write!(f, "; none of the {present} workgroups on the device makes progress")?;
                if !all_begun {
                    f.write_str(", and the device has no room for the others")?;
                }
                Ok(())
            }
            Trap::StepLimit { limit, instruction } => {
                write!(f, "wave still running after {limit} instructions, at {instruction}")
            }
            Trap::NoDisassembler { reason } => write!(f, "no disassembler: {reason}"),
            Trap::Unmapped { what, address } => {
                write!(f, "page fault: no {what} at {address:#x}")
            }
            Trap::InvalidLaunch { reason } => write!(f, "invalid launch: {reason}"),
        }
    }
}

impl std::error::Error for Trap {}

/// Executes a kernel until all its waves have ended.
///
/// # Errors
/// Returns the first [`Trap`] of any wave. Memory that waves have written keeps the written contents.
pub fn launch(launch: &Launch<'_>, space: &dyn AddressSpace) -> Result<Executed, Trap> {
    launch::run(launch, space)
}
