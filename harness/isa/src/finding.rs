//! Findings of a checked launch: errors of the kernel that hardware would not report.

use std::fmt;

use crate::{At, LdsAccess, MemoryAccess, Unordered};

/// An error of a kernel. A checked launch can continue after it as hardware would.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// An access outside of every allocation, to a page that the GPU can access.
    Outside {
        /// Address of the first accessed byte that is outside of every allocation.
        address: u64,
        /// True for a write or an atomic.
        write: bool,
        /// Instruction that made the access.
        instruction: At,
    },
    /// An access past the end of the LDS that the workgroup requested.
    LdsOutOfRange {
        /// Offset of the access in the LDS, in bytes.
        offset: u64,
        /// True for a write or an atomic, false for a read.
        write: bool,
        /// Size of the LDS that the workgroup requested, in bytes.
        size: u64,
        /// True if the accessed bytes are still in the allocated LDS, because hardware rounds the size up to whole
        /// granules.
        given: bool,
        /// Instruction that made the access.
        instruction: At,
    },
    /// The kernel uses uninitialised memory.
    NeverWritten {
        /// Address of the uninitialised memory.
        address: u64,
        /// Instruction that read the memory.
        read: At,
        /// Description of the forbidden use of the data, for messages.
        how: &'static str,
        /// Instruction that uses the data.
        instruction: At,
    },
    /// Two waves of a workgroup access the same byte of the LDS without synchronisation, at least one of them writing.
    LdsRace {
        /// Offset in the LDS of the first byte that both waves access.
        offset: u64,
        /// Access that was executed first in this run.
        first: LdsAccess,
        /// Access that was executed second in this run.
        second: LdsAccess,
    },
    /// An instruction uses a register before the result of an earlier instruction has arrived there.
    Early {
        /// Name of the register, in assembler syntax.
        register: String,
        /// True if the instruction reads the register and therefore gets the old value. False if it writes the
        /// register, so that the late result will overwrite the new value.
        read: bool,
        /// Number of the wave in its workgroup.
        wave: u32,
        /// First affected lane; `None` for scalar registers.
        lane: Option<usize>,
        /// Instruction that requested the result.
        producer: At,
        /// Name of the counter that counts the result, for example `vmcnt`.
        counter: &'static str,
        /// Highest value of the counter at which the result is certain to have arrived.
        needs: usize,
        /// Last instruction between `producer` and `instruction` that waited for this counter, and the value for which
        /// it waited; `None` if no instruction did.
        waited: Option<(At, usize)>,
        /// Instruction that uses the register.
        instruction: At,
    },
    /// A wave accesses LDS bytes that another wave wrote before a barrier without waiting for that write to complete.
    /// Or a wave accesses LDS bytes that a load from memory to the LDS may still overwrite.
    LdsEarly {
        /// Offset in the LDS of the first byte that both accesses contain.
        offset: u64,
        /// Write that may arrive late.
        write: LdsAccess,
        /// Access that may be executed before the write arrives.
        read: LdsAccess,
    },
    /// Two waves of the launch access the same byte of memory without synchronisation. At least one of them writes, and
    /// at least one access is not atomic.
    MemoryRace {
        /// Address of the first byte that both accesses contain.
        address: u64,
        /// Description of the missing synchronisation.
        why: &'static str,
        /// Access of the workgroup with the lower number. Within one workgroup: access of the wave with the lower
        /// number.
        first: MemoryAccess,
        /// Access of the other workgroup or wave.
        second: MemoryAccess,
    },
    /// The kernel and earlier work access the same memory, and no synchronisation orders the two accesses.
    Unordered {
        /// Descriptions of the two accesses.
        accesses: Unordered,
        /// Instruction that made the kernel's access.
        instruction: At,
    },
}

impl Finding {
    /// Returns the memory address of the error; `None` if the error concerns the LDS or a register.
    pub fn address(&self) -> Option<u64> {
        match self {
            Finding::Outside { address, .. }
            | Finding::NeverWritten { address, .. }
            | Finding::MemoryRace { address, .. } => Some(*address),
            Finding::Unordered { accesses, .. } => Some(accesses.address),
            Finding::LdsOutOfRange { .. }
            | Finding::LdsRace { .. }
            | Finding::Early { .. }
            | Finding::LdsEarly { .. } => None,
        }
    }

    /// Returns a text that identifies the error. The text does not depend on the launch, the wave or the address.
    pub fn mistake(&self) -> String {
        match self {
            Finding::Outside { write, instruction, .. } => format!("outside {write} {instruction}"),
            Finding::LdsOutOfRange { instruction, .. } => format!("LDS {instruction}"),
            Finding::NeverWritten { read, how, instruction, .. } => {
                format!("never written {read} {how} {instruction}")
            }
            Finding::LdsRace { first, second, .. } => {
                format!("LDS race {} {}", first.instruction, second.instruction)
            }
            Finding::Early { producer, instruction, .. } => {
                format!("early {producer} {instruction}")
            }
            Finding::LdsEarly { write, read, .. } => {
                format!("LDS early {} {}", write.instruction, read.instruction)
            }
            Finding::MemoryRace { first, second, .. } => {
                let (first, second) = (&first.instruction, &second.instruction);
                // The text contains the two accesses in the order of their offsets and texts, so that it does not
                // depend on the wave numbers.
                let turned = (first.offset, &first.text) > (second.offset, &second.text);
                let [one, other] = if turned { [second, first] } else { [first, second] };
                format!("race in memory {one} {other}")
            }
            Finding::Unordered { accesses, instruction } => {
                format!("unordered {instruction} {}", accesses.rival)
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Outside { address, write: true, instruction } => write!(
                f,
                "out of bounds: write to {address:#x} by {instruction}; hardware, which protects whole pages, writes \
                 over what is there"
            ),
            Finding::Outside { address, write: false, instruction } => write!(
                f,
                "out of bounds: read of {address:#x} by {instruction}; hardware, which protects whole pages, reads \
                 what is there"
            ),
            Finding::LdsOutOfRange { offset, write, size, given, instruction } => {
                let effect = match (given, write) {
                    (true, true) => " allocates whole granules and writes to these bytes",
                    (true, false) => " allocates whole granules and reads what was left there",
                    (false, true) => " ignores the write",
                    (false, false) => " reads zero there",
                };
                write!(
                    f,
                    "LDS access at {offset:#x} of {size:#x} bytes by {instruction}; hardware{effect}"
                )
            }
            Finding::NeverWritten { address, read, how, instruction } => {
                write!(
                    f,
                    "never-written memory at {address:#x} is read by {read}; {how} by {instruction}"
                )
            }
            Finding::LdsRace { offset, first, second } => {
                write!(f, "LDS race at {offset:#x}, no barrier between: {first}; {second}")
            }
            Finding::Early { .. } => self.early(f),
            Finding::LdsEarly { offset, write, read } if write.wave == read.wave => write!(
                f,
                "LDS at {offset:#x} is used before what the wave loads there arrives: {read}; {write}, which it did not wait \
                 for between them"
            ),
            Finding::LdsEarly { offset, write, read } => write!(
                f,
                "LDS race at {offset:#x}: {read}; {write}, which that wave did not wait for before the barrier between \
                 them"
            ),
            Finding::MemoryRace { address, why, first, second } => {
                let same = first.workgroup == second.workgroup;
                let who = if same { "waves of a workgroup" } else { "workgroups" };
                write!(f, "race of {who} at {address:#x}, {why}: {first}; {second}")
            }
            Finding::Unordered { accesses, instruction } => {
                let Unordered { address, this, other, .. } = accesses;
                write!(f, "unordered accesses at {address:#x}: {this}, {instruction}; {other}")
            }
        }
    }
}

impl Finding {
    fn early(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding::Early {
            register,
            read,
            wave,
            lane,
            producer,
            counter,
            needs,
            waited,
            instruction,
        } = self
        else {
            return Ok(());
        };
        let used = if *read { "is read" } else { "is written over" };
        write!(f, "{register} {used} before its value arrives: by {instruction} in wave {wave}")?;
        if let Some(lane) = lane {
            write!(f, ", lane {lane}")?;
        }
        write!(f, "; {producer} requested it, and a wait for {counter}({needs}) completes it")?;
        match waited {
            Some((wait, left)) => {
                write!(f, "; the last wait between them, {wait}, leaves {counter} at {left}")
            }
            None => write!(f, "; nothing between them waits for {counter}"),
        }
    }
}
