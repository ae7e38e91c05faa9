//! The registers of a wave, and what the instructions of a workgroup share.

use crate::{
    registers::{HALF, Half, RegisterFile, Row},
    rounding::Field,
    sync::Awaits,
    text::register,
};

/// Why an instruction did not complete.
#[derive(Debug)]
pub enum Stop {
    /// An access to memory that is not mapped.
    PageFault {
        /// The first byte that was out of reach.
        address: u64,
        /// Whether it was a write or an atomic.
        write: bool,
    },
    /// The kernel gave up.
    Abort,
    /// What is in registers asks for something that the interpreter lacks: what.
    Gap(&'static str),
}

pub(crate) type Step = Result<(), Box<Stop>>;

/// Whether a wave executes instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Running,
    /// It sleeps until the others have had a turn.
    Resting,
    /// It waits for the other waves of its workgroup.
    AtBarrier,
    /// At a resource of global wave sync, for what [`Wave::awaits`] says.
    AtSync,
    /// It has come to its end, or has not begun.
    Ended,
}

/// Between `s_set_gpr_idx_on` and `s_set_gpr_idx_off`: M0 moves the register numbers.
pub(crate) const INDEXING: u8 = 1;
/// MODE asks for another rounding than to nearest even.
pub(crate) const ROUNDING: u8 = 2;

/// The registers of a wave, and what it is doing.
pub struct Wave {
    /// The scalar registers, by the numbers of [`register`].
    pub scalar: [u32; register::COUNT],
    pub(crate) vector: RegisterFile,
    /// Address of the next instruction.
    pub pc: u64,
    /// Of the wave: 32 or 64.
    pub lanes: usize,
    /// Whether it executes instructions.
    pub state: State,
    /// What it waits for at global wave sync.
    pub awaits: Option<Awaits>,
    pub(crate) executed: u64,
    /// Scratch of all lanes, with the dwords of the lanes interleaved as hardware does.
    pub scratch: Vec<u8>,
    /// The first source of a DPP instruction after its permutation.
    pub(crate) permuted: [Row; 2],
    /// Which wave of the workgroup it is.
    pub index: u32,
    /// HW_REG_MODE.
    mode: u32,
    /// Why instructions do not do what they ordinarily do: `INDEXING`, `ROUNDING`.
    pub detours: u8,
}

impl Wave {
    /// A wave that has not begun, of so many lanes.
    pub fn new(lanes: usize) -> Wave {
        Wave {
            scalar: [0; register::COUNT],
            vector: RegisterFile::zeros(),
            pc: 0,
            lanes,
            state: State::Ended,
            awaits: None,
            executed: 0,
            scratch: Vec::new(),
            permuted: [[[0; HALF]; 2]; 2],
            index: 0,
            mode: KEEPS_SOURCES | KEEPS_RESULTS | DX10_CLAMP,
            detours: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn halves(&self) -> usize {
        self.lanes / HALF
    }

    /// A pair of scalar registers, such as an address.
    #[inline(always)]
    pub fn pair(&self, first: u16) -> u64 {
        let first = usize::from(first);
        u64::from(self.scalar[first]) | u64::from(self.scalar[first + 1]) << 32
    }

    /// Sets a pair of scalar registers.
    pub fn set_pair(&mut self, first: u16, value: u64) {
        let first = usize::from(first);
        self.scalar[first] = value as u32;
        self.scalar[first + 1] = (value >> 32) as u32;
    }

    /// A lane mask: one register in a wave of 32 lanes, else two.
    #[inline(always)]
    pub fn mask(&self, first: u16) -> u64 {
        if self.lanes == HALF {
            u64::from(self.scalar[usize::from(first)])
        } else {
            self.pair(first)
        }
    }

    #[inline(always)]
    pub(crate) fn set_mask(&mut self, first: u16, value: u64) {
        self.scalar[usize::from(first)] = value as u32;
        if self.lanes != HALF {
            self.scalar[usize::from(first) + 1] = (value >> 32) as u32;
        }
    }

    #[inline(always)]
    pub(crate) fn exec(&self) -> u64 {
        self.mask(register::EXEC)
    }

    #[inline(always)]
    pub(crate) fn exec_half(&self, half: usize) -> u32 {
        self.scalar[usize::from(register::EXEC) + half]
    }

    #[inline(always)]
    pub(crate) fn scc(&self) -> bool {
        self.scalar[usize::from(register::SCC)] != 0
    }

    #[inline(always)]
    pub(crate) fn set_scc(&mut self, value: bool) {
        self.scalar[usize::from(register::SCC)] = u32::from(value);
    }

    /// What a lane of a vector register holds.
    #[inline(always)]
    pub fn lane(&self, row: usize, lane: usize) -> u32 {
        self.vector[row][lane / HALF][lane % HALF]
    }

    /// Sets it.
    #[inline(always)]
    pub fn set_lane(&mut self, row: usize, lane: usize, value: u32) {
        self.vector[row][lane / HALF][lane % HALF] = value;
    }

    /// The bits of half a lane mask.
    #[inline(always)]
    pub(crate) fn set_half_mask(&mut self, first: u16, half: usize, bits: u32) {
        self.scalar[usize::from(first) + half] = bits;
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn blend(&mut self, row: usize, half: usize, mask: u32, values: &Half) {
        let target = &mut self.vector[row][half];
        if mask == u32::MAX {
            *target = *values;
        } else {
            for lane in 0..HALF {
                let written = (mask >> lane & 1).wrapping_neg();
                target[lane] = (values[lane] & written) | (target[lane] & !written);
            }
        }
    }
}

/// MODE.FP_DENORM for 32 bits: bit 0 keeps denormal sources, bit 1 denormal results.
const KEEPS_SOURCES: u32 = 1 << 4;
const KEEPS_RESULTS: u32 = 1 << 5;
/// The same for results of 16 and 64 bits.
const KEEPS_OTHER_RESULTS: u32 = 1 << 7;
/// Whether `clamp` makes zeros of NaNs. GFX12 has no such bit, and does.
const DX10_CLAMP: u32 = 1 << 8;
/// MODE.FP16_OVFL: results of 16 bits and less that are too large are the greatest number.
pub(crate) const FP16_OVFL: u32 = 1 << 23;
/// MODE.IEEE. GFX12 has no such bit, and nothing that compilers make sets it there.
const IEEE: u32 = 1 << 9;

impl Wave {
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    /// Sets HW_REG_MODE.
    pub fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
        self.set_detour(ROUNDING, mode & Field::ALL != 0);
    }

    /// Whether M0 moves the register numbers.
    pub(crate) fn indexes(&self) -> bool {
        self.detours & INDEXING != 0
    }

    pub(crate) fn set_detour(&mut self, detour: u8, on: bool) {
        self.detours = if on { self.detours | detour } else { self.detours & !detour };
    }

    /// Whether MODE makes zeros of the denormal sources of 32-bit float arithmetic.
    #[inline(always)]
    pub(crate) fn flushes_sources(&self) -> bool {
        self.mode & KEEPS_SOURCES == 0
    }

    /// Whether MODE makes zeros of any.
    #[inline(always)]
    pub(crate) fn flushes_any(&self) -> bool {
        self.flushes_sources() || self.flushes_results()
    }

    /// Whether MODE makes zeros of its denormal results.
    #[inline(always)]
    pub(crate) fn flushes_results(&self) -> bool {
        self.mode & KEEPS_RESULTS == 0
    }

    /// Whether MODE makes the greatest numbers of results of 16 bits and less that are too large.
    #[inline(always)]
    pub(crate) fn saturates(&self) -> bool {
        self.mode & FP16_OVFL != 0
    }

    /// Whether MODE asks for IEEE rules, by which minima and maxima of signalling NaNs are NaNs.
    pub(crate) fn has_ieee_rules(&self) -> bool {
        self.mode & IEEE != 0
    }

    /// Whether a NaN stays one under `clamp`, where the architecture lets MODE say so.
    pub(crate) fn keeps_nans(&self) -> bool {
        self.mode & DX10_CLAMP == 0
    }

    /// Whether an instruction may scale its result, `single` or of another size: the output modifiers are ignored where denormal
    /// results are kept, and under IEEE rules. Source: "Output modifiers" of the ISA guides before RDNA 4.
    #[inline(never)]
    pub(crate) fn scales_results(&self, single: bool) -> bool {
        let keeps = if single { KEEPS_RESULTS } else { KEEPS_OTHER_RESULTS };
        self.mode & (keeps | IEEE) == 0
    }
}

/// The same floats with zeros, of the same sign, for denormals.
#[inline(never)]
pub(crate) fn flushed(values: &Half) -> Half {
    values.map(|bits| if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// A bit for each lane: the highest of its word. As a loop it would be a shift and an OR for each lane.
#[inline(always)]
pub(crate) fn sign_bits(words: &Half) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: operations alone call this, which a machine runs, and a machine has an `Able`, so there is AVX2; the loads are of
    // eight of the words.
    unsafe {
        use std::arch::x86_64::{_mm256_loadu_ps, _mm256_movemask_ps};
        let eight = |first: usize| {
            let signs = _mm256_movemask_ps(_mm256_loadu_ps(words[first..].as_ptr().cast()));
            (signs as u32) << first
        };
        eight(0) | eight(8) | eight(16) | eight(24)
    }
    #[cfg(not(target_arch = "x86_64"))]
    words.iter().rev().fold(0, |bits, word| bits << 1 | word >> 31)
}

/// The word that [`sign_bits`] takes for a bit that is set or not.
#[inline(always)]
pub(crate) fn sign(set: bool) -> u32 {
    u32::from(set).wrapping_neg()
}

/// The lanes whose bit is set.
pub(crate) fn active(mask: u64) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lane
        })
    })
}
