//! State that the waves of a workgroup share, and how instructions access memory.

use std::{any::Any, ops::Range};

use crate::{
    AddressSpace,
    able::CpuFeatures,
    sync::{PendingWait, SyncEffect, WaveSync},
    wave::{Step, Stop},
};

/// An access outside of every allocation, to a page that the GPU can access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfBounds {
    pub(crate) address: u64,
    pub(crate) write: bool,
}

/// State shared by the waves of a workgroup, and access to memory.
pub struct Machine<'a> {
    pub(crate) features: CpuFeatures,
    /// Allocated LDS: the requested size, rounded up to granules.
    pub lds: Vec<u8>,
    pub(crate) lds_asked: u64,
    /// Global wave sync of the queue; `None` if the queue does not support it.
    pub sync: Option<&'a WaveSync>,
    /// Effect of the current instruction on global wave sync.
    pub(crate) synced: Option<SyncEffect>,
    space: &'a dyn AddressSpace,
    /// Most recently used memory ranges, newest first. Most accesses are to a few buffers, so this makes look-ups
    /// faster.
    recent: [Range<u64>; 4],
    /// State of the sanitizer; `None` unless the launch is checked or its loaded values arrive late.
    pub watch: Option<Box<dyn Any>>,
    /// True if [`AddressSpace::trace_instruction`] is called before every instruction.
    pub(crate) follows: bool,
    /// Accesses of the current instruction outside of every allocation, in a checked launch.
    pub(crate) out_of_bounds: Vec<OutOfBounds>,
    started: std::time::Instant,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(able: CpuFeatures, space: &'a dyn AddressSpace) -> Machine<'a> {
        Machine {
            features: able,
            lds: Vec::new(),
            lds_asked: 0,
            sync: None,
            synced: None,
            space,
            recent: [0..0, 0..0, 0..0, 0..0],
            watch: None,
            follows: false,
            out_of_bounds: Vec::new(),
            started: std::time::Instant::now(),
        }
    }

    pub(crate) fn space(&self) -> &'a dyn AddressSpace {
        self.space
    }

    /// Returns a pointer to `bytes` mapped bytes at `address`.
    ///
    /// # Errors
    /// Returns a page fault if one of the bytes is not mapped.
    #[inline(always)]
    pub fn memory(&mut self, address: u64, bytes: u64, write: bool) -> Result<*mut u8, Box<Stop>> {
        let range = &self.recent[0];
        // The condition subtracts instead of computing the end of the access, because that sum could overflow.
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

    /// Handles an access outside of every allocation. In a checked launch, the access is recorded as an error and
    /// allowed if a GPU can access the page. Otherwise the access is a page fault.
    fn beyond(
        &mut self,
        (address, outside): (u64, u64),
        inside: impl Fn(&Range<u64>) -> bool,
        write: bool,
    ) -> Result<*mut u8, Box<Stop>> {
        if self.space.is_watched() && self.space.pages(address).as_ref().is_some_and(inside) {
            self.out_of_bounds.push(OutOfBounds { address: outside, write });
            return Ok(std::ptr::with_exposed_provenance_mut(address as usize));
        }
        Err(Box::new(Stop::PageFault { address: outside, write }))
    }

    /// Reads `N` bytes of memory.
    #[inline(always)]
    pub fn read<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Box<Stop>> {
        let at = self.memory(address, N as u64, false)?;
        // SAFETY: `memory` returned a pointer to mapped bytes, and unaligned reads of bytes are allowed. Other threads
        // may write the bytes, as on a device, but there is never a reference to them.
        Ok(unsafe { at.cast::<[u8; N]>().read_unaligned() })
    }

    #[inline(always)]
    pub(crate) fn write<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Step {
        let at = self.memory(address, N as u64, true)?;
        // SAFETY: as in `read`; the address space guarantees that the range is writable.
        unsafe { at.cast::<[u8; N]>().write_unaligned(bytes) };
        Ok(())
    }

    /// Allocates the LDS of a workgroup, filled with zeros: `asked` bytes, rounded up to whole granules of `granule`
    /// bytes.
    pub fn give_lds(&mut self, asked: u32, granule: u32) {
        self.lds_asked = u64::from(asked);
        self.lds.clear();
        self.lds.resize(asked.next_multiple_of(granule) as usize, 0);
    }

    /// Returns bytes of the LDS; `None` if they are out of range. For such an access, hardware reads zero and ignores
    /// writes (the RDNA 3 and CDNA 3 ISA guides, "LDS").
    #[inline(always)]
    pub(crate) fn lds(&mut self, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.lds.get_mut(start..start.saturating_add(bytes))
    }

    /// Returns true if a wave that waits at global wave sync for the condition `awaits` may continue.
    pub fn may_continue(&self, awaits: Option<PendingWait>) -> bool {
        match (self.sync, awaits) {
            (Some(sync), Some(awaits)) => sync.may_continue(awaits),
            _ => true,
        }
    }

    /// Returns the time since the start of the launch in nanoseconds, for `s_memtime`.
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}
