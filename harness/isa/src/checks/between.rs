//! Race detection between the waves of a launch. Two accesses to the same bytes of memory by different waves race if at
//! least one is a write, at least one is not atomic, and no synchronisation orders them.
//!
//! Each wave has a vector clock, which contains the accesses that happen before the next access of the wave. The order
//! in which workgroups are executed does not affect the clocks.
//!
//! Waves synchronise by accesses with a scope ([`scope`](super::scope)). A wave that writes a location with such an
//! access releases: it publishes its completed accesses and its clock. A wave that reads the location with such an
//! access acquires that clock. The acquired clock orders later plain reads only once the wave has invalidated its
//! caches. Waves of a workgroup also synchronise at barriers and by atomics on the LDS. A wave that has waited for
//! global wave sync acquires too, as if it had read a location with a synchronising access.
//!
//! The waves of a workgroup share a compute unit and its caches, so acquired writes of the same workgroup are complete
//! and visible. A workgroup on RDNA may use two units (WGP mode), which have separate caches. Then waves must wait for
//! their writes and invalidate caches within the workgroup too. A read in a spin loop ([`polls`](super::polls))
//! acquires from a wave of its workgroup, whatever its cache bits are.
//!
//! If it is uncertain whether two accesses are ordered, they are treated as ordered. Races are reported at the end of
//! the launch, because only then all locations that atomics accessed are known.

mod cells;
pub(crate) mod clock;
mod meetings;
mod order;
mod own;
mod rivals;

use std::{cell::OnceCell, collections::HashMap, ops::Range, sync::Arc};

use cells::{Cells, PageRange};
use clock::{Clock, Entry, Time};
use meetings::SyncResource;
use order::{CheckedAccess, Order, OrderCheck};
pub use rivals::{Race, RaceReason};
use rivals::{SuspectedRace, SuspectedRaces};

use super::{
    access::Kind,
    scope::{NEAR, Scope, Strength, caches},
    scoreboard::Origin,
};

/// Number of recorded accesses at which the race detector discards its state and starts again.
const MAX_EVENTS: usize = 1 << 24;
/// Number of entries in all clocks at which the race detector discards its state and starts again.
const MAX_CLOCK_ENTRIES: usize = 1 << 24;
/// Number of tracked memory cells at which the race detector discards its state and starts again.
const MAX_CELLS: usize = 1 << 24;

/// Number of atomics on a location after which the clocks that they released are merged into one clock.
const MAX_UNMERGED: usize = 64;

#[derive(Clone, Debug)]
struct Site {
    origin: Origin,
    kind: Kind,
    strength: Strength,
    swaps: bool,
    /// True if the instruction is the read of a spin loop. Computed when it is first needed.
    waits: OnceCell<bool>,
}

impl Site {
    /// Returns true if accesses by these two instructions are a race unless synchronisation orders them. `is_own` is
    /// true if the waves belong to one workgroup.
    fn conflicts(&self, other: &Site, is_own: bool) -> bool {
        let plain = |site: &Site| site.strength.to(is_own) == Strength::Plain;
        let synchronising = |site: &Site| site.strength.to(is_own) == Strength::Synchronising;
        match (self.kind, other.kind) {
            (Kind::Load, Kind::Load) | (Kind::Atomic, Kind::Atomic) => false,
            (Kind::Atomic, _) => plain(other),
            (_, Kind::Atomic) => plain(self),
            (Kind::Load, Kind::Store) => plain(self) || plain(other),
            (Kind::Store, Kind::Load) => plain(self) || plain(other),
            (Kind::Store, Kind::Store) => !(synchronising(self) && synchronising(other)),
        }
    }
}

impl Site {
    fn waits(&self, look: &dyn Fn(u64) -> bool) -> bool {
        self.kind == Kind::Load && *self.waits.get_or_init(|| look(self.origin.pc))
    }
}

/// One execution of a memory instruction by a wave. The index of the event in the list of all events is used as its
/// time.
#[derive(Clone, Copy)]
struct Event {
    wave: u32,
    site: u32,
    /// Index of the [`ReleasedState`] that a wave learns when it acquires from this event. Has no meaning for a read.
    point: u32,
}

/// State of a wave at the time of one of its writes. A wave that acquires from this write learns this state.
#[derive(Clone)]
struct ReleasedState {
    /// Time up to which all writes of the wave have reached memory.
    come: Time,
    met: Time,
    heard: Arc<Clock>,
}

#[derive(Default)]
struct SyncLocation {
    /// Vector clock that the atomics on this location have released. The atomics in `since` are not included yet.
    known: Arc<Clock>,
    since: Vec<Time>,
}

#[derive(Default)]
pub(crate) struct WaveOrder {
    number: u32,
    /// Value of [`MemoryRaceDetector::era`] when the wave last accessed memory. If it has changed since, all state of
    /// the race detection has been dropped.
    era: u32,
    /// Vector clock that orders the plain reads of the wave after accesses by other workgroups.
    known: Arc<Clock>,
    /// Vector clock that orders the wave's accesses in all other cases. If the waves of a workgroup may have separate
    /// caches, `near` takes its place for plain reads and the accesses of the own workgroup.
    heard: Arc<Clock>,
    /// Caches that the wave has not invalidated since it last acquired, as a bit mask.
    stale: u8,
    met: Time,
    /// For each wave of the workgroup, the first of its writes that had not reached memory at the last barrier.
    not_come: Arc<[Time]>,
    /// State at the wave's last invalidation of its nearest cache: the time of the last barrier before the invalidation
    /// (`fresh`), and the vector clock that the wave had acquired by then (`near`).
    fresh: Time,
    near: Arc<Clock>,
    /// Times of two writes whose data may still be in a cache: the first write that has not been written back yet, and,
    /// while a write-back is in progress, the first write after the write-back was requested.
    stays_cached: [Option<Time>; 2],
    writes_back: bool,
    /// Time and address of the last write from which the wave acquired.
    heard_of: (Time, u64),
    last: Option<u32>,
    /// Global-wave-sync resource at which the wave has arrived; `None` again when the wave has waited for the counter
    /// of the instruction.
    comes_to: Option<usize>,
}

/// State of the race detection in memory, for one launch.
pub struct MemoryRaceDetector {
    waves: u32,
    /// True if the waves of a workgroup may run on compute units with separate caches.
    apart: bool,
    caches: u8,
    era: u32,
    events: Vec<Event>,
    sites: Vec<Site>,
    by_pc: HashMap<u64, u32>,
    points: Vec<ReleasedState>,
    places: HashMap<u64, SyncLocation>,
    meetings: HashMap<usize, SyncResource>,
    cells: Cells,
    entries: usize,
    rivals: SuspectedRaces,
    /// Waves of the accessing wave's own workgroup from which the last access acquired. The numbers are those within
    /// the workgroup.
    heard_own: Vec<u32>,
}

pub(crate) struct Access<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) kind: Kind,
    pub(crate) scope: &'a Scope,
    /// True for an atomic that returns the old value.
    pub(crate) returns: bool,
    /// First write of the wave that may not have reached memory yet; `None` if all writes have.
    pub(crate) outstanding: Option<Time>,
}

impl MemoryRaceDetector {
    /// Creates the state for `groups` workgroups of `waves` waves. Returns `None` if the launch has a single wave, or
    /// so many that 32 bits cannot number them. `apart` is true if the waves of a workgroup may run on compute units
    /// with separate caches.
    pub fn new(
        arch: device::Arch,
        apart: bool,
        groups: u64,
        waves: usize,
    ) -> Option<MemoryRaceDetector> {
        let waves = u32::try_from(waves).ok().filter(|waves| *waves > 0)?;
        let all = groups.checked_mul(waves.into())?;
        (all > 1 && u32::try_from(all).is_ok()).then(|| MemoryRaceDetector {
            waves,
            apart,
            caches: caches(arch),
            era: 0,
            events: vec![Event { wave: u32::MAX, site: 0, point: 0 }],
            sites: Vec::new(),
            by_pc: HashMap::new(),
            points: Vec::new(),
            places: HashMap::new(),
            meetings: HashMap::new(),
            cells: Cells::default(),
            entries: 0,
            rivals: SuspectedRaces::default(),
            heard_own: Vec::new(),
        })
    }

    pub(crate) fn workers(&self, workgroup: u64) -> Vec<WaveOrder> {
        let first = workgroup as u32 * self.waves;
        (first..first + self.waves)
            .map(|number| WaveOrder { number, era: self.era, ..WaveOrder::default() })
            .collect()
    }

    pub(crate) fn now(&self) -> Time {
        self.events.len() as Time - 1
    }

    fn join(&mut self, one: &Arc<Clock>, other: &Arc<Clock>) -> Arc<Clock> {
        let (both, made) = Clock::join(one, other);
        self.entries += made;
        both
    }

    /// Records which caches an instruction of the wave invalidates, and whether the instruction requests a write-back.
    pub(crate) fn caches(&mut self, worker: &mut WaveOrder, scope: &Scope) {
        self.renew(worker);
        if scope.invalidated_caches & NEAR != 0 {
            (worker.fresh, worker.near) = (worker.met, worker.heard.clone());
        }
        if worker.stale & scope.invalidated_caches != 0 {
            worker.stale &= !scope.invalidated_caches;
            if worker.stale == 0 {
                worker.known = worker.heard.clone();
            }
        }
        worker.writes_back |= scope.writes_back;
    }

    /// Records that the wave has waited for all its writes. If the wave requested a write-back before, the write-back
    /// has completed too.
    pub(crate) fn waited(worker: &mut WaveOrder) {
        if worker.writes_back {
            worker.stays_cached = [worker.stays_cached[1], None];
            worker.writes_back = false;
        }
    }

    /// Resets the state of a wave if all state has been dropped since its last access.
    fn renew(&self, worker: &mut WaveOrder) {
        if worker.era != self.era {
            let number = worker.number;
            *worker = WaveOrder { number, era: self.era, ..WaveOrder::default() };
        }
    }

    fn drop_large_state(&mut self) {
        let is_much = self.events.len() >= MAX_EVENTS
            || self.entries >= MAX_CLOCK_ENTRIES
            || self.cells.len() >= MAX_CELLS;
        if is_much {
            self.rivals.settle(&self.cells);
            self.events.truncate(1);
            (self.points, self.places) = (Vec::new(), HashMap::new());
            self.meetings.clear();
            (self.cells, self.entries) = (Cells::default(), 0);
            self.era += 1;
        }
    }

    /// Records the accesses of an instruction and returns their time. `read` returns the current byte at an address.
    /// `waits` returns true if the instruction at a code address is the read of a spin loop.
    pub(crate) fn touch(
        &mut self,
        worker: &mut WaveOrder,
        access: &Access<'_>,
        ranges: impl Iterator<Item = Range<u64>>,
        read: &mut dyn FnMut(u64) -> Option<u8>,
        waits: &dyn Fn(u64) -> bool,
    ) -> Time {
        self.drop_large_state();
        self.renew(worker);
        let now = self.events.len() as Time;
        let site = self.site(access);
        let point = if access.kind == Kind::Load { 0 } else { self.point(worker, access, now) };
        self.events.push(Event { wave: worker.number, site, point });
        let first = worker.number / self.waves * self.waves;
        let own = first..first + self.waves;
        let mut visit = CheckedAccess { now, site, own, settled: 0, mine: now, waits };
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                start = match access.kind {
                    Kind::Load => self.load(&mut visit, worker, start, range.end),
                    Kind::Store => self.store(&mut visit, worker, start, range.end, read),
                    Kind::Atomic => {
                        self.atomic(&mut visit, worker, start, range.end, access.returns)
                    }
                };
            }
        }
        now
    }

    fn site(&mut self, access: &Access<'_>) -> u32 {
        let (sites, origin) = (&mut self.sites, access.origin);
        *self.by_pc.entry(origin.pc).or_insert_with(|| {
            let strength = match access.kind {
                Kind::Load => access.scope.load,
                Kind::Store => access.scope.store,
                Kind::Atomic => Strength::Synchronising,
            };
            let (kind, swaps) = (access.kind, access.scope.swaps);
            let waits = OnceCell::new();
            sites.push(Site { origin: origin.clone(), kind, strength, swaps, waits });
            sites.len() as u32 - 1
        })
    }

    /// Returns the index of the [`ReleasedState`] for a write of the wave at time `now`. Adds a [`ReleasedState`]
    /// unless the state of the wave is the same as at its previous write. If the written data stays in a cache, also
    /// records `now` in [`WaveOrder::stays_cached`].
    fn point(&mut self, worker: &mut WaveOrder, access: &Access<'_>, now: Time) -> u32 {
        let staying = worker.stays_cached.iter().flatten().copied();
        let first = staying.chain(access.outstanding).min();
        let come = first.map_or(Time::MAX, |first| first - 1);
        if access.scope.stays_cached && access.kind == Kind::Store {
            worker.stays_cached[usize::from(worker.writes_back)].get_or_insert(now);
        }
        let is_same = |index: &u32| {
            let ReleasedState { come: before, met, heard } = &self.points[*index as usize];
            (*before, *met) == (come, worker.met) && Arc::ptr_eq(heard, &worker.heard)
        };
        worker.last.filter(is_same).unwrap_or_else(|| {
            self.points.push(ReleasedState { come, met: worker.met, heard: worker.heard.clone() });
            self.entries += 2;
            let index = self.points.len() as u32 - 1;
            worker.last = Some(index);
            index
        })
    }

    /// Appends to `entries` the clock entries that a wave receives if it acquires from the write at time `then`.
    fn append_released_entries(&self, then: Time, entries: &mut Vec<Entry>) {
        let event = self.events[then as usize];
        let ReleasedState { come, met, heard } = &self.points[event.point as usize];
        entries.extend_from_slice(heard.entries());
        entries.push(Entry { wave: event.wave, made: then, come: then.min(*come) });
        if *met > 0 {
            let first = event.wave / self.waves * self.waves;
            let others = (first..first + self.waves).filter(|wave| *wave != event.wave);
            entries.extend(others.map(|wave| Entry { wave, made: *met, come: *met }));
        }
    }

    /// Returns the vector clock that a wave acquires from the write at time `then` at a location. If the write is an
    /// atomic, the clock includes what the preceding atomics released there. `is_own` is true if the acquiring wave
    /// belongs to the same workgroup.
    fn released(&mut self, address: u64, then: Time, is_own: bool) -> Arc<Clock> {
        let event = self.events[then as usize];
        let site = &self.sites[event.site as usize];
        let mut entries = Vec::new();
        match site.kind {
            Kind::Store if !is_own && site.strength.to(false) == Strength::Plain => {
                return Arc::default();
            }
            Kind::Store | Kind::Load => self.append_released_entries(then, &mut entries),
            Kind::Atomic => {
                let Some(place) = self.places.get(&address) else { return Arc::default() };
                if place.since.is_empty() {
                    return place.known.clone();
                }
                entries.extend_from_slice(place.known.entries());
                place
                    .since
                    .iter()
                    .for_each(|then| self.append_released_entries(*then, &mut entries));
            }
        }
        let clock = Arc::new(Clock::new(entries));
        self.entries += clock.entries().len();
        if site_is_atomic(&self.sites, event) {
            self.places.insert(address, SyncLocation { known: clock.clone(), since: Vec::new() });
        }
        clock
    }

    /// Makes the wave acquire from the write at time `then`. Called when the wave has read the location with a
    /// synchronising access, or waits in a spin loop for a wave of its workgroup.
    fn acquire(
        &mut self,
        visit: &CheckedAccess<'_>,
        worker: &mut WaveOrder,
        address: u64,
        then: Time,
    ) {
        let event = self.events[then as usize];
        // One atomic instruction may access several locations, each with its own released clock.
        let is_same = (worker.heard_of.0 == then)
            && (worker.heard_of.1 == address || !site_is_atomic(&self.sites, event));
        if then == 0 || is_same {
            return;
        }
        worker.heard_of = (then, address);
        let is_own = visit.own.contains(&event.wave);
        let mut released = self.released(address, then, is_own);
        let of_own = |entry: &&Entry| visit.own.contains(&entry.wave);
        let others = released.entries().iter().filter(of_own).map(|e| e.wave - visit.own.start);
        self.heard_own.extend(others);
        if is_own && !self.apart {
            // Writes of waves on the same compute unit are visible to all waves of the workgroup.
            let come = |e: &Entry| Entry { come: if of_own(&e) { e.made } else { e.come }, ..*e };
            released = Arc::new(Clock::new(released.entries().iter().map(come).collect()));
        }
        let heard = self.join(&worker.heard, &released);
        if !Arc::ptr_eq(&heard, &worker.heard) {
            (worker.heard, worker.stale) = (heard, self.caches);
        }
    }

    /// Removes and returns the waves of the same workgroup from which the last access acquired.
    pub(crate) fn take_acquired(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.heard_own)
    }

    fn load(
        &mut self,
        visit: &mut CheckedAccess<'_>,
        worker: &mut WaveOrder,
        start: u64,
        end: u64,
    ) -> u64 {
        let strength = self.sites[visit.site as usize].strength;
        let MemoryRaceDetector { cells, events, sites, rivals, apart, .. } = self;
        let mut heard = Vec::new();
        let PageRange { start, size, cells, end } = cells.part(start, end);
        for (cell, address) in cells.iter_mut().zip((start..).step_by(size as usize)) {
            if cell.write != visit.settled {
                let look = OrderCheck { events, sites, visit, worker, apart: *apart };
                match look.order(cell.write) {
                    // Two waves have written the same value, so the read returns the same value in either order.
                    Order::Not(_) if cell.wrote_same_value && look.is_own(cell.write) => {}
                    Order::Not(why) => rivals.add(look.rival(cell.write, address, why)),
                    Order::Waits => heard.push((address, cell.write)),
                    Order::Before => visit.settled = cell.write,
                }
            }
            let is_own = visit.own.contains(&events[cell.write as usize].wave);
            cell.synchronises |= matches!(strength, Strength::Workgroup | Strength::Synchronising);
            if strength.to(is_own) == Strength::Synchronising {
                heard.push((address, cell.write));
            }
            let [first, second] = &mut cell.reads;
            let mine = *first == 0
                || *first == visit.mine
                || events[*first as usize].wave == worker.number;
            if mine {
                visit.mine = *first;
                *first = visit.now;
            } else {
                *second = visit.now;
            }
        }
        for (address, then) in heard {
            self.acquire(visit, worker, address, then);
        }
        end
    }

    fn store(
        &mut self,
        visit: &mut CheckedAccess<'_>,
        worker: &WaveOrder,
        start: u64,
        end: u64,
        read: &mut dyn FnMut(u64) -> Option<u8>,
    ) -> u64 {
        let MemoryRaceDetector { cells, events, sites, rivals, places, apart, .. } = self;
        let PageRange { start, size, cells, end } = cells.part(start, end);
        for (cell, address) in cells.iter_mut().zip((start..).step_by(size as usize)) {
            for then in [cell.write, cell.reads[0], cell.reads[1]] {
                if then == visit.settled {
                    continue;
                }
                let look = OrderCheck { events, sites, visit, worker, apart: *apart };
                match look.order(then) {
                    Order::Not(why) => {
                        let bytes = (address..address + size).map(&mut *read);
                        let rival = look.rival(then, address, why);
                        rivals.add_unless_unchanged(rival, bytes.collect());
                    }
                    Order::Waits => {}
                    Order::Before => visit.settled = then,
                }
            }
            if cell.synchronises && !places.is_empty() {
                places.remove(&address);
            }
            (cell.write, cell.reads, cell.wrote_same_value) = (visit.now, [0; 2], false);
        }
        end
    }

    fn atomic(
        &mut self,
        visit: &mut CheckedAccess<'_>,
        worker: &mut WaveOrder,
        start: u64,
        end: u64,
        returns: bool,
    ) -> u64 {
        let MemoryRaceDetector { cells, events, sites, rivals, apart, .. } = self;
        let mut places = Vec::new();
        let PageRange { start, size, cells, end } = cells.part(start, end);
        for (cell, address) in cells.iter_mut().zip((start..).step_by(size as usize)) {
            for then in [cell.write, cell.reads[0], cell.reads[1]] {
                if then == visit.settled {
                    continue;
                }
                let look = OrderCheck { events, sites, visit, worker, apart: *apart };
                match look.order(then) {
                    Order::Not(why) => rivals.add(look.rival(then, address, why)),
                    Order::Waits => {}
                    Order::Before => visit.settled = then,
                }
            }
            places.push((address, cell.write));
            cell.synchronises = true;
            cell.is_swapped |= sites[visit.site as usize].swaps;
            (cell.write, cell.reads, cell.wrote_same_value) = (visit.now, [0; 2], false);
        }
        for (address, then) in places {
            if then == visit.now {
                // Another lane of this instruction has accessed the same location.
                continue;
            }
            if returns {
                self.acquire(visit, worker, address, then);
            }
            self.record_atomic(address, then, visit.now);
        }
        end
    }

    /// Records that an atomic at time `now` accessed the location at `address`. `then` is the time of the last write to
    /// the location.
    fn record_atomic(&mut self, address: u64, then: Time, now: Time) {
        let goes_on = then == 0 || site_is_atomic(&self.sites, self.events[then as usize]);
        if !goes_on
            || self.places.get(&address).is_some_and(|place| place.since.len() > MAX_UNMERGED)
        {
            let known = self.released(address, then, false);
            self.places.insert(address, SyncLocation { known, since: Vec::new() });
        }
        let entries = &mut self.entries;
        let place = self.places.entry(address).or_insert_with(|| {
            *entries += 8;
            SyncLocation::default()
        });
        place.since.push(now);
        self.entries += 1;
    }

    /// Drops suspected races with a write that did not change any byte. Called after the instruction has run.
    pub(crate) fn settle(&mut self, read: &mut dyn FnMut(u64) -> Option<u8>) {
        self.rivals.compare(&mut self.cells, read);
    }

    /// Returns all races that the checks have found in the launch.
    pub fn end(&mut self) -> Vec<Race> {
        self.rivals.settle(&self.cells);
        self.rivals.take(self.waves)
    }
}

fn site_is_atomic(sites: &[Site], event: Event) -> bool {
    sites[event.site as usize].kind == Kind::Atomic
}
