//! Executes AMDGPU kernels on the host: one wave after the other, instruction by instruction.
//!
//! The crate knows code, registers and memory, and nothing of HSA queues or signals. A device
//! address is a host address of the same process.
//!
//! What it does not model: timing, caches, the memory model (every access is immediately visible),
//! hazards of arithmetic, and the order in which hardware would run waves. Workgroups run one after the other, and in turns
//! where one goes on and on.

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

pub use audit::{Place, executed, instruction, listing};
pub use checks::access::Kind as AccessKind;
pub use finding::Finding;
pub use launch::{LARGEST_WORKGROUP, largest_lds, lds_granule};
pub use sync::WaveSync;
pub use written::Written;

/// Memory that kernels may touch.
///
/// # Safety
/// What [`AddressSpace::range`] and [`AddressSpace::pages`] return must stay mapped, readable and writable until the launch
/// returns, and be of no Rust object that is borrowed meanwhile: kernels read and write it as raw bytes. Where host threads write
/// there at the same time, the bytes that a kernel reads are any of old and new, as on a GPU.
pub unsafe trait AddressSpace: Sync {
    /// The whole mapped range around `address`, or `None` where a GPU would page-fault.
    fn range(&self, address: u64) -> Option<Range<u64>>;

    /// Whether the compute unit that runs the workgroup of this number is broken on purpose: the first work-item of each
    /// of its waves then takes itself for the second.
    fn breaks(&self, _workgroup: u64) -> bool {
        false
    }

    /// The pages around an address of no allocation that a GPU reaches all the same, on a launch that is watched.
    fn pages(&self, _address: u64) -> Option<Range<u64>> {
        None
    }

    /// Takes note of a mistake of the kernel, on a launch that is watched, and says whether the launch goes on. A launch
    /// tells each mistake once.
    fn found(&self, _finding: &Finding) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    /// Is told once that nothing has come on for [`Launch::patience`], by a [`Trap::Hang`], and says whether the launch goes on
    /// waiting for some more time.
    fn hangs(&self, _hang: &Trap) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    /// Whether launches are looked at by the sanitizer, which is slow. The same for all launches of an address space.
    fn is_watched(&self) -> bool {
        false
    }

    /// Which bytes around the address were written, on a launch that is watched; `None` where nobody keeps book.
    fn written(&self, _address: u64) -> Option<Arc<Written>> {
        None
    }

    /// Notes that a launch that is watched is about to touch these bytes.
    ///
    /// # Errors
    /// What other work touched them before, with nothing to order the two.
    fn touch(&self, _kind: AccessKind, _range: Range<u64>) -> Result<(), Unordered> {
        Ok(())
    }

    /// Whether [`AddressSpace::executes`] is called on launches that are watched. The same for all launches of an address space.
    fn follows(&self) -> bool {
        false
    }

    /// Is told of each instruction of a launch that is watched before a wave executes it.
    fn executes(&self, _executing: &Executing<'_>) {}

    /// Whether it is a mistake of a kernel that is watched to compute with never-written memory.
    fn reports_never_written(&self) -> bool {
        true
    }
}

/// An instruction that a wave is about to execute.
pub struct Executing<'a> {
    /// The number of its workgroup.
    pub workgroup: u64,
    /// Which wave of it.
    pub wave: u32,
    /// The address of the instruction.
    pub pc: u64,
    /// As the disassembler prints it.
    pub text: &'a str,
    registers: &'a wave::Wave,
}

impl Executing<'_> {
    /// The lanes that run.
    pub fn lanes(&self) -> u64 {
        self.registers.exec()
    }

    /// What a lane of a vector register holds.
    pub fn vector(&self, register: usize, lane: usize) -> u32 {
        self.registers.lane(register, lane)
    }
}

/// Wave instructions after which a wave is taken to hang, unless a launch says otherwise.
pub const DEFAULT_STEP_LIMIT: u64 = 1 << 32;

/// One kernel dispatch.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Name for messages.
    pub kernel_name: &'a str,
    /// Address of the 64-byte amdhsa kernel descriptor.
    pub descriptor: u64,
    /// Address of the AQL dispatch packet, for kernels that read it.
    pub packet: u64,
    /// Address of the `amd_queue_t`, for kernels that read it.
    pub queue: u64,
    /// The global wave sync of the queue, where it has that.
    pub sync: Option<&'a WaveSync>,
    /// Address of the kernel argument segment.
    pub kernarg: u64,
    /// Grid size, in work-items.
    pub grid: [u32; 3],
    /// Workgroup size, in work-items.
    pub workgroup: [u32; 3],
    /// LDS of a workgroup, static and dynamic, in bytes.
    pub group_segment_bytes: u32,
    /// Scratch of one work-item, in bytes.
    pub private_segment_bytes: u32,
    /// The architecture that the code is for.
    pub arch: device::Arch,
    /// Instructions that one wave may execute, see [`DEFAULT_STEP_LIMIT`].
    pub step_limit: u64,
    /// Threads that share the workgroups, at least one. With several the order of what workgroups do to the same bytes
    /// differs from run to run.
    pub threads: u32,
    /// How many workgroups the device has room for at a time, at least one; those that wait for others need them there.
    pub room: u32,
    /// For how long a thread may work, with nothing that comes on, before the launch is told to hang. Time in which the process
    /// does not run, as on a machine that is suspended, is none.
    pub patience: Duration,
    /// How long the turns of the waves of a workgroup are.
    pub turns: Turns,
    /// Whether what memory gives reaches its registers only when the wave waits for it, as late as hardware may be.
    pub late_results: bool,
}

/// How many instructions a wave executes before the next one of its workgroup does: waves may wait for each other without
/// a barrier, and race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// So many, at least one.
    Of(u64),
    /// From one to a few thousand, by a seed.
    Seeded(u64),
}

impl Default for Turns {
    /// A few: hardware issues the waves of a workgroup side by side, so that none gets far ahead without a wait.
    fn default() -> Turns {
        Turns::Of(16)
    }
}

/// What a finished dispatch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Wave instructions.
    pub instructions: u64,
    /// Waves.
    pub waves: u64,
}

/// Why a dispatch stopped early.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trap {
    /// The interpreter lacks the instruction, or this form of it.
    Unimplemented {
        /// Its text and place.
        instruction: At,
    },
    /// An access to an address that is not mapped.
    PageFault {
        /// The first byte that was out of reach.
        address: u64,
        /// Whether it was a write or an atomic.
        write: bool,
        /// The instruction that made the access.
        instruction: At,
    },
    /// The bytes at the program counter are no instruction of the architecture.
    IllegalInstruction {
        /// Where.
        instruction: At,
    },
    /// The kernel gave up by `s_trap`: a device-side assert or abort.
    Abort {
        /// The `s_trap`.
        instruction: At,
    },
    /// A mistake of the kernel at which the launch was to stop. Only launches that are watched end this way.
    Found(Box<Finding>),
    /// Nothing that the workgroups on the device do changes any more, and none of them has ended for
    /// [`Launch::patience`].
    Hang {
        /// One that waits.
        workgroup: u64,
        /// Its wave.
        wave: u32,
        /// Where the wave looks for what it waits for.
        instruction: At,
        /// The address that it looks at, if it does.
        address: Option<u64>,
        /// How many workgroups are on the device.
        present: usize,
        /// Whether there are no others that have not begun for want of room.
        all_begun: bool,
    },
    /// A wave executed [`Launch::step_limit`] instructions without an end.
    StepLimit {
        /// The limit.
        limit: u64,
        /// Where the wave stood.
        instruction: At,
    },
    /// No disassembler, so no kernel can run.
    NoDisassembler {
        /// What was tried.
        reason: String,
    },
    /// The kernel descriptor or the kernel's arguments are not mapped.
    Unmapped {
        /// What was to be read.
        what: &'static str,
        /// From where.
        address: u64,
    },
    /// The launch asks for what this interpreter or its host cannot do.
    InvalidLaunch {
        /// What is wrong.
        reason: String,
    },
}

/// Two accesses to the same bytes, one of them a write, by work that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unordered {
    /// The first byte that both touch.
    pub address: u64,
    /// The access that came second this time, in words.
    pub this: String,
    /// The one that came first.
    pub other: String,
    /// The work of the latter, in words that are the same each time it is carried out.
    pub rival: String,
}

impl fmt::Display for Unordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unordered { address, this, other, .. } = self;
        write!(f, "unordered accesses at {address:#x}: {this}; {other}")
    }
}

/// One side of a race in the LDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdsAccess {
    /// `read`, `write` or `atomic`.
    pub kind: &'static str,
    /// Which wave of its workgroup.
    pub wave: u32,
    /// The instruction that made the access.
    pub instruction: At,
}

impl fmt::Display for LdsAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {} in wave {}", self.kind, self.instruction, self.wave)
    }
}

/// One side of a race in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// `read`, `write` or `atomic`.
    pub kind: &'static str,
    /// The number of its workgroup.
    pub workgroup: u64,
    /// Which wave of it.
    pub wave: u32,
    /// The instruction that made the access.
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
    /// As the disassembler prints it.
    pub text: String,
    /// Bytes from the kernel's entry. Code outside the kernel (a called function) may be before it.
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
                write!(f, "; none of the {present} workgroups on the device comes on")?;
                if !all_begun {
                    f.write_str(", and there is no room for the others")?;
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

/// Runs a kernel to its end.
///
/// # Errors
/// The first [`Trap`] of any wave; what earlier waves wrote to memory stays.
pub fn launch(launch: &Launch<'_>, space: &dyn AddressSpace) -> Result<Executed, Trap> {
    launch::run(launch, space)
}
