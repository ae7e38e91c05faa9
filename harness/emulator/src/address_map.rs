//! Map of all memory regions that the emulated GPU may access.

use std::{collections::BTreeMap, ops::Range};

use crate::abi::Agent;

/// Page size of the emulated GPU's address translation, in bytes.
pub(crate) const PAGE: usize = 4096;

/// Origin of a region of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pool,
    /// Locked host memory. `count` is the number of locks.
    Locked {
        count: usize,
    },
    /// Memory that HSA's virtual memory calls have mapped. The GPU may access the memory if `gpu_access` is set.
    Virtual {
        gpu_access: bool,
    },
    /// Memory of another process, attached through IPC.
    Attached,
    /// Memory that this library has allocated for its own objects: code objects, queues, signals.
    Internal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Length in bytes. With the sanitizer, this is the length that the caller requested. Otherwise it is rounded up to
    /// whole pages, because whole pages are allocated.
    pub(crate) len: usize,
    pub(crate) kind: Kind,
    pub(crate) owner: Agent,
    /// Flags of the memory pool (`hsa_amd_memory_pool_global_flag_t`).
    pub(crate) flags: u32,
}

/// All memory regions that the GPU can access. Locked host memory is in a separate map, because locked ranges may
/// overlap.
#[derive(Debug, Default)]
pub(crate) struct AddressMap {
    regions: BTreeMap<usize, Region>,
    locked: BTreeMap<usize, Region>,
}

impl AddressMap {
    /// Adds a region that begins at `start`. The region must not overlap another region.
    pub(crate) fn insert(&mut self, start: usize, region: Region) {
        self.regions.insert(start, region);
    }

    pub(crate) fn remove(&mut self, start: usize) -> Option<Region> {
        self.regions.remove(&start)
    }

    pub(crate) fn starting_at(&mut self, start: usize) -> Option<&mut Region> {
        self.regions.get_mut(&start)
    }

    /// Returns the start and the length of each allocation of device memory.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (usize, usize)> {
        let pool = |region: &Region| region.kind == Kind::Pool && region.owner.is_gpu();
        self.regions.iter().filter(move |(_, r)| pool(r)).map(|(start, r)| (*start, r.len))
    }

    /// Returns the address of an allocation of device memory whose length, rounded up to whole pages, is `len`; `None`
    /// if no allocation has this length.
    pub(crate) fn pool_of(&self, len: usize) -> Option<usize> {
        self.pools().find(|pool| pool.1.next_multiple_of(PAGE) == len).map(|pool| pool.0)
    }

    /// Locks a host range that begins at `start`. A second lock with the same start increments the count and keeps the
    /// longer of the two ranges.
    pub(crate) fn lock(&mut self, start: usize, region: Region) {
        let known = self
            .locked
            .entry(start)
            .or_insert(Region { kind: Kind::Locked { count: 0 }, ..region });
        known.len = known.len.max(region.len);
        if let Kind::Locked { count } = &mut known.kind {
            *count += 1;
        }
    }

    /// Undoes one lock of the range that starts at this address. Returns `false` if the range is not locked.
    pub(crate) fn unlock(&mut self, start: usize) -> bool {
        let Some(known) = self.locked.get_mut(&start) else { return false };
        match &mut known.kind {
            Kind::Locked { count } if *count > 1 => *count -= 1,
            _ => {
                self.locked.remove(&start);
            }
        }
        true
    }

    /// Returns the start of the region that contains the address, and the region; `None` if no region contains the
    /// address.
    pub(crate) fn find(&self, address: usize) -> Option<(usize, Region)> {
        let holds = |(start, region): &(usize, Region)| address - start < region.len;
        let own = self.regions.range(..=address).next_back().map(|(s, r)| (*s, *r)).filter(holds);
        own.or_else(|| self.locked.range(..=address).rev().map(|(s, r)| (*s, *r)).find(holds))
    }

    /// Returns the range around this address that the GPU can access; `None` if the GPU cannot access the address. For
    /// locked memory, the range consists of whole pages, because pages are the unit of address translation.
    pub(crate) fn reach(&self, address: usize) -> Option<Range<usize>> {
        if let Some((start, region)) = self.find(address) {
            return match region.kind {
                Kind::Virtual { gpu_access: false } => None,
                Kind::Locked { .. } => Some(pages(start, region.len)),
                _ => Some(start..start + region.len),
            };
        }
        let of_page = |(start, region): (&usize, &Region)| pages(*start, region.len);
        self.locked
            .range(..=(address | (PAGE - 1)))
            .rev()
            .map(of_page)
            .find(|range| range.contains(&address))
    }

    /// Returns the range of whole pages of the pool allocation that contains the address; `None` if no pool allocation
    /// does. The address may be past the end of the requested bytes.
    pub(crate) fn pages_of_pool(&self, address: usize) -> Option<Range<usize>> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        let range = pages(*start, region.len);
        (region.kind == Kind::Pool && range.contains(&address)).then_some(range)
    }

    /// Checks that the GPU can access every byte of the range. The error is the first address that the GPU cannot
    /// access.
    pub(crate) fn check(&self, start: usize, len: usize) -> Result<(), usize> {
        let end = start.checked_add(len).ok_or(start)?;
        let mut at = start;
        while at < end {
            at = self.reach(at).ok_or(at)?.end;
        }
        Ok(())
    }
}

fn pages(start: usize, len: usize) -> Range<usize> {
    start & !(PAGE - 1)..(start + len).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(kind: Kind, len: usize) -> Region {
        Region { len, kind, owner: Agent::GPU, flags: 0 }
    }

    fn sample() -> AddressMap {
        let mut map = AddressMap::default();
        map.insert(0x10000, region(Kind::Pool, 0x2000));
        map.insert(0x12000, region(Kind::Virtual { gpu_access: true }, 0x1000));
        map.insert(0x13000, region(Kind::Virtual { gpu_access: false }, 0x1000));
        map.lock(0x20010, region(Kind::Locked { count: 0 }, 0x10));
        map.lock(0x20008, region(Kind::Locked { count: 0 }, 0x4000));
        map
    }

    #[track_caller]
    fn check(start: usize, len: usize, expected: Result<(), usize>) {
        assert_eq!(sample().check(start, len), expected, "{start:#x}+{len:#x}");
    }

    #[test]
    fn check_spans_adjoining_regions() {
        check(0x10000, 0x2000, Ok(()));
        check(0x11fff, 0x2, Ok(()));
        check(0x10000, 0x3000, Ok(()));
        check(0x10000, 0x3001, Err(0x13000));
        check(0xffff, 1, Err(0xffff));
        check(0x9000, 0, Ok(()));
        check(usize::MAX, 2, Err(usize::MAX));
        check(usize::MAX - 7, 8, Err(usize::MAX - 7));
    }

    #[test]
    fn locked_memory_is_accessible_by_whole_pages() {
        check(0x20000, 0x10, Ok(()));
        check(0x20000, 0x5000, Ok(()));
        check(0x24fff, 2, Err(0x25000));
        check(0x1ffff, 1, Err(0x1ffff));
    }

    #[test]
    fn pool_pages_extend_past_the_requested_bytes() {
        let mut map = AddressMap::default();
        map.insert(0x10000, region(Kind::Pool, 0x1100));
        map.insert(0x20000, region(Kind::Internal, 0x1100));
        assert_eq!(map.pages_of_pool(0x10000), Some(0x10000..0x12000));
        assert_eq!(map.pages_of_pool(0x11fff), Some(0x10000..0x12000));
        assert_eq!(map.pages_of_pool(0x12000), None);
        assert_eq!(map.pages_of_pool(0xffff), None);
        assert_eq!(map.pages_of_pool(0x21fff), None);
    }

    #[test]
    fn locks_are_counted() {
        let mut map = sample();
        map.lock(0x20008, region(Kind::Locked { count: 0 }, 0x10));
        assert_eq!(map.find(0x24000).map(|(start, _)| start), Some(0x20008));
        assert!(map.unlock(0x20008));
        assert!(map.find(0x24000).is_some());
        assert!(map.unlock(0x20008));
        assert_eq!(map.find(0x24000), None);
        assert!(!map.unlock(0x20008));
        assert_eq!(map.find(0x20010).map(|(start, _)| start), Some(0x20010));
    }
}
