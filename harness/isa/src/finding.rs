//! What a launch that is watched finds: mistakes of the kernel that hardware would not tell of.

use std::fmt;

use crate::{At, LdsAccess, MemoryAccess, Unordered};

/// A mistake of a kernel, after which a launch that is watched goes on as hardware would.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// An access outside of every allocation, to a page that a GPU reaches.
    Outside {
        /// The first byte that was outside.
        address: u64,
        /// Whether it was a write or an atomic.
        write: bool,
        /// The instruction that made the access.
        instruction: At,
    },
    /// An access past the LDS that the workgroup asked for.
    LdsOutOfRange {
        /// Byte offset in the LDS.
        offset: u64,
        /// Whether it was a write or an atomic.
        write: bool,
        /// What the workgroup asked for, in bytes.
        size: u64,
        /// Whether it was given these bytes all the same: hardware gives out LDS in granules.
        given: bool,
        /// The instruction that made the access.
        instruction: At,
    },
    /// The kernel works with memory that nobody has ever written.
    NeverWritten {
        /// Where the memory is.
        address: u64,
        /// The instruction that read it.
        read: At,
        /// What was done with it.
        how: &'static str,
        /// The instruction that did that.
        instruction: At,
    },
    /// Two waves of a workgroup touch the same byte of the LDS, one of them writes, and no barrier is between.
    LdsRace {
        /// Byte offset in the LDS.
        offset: u64,
        /// The access that came first this time.
        first: LdsAccess,
        /// The other one.
        second: LdsAccess,
    },
    /// A register is used before the result that it waits for has come.
    Early {
        /// The register, as the assembler calls it.
        register: String,
        /// Whether its old content is read; else it is written, and the result will write over that.
        read: bool,
        /// Which wave of its workgroup.
        wave: u32,
        /// The first lane; none for scalar registers.
        lane: Option<usize>,
        /// The instruction that asked for the result.
        producer: At,
        /// The counter that tells, as the assembler of the architecture calls it.
        counter: &'static str,
        /// The highest count at which the result has come.
        needs: usize,
        /// The last wait for that counter in between, with the count that it left open.
        waited: Option<(At, usize)>,
        /// The instruction that uses the register.
        instruction: At,
    },
    /// A wave reads of the LDS what another one wrote before a barrier, without a wait of the latter for its write to come; or a wave
    /// touches what is loaded there from memory, which may come later.
    LdsEarly {
        /// Byte offset in the LDS.
        offset: u64,
        /// The write.
        write: LdsAccess,
        /// The access that may come before it.
        read: LdsAccess,
    },
    /// Two waves of the launch touch the same byte of memory, one of them writes, one is not atomic, and nothing orders them.
    MemoryRace {
        /// The first byte that both touch.
        address: u64,
        /// What is missing, in words.
        why: &'static str,
        /// The access of the workgroup with the lower number, or of one workgroup that of the wave with the lower number.
        first: MemoryAccess,
        /// The other one.
        second: MemoryAccess,
    },
    /// The kernel touches what other work touched, and nothing orders the two.
    Unordered {
        /// Who and what.
        accesses: Unordered,
        /// The instruction that made the access.
        instruction: At,
    },
}

impl Finding {
    /// Where in memory it was; nowhere in the LDS.
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

    /// What is the same in all findings of one mistake, whichever launch, wave and address shows it.
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
                // Whichever wave has the lower number.
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
                    (true, true) => ", which gives out LDS in granules, writes there",
                    (true, false) => ", which gives out LDS in granules, reads what is there",
                    (false, true) => " drops what is written there",
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
                "LDS at {offset:#x} is used before what the wave loads there has come: {read}; {write}, which it did not wait \
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
    /// A register that is used too early, in words.
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
        write!(f, "{register} {used} before its value has come: by {instruction} in wave {wave}")?;
        if let Some(lane) = lane {
            write!(f, ", lane {lane}")?;
        }
        write!(f, "; {producer} asked for it, which is done at {counter}({needs})")?;
        match waited {
            Some((wait, left)) => {
                write!(f, "; the last wait between them, {wait}, leaves {counter} at {left}")
            }
            None => write!(f, "; nothing between them waits for {counter}"),
        }
    }
}
