//! Registers and execution state of a wave.

use crate::{
    registers::{HALF, Half, RegisterFile, Row},
    rounding::Field,
    sync::PendingWait,
    text::register,
};

/// Reason why an instruction did not complete.
#[derive(Debug)]
pub enum Stop {
    /// An access to memory that is not mapped.
    PageFault {
        /// Address of the first unmapped byte.
        address: u64,
        /// True for a write or an atomic.
        write: bool,
    },
    /// The kernel aborted.
    Abort,
    /// The contents of a register select a feature that the interpreter does not support. The string names the feature.
    Unsupported(&'static str),
}

pub(crate) type Step = Result<(), Box<Stop>>;

/// Execution state of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The wave executes instructions.
    Running,
    /// The wave sleeps until each other wave has executed a turn.
    Resting,
    /// The wave waits for the other waves of its workgroup.
    AtBarrier,
    /// The wave waits at a resource of global wave sync until [`Wave::awaits`] holds.
    AtSync,
    /// The wave has ended, or has not started.
    Ended,
}

/// Bit of [`Wave::detours`]: the wave is between `s_set_gpr_idx_on` and `s_set_gpr_idx_off`, where instructions add M0
/// to register numbers.
pub(crate) const INDEXING: u8 = 1;
/// Bit of [`Wave::detours`]: MODE selects a rounding mode other than round to nearest even.
pub(crate) const ROUNDING: u8 = 2;

/// Registers and state of a wave.
pub struct Wave {
    /// Scalar registers. The constants of the module [`register`] are their numbers.
    pub scalar: [u32; register::COUNT],
    pub(crate) vector: RegisterFile,
    /// Address of the next instruction.
    pub pc: u64,
    /// Number of lanes: 32 or 64.
    pub lanes: usize,
    /// Execution state.
    pub state: State,
    /// Condition for which the wave waits at global wave sync.
    pub awaits: Option<PendingWait>,
    pub(crate) executed: u64,
    /// Scratch memory of all lanes. As on hardware, the dwords of the lanes are interleaved.
    pub scratch: Vec<u8>,
    /// First source operand of a DPP instruction, after the permutation of its lanes.
    pub(crate) permuted: [Row; 2],
    /// Number of the wave in its workgroup.
    pub index: u32,
    mode: u32,
    /// Reasons why the wave cannot execute instructions in the usual way, as a bit mask of `INDEXING` and `ROUNDING`.
    pub detours: u8,
}

impl Wave {
    /// Creates a wave that has not started.
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

    /// Returns the 64-bit value of a pair of scalar registers, for example an address.
    #[inline(always)]
    pub fn pair(&self, first: u16) -> u64 {
        let first = usize::from(first);
        u64::from(self.scalar[first]) | u64::from(self.scalar[first + 1]) << 32
    }

    /// Sets a pair of scalar registers to a 64-bit value.
    pub fn set_pair(&mut self, first: u16, value: u64) {
        let first = usize::from(first);
        self.scalar[first] = value as u32;
        self.scalar[first + 1] = (value >> 32) as u32;
    }

    /// Returns a lane mask from scalar registers. The mask occupies one register in a wave of 32 lanes, otherwise two.
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

    /// Returns the value of one lane of a vector register.
    #[inline(always)]
    pub fn lane(&self, row: usize, lane: usize) -> u32 {
        self.vector[row][lane / HALF][lane % HALF]
    }

    /// Sets the value of one lane of a vector register.
    #[inline(always)]
    pub fn set_lane(&mut self, row: usize, lane: usize, value: u32) {
        self.vector[row][lane / HALF][lane % HALF] = value;
    }

    #[inline(always)]
    pub(crate) fn set_half_mask(&mut self, first: u16, half: usize, bits: u32) {
        self.scalar[usize::from(first) + half] = bits;
    }

    /// Writes `values` to the lanes in `mask`; other lanes keep their values.
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

/// Bits of MODE.FP_DENORM for 32-bit floats. `KEEPS_SOURCES` keeps denormal operands, `KEEPS_RESULTS` keeps denormal
/// results.
const KEEPS_SOURCES: u32 = 1 << 4;
const KEEPS_RESULTS: u32 = 1 << 5;
/// Bit of MODE.FP_DENORM that keeps 16-bit and 64-bit denormal results.
const KEEPS_OTHER_RESULTS: u32 = 1 << 7;
/// `MODE.DX10_CLAMP`, which makes `clamp` turn NaNs into zeros. On GFX12, which has no such bit, NaNs always become
/// zeros.
const DX10_CLAMP: u32 = 1 << 8;
/// `MODE.FP16_OVFL`, which turns results of at most 16 bits that are too large into the largest finite number.
pub(crate) const FP16_OVFL: u32 = 1 << 23;
/// `MODE.IEEE`. GFX12 has no such bit, and compilers never set the bit for GFX12.
const IEEE: u32 = 1 << 9;

impl Wave {
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    /// Sets the register HW_REG_MODE, and sets or clears the bit `ROUNDING` of [`Wave::detours`] accordingly.
    pub fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
        self.set_detour(ROUNDING, mode & Field::ALL != 0);
    }

    pub(crate) fn indexes(&self) -> bool {
        self.detours & INDEXING != 0
    }

    pub(crate) fn set_detour(&mut self, detour: u8, on: bool) {
        self.detours = if on { self.detours | detour } else { self.detours & !detour };
    }

    #[inline(always)]
    pub(crate) fn flushes_sources(&self) -> bool {
        self.mode & KEEPS_SOURCES == 0
    }

    #[inline(always)]
    pub(crate) fn flushes_any(&self) -> bool {
        self.flushes_sources() || self.flushes_results()
    }

    #[inline(always)]
    pub(crate) fn flushes_results(&self) -> bool {
        self.mode & KEEPS_RESULTS == 0
    }

    /// Returns true if MODE turns results of at most 16 bits that are too large into the largest finite number.
    #[inline(always)]
    pub(crate) fn saturates(&self) -> bool {
        self.mode & FP16_OVFL != 0
    }

    /// Returns true if MODE selects IEEE rules. Then the minimum or maximum of a signalling NaN and a number is a NaN.
    pub(crate) fn has_ieee_rules(&self) -> bool {
        self.mode & IEEE != 0
    }

    /// Returns true if `clamp` keeps NaNs. The result has a meaning only on architectures with `MODE.DX10_CLAMP`.
    pub(crate) fn keeps_nans(&self) -> bool {
        self.mode & DX10_CLAMP == 0
    }

    /// Returns true if an instruction may apply output modifiers. `single` is true for a 32-bit result. Hardware
    /// ignores output modifiers if MODE selects IEEE rules or keeps denormal results of this size. Source: "Output
    /// modifiers" of the ISA guides before RDNA 4.
    #[inline(never)]
    pub(crate) fn scales_results(&self, single: bool) -> bool {
        let keeps = if single { KEEPS_RESULTS } else { KEEPS_OTHER_RESULTS };
        self.mode & (keeps | IEEE) == 0
    }
}

/// Replaces denormals in 32 lanes by zeros of the same sign.
#[inline(never)]
pub(crate) fn flushed(values: &Half) -> Half {
    values.map(|bits| if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// Returns the highest bit of each word, as one bit per lane. This is faster than a plain loop, which needs a shift and
/// an OR per lane.
#[inline(always)]
pub(crate) fn sign_bits(words: &Half) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: only operations call this function, and they run on a machine. A machine contains a `CpuFeatures`, so
    // AVX2 is supported. Each load reads eight of the 32 words.
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

/// Returns a word whose highest bit is `set`, for [`sign_bits`].
#[inline(always)]
pub(crate) fn sign(set: bool) -> u32 {
    u32::from(set).wrapping_neg()
}

/// Returns the numbers of the set bits in `mask`, the lowest first.
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
