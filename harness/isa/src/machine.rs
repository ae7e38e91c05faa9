//! What the waves of a workgroup share, and the way to memory.

use std::{any::Any, ops::Range};

use crate::{
    AddressSpace,
    able::Able,
    sync::{Awaits, Synced, WaveSync},
    wave::{Step, Stop},
};

/// An access outside of every allocation, to a page that a GPU reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beyond {
    pub(crate) address: u64,
    pub(crate) write: bool,
}

/// What the waves of a workgroup share, and the way to memory.
pub struct Machine<'a> {
    pub(crate) able: Able,
    /// What the workgroup was given: what it asked for, in whole granules.
    pub lds: Vec<u8>,
    /// What it asked for, in bytes.
    pub(crate) lds_asked: u64,
    /// The global wave sync of the queue.
    pub sync: Option<&'a WaveSync>,
    /// What the instruction that is being executed did to it.
    pub(crate) synced: Option<Synced>,
    space: &'a dyn AddressSpace,
    /// The ranges used last, newest first: most accesses go to a handful of buffers.
    recent: [Range<u64>; 4],
    /// Who looks on while instructions are executed, and what that has seen: on a launch that is watched, or whose results come
    /// late. What it is of, only `checks` knows.
    pub watch: Option<Box<dyn Any>>,
    /// Whether somebody is told of each instruction.
    pub(crate) follows: bool,
    /// What the instruction that is being executed touches outside of every allocation, on a launch that is watched.
    pub(crate) beyond: Vec<Beyond>,
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
            watch: None,
            follows: false,
            beyond: Vec::new(),
            started: std::time::Instant::now(),
        }
    }

    /// The memory behind the launch, for whoever watches it.
    pub(crate) fn space(&self) -> &'a dyn AddressSpace {
        self.space
    }

    /// Checks that `bytes` bytes at `address` are mapped and returns where they are.
    #[inline(always)]
    pub fn memory(&mut self, address: u64, bytes: u64, write: bool) -> Result<*mut u8, Box<Stop>> {
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
            self.beyond.push(Beyond { address: outside, write });
            return Ok(std::ptr::with_exposed_provenance_mut(address as usize));
        }
        Err(Box::new(Stop::PageFault { address: outside, write }))
    }

    /// Reads bytes of memory.
    #[inline(always)]
    pub fn read<const N: usize>(&mut self, address: u64) -> Result<[u8; N], Box<Stop>> {
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
    pub fn give_lds(&mut self, asked: u32, granule: u32) {
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
    pub fn lets_go(&self, awaits: Option<Awaits>) -> bool {
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
