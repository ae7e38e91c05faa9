//! Race detection in the LDS: finds accesses of several waves of a workgroup to the same bytes without synchronisation.
//!
//! Two accesses of different waves conflict if one is a write, or if one is an atomic and the other a read. Conflicts
//! are detected for each byte. A write that does not change the value, for example of a shared flag, does not conflict
//! with a write of another wave. Two atomics do not conflict either.
//!
//! Barriers order waves. Atomics and spin loops do too, as in the memory model of C++ and HIP. A wave that changes a
//! location with an atomic releases its earlier accesses. Another wave acquires them if its atomic gets the old value,
//! or if it waits in a spin loop ([`polls`](super::polls)). LDS accesses of all waves have one order (LLVM's AMDGPU
//! usage guide), so no further synchronisation is needed. The atomic itself is not ordered with accesses that it
//! conflicts with: the waves could have arrived in the other order.
//!
//! LDS instructions do not distinguish atomic reads and writes from plain ones. A conflict of an access that may be
//! atomic is reported at the end of the launch, unless the code has shown by then that the access is atomic:
//!
//! * A spin-loop read is atomic or volatile, and so is the write that ends the loop. Such a write either has ended a
//!   spin loop in this launch, or directly follows a wait for all LDS accesses of its wave. In the latter case, any
//!   read whose value decides whether a loop continues is assumed to wait for the write.
//! * A read is allowed if its value decides about a later atomic of the same wave on the same location.
//!   Compare-and-swap loops start with such a read.
//! * A write that conflicts with a swapping atomic is allowed if the old value influences a branch or a change of the
//!   LDS in the atomic's wave, and the writing wave has swapped at this location before. This is how a wave unlocks a
//!   lock that another wave tries to take.
//!
//! A barrier orders only completed accesses. If a wave does not wait for its write before a barrier, the write may
//! arrive after another wave's read. A wave must also wait for its loads from memory to the LDS, because such loads may
//! arrive even after later writes.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

pub(crate) mod bytes;

use bytes::{Byte, Bytes, Touch, WaveView};

use super::{CheckError, access::Kind, polls::ReadUse};

/// One of two racing accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub(crate) wave: u32,
    /// Kind of the access.
    pub kind: Kind,
    /// Address of the instruction.
    pub pc: u64,
    /// Text of the instruction.
    pub text: Arc<str>,
}

/// Number of an LDS instruction, in the order of execution. The number 0 means that no instruction has made the access.
type Time = u32;

/// Vector clock of a wave: for each wave, the last of its accesses that happens before the next access of the clock's
/// owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(pub Vec<ClockEntry>);

/// Entry of a [`Clock`] for one wave: the last LDS access and the last memory access of that wave that happen before
/// the next access of the clock's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockEntry {
    /// Number of the last LDS instruction.
    pub here: Time,
    /// Number of the last memory access. Memory accesses are counted over all waves of the launch.
    pub in_memory: Time,
}

/// The access that is being recorded, and the wave that makes it.
#[derive(Clone, Copy)]
pub struct CurrentAccess {
    /// Kind of the access that is being recorded.
    pub kind: Kind,
    /// Number of the wave in the workgroup.
    pub wave: u32,
    /// Address of the instruction.
    pub pc: u64,
    /// Position of the access among the LDS accesses of the wave, or among the wave's loads from memory to the LDS.
    pub number: AccessPosition,
    /// Accesses of this wave that have already completed.
    pub come: CompletedCounts,
    /// True for an atomic that returns the old value.
    pub returns: bool,
    /// True for an atomic that replaces the value: the written value does not depend on the old one.
    pub swaps: bool,
    /// True if the wave has just waited for all of its LDS accesses. Only a write after such a wait can release.
    pub may_release: bool,
}

/// Numbers of LDS accesses and of loads from memory to the LDS that a wave has completed. Accesses of each kind
/// complete in order. Accesses of different kinds may complete in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletedCounts {
    /// Number of completed LDS accesses.
    pub local: u32,
    /// Number of completed loads from memory to the LDS.
    pub moved: u32,
}

/// Position of an access among the LDS accesses of a wave, or among its loads from memory to the LDS, counted from 1.
/// An access with position 0 is always complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessPosition(u32);

impl AccessPosition {
    const MOVED: u32 = 1 << 31;

    /// Returns the position of the last LDS access among the accesses `made`.
    pub fn local(made: CompletedCounts) -> AccessPosition {
        AccessPosition(made.local)
    }

    /// Returns the position of the last load from memory to the LDS among the accesses `made`.
    pub fn moved(made: CompletedCounts) -> AccessPosition {
        AccessPosition(made.moved | AccessPosition::MOVED)
    }

    /// Returns true for a load from memory to the LDS.
    pub fn is_moved(self) -> bool {
        self.0 & AccessPosition::MOVED != 0
    }

    /// Returns true if the access is one of the completed accesses `come`.
    pub fn has_completed(self, come: CompletedCounts) -> bool {
        match self.is_moved() {
            true => self.0 & !AccessPosition::MOVED <= come.moved,
            false => self.0 <= come.local,
        }
    }
}

/// Two conflicting accesses. They are reported as a race unless the launch shows that their excuse is true.
struct SuspectedConflict {
    excuse: RaceExcuse,
    found: CheckError,
}

/// Reason why a conflict may be legal, with the address of the instruction on which the reason depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RaceExcuse {
    /// The value of the read at this code address decides about a later atomic.
    Guards(u64),
    /// The write at this code address ended a spin loop.
    Releases(u64),
}

/// State of the race detection in the LDS of a workgroup.
#[derive(Default)]
pub struct Races {
    /// Last accesses to each byte.
    pub bytes: Bytes,
    now: Time,
    /// Number of memory accesses that all waves of the launch have made so far.
    in_memory: Time,
    /// Time at which the workgroup started (`begun`), and time of its last barrier (`met`).
    begun: Time,
    met: Time,
    clocks: Vec<Clock>,
    /// For each dword, the vector clock that atomics on it have released since the last barrier.
    places: HashMap<u64, Clock>,
    /// For each wave, the accesses that had certainly completed at the last barrier or acquire.
    come: Vec<CompletedCounts>,
    texts: HashMap<u64, Arc<str>>,
    looks: HashMap<u64, ReadUse>,
    /// Code addresses of swapping atomics that return the old value (`swapping`), and of writes that may release
    /// (`letting_go`).
    swapping: HashSet<u64>,
    letting_go: HashSet<u64>,
    /// For each dword and wave of this workgroup, the time at which the wave first executed a swapping atomic on the
    /// dword.
    taken: HashMap<(u64, u32), Time>,
    /// Pairs of instructions, by their addresses, whose conflict has been recorded. The value is true if the conflict
    /// cannot be excused.
    reported: HashMap<[u64; 2], bool>,
    suspects: Vec<SuspectedConflict>,
    excused: HashSet<RaceExcuse>,
    /// For each wave in a spin loop, the address of the spin-loop read, and the address of the instruction that wrote
    /// the value that the wave read last. `None` for the other waves.
    waiting: Vec<Option<(u64, u64)>>,
    /// Accesses of other waves for which the current access waits in a spin loop, each with its offset in the LDS.
    waits_for: Vec<(u64, Kind, Touch)>,
    /// Wave that has acquired from another wave through the LDS since the last call of `take_acquired`.
    acquired: Option<u32>,
}

type Look<'a> = &'a mut dyn FnMut(u64) -> ReadUse;

impl Clock {
    fn knows(&self, touch: &Touch) -> bool {
        self.0.get(touch.wave as usize).is_some_and(|last| touch.time <= last.here)
    }

    /// Adds the entries of another clock to this one. Returns true if that changed this clock.
    fn join(&mut self, other: &Clock) -> bool {
        self.0.resize(self.0.len().max(other.0.len()), ClockEntry::default());
        let mut is_news = false;
        for (known, more) in self.0.iter_mut().zip(&other.0) {
            is_news |= known.knows(*more);
        }
        is_news
    }
}

impl ClockEntry {
    /// Replaces each of the two times by the time in `more` if that is later. Returns true if the entry has changed.
    fn knows(&mut self, more: ClockEntry) -> bool {
        let before = *self;
        self.here = self.here.max(more.here);
        self.in_memory = self.in_memory.max(more.in_memory);
        *self != before
    }
}

impl Races {
    /// Prepares the state for a workgroup of `waves` waves.
    pub fn begin(&mut self, waves: usize) {
        // The time restarts at 0 long before it could overflow.
        if self.now > Time::MAX / 2 {
            (self.now, self.bytes) = (0, Bytes::default());
        }
        self.now += 1;
        self.begun = self.now;
        self.taken.clear();
        self.clocks.resize_with(waves, Clock::default);
        self.meet();
        self.waiting.resize(waves, None);
    }

    /// Orders all accesses so far before all later ones, as a barrier does.
    fn meet(&mut self) {
        self.met = self.now;
        self.places.clear();
        (0..self.waiting.len()).for_each(|wave| self.end_wait(wave));
        let waves = self.clocks.len();
        for clock in &mut self.clocks {
            clock.0.clear();
            clock.0.resize(waves, ClockEntry { here: self.now, in_memory: 0 });
        }
    }

    /// Records a barrier. `come` contains, for each wave, the accesses that are certain to have completed.
    pub fn barrier(&mut self, come: impl Iterator<Item = CompletedCounts>) {
        self.meet();
        self.come.clear();
        self.come.extend(come);
    }

    /// Updates, for each wave, the accesses that have completed. Called when a wave has acquired from another one,
    /// which orders these accesses without a barrier.
    pub(crate) fn update_completed(&mut self, come: impl Iterator<Item = CompletedCounts>) {
        for (known, now) in self.come.iter_mut().zip(come) {
            known.local = known.local.max(now.local);
            known.moved = known.moved.max(now.moved);
        }
    }

    /// Records that `wave` acquired from the wave `of` through memory, which orders the earlier LDS accesses of `of`
    /// too. The times of memory accesses stay unchanged, because the race detection in memory has clocks of its own.
    pub fn record_acquire(&mut self, wave: usize, of: usize) {
        let mut heard = self.clocks[of].clone();
        heard.0.iter_mut().for_each(|known| known.in_memory = 0);
        heard.0.resize(self.clocks.len(), ClockEntry::default());
        heard.0[of].here = self.now;
        self.clocks[wave].join(&heard);
    }

    /// Advances the time, and records the text of an LDS instruction that is about to run and the number of memory
    /// accesses before it.
    pub fn runs(&mut self, pc: u64, text: &Arc<str>, in_memory: Time) {
        self.now += 1;
        self.in_memory = in_memory;
        self.texts.entry(pc).or_insert_with(|| text.clone());
    }

    /// Returns those suspected races of all workgroups that have no excuse at the end of the launch.
    pub fn end(all: Vec<&mut Races>) -> Vec<CheckError> {
        let mut all = all;
        all.iter_mut().for_each(|races| races.meet());
        let excused: HashSet<RaceExcuse> =
            all.iter().flat_map(|races| &races.excused).copied().collect();
        let suspects = all.into_iter().flat_map(|races| races.suspects.drain(..));
        let races = suspects.filter(|suspect| !excused.contains(&suspect.excuse));
        races.map(|suspect| suspect.found).collect()
    }

    fn end_wait(&mut self, wave: usize) {
        if let Some((_, by)) = self.waiting[wave].take() {
            self.excused.insert(RaceExcuse::Releases(by));
        }
    }

    /// Records the access `by` to the bytes from `offset` on, and appends the errors that it causes to `found`. The
    /// bytes contained `before` and now contain `now`. `look` analyses how the code uses the value that was read by the
    /// instruction at a code address.
    pub fn touch(
        &mut self,
        by: &CurrentAccess,
        offset: u64,
        (before, now): (&[u8], &[u8]),
        look: Look<'_>,
        found: &mut Vec<CheckError>,
    ) {
        let touch = Touch { time: self.now, wave: by.wave, pc: by.pc };
        let end = offset + now.len() as u64;
        self.bytes.reach(end);
        if self.waiting[by.wave as usize].is_some_and(|(pc, _)| pc != by.pc) {
            self.end_wait(by.wave as usize);
        }
        if by.swaps && by.returns {
            self.swapping.insert(by.pc);
            self.taken.entry((offset / 4, by.wave)).or_insert(self.now);
        }
        if by.may_release && by.kind == Kind::Store {
            self.letting_go.insert(by.pc);
        }
        // Usually no instruction has been analysed, so this test is fast.
        let was_asked = !self.looks.is_empty() && self.looks.contains_key(&by.pc);
        let mut seen = Touch::default();
        let mut next = offset;
        while next < end {
            let at = next;
            let bytes = |size: u64| (at - offset) as usize..(at - offset + size) as usize;
            let clock = &self.clocks[by.wave as usize];
            let (begun, met, come) = (self.begun, self.met, &self.come);
            let settled = WaveView { wave: by.wave, own: by.come, clock, begun, met, come };
            // The bytes of a dword can get different last accesses only if the access conflicts with an earlier write.
            let is_alike = |byte: &Byte| {
                let mut changes = before[bytes(4)].iter().zip(&now[bytes(4)]).map(|(b, n)| b != n);
                let first = changes.next();
                by.kind != Kind::Store
                    || settled.is_before(&byte.write)
                    || changes.all(|change| Some(change) == first)
            };
            let size = self.bytes.part(at, end, is_alike);
            next += size;
            let byte = self.bytes.at_mut(at);
            if !was_asked && byte.record_if_ordered(by.kind, &touch, &settled) {
                if by.kind == Kind::Store {
                    (byte.numbers[0], byte.in_memory) = (by.number, self.in_memory);
                }
                continue;
            }
            self.check_early_read(by, at, found);
            let Byte { write, atomics: [atomic, _], .. } = self.bytes.at(at);
            for last in [write, atomic] {
                seen = if last.time > seen.time { *last } else { seen };
            }
            let changed = before[bytes(size)] != now[bytes(size)];
            self.acquire_without_conflict(by, at, look);
            let (byte, clock) = (self.bytes.at_mut(at), &self.clocks[by.wave as usize]);
            let rivals = byte.add(by.kind, &touch, changed, |other| {
                other.time == 0 || other.wave == touch.wave || clock.knows(other)
            });
            match by.kind {
                Kind::Store => (byte.numbers[0], byte.in_memory) = (by.number, self.in_memory),
                Kind::Atomic => byte.numbers[1] = by.number,
                Kind::Load => {}
            }
            let rivals = rivals.into_iter().flatten();
            // One reported conflict per byte is enough. A conflict that may have an excuse is not reported yet.
            for rival in rivals {
                if self.check_conflict(at, rival, (by.kind, touch), look, found) {
                    break;
                }
            }
            if by.kind == Kind::Atomic {
                self.guards(at, &touch, look);
            }
        }
        // The wave acquires only after all bytes have been checked, so that the last byte is checked with the same
        // clock as the first.
        let mut waits_for = std::mem::take(&mut self.waits_for);
        for (at, kind, other) in waits_for.drain(..) {
            self.acquire(at, kind, &other, by.wave);
        }
        self.waits_for = waits_for;
        if by.kind != Kind::Store && seen.wave != by.wave && seen.time > self.begun {
            let waits = self.looks.get(&by.pc).is_some_and(|looks| looks.waits);
            if waits {
                self.waiting[by.wave as usize] = Some((by.pc, seen.pc));
            }
        }
        if by.kind == Kind::Atomic {
            let places = offset / 4..(offset + now.len() as u64).div_ceil(4);
            places.for_each(|place| self.synchronises(place, by));
        }
    }

    fn look(&mut self, pc: u64, look: Look<'_>) -> ReadUse {
        *self.looks.entry(pc).or_insert_with(|| look(pc))
    }

    /// Handles two conflicting accesses: the earlier access `other` of kind `kind`, and the current access `touch` of
    /// kind `own`. Returns true if they are certainly a race. They are not a race if both may be atomic and one of them
    /// waits for the other.
    fn check_conflict(
        &mut self,
        offset: u64,
        (kind, other): (Kind, Touch),
        (own, touch): (Kind, Touch),
        look: Look<'_>,
        found: &mut Vec<CheckError>,
    ) -> bool {
        let mut waits = |kind: Kind, touch: &Touch, of: &Touch| {
            let ReadUse { waits, turns, .. } = match kind {
                Kind::Store => ReadUse::default(),
                Kind::Load | Kind::Atomic => self.look(touch.pc, look),
            };
            waits || turns && self.letting_go.contains(&of.pc)
        };
        let (this_waits, other_waits) = (waits(own, &touch, &other), waits(kind, &other, &touch));
        if this_waits {
            self.waits_for.push((offset, kind, other));
        }
        let one_waits = this_waits || other_waits;
        let is_atomic =
            |kind: Kind, touch: &Touch| kind != Kind::Store || self.letting_go.contains(&touch.pc);
        if one_waits && is_atomic(kind, &other) && is_atomic(own, &touch) {
            return false;
        }
        let tries = match (kind, own) {
            (Kind::Store, Kind::Atomic) => Some((other, touch.pc)),
            (Kind::Atomic, Kind::Store) => Some((touch, other.pc)),
            _ => None,
        };
        let tries = tries.filter(|(store, pc)| {
            let taken = self.taken.get(&(offset / 4, store.wave));
            self.swapping.contains(pc) && taken.is_some_and(|then| *then < store.time)
        });
        if tries.is_some_and(|(_, pc)| self.look(pc, look).decides) {
            if own == Kind::Atomic {
                self.waits_for.push((offset, kind, other));
            }
            return false;
        }
        let pair = [other.pc, touch.pc];
        if let Some(certain) = self.reported.get(&pair) {
            return *certain;
        }
        let [first, second] =
            [(kind, other), (own, touch)].map(|(kind, touch)| self.access(kind, &touch));
        let race = CheckError::LdsRace { offset, first, second };
        let excuse = match (kind, own) {
            (Kind::Store, _) if this_waits => Some(RaceExcuse::Releases(other.pc)),
            (_, Kind::Store) if other_waits => Some(RaceExcuse::Releases(touch.pc)),
            (Kind::Load, Kind::Atomic) => Some(RaceExcuse::Guards(other.pc)),
            (Kind::Atomic, Kind::Load) => Some(RaceExcuse::Guards(touch.pc)),
            _ => None,
        };
        self.reported.insert(pair, excuse.is_none());
        match excuse {
            Some(excuse) => self.suspects.push(SuspectedConflict { excuse, found: race }),
            None => found.push(race),
        }
        excuse.is_none()
    }

    /// Makes a wave acquire from an access for which it waits in a spin loop, although the two accesses do not
    /// conflict. There are two such cases. In the first, several waves wrote the same value; the waiting wave acquires
    /// from the last of these writes. In the second, the LDS write is already ordered before the waiting wave's access,
    /// but the memory accesses before that write are not.
    fn acquire_without_conflict(&mut self, by: &CurrentAccess, at: u64, look: Look<'_>) {
        let &Byte { write, atomics: [atomic, _], wrote_same_value: agreed, in_memory, .. } =
            self.bytes.at(at);
        for (kind, touch) in [(Kind::Store, write), (Kind::Atomic, atomic)] {
            if by.kind == Kind::Store || touch.wave == by.wave || touch.time <= self.met {
                continue;
            }
            let clock = &self.clocks[by.wave as usize];
            let is_news = match (kind, clock.knows(&touch)) {
                (Kind::Store, true) => clock.0[touch.wave as usize].in_memory < in_memory,
                (Kind::Store, false) => agreed && by.kind == Kind::Load,
                (_, knows) => knows,
            };
            if is_news && self.look(by.pc, look).waits {
                self.waits_for.push((at, kind, touch));
            }
        }
    }

    fn access(&self, kind: Kind, touch: &Touch) -> Access {
        let text = self.texts.get(&touch.pc).cloned().unwrap_or_default();
        Access { wave: touch.wave, kind, pc: touch.pc, text }
    }

    /// Reports a conflict with a write that may not have arrived: a write of another wave that was not complete at the
    /// barrier, or a load to the LDS for which its own wave has not waited.
    fn check_early_read(&mut self, by: &CurrentAccess, offset: u64, found: &mut Vec<CheckError>) {
        let byte = self.bytes.at(offset);
        let writes = [
            (Kind::Store, byte.write, byte.numbers[0]),
            (Kind::Atomic, byte.atomics[0], byte.numbers[1]),
        ];
        for (kind, write, number) in writes {
            // Writes of one wave complete in order, and its loads from memory to the LDS complete in order among
            // themselves.
            let in_turn = match (by.kind, number.is_moved()) {
                (Kind::Store, true) => by.number.is_moved() && write.wave == by.wave,
                (Kind::Store, false) => true,
                (_, is_moved) => !is_moved && write.wave == by.wave,
            };
            let known = if write.wave == by.wave { self.now } else { self.met };
            if in_turn || !(self.begun..=known).contains(&write.time) {
                continue;
            }
            let come = match write.wave == by.wave {
                true => Some(by.come),
                false => self.come.get(write.wave as usize).copied(),
            };
            let is_open = || come.is_some_and(|come| !number.has_completed(come));
            let conflicts = (kind, by.kind) != (Kind::Atomic, Kind::Atomic);
            if conflicts && is_open() && !self.reported.contains_key(&[write.pc, by.pc]) {
                self.reported.insert([write.pc, by.pc], true);
                let read = Touch { time: self.now, wave: by.wave, pc: by.pc };
                let (write, read) = (self.access(kind, &write), self.access(by.kind, &read));
                found.push(CheckError::LdsEarly { offset, write, read });
            }
        }
    }

    /// Searches for a read whose value decided that the atomic's wave changes this byte, and records that this read is
    /// allowed.
    fn guards(&mut self, offset: u64, touch: &Touch, look: Look<'_>) {
        for read in self.bytes.at(offset).reads {
            let is_own = read.wave == touch.wave && read.time > self.met;
            let excuse = RaceExcuse::Guards(read.pc);
            if is_own && !self.excused.contains(&excuse) && self.look(read.pc, look).decides {
                self.excused.insert(excuse);
            }
        }
    }

    /// Releases the clock of the atomic's wave at this dword. If the atomic returns the old value, the wave first
    /// acquires the clock that earlier atomics have released there.
    fn synchronises(&mut self, place: u64, by: &CurrentAccess) {
        let clock = &mut self.clocks[by.wave as usize];
        let known = self.places.entry(place).or_default();
        if by.returns && clock.join(known) {
            self.acquired = Some(by.wave);
        }
        known.join(clock);
        known.0[by.wave as usize] = ClockEntry { here: self.now, in_memory: self.in_memory };
    }

    /// Returns the wave that has acquired through the LDS since the last call, if any. Also returns, for each wave, the
    /// time up to which the memory accesses of that wave happen before the next access of the returned wave.
    pub(crate) fn take_acquired(&mut self) -> Option<(usize, impl Iterator<Item = Time> + '_)> {
        let wave = self.acquired.take()? as usize;
        Some((wave, self.clocks[wave].0.iter().map(|known| known.in_memory)))
    }

    fn acquire(&mut self, offset: u64, kind: Kind, other: &Touch, wave: u32) {
        let mut heard = match kind {
            Kind::Atomic => self.places.get(&(offset / 4)).cloned().unwrap_or_default(),
            // The clock includes what the writing wave acquired after the write.
            Kind::Store | Kind::Load => self.clocks[other.wave as usize].clone(),
        };
        heard.0.resize(self.clocks.len(), ClockEntry::default());
        let in_memory = match kind {
            Kind::Store => self.bytes.at(offset).in_memory,
            Kind::Load | Kind::Atomic => 0,
        };
        // The clock of the writing wave contains only the time of the last barrier as the wave's own entry.
        heard.0[other.wave as usize].knows(ClockEntry { here: other.time, in_memory });
        if self.clocks[wave as usize].join(&heard) {
            self.acquired = Some(wave);
        }
    }
}
