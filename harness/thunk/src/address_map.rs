//! Memory that the process has allocated, registered or mapped for the device.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{node::Node, types::MemoryFlags};

/// Page size of the device's address translation, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// Set of nodes that may access memory, as one bit per node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nodes(u32);

impl Nodes {
    pub(crate) fn from_nodes(nodes: impl Iterator<Item = Node>) -> Nodes {
        Nodes(nodes.fold(0, |set, node| set | 1 << node.number()))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u32::BITS).filter(move |bit| self.0 >> bit & 1 == 1)
    }
}

/// Purpose of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Memory,
    /// Address range for scratch. Nothing is stored there, because the interpreter has scratch memory of its own.
    Scratch,
    /// Address range without memory.
    Reservation,
    /// Memory without an address; see `buffer_objects.rs`. Its key in the map is a handle.
    Object,
}

#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) bytes: u64,
    pub(crate) node: Node,
    pub(crate) flags: MemoryFlags,
    pub(crate) purpose: Purpose,
    pub(crate) mapped: Nodes,
    pub(crate) user_data: usize,
}

/// Host memory that was registered, so that the device can access it.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) flags: MemoryFlags,
    pub(crate) mapped: Nodes,
    pub(crate) user_data: usize,
}

impl Registration {
    fn pages(&self) -> Range<u64> {
        let end = self.start.saturating_add(self.bytes);
        self.start & !(PAGE - 1)..end.saturating_add(PAGE - 1) & !(PAGE - 1)
    }
}

#[derive(Debug, Default)]
pub(crate) struct AddressMap {
    /// Allocations by their start addresses or handles.
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    /// Registrations, oldest first. They may overlap, and two of them may be equal.
    pub(crate) registrations: Vec<Registration>,
    /// Sizes of the parts of reservations to which buffer objects are mapped. The key is the start address of the part.
    pub(crate) views: BTreeMap<u64, u64>,
}

impl AddressMap {
    /// Returns the start of the allocation that contains the address, and the allocation.
    pub(crate) fn allocation(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (start, found) = self.allocations.range(..=address).next_back()?;
        (address - start < found.bytes).then_some((*start, found))
    }

    pub(crate) fn allocation_mut(&mut self, address: u64) -> Option<&mut Allocation> {
        let (start, found) = self.allocations.range_mut(..=address).next_back()?;
        (address - start < found.bytes).then_some(found)
    }

    /// Returns the newest registration that contains the address.
    pub(crate) fn registration(&self, address: u64) -> Option<&Registration> {
        self.registrations.iter().rev().find(|known| {
            address.checked_sub(known.start).is_some_and(|inside| inside < known.bytes.max(1))
        })
    }

    /// Returns the range around an address that the device can access; `None` if an access causes a page fault.
    pub(crate) fn reach(&self, address: u64) -> Option<Range<u64>> {
        if let Some((start, found)) = self.allocation(address)
            && found.purpose == Purpose::Memory
        {
            return (!found.mapped.is_empty()).then(|| start..start + found.bytes);
        }
        if let Some((start, bytes)) = self.views.range(..=address).next_back()
            && address - start < *bytes
        {
            return Some(*start..start + bytes);
        }
        let all = self.registrations.iter().rev().filter(|known| !known.mapped.is_empty());
        all.map(Registration::pages).find(|pages| pages.contains(&address))
    }
}

static MAP: RwLock<AddressMap> = RwLock::new(AddressMap {
    allocations: BTreeMap::new(),
    registrations: Vec::new(),
    views: BTreeMap::new(),
});

pub(crate) fn read() -> RwLockReadGuard<'static, AddressMap> {
    MAP.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write() -> RwLockWriteGuard<'static, AddressMap> {
    MAP.write().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex whose data is consistent at every point where a panic can occur.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(bytes: u64, purpose: Purpose, mapped: Nodes) -> Allocation {
        let flags = MemoryFlags::default();
        Allocation { bytes, node: Node::HOST, flags, purpose, mapped, user_data: 0 }
    }

    #[test]
    fn device_reaches_mapped_memory_only() {
        let mapped = Nodes::from_nodes(Node::gpus());
        let mut map = AddressMap::default();
        map.allocations.insert(0x10000, allocation(0x1000, Purpose::Memory, mapped));
        map.allocations.insert(0x20000, allocation(0x1000, Purpose::Memory, Nodes::default()));
        map.allocations.insert(0x30000, allocation(0x4000, Purpose::Reservation, mapped));
        map.views.insert(0x31000, 0x1000);
        for start in [0x50010, 0x50810] {
            let flags = MemoryFlags::default();
            let bytes = 0x20;
            map.registrations.push(Registration { start, bytes, flags, mapped, user_data: 0 });
        }
        assert_eq!(map.reach(0xffff), None);
        assert_eq!(map.reach(0x10fff), Some(0x10000..0x11000));
        assert_eq!(map.reach(0x11000), None);
        assert_eq!(
            map.reach(0x20000),
            None,
            "the memory is allocated but not mapped for the device"
        );
        assert_eq!(map.reach(0x30000), None, "a reservation has no memory");
        assert_eq!(map.reach(0x31008), Some(0x31000..0x32000));
        assert_eq!(map.reach(0x32000), None);
        assert_eq!(map.reach(0x50fff), Some(0x50000..0x51000), "the driver maps whole pages");
        assert_eq!(map.registration(0x50820).map(|known| known.start), Some(0x50810));
        assert!(map.registration(0x50830).is_none());
    }
}
