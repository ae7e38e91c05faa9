//! Races in the LDS: waves of a workgroup that touch the same bytes with nothing that orders them.
//!
//! A conflict is a write and any other access of a second wave, or an atomic and a read, by the byte. Waves that write the
//! bytes that are there already, such as a flag that each of them sets, are let pass, and so are two atomics.
//!
//! Barriers order waves, and so do atomics and what waits for them, as in the memory model of C++ and HIP: a wave that changes a place
//! by an atomic lets go of what it did before, and one that is given the old value, or waits in a loop for another one
//! ([`polls`](super::polls)), knows that from then on. LDS accesses of all waves are made in one order (LLVM's AMDGPU usage guide), so
//! nothing else is needed for it. What an atomic itself meets it does not order: the waves could have come in the other order.
//!
//! Nothing tells an atomic read or write of the LDS from a plain one, so what may be one is told when the launch has ended, unless
//! it has shown by then that it is:
//!
//! * a read that waits is an atomic or a volatile one. So is a write of what it waits for: a wave went on by it, or it comes right
//!   behind a wait for all that its wave did in the LDS. Where it does, a read by which a loop goes on waits for it, of whatever place;
//! * a read in front of an atomic of the same wave on the same place, for which it decides, is let pass: compilers begin loops that
//!   compare and swap by one;
//! * so is a write beside an atomic that swaps and whose wave decides by what was there, if the wave that writes swapped there before:
//!   it opens the lock that the other tries.
//!
//! A barrier orders only what has come: a write that its wave had not waited for may come after what another wave reads. What an
//! instruction loads from memory to the LDS the loading wave has to wait for as well, and may then come after what is written.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

pub(crate) mod bytes;

use bytes::{Byte, Bytes, Settled, Touch};

use super::{Found, access::Kind, polls::Looks};

/// One side of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub(crate) wave: u32,
    /// What it does.
    pub kind: Kind,
    /// Address of the instruction.
    pub pc: u64,
    /// The instruction.
    pub text: Arc<str>,
}

/// Instructions on the LDS so far; 0 stands for never.
type Time = u32;

/// What is ordered before what a wave does next, by wave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(pub Vec<Known>);

/// Up to when what a wave did is known: by accesses to the LDS, and by those to memory that all waves of the launch made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// By accesses to the LDS.
    pub here: Time,
    /// By accesses to memory.
    pub in_memory: Time,
}

/// An access that is made.
#[derive(Clone, Copy)]
pub struct By {
    /// What it does.
    pub kind: Kind,
    /// The wave that makes it.
    pub wave: u32,
    /// The address of the instruction.
    pub pc: u64,
    /// Which of the accesses of its wave it is.
    pub number: Number,
    /// What of the wave's own has come.
    pub come: Come,
    /// An atomic gives back what was there.
    pub returns: bool,
    /// It writes what does not hang on what was there.
    pub swaps: bool,
    /// Right before it the wave has waited for all of its accesses to the LDS, as it must before it lets go of them.
    pub lets_go: bool,
}

/// How many of the accesses to the LDS of a wave, and of its loads from memory to the LDS: each come in turn, but not with the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Come {
    /// Accesses to the LDS.
    pub local: u32,
    /// Loads from memory to the LDS.
    pub moved: u32,
}

/// Which of the accesses of its wave one is, among those that it comes in turn with; 0 comes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number(u32);

impl Number {
    const MOVED: u32 = 1 << 31;

    /// The last access to the LDS.
    pub fn local(made: Come) -> Number {
        Number(made.local)
    }

    /// The last load from memory to the LDS.
    pub fn moved(made: Come) -> Number {
        Number(made.moved | Number::MOVED)
    }

    /// Whether it is a load from memory to the LDS.
    pub fn is_moved(self) -> bool {
        self.0 & Number::MOVED != 0
    }

    /// Whether it is among those that have come.
    pub fn has_come(self, come: Come) -> bool {
        match self.is_moved() {
            true => self.0 & !Number::MOVED <= come.moved,
            false => self.0 <= come.local,
        }
    }
}

/// Accesses without an order: a race, unless one of them turns out to be what excuses them.
struct Suspect {
    excuse: Excuse,
    found: Found,
}

/// What excuses a conflict, by the address of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Excuse {
    /// A read that decides for an atomic behind it.
    Guards(u64),
    /// A write by which a wave goes on that has waited.
    LetsGo(u64),
}

/// What is known of the LDS of a workgroup.
#[derive(Default)]
pub struct Races {
    /// What happened to its bytes.
    pub bytes: Bytes,
    now: Time,
    /// Accesses to memory so far, of all waves of the launch.
    in_memory: Time,
    /// When the workgroup began, and when its waves last met.
    begun: Time,
    met: Time,
    clocks: Vec<Clock>,
    /// By dword that atomics went to since the waves last met, what they let go of.
    places: HashMap<u64, Clock>,
    /// By wave, how many of its accesses had come for sure at the last barrier.
    come: Vec<Come>,
    texts: HashMap<u64, Arc<str>>,
    looks: HashMap<u64, Looks>,
    /// The atomics that swap, and the writes that let go.
    swapping: HashSet<u64>,
    letting_go: HashSet<u64>,
    /// When a wave of this workgroup first swapped a dword.
    taken: HashMap<(u64, u32), Time>,
    /// The pairs of instructions that were told, and whether nothing may excuse them.
    told: HashMap<[u64; 2], bool>,
    suspects: Vec<Suspect>,
    excused: HashSet<Excuse>,
    /// By wave, the instruction at which it waits, and the one that made what it saw last.
    waiting: Vec<Option<(u64, u64)>>,
    /// Where the wave of this access waits for what others did there.
    waits_for: Vec<(u64, Kind, Touch)>,
    /// The wave that has heard of another one since somebody asked.
    heard: Option<u32>,
}

type Look<'a> = &'a mut dyn FnMut(u64) -> Looks;

impl Clock {
    fn knows(&self, touch: &Touch) -> bool {
        self.0.get(touch.wave as usize).is_some_and(|last| touch.time <= last.here)
    }

    /// Adds what another one knows, and says whether that was news.
    fn join(&mut self, other: &Clock) -> bool {
        self.0.resize(self.0.len().max(other.0.len()), Known::default());
        let mut is_news = false;
        for (known, more) in self.0.iter_mut().zip(&other.0) {
            is_news |= known.knows(*more);
        }
        is_news
    }
}

impl Known {
    /// It is known up to then, too; whether that was news.
    fn knows(&mut self, more: Known) -> bool {
        let before = *self;
        self.here = self.here.max(more.here);
        self.in_memory = self.in_memory.max(more.in_memory);
        *self != before
    }
}

impl Races {
    /// A workgroup of so many waves begins.
    pub fn begin(&mut self, waves: usize) {
        // Long before there are more than can be told apart.
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

    /// All waves know what each of them did.
    fn meet(&mut self) {
        self.met = self.now;
        self.places.clear();
        (0..self.waiting.len()).for_each(|wave| self.goes_on(wave));
        let waves = self.clocks.len();
        for clock in &mut self.clocks {
            clock.0.clear();
            clock.0.resize(waves, Known { here: self.now, in_memory: 0 });
        }
    }

    /// The waves have met at a barrier; by wave, how many of its accesses have come for sure.
    pub fn barrier(&mut self, come: impl Iterator<Item = Come>) {
        self.meet();
        self.come.clear();
        self.come.extend(come);
    }

    /// A wave has heard of another one otherwise; what has come by then needs no barrier.
    pub(crate) fn comes(&mut self, come: impl Iterator<Item = Come>) {
        for (known, now) in self.come.iter_mut().zip(come) {
            known.local = known.local.max(now.local);
            known.moved = known.moved.max(now.moved);
        }
    }

    /// A wave has heard in memory of what another one did: that one's accesses to the LDS were before, too. Up to when it knows what
    /// others did in memory is not said here.
    pub fn learns(&mut self, wave: usize, of: usize) {
        let mut heard = self.clocks[of].clone();
        heard.0.iter_mut().for_each(|known| known.in_memory = 0);
        heard.0.resize(self.clocks.len(), Known::default());
        heard.0[of].here = self.now;
        self.clocks[wave].join(&heard);
    }

    /// Notes the text of an instruction that touches the LDS after so many accesses to memory.
    pub fn runs(&mut self, pc: u64, text: &Arc<str>, in_memory: Time) {
        self.now += 1;
        self.in_memory = in_memory;
        self.texts.entry(pc).or_insert_with(|| text.clone());
    }

    /// What is told when the launch has ended, of all that its workgroups did.
    pub fn end(all: Vec<&mut Races>) -> Vec<Found> {
        let mut all = all;
        all.iter_mut().for_each(|races| races.meet());
        let excused: HashSet<Excuse> =
            all.iter().flat_map(|races| &races.excused).copied().collect();
        let suspects = all.into_iter().flat_map(|races| races.suspects.drain(..));
        let races = suspects.filter(|suspect| !excused.contains(&suspect.excuse));
        races.map(|suspect| suspect.found).collect()
    }

    /// What the wave waited for has come.
    fn goes_on(&mut self, wave: usize) {
        if let Some((_, by)) = self.waiting[wave].take() {
            self.excused.insert(Excuse::LetsGo(by));
        }
    }

    /// Notes an access to bytes that held `before` and hold `now`; `look` says what code does with what it reads at an address.
    pub fn touch(
        &mut self,
        by: &By,
        offset: u64,
        (before, now): (&[u8], &[u8]),
        look: Look<'_>,
        found: &mut Vec<Found>,
    ) {
        let touch = Touch { time: self.now, wave: by.wave, pc: by.pc };
        let end = offset + now.len() as u64;
        self.bytes.reach(end);
        if self.waiting[by.wave as usize].is_some_and(|(pc, _)| pc != by.pc) {
            self.goes_on(by.wave as usize);
        }
        if by.swaps && by.returns {
            self.swapping.insert(by.pc);
            self.taken.entry((offset / 4, by.wave)).or_insert(self.now);
        }
        if by.lets_go && by.kind == Kind::Store {
            self.letting_go.insert(by.pc);
        }
        // Of most instructions nobody had to ask.
        let was_asked = !self.looks.is_empty() && self.looks.contains_key(&by.pc);
        let mut seen = Touch::default();
        let mut next = offset;
        while next < end {
            let at = next;
            let bytes = |size: u64| (at - offset) as usize..(at - offset + size) as usize;
            let clock = &self.clocks[by.wave as usize];
            let (begun, met, come) = (self.begun, self.met, &self.come);
            let settled = Settled { wave: by.wave, own: by.come, clock, begun, met, come };
            // Whether a write changes something only counts beside another write.
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
            if !was_asked && byte.settles(by.kind, &touch, &settled) {
                if by.kind == Kind::Store {
                    (byte.numbers[0], byte.in_memory) = (by.number, self.in_memory);
                }
                continue;
            }
            self.comes_early(by, at, found);
            let Byte { write, atomics: [atomic, _], .. } = self.bytes.at(at);
            for last in [write, atomic] {
                seen = if last.time > seen.time { *last } else { seen };
            }
            let changed = before[bytes(size)] != now[bytes(size)];
            self.hears_without_conflict(by, at, look);
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
            // One conflict of a byte is enough, unless something may excuse it.
            for rival in rivals {
                if self.meets(at, rival, (by.kind, touch), look, found) {
                    break;
                }
            }
            if by.kind == Kind::Atomic {
                self.guards(at, &touch, look);
            }
        }
        // Only now, or else more would be known at the last byte than at the first.
        let mut waits_for = std::mem::take(&mut self.waits_for);
        for (at, kind, other) in waits_for.drain(..) {
            self.hears(at, kind, &other, by.wave);
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

    /// What the instruction at an address does with what it reads.
    fn look(&mut self, pc: u64, look: Look<'_>) -> Looks {
        *self.looks.entry(pc).or_insert_with(|| look(pc))
    }

    /// Two accesses meet with nothing that orders them, and whether that is a race whatever follows: it is none where one of them is an
    /// atomic and the other one waits for it.
    fn meets(
        &mut self,
        offset: u64,
        (kind, other): (Kind, Touch),
        (own, touch): (Kind, Touch),
        look: Look<'_>,
        found: &mut Vec<Found>,
    ) -> bool {
        let mut waits = |kind: Kind, touch: &Touch, of: &Touch| {
            let Looks { waits, turns, .. } = match kind {
                Kind::Store => Looks::default(),
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
        if let Some(certain) = self.told.get(&pair) {
            return *certain;
        }
        let [first, second] =
            [(kind, other), (own, touch)].map(|(kind, touch)| self.access(kind, &touch));
        let race = Found::LdsRace { offset, first, second };
        let excuse = match (kind, own) {
            (Kind::Store, _) if this_waits => Some(Excuse::LetsGo(other.pc)),
            (_, Kind::Store) if other_waits => Some(Excuse::LetsGo(touch.pc)),
            (Kind::Load, Kind::Atomic) => Some(Excuse::Guards(other.pc)),
            (Kind::Atomic, Kind::Load) => Some(Excuse::Guards(touch.pc)),
            _ => None,
        };
        self.told.insert(pair, excuse.is_none());
        match excuse {
            Some(excuse) => self.suspects.push(Suspect { excuse, found: race }),
            None => found.push(race),
        }
        excuse.is_none()
    }

    /// A read that waits also hears whom it has no conflict with: the last of several waves that wrote the same, and a wave of which it
    /// has heard in memory that it was there, but not what that one did in memory before.
    fn hears_without_conflict(&mut self, by: &By, at: u64, look: Look<'_>) {
        let &Byte { write, atomics: [atomic, _], agreed, in_memory, .. } = self.bytes.at(at);
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

    /// Tells of a write that the barrier since then may not have waited for, and of a load to the LDS for which its own wave has not.
    fn comes_early(&mut self, by: &By, offset: u64, found: &mut Vec<Found>) {
        let byte = self.bytes.at(offset);
        let writes = [
            (Kind::Store, byte.write, byte.numbers[0]),
            (Kind::Atomic, byte.atomics[0], byte.numbers[1]),
        ];
        for (kind, write, number) in writes {
            // Writes come in turn, and so do the loads of a wave.
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
            let is_open = || come.is_some_and(|come| !number.has_come(come));
            let conflicts = (kind, by.kind) != (Kind::Atomic, Kind::Atomic);
            if conflicts && is_open() && !self.told.contains_key(&[write.pc, by.pc]) {
                self.told.insert([write.pc, by.pc], true);
                let read = Touch { time: self.now, wave: by.wave, pc: by.pc };
                let (write, read) = (self.access(kind, &write), self.access(by.kind, &read));
                found.push(Found::LdsEarly { offset, write, read });
            }
        }
    }

    /// The wave has read of this byte what it now changes by an atomic, and has decided by it.
    fn guards(&mut self, offset: u64, touch: &Touch, look: Look<'_>) {
        for read in self.bytes.at(offset).reads {
            let is_own = read.wave == touch.wave && read.time > self.met;
            let excuse = Excuse::Guards(read.pc);
            if is_own && !self.excused.contains(&excuse) && self.look(read.pc, look).decides {
                self.excused.insert(excuse);
            }
        }
    }

    /// An atomic lets go of what its wave did, and learns what others let go of there if it gives back what was there.
    fn synchronises(&mut self, place: u64, by: &By) {
        let clock = &mut self.clocks[by.wave as usize];
        let known = self.places.entry(place).or_default();
        if by.returns && clock.join(known) {
            self.heard = Some(by.wave);
        }
        known.join(clock);
        known.0[by.wave as usize] = Known { here: self.now, in_memory: self.in_memory };
    }

    /// The wave that has heard of others since this was asked, and up to when it knows what they did in memory, wave by wave.
    pub(crate) fn take_heard(&mut self) -> Option<(usize, impl Iterator<Item = Time> + '_)> {
        let wave = self.heard.take()? as usize;
        Some((wave, self.clocks[wave].0.iter().map(|known| known.in_memory)))
    }

    /// A wave has waited for what another one wrote.
    fn hears(&mut self, offset: u64, kind: Kind, other: &Touch, wave: u32) {
        let mut heard = match kind {
            Kind::Atomic => self.places.get(&(offset / 4)).cloned().unwrap_or_default(),
            // What the writer has learned since counts as well.
            Kind::Store | Kind::Load => self.clocks[other.wave as usize].clone(),
        };
        heard.0.resize(self.clocks.len(), Known::default());
        let in_memory = match kind {
            Kind::Store => self.bytes.at(offset).in_memory,
            Kind::Load | Kind::Atomic => 0,
        };
        // A clock says of its own wave what it was when they met.
        heard.0[other.wave as usize].knows(Known { here: other.time, in_memory });
        if self.clocks[wave as usize].join(&heard) {
            self.heard = Some(wave);
        }
    }
}
