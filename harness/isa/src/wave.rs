//! The registers of a wave, and what the instructions of a workgroup share.

use std::ops::Range;

use crate::{
    AddressSpace,
    checks::{Checks, Found, between::Between},
    exec::Able,
    ops::record::Field,
    registers::RegisterFile,
    sync::{Awaits, Synced, WaveSync},
    text::register,
};

/// Half a row: 32 lanes. A wave of 64 lanes is two halves, so that loops have a fixed length.
pub(crate) const HALF: usize = 32;
pub(crate) type Half = [u32; HALF];
/// One vector register: all lanes.
pub(crate) type Row = [Half; 2];

/// Why an instruction did not complete.
#[derive(Debug)]
pub(crate) enum Stop {
    PageFault {
        address: u64,
        write: bool,
    },
    Abort,
    /// What is in registers asks for something that the interpreter lacks: what.
    Gap(&'static str),
}

pub(crate) type Step = Result<(), Box<Stop>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// It sleeps until the others have had a turn.
    Resting,
    AtBarrier,
    /// At a resource of global wave sync, for what [`Wave::awaits`] says.
    AtSync,
    Ended,
}

/// Between `s_set_gpr_idx_on` and `s_set_gpr_idx_off`: M0 moves the register numbers.
pub(crate) const INDEXING: u8 = 1;
/// MODE asks for another rounding than to nearest even.
pub(crate) const ROUNDING: u8 = 2;

pub(crate) struct Wave {
    pub(crate) scalar: [u32; register::COUNT],
    pub(crate) vector: RegisterFile,
    /// Address of the next instruction.
    pub(crate) pc: u64,
    pub(crate) lanes: usize,
    pub(crate) state: State,
    pub(crate) awaits: Option<Awaits>,
    pub(crate) executed: u64,
    /// Scratch of all lanes, with the dwords of the lanes interleaved as hardware does.
    pub(crate) scratch: Vec<u8>,
    /// The first source of a DPP instruction after its permutation.
    pub(crate) permuted: [Row; 2],
    /// Which wave of the workgroup it is.
    pub(crate) index: u32,
    /// HW_REG_MODE.
    mode: u32,
    /// Why instructions do not do what they ordinarily do: [`INDEXING`], [`ROUNDING`].
    pub(crate) detours: u8,
}

impl Wave {
    pub(crate) fn new(lanes: usize) -> Wave {
        Wave {
            scalar: [0; register::COUNT],
            vector: RegisterFile::new(),
            pc: 0,
            lanes,
            state: State::Ended,
            awaits: None,
            executed: 0,
            scratch: Vec::new(),
            permuted: [[[0; HALF]; 2]; 2],
            index: 0,
            mode: KEEPS_SOURCES | KEEPS_RESULTS,
            detours: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn halves(&self) -> usize {
        self.lanes / HALF
    }

    /// A pair of scalar registers, such as an address.
    #[inline(always)]
    pub(crate) fn pair(&self, first: u16) -> u64 {
        let first = usize::from(first);
        u64::from(self.scalar[first]) | u64::from(self.scalar[first + 1]) << 32
    }

    pub(crate) fn set_pair(&mut self, first: u16, value: u64) {
        let first = usize::from(first);
        self.scalar[first] = value as u32;
        self.scalar[first + 1] = (value >> 32) as u32;
    }

    /// A lane mask: one register in a wave of 32 lanes, else two.
    #[inline(always)]
    pub(crate) fn mask(&self, first: u16) -> u64 {
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

    #[inline(always)]
    pub(crate) fn lane(&self, row: usize, lane: usize) -> u32 {
        self.vector[row][lane / HALF][lane % HALF]
    }

    #[inline(always)]
    pub(crate) fn set_lane(&mut self, row: usize, lane: usize, value: u32) {
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
/// MODE.IEEE. GFX12 has no such bit, and nothing that compilers make sets it there.
const IEEE: u32 = 1 << 9;

impl Wave {
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    pub(crate) fn set_mode(&mut self, mode: u32) {
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

    /// Whether an instruction may scale its result, `single` or of another size: the output modifiers are ignored where denormal
    /// results are kept, and under IEEE rules. Source: "Output modifiers" of the ISA guides.
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
    // SAFETY: who works with waves has an `Able`, so there is AVX2; the loads are of eight of the words.
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

/// What the waves of a workgroup share, and the way to memory.
pub(crate) struct Machine<'a> {
    pub(crate) able: Able,
    /// What the workgroup was given: what it asked for, in whole granules.
    pub(crate) lds: Vec<u8>,
    /// What it asked for, in bytes.
    pub(crate) lds_asked: u64,
    /// The global wave sync of the queue.
    pub(crate) sync: Option<&'a WaveSync>,
    /// What the instruction that is being executed did to it.
    pub(crate) synced: Option<Synced>,
    space: &'a dyn AddressSpace,
    /// The ranges used last, newest first: most accesses go to a handful of buffers.
    recent: [Range<u64>; 4],
    /// On a launch that is watched, or whose results come late.
    pub(crate) checks: Option<Box<Checks>>,
    /// Whether somebody is told of each instruction.
    pub(crate) follows: bool,
    /// What the workgroups do to each other, on a launch of several that is watched.
    pub(crate) between: Option<Box<Between>>,
    /// What the instruction that is being executed does wrong, on a launch that is watched.
    pub(crate) found: Vec<Found>,
    started: std::time::Instant,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(able: Able, space: &'a dyn AddressSpace) -> Machine<'a> {
        Machine {
            able,
            lds: Vec::new(),
            lds_asked: 0,
            sync: None,
            synced: None,
            space,
            recent: [0..0, 0..0, 0..0, 0..0],
            checks: space.is_watched().then(|| Box::new(Checks::new(true, false))),
            follows: space.is_watched() && space.follows(),
            between: None,
            found: Vec::new(),
            started: std::time::Instant::now(),
        }
    }

    #[cfg(test)]
    pub(crate) fn of(space: &'a dyn AddressSpace) -> Machine<'a> {
        Machine::new(Able::find().expect("these tests need the processor's features"), space)
    }

    /// Keeps results back until a wait for them.
    pub(crate) fn keep_back(&mut self) {
        self.checks = Some(Box::new(Checks::new(self.space.is_watched(), true)));
    }

    /// The memory behind the launch, for whoever watches it.
    pub(crate) fn space(&self) -> &'a dyn AddressSpace {
        self.space
    }

    /// Checks that `bytes` bytes at `address` are mapped and returns where they are.
    #[inline(always)]
    pub(crate) fn memory(
        &mut self,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Result<*mut u8, Box<Stop>> {
        let range = &self.recent[0];
        // Not by the end of the access, which may be past the end of the address space.
        if range.contains(&address) && range.end - address >= bytes {
            return Ok(std::ptr::with_exposed_provenance_mut(address as usize));
        }
        self.find(address, bytes, write)
    }

    #[cold]
    #[inline(never)]
    fn find(&mut self, address: u64, bytes: u64, write: bool) -> Result<*mut u8, Box<Stop>> {
        let inside = |range: &Range<u64>| range.contains(&address) && range.end - address >= bytes;
        if let Some(at) = self.recent.iter().position(inside) {
            self.recent[..=at].rotate_right(1);
            return Ok(std::ptr::with_exposed_provenance_mut(address as usize));
        }
        match self.space.range(address) {
            Some(range) if inside(&range) => {
                self.recent.rotate_right(1);
                self.recent[0] = range;
                Ok(std::ptr::with_exposed_provenance_mut(address as usize))
            }
            known => {
                let outside = known.map_or(address, |range| range.end);
                self.beyond((address, outside), inside, write)
            }
        }
    }

    /// An access outside of every allocation: a mistake that is told where the sanitizer knows allocations by the byte and a
    /// GPU, which knows pages, reaches the place all the same.
    fn beyond(
        &mut self,
        (address, outside): (u64, u64),
        inside: impl Fn(&Range<u64>) -> bool,
        write: bool,
    ) -> Result<*mut u8, Box<Stop>> {
        if self.space.is_watched() && self.space.pages(address).as_ref().is_some_and(inside) {
            self.found.push(Found::Outside { address: outside, write });
            return Ok(std::ptr::with_exposed_provenance_mut(address as usize));
        }
        Err(Box::new(Stop::PageFault { address: outside, write }))
    }

    #[inline(always)]
    pub(crate) fn read<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Box<Stop>> {
        let at = self.memory(address, N as u64, false)?;
        // SAFETY: `memory` found the bytes mapped; unaligned reads of bytes are fine. Other
        // threads may write them, as on a device: no reference to them is ever made.
        Ok(unsafe { at.cast::<[u8; N]>().read_unaligned() })
    }

    #[inline(always)]
    pub(crate) fn write<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Step {
        let at = self.memory(address, N as u64, true)?;
        // SAFETY: as in `read`; the address space promises that the range is writable.
        unsafe { at.cast::<[u8; N]>().write_unaligned(bytes) };
        Ok(())
    }

    /// Gives a workgroup the LDS that it asks for, in whole granules, all zero.
    pub(crate) fn give_lds(&mut self, asked: u32, granule: u32) {
        self.lds_asked = u64::from(asked);
        self.lds.clear();
        self.lds.resize(asked.next_multiple_of(granule) as usize, 0);
    }

    /// Bytes of the LDS; `None` out of its range, where hardware reads zero and drops what is written (the RDNA 3 and CDNA 3
    /// ISA guides, "LDS").
    #[inline(always)]
    pub(crate) fn lds(&mut self, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.lds.get_mut(start..start.saturating_add(bytes))
    }

    /// Whether a wave that waits for others at global wave sync goes on.
    pub(crate) fn lets_go(&self, awaits: Option<Awaits>) -> bool {
        match (self.sync, awaits) {
            (Some(sync), Some(awaits)) => sync.lets_go(awaits),
            _ => true,
        }
    }

    /// Nanoseconds since the launch began: the clock that `s_memtime` shows.
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}
