//! Races between workgroups of a launch: accesses to the same bytes of memory by waves of two of them, one of them a write and
//! one of them not atomic, with nothing that orders the two.
//!
//! What orders waves of different workgroups are synchronising accesses ([`scope`](super::scope)): a wave that writes a place by
//! one lets go of what it did before and waited for, and of what it knows; a wave that reads the place by one knows that from
//! then on, for plain reads once it has dropped the lines of its caches. So each wave has a clock of what is ordered before
//! what it does next, whichever order the workgroups are executed in. The waves of a workgroup learn of each other at
//! barriers, and by atomics on the LDS. Global wave sync orders as synchronising accesses do, once a wave has waited for it.
//!
//! Where in doubt two accesses are ordered. What is found is told when the launch ends: only then it is known which places
//! others touched by atomics.

mod cells;
mod clock;
mod meetings;
mod rivals;

use std::{collections::HashMap, ops::Range, sync::Arc};

use cells::{Cells, Part};
use clock::{Clock, Entry, Time};
use meetings::Meeting;
pub(crate) use rivals::{Race, Why};
use rivals::{Rival, Rivals};

use super::{
    access::Kind,
    scope::{Scope, Strength, caches},
    scoreboard::Origin,
};

/// What is remembered at most, in accesses of waves, entries of clocks, and cells of memory: where there is more, all is
/// forgotten, and watching begins anew.
const MOST_EVENTS: usize = 1 << 24;
const MOST_ENTRIES: usize = 1 << 24;
const MOST_CELLS: usize = 1 << 24;

/// Atomics on a place that are remembered before it is worked out what they let go of.
const MOST_SINCE: usize = 64;

/// An instruction that touches memory.
#[derive(Clone, Debug)]
struct Site {
    origin: Origin,
    kind: Kind,
    strength: Strength,
    swaps: bool,
}

impl Site {
    /// Whether two accesses without an order are a mistake.
    fn conflicts(&self, other: &Site) -> bool {
        let plain = |site: &Site| site.strength == Strength::Plain;
        let synchronising = |site: &Site| site.strength == Strength::Synchronising;
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

/// A wave executes an instruction that touches memory; the place in the list is when.
#[derive(Clone, Copy)]
struct Event {
    wave: u32,
    site: u32,
    /// What it lets go of, if it writes.
    point: u32,
}

/// What a wave lets go of when it writes a place.
#[derive(Clone)]
struct Point {
    /// Up to here what it wrote had come to memory.
    come: Time,
    /// When it last met the others of its workgroup.
    met: Time,
    heard: Arc<Clock>,
}

/// A place that atomics went to.
#[derive(Default)]
struct Place {
    /// What they let go of, but for the last ones.
    known: Arc<Clock>,
    since: Vec<Time>,
}

/// What a wave knows.
#[derive(Default)]
pub(crate) struct Worker {
    number: u32,
    /// How often all had been forgotten.
    era: u32,
    /// What its plain reads are ordered after, and its other accesses.
    known: Arc<Clock>,
    heard: Arc<Clock>,
    /// The caches that it has not dropped since it last heard something.
    stale: u8,
    met: Time,
    /// The first of its writes that stay in a cache, of those that are being written back and of those behind them.
    stays: [Option<Time>; 2],
    writes_back: bool,
    /// The last write that it heard of.
    heard_of: Time,
    last: Option<u32>,
    /// The resource of global wave sync that it has come to and not waited for yet.
    comes_to: Option<usize>,
}

/// What is remembered of a launch.
pub(crate) struct Between {
    /// Waves of a workgroup.
    waves: u32,
    caches: u8,
    era: u32,
    events: Vec<Event>,
    sites: Vec<Site>,
    by_pc: HashMap<u64, u32>,
    points: Vec<Point>,
    places: HashMap<u64, Place>,
    meetings: HashMap<usize, Meeting>,
    cells: Cells,
    /// Entries of clocks that were written down.
    entries: usize,
    rivals: Rivals,
}

/// An instruction that is about to touch memory.
pub(crate) struct Access<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) kind: Kind,
    pub(crate) scope: &'a Scope,
    /// An atomic gives back what was there.
    pub(crate) returns: bool,
    /// The first of the wave's writes that may not have come to memory.
    pub(crate) outstanding: Option<Time>,
}

impl Between {
    /// For a launch of so many workgroups of so many waves; nothing where there is but one, or more than can be told apart.
    pub(crate) fn new(arch: device::Arch, groups: u64, waves: usize) -> Option<Between> {
        let waves = u32::try_from(waves).ok().filter(|waves| *waves > 0)?;
        let all = groups.checked_mul(waves.into())?;
        (groups > 1 && u32::try_from(all).is_ok()).then(|| Between {
            waves,
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
            rivals: Rivals::default(),
        })
    }

    /// The waves of a workgroup that begins.
    pub(crate) fn workers(&self, workgroup: u64) -> Vec<Worker> {
        let first = workgroup as u32 * self.waves;
        (first..first + self.waves)
            .map(|number| Worker { number, era: self.era, ..Worker::default() })
            .collect()
    }

    /// The waves of a workgroup have met: each knows what the others did and know.
    pub(crate) fn meet(&mut self, workers: &mut [Worker]) {
        let now = self.events.len() as Time - 1;
        workers.iter_mut().for_each(|worker| self.renew(worker));
        let (mut known, mut heard) = (Arc::default(), Arc::default());
        for worker in workers.iter() {
            known = self.join(&known, &worker.known);
            heard = self.join(&heard, &worker.heard);
        }
        let stale = workers.iter().fold(0, |all, worker| all | worker.stale);
        for worker in workers {
            (worker.known, worker.heard) = (known.clone(), heard.clone());
            (worker.met, worker.stale) = (now, stale);
        }
    }

    fn join(&mut self, one: &Arc<Clock>, other: &Arc<Clock>) -> Arc<Clock> {
        let (both, made) = Clock::join(one, other);
        self.entries += made;
        both
    }

    /// The wave has dropped lines of caches, or has asked for what it wrote to be written back.
    pub(crate) fn caches(&mut self, worker: &mut Worker, scope: &Scope) {
        self.renew(worker);
        if worker.stale & scope.drops != 0 {
            worker.stale &= !scope.drops;
            if worker.stale == 0 {
                worker.known = worker.heard.clone();
            }
        }
        worker.writes_back |= scope.writes_back;
    }

    /// The wave has waited for everything that was to be written.
    pub(crate) fn waited(worker: &mut Worker) {
        if worker.writes_back {
            worker.stays = [worker.stays[1], None];
            worker.writes_back = false;
        }
    }

    /// Forgets what was before, if the wave has not heard of that yet.
    fn renew(&self, worker: &mut Worker) {
        if worker.era != self.era {
            let number = worker.number;
            *worker = Worker { number, era: self.era, ..Worker::default() };
        }
    }

    fn forget_all_where_there_is_much(&mut self) {
        let is_much = self.events.len() >= MOST_EVENTS
            || self.entries >= MOST_ENTRIES
            || self.cells.len() >= MOST_CELLS;
        if is_much {
            self.rivals.settle(&self.cells);
            self.events.truncate(1);
            (self.points, self.places) = (Vec::new(), HashMap::new());
            self.meetings.clear();
            (self.cells, self.entries) = (Cells::default(), 0);
            self.era += 1;
        }
    }

    /// Notes what an instruction is about to touch, and returns when that is. `read` gives the bytes that are there.
    pub(crate) fn touch(
        &mut self,
        worker: &mut Worker,
        access: &Access<'_>,
        ranges: impl Iterator<Item = Range<u64>>,
        read: &mut dyn FnMut(u64) -> Option<u8>,
    ) -> Time {
        self.forget_all_where_there_is_much();
        self.renew(worker);
        let now = self.events.len() as Time;
        let site = self.site(access);
        let point = if access.kind == Kind::Load { 0 } else { self.point(worker, access, now) };
        self.events.push(Event { wave: worker.number, site, point });
        let first = worker.number / self.waves * self.waves;
        let mut visit = Visit { now, site, own: first..first + self.waves, settled: 0, mine: now };
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
            sites.push(Site { origin: origin.clone(), kind, strength, swaps });
            sites.len() as u32 - 1
        })
    }

    /// What the wave lets go of if it writes now.
    fn point(&mut self, worker: &mut Worker, access: &Access<'_>, now: Time) -> u32 {
        let staying = worker.stays.iter().flatten().copied();
        let first = staying.chain(access.outstanding).min();
        let come = first.map_or(Time::MAX, |first| first - 1);
        if access.scope.stays && access.kind == Kind::Store {
            worker.stays[usize::from(worker.writes_back)].get_or_insert(now);
        }
        let is_same = |index: &u32| {
            let Point { come: before, met, heard } = &self.points[*index as usize];
            (*before, *met) == (come, worker.met) && Arc::ptr_eq(heard, &worker.heard)
        };
        worker.last.filter(is_same).unwrap_or_else(|| {
            self.points.push(Point { come, met: worker.met, heard: worker.heard.clone() });
            self.entries += 2;
            let index = self.points.len() as u32 - 1;
            worker.last = Some(index);
            index
        })
    }

    /// What the write of then let go of, entry by entry.
    fn let_go(&self, then: Time, entries: &mut Vec<Entry>) {
        let event = self.events[then as usize];
        let Point { come, met, heard } = &self.points[event.point as usize];
        entries.extend_from_slice(heard.entries());
        entries.push(Entry { wave: event.wave, made: then, come: then.min(*come) });
        if *met > 0 {
            let first = event.wave / self.waves * self.waves;
            let others = (first..first + self.waves).filter(|wave| *wave != event.wave);
            entries.extend(others.map(|wave| Entry { wave, made: *met, come: *met }));
        }
    }

    /// What was let go of at a place, by the write of then and by the atomics before it.
    fn released(&mut self, address: u64, then: Time) -> Arc<Clock> {
        let event = self.events[then as usize];
        let site = &self.sites[event.site as usize];
        let mut entries = Vec::new();
        match site.kind {
            Kind::Store if site.strength == Strength::Plain => return Arc::default(),
            Kind::Store | Kind::Load => self.let_go(then, &mut entries),
            Kind::Atomic => {
                let Some(place) = self.places.get(&address) else { return Arc::default() };
                if place.since.is_empty() {
                    return place.known.clone();
                }
                entries.extend_from_slice(place.known.entries());
                place.since.iter().for_each(|then| self.let_go(*then, &mut entries));
            }
        }
        let clock = Arc::new(Clock::new(entries));
        self.entries += clock.entries().len();
        if site_is_atomic(&self.sites, event) {
            self.places.insert(address, Place { known: clock.clone(), since: Vec::new() });
        }
        clock
    }

    /// The wave reads a place by a synchronising access.
    fn hear(&mut self, worker: &mut Worker, address: u64, then: Time) {
        if then == 0 || worker.heard_of == then {
            return;
        }
        worker.heard_of = then;
        let released = self.released(address, then);
        let heard = self.join(&worker.heard, &released);
        if !Arc::ptr_eq(&heard, &worker.heard) {
            (worker.heard, worker.stale) = (heard, self.caches);
        }
    }

    fn load(&mut self, visit: &mut Visit, worker: &mut Worker, start: u64, end: u64) -> u64 {
        let synchronises = self.sites[visit.site as usize].strength == Strength::Synchronising;
        let Between { cells, events, sites, rivals, .. } = self;
        let mut heard = Vec::new();
        let Part { start, size, cells, end } = cells.part(start, end);
        for (cell, address) in cells.iter_mut().zip((start..).step_by(size as usize)) {
            if cell.write != visit.settled {
                let look = Look { events, sites, visit, worker };
                match look.rival(cell.write) {
                    Some(why) => rivals.add(look.rivals(cell.write, address, why)),
                    None => visit.settled = cell.write,
                }
            }
            if synchronises {
                cell.synchronises = true;
                if heard.last().is_none_or(|(_, then)| *then != cell.write) {
                    heard.push((address, cell.write));
                }
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
            self.hear(worker, address, then);
        }
        end
    }

    fn store(
        &mut self,
        visit: &mut Visit,
        worker: &Worker,
        start: u64,
        end: u64,
        read: &mut dyn FnMut(u64) -> Option<u8>,
    ) -> u64 {
        let Between { cells, events, sites, rivals, places, .. } = self;
        let Part { start, size, cells, end } = cells.part(start, end);
        for (cell, address) in cells.iter_mut().zip((start..).step_by(size as usize)) {
            for then in [cell.write, cell.reads[0], cell.reads[1]] {
                if then == visit.settled {
                    continue;
                }
                let look = Look { events, sites, visit, worker };
                let Some(why) = look.rival(then) else {
                    visit.settled = then;
                    continue;
                };
                let rival = look.rivals(then, address, why);
                if then == cell.write && rival.both_write() {
                    let bytes = (address..address + size).map(&mut *read);
                    rivals.add_if_it_changes(rival, bytes.collect());
                } else {
                    rivals.add(rival);
                }
            }
            if cell.synchronises && !places.is_empty() {
                places.remove(&address);
            }
            (cell.write, cell.reads) = (visit.now, [0; 2]);
        }
        end
    }

    fn atomic(
        &mut self,
        visit: &mut Visit,
        worker: &mut Worker,
        start: u64,
        end: u64,
        returns: bool,
    ) -> u64 {
        let Between { cells, events, sites, rivals, .. } = self;
        let mut places = Vec::new();
        let Part { start, size, cells, end } = cells.part(start, end);
        for (cell, address) in cells.iter_mut().zip((start..).step_by(size as usize)) {
            for then in [cell.write, cell.reads[0], cell.reads[1]] {
                if then == visit.settled {
                    continue;
                }
                let look = Look { events, sites, visit, worker };
                match look.rival(then) {
                    Some(why) => rivals.add(look.rivals(then, address, why)),
                    None => visit.settled = then,
                }
            }
            places.push((address, cell.write));
            cell.synchronises = true;
            cell.is_swapped |= sites[visit.site as usize].swaps;
            (cell.write, cell.reads) = (visit.now, [0; 2]);
        }
        for (address, then) in places {
            if then == visit.now {
                // Another lane of the same instruction.
                continue;
            }
            if returns {
                self.hear(worker, address, then);
            }
            self.goes_to(address, then, visit.now);
        }
        end
    }

    /// An atomic goes to a place that was last written then.
    fn goes_to(&mut self, address: u64, then: Time, now: Time) {
        let goes_on = then == 0 || site_is_atomic(&self.sites, self.events[then as usize]);
        if !goes_on || self.places.get(&address).is_some_and(|place| place.since.len() > MOST_SINCE)
        {
            let known = self.released(address, then);
            self.places.insert(address, Place { known, since: Vec::new() });
        }
        let entries = &mut self.entries;
        let place = self.places.entry(address).or_insert_with(|| {
            *entries += 8;
            Place::default()
        });
        place.since.push(now);
        self.entries += 1;
    }

    /// The instruction has run: writes that left all as it was do not count.
    pub(crate) fn settle(&mut self, read: &mut dyn FnMut(u64) -> Option<u8>) {
        self.rivals.compare(read);
    }

    /// What was found.
    pub(crate) fn end(&mut self) -> Vec<Race> {
        self.rivals.settle(&self.cells);
        self.rivals.take(self.waves)
    }
}

fn site_is_atomic(sites: &[Site], event: Event) -> bool {
    sites[event.site as usize].kind == Kind::Atomic
}

/// An instruction goes through the bytes that it touches.
struct Visit {
    now: Time,
    site: u32,
    /// The waves of its workgroup.
    own: Range<u32>,
    /// An access that is known to be no rival: neighbouring bytes mostly have the same history.
    settled: Time,
    /// A read that is known to be of the same wave, or none.
    mine: Time,
}

/// What it takes to see a rival.
struct Look<'a> {
    events: &'a [Event],
    sites: &'a [Site],
    visit: &'a Visit,
    worker: &'a Worker,
}

impl Look<'_> {
    /// Whether the access of then is one that this one has no order with, and why not.
    fn rival(&self, then: Time) -> Option<Why> {
        let Look { events, sites, visit, worker } = self;
        let event = events[then as usize];
        if then == 0 || visit.own.contains(&event.wave) {
            return None;
        }
        let (before, site) = (&sites[event.site as usize], &sites[visit.site as usize]);
        let is_plain_read = site.kind == Kind::Load && site.strength == Strength::Plain;
        let clock = if is_plain_read { &worker.known } else { &worker.heard };
        let why = match clock.of(event.wave) {
            Some(known) if before.kind == Kind::Load && known.made >= then => return None,
            Some(known) if known.come >= then => return None,
            Some(known) if known.made >= then => Why::NotCome,
            _ => match worker.heard.of(event.wave) {
                Some(heard) if heard.made >= then => Why::Stale,
                _ => Why::Unordered,
            },
        };
        before.conflicts(site).then_some(why)
    }

    fn rivals(&self, then: Time, address: u64, why: Why) -> Rival {
        let Look { events, sites, visit, worker } = self;
        let event = events[then as usize];
        let side = |wave, site: u32| (wave, site, sites[site as usize].clone());
        Rival::new(address, why, side(event.wave, event.site), side(worker.number, visit.site))
    }
}
