//! Suspected races: unordered accesses for which it is decided at the end of the launch whether they are races. Only
//! then all accesses to the location are known.

use std::collections::BTreeMap;

use super::{Cells, Kind, Origin, Site, Strength};

/// Reason why two accesses race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceReason {
    /// No synchronisation orders the two accesses.
    Unordered,
    /// The second wave acquired from the first one. But the first wave had released before its earlier write reached
    /// memory.
    NotArrived,
    /// The second wave acquired from the first one, but did not invalidate its caches afterwards.
    Stale,
}

/// One of two racing accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RacingAccess {
    pub(crate) kind: Kind,
    pub(crate) workgroup: u64,
    pub(crate) wave: u32,
    pub origin: Origin,
}

/// A race. `sides[0]` is the access of the workgroup with the lower number. Within one workgroup, it is the access of
/// the wave with the lower number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    pub(crate) address: u64,
    /// Reason why the accesses race.
    pub why: RaceReason,
    /// The two racing accesses.
    pub sides: [RacingAccess; 2],
}

/// Two accesses that may race, in the order of execution.
#[derive(Clone)]
pub(super) struct SuspectedRace {
    address: u64,
    why: RaceReason,
    sides: [(u32, Site); 2],
    sites: [u32; 2],
}

impl SuspectedRace {
    pub(super) fn new(
        address: u64,
        why: RaceReason,
        (before, first_site, first): (u32, u32, Site),
        (now, second_site, second): (u32, u32, Site),
    ) -> SuspectedRace {
        let sites = [first_site.min(second_site), first_site.max(second_site)];
        SuspectedRace { address, why, sides: [(before, first), (now, second)], sites }
    }

    fn both_write(&self) -> bool {
        self.sides.iter().all(|(_, site)| site.kind == Kind::Store)
    }

    /// Returns true if all accesses to the location confirm that the suspected race is a race.
    fn is_confirmed(&self, cells: &Cells) -> bool {
        let cell = cells.at(self.address);
        let has = |kind| self.sides.iter().any(|(_, site)| site.kind == kind);
        // A compare-and-swap loop starts with a plain read. Compilers emit such loops for atomics that the architecture
        // does not support.
        if has(Kind::Load) && cell.is_swapped {
            return false;
        }
        // If it is unknown whether two stores are atomic, they are assumed to be atomic if another access to the
        // location synchronises.
        let unsaid = |(_, site): &(u32, Site)| site.strength == Strength::Unknown;
        !(self.both_write() && self.sides.iter().all(unsaid) && cell.synchronises)
    }
}

/// Maximum number of suspected races that are kept for one pair of instructions.
const EXAMPLES: usize = 16;

#[derive(Default)]
pub(super) struct SuspectedRaces {
    open: BTreeMap<[u32; 2], Vec<SuspectedRace>>,
    /// Suspected races with the write that is being executed, each with the old bytes at its address.
    fresh: Vec<(SuspectedRace, Vec<Option<u8>>)>,
    found: BTreeMap<[u32; 2], SuspectedRace>,
}

impl SuspectedRaces {
    pub(super) fn add(&mut self, rival: SuspectedRace) {
        let examples = self.open.entry(rival.sites).or_default();
        let is_known = |known: &SuspectedRace| known.address == rival.address;
        if examples.len() < EXAMPLES && !examples.iter().any(is_known) {
            examples.push(rival);
        }
    }

    pub(super) fn add_unless_unchanged(&mut self, rival: SuspectedRace, bytes: Vec<Option<u8>>) {
        self.fresh.push((rival, bytes));
    }

    /// Drops suspected races if the write did not change the bytes. If another wave wrote the same bytes, the two
    /// writes agree and do not race. Called after the instruction has run.
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

    /// Decides which of the remaining suspected races are races. Called when all accesses are known.
    pub(super) fn settle(&mut self, cells: &Cells) {
        for (sites, examples) in std::mem::take(&mut self.open) {
            let stands = examples.into_iter().find(|rival| rival.is_confirmed(cells));
            if let Some(rival) = stands {
                self.found.entry(sites).or_insert(rival);
            }
        }
    }

    pub(super) fn take(&mut self, waves: u32) -> Vec<Race> {
        let race = |SuspectedRace { address, why, sides, .. }: SuspectedRace| {
            let mut sides = sides.map(|(wave, Site { kind, origin, .. })| RacingAccess {
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
