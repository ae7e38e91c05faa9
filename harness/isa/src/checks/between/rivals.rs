//! Unordered accesses that are not reported until enough is known about the location.

use std::collections::BTreeMap;

use super::{Cells, Kind, Origin, Site, Strength};

/// Reason why two accesses are unordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No synchronisation orders them.
    Unordered,
    /// The second wave acquired from the first one, which released without waiting for the earlier write.
    NotCome,
    /// The second wave acquired from the first one, but did not invalidate its caches.
    Stale,
}

/// One of two racing accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub(crate) kind: Kind,
    pub(crate) workgroup: u64,
    pub(crate) wave: u32,
    pub origin: Origin,
}

/// A race. The access of the workgroup with the lower number is first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    pub(crate) address: u64,
    /// Reason why the accesses are unordered.
    pub why: Why,
    /// The two accesses.
    pub sides: [Side; 2],
}

/// Two accesses that may race, in the order of execution.
#[derive(Clone)]
pub(super) struct Rival {
    address: u64,
    why: Why,
    sides: [(u32, Site); 2],
    sites: [u32; 2],
}

impl Rival {
    pub(super) fn new(
        address: u64,
        why: Why,
        (before, first_site, first): (u32, u32, Site),
        (now, second_site, second): (u32, u32, Site),
    ) -> Rival {
        let sites = [first_site.min(second_site), first_site.max(second_site)];
        Rival { address, why, sides: [(before, first), (now, second)], sites }
    }

    fn both_write(&self) -> bool {
        self.sides.iter().all(|(_, site)| site.kind == Kind::Store)
    }

    /// Returns true if the history of the location confirms the race.
    fn stands(&self, cells: &Cells) -> bool {
        let cell = cells.at(self.address);
        let has = |kind| self.sides.iter().any(|(_, site)| site.kind == kind);
        // A compare-and-swap loop starts with a plain read. Compilers use such loops for atomics that the architecture
        // does not support.
        if has(Kind::Load) && cell.is_swapped {
            return false;
        }
        // Stores that may be atomic count as atomic if other accesses to the location synchronise.
        let unsaid = |(_, site): &(u32, Site)| site.strength == Strength::Unsaid;
        !(self.both_write() && self.sides.iter().all(unsaid) && cell.synchronises)
    }
}

/// Maximum number of examples per pair of instructions that are examined.
const EXAMPLES: usize = 16;

#[derive(Default)]
pub(super) struct Rivals {
    /// Candidates by pair of instructions.
    open: BTreeMap<[u32; 2], Vec<Rival>>,
    /// Candidates of the write that is being executed, with the bytes before it.
    fresh: Vec<(Rival, Vec<Option<u8>>)>,
    found: BTreeMap<[u32; 2], Rival>,
}

impl Rivals {
    pub(super) fn add(&mut self, rival: Rival) {
        let examples = self.open.entry(rival.sites).or_default();
        let is_known = |known: &Rival| known.address == rival.address;
        if examples.len() < EXAMPLES && !examples.iter().any(is_known) {
            examples.push(rival);
        }
    }

    pub(super) fn add_if_it_changes(&mut self, rival: Rival, bytes: Vec<Option<u8>>) {
        self.fresh.push((rival, bytes));
    }

    /// Called after the instruction has run: if it wrote the same bytes as the other wave, the writes agree and do not
    /// race.
    pub(super) fn compare(&mut self, cells: &mut Cells, read: &mut dyn FnMut(u64) -> Option<u8>) {
        for (rival, bytes) in std::mem::take(&mut self.fresh) {
            let after = (rival.address..).map(&mut *read);
            if bytes.iter().zip(after).any(|(before, after)| *before != after) {
                self.add(rival);
            } else if rival.both_write() {
                cells.agree(rival.address);
            }
        }
    }

    /// Decides the remaining candidates with the final history of memory.
    pub(super) fn settle(&mut self, cells: &Cells) {
        for (sites, examples) in std::mem::take(&mut self.open) {
            let stands = examples.into_iter().find(|rival| rival.stands(cells));
            if let Some(rival) = stands {
                self.found.entry(sites).or_insert(rival);
            }
        }
    }

    /// Returns the races, for workgroups with this number of waves.
    pub(super) fn take(&mut self, waves: u32) -> Vec<Race> {
        let race = |Rival { address, why, sides, .. }: Rival| {
            let mut sides = sides.map(|(wave, Site { kind, origin, .. })| Side {
                kind,
                workgroup: u64::from(wave / waves),
                wave: wave % waves,
                origin,
            });
            sides.sort_by_key(|side| (side.workgroup, side.wave));
            Race { address, why, sides }
        };
        std::mem::take(&mut self.found).into_values().map(race).collect()
    }
}
