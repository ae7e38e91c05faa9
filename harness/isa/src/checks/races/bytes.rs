//! What is remembered of the bytes of the LDS. Most of them are touched by whole dwords, of which one history is enough.

use super::{Clock, Come, Kind, Number, Time};

/// Who touched a byte last, in one way. There are many of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touch {
    /// When.
    pub time: Time,
    /// The wave.
    pub wave: u32,
    /// The address of the instruction.
    pub pc: u64,
}

/// What happened to one byte, or to each byte of a dword.
#[derive(Clone, Copy, Debug, Default)]
pub struct Byte {
    /// The last write.
    pub write: Touch,
    /// The last atomic, and one of another wave.
    pub atomics: [Touch; 2],
    /// Which of the accesses of its wave the write was, and the last atomic.
    pub numbers: [Number; 2],
    /// When the write was, by the accesses to memory.
    pub in_memory: Time,
    /// Several waves wrote the same.
    pub agreed: bool,
    /// A read, and one of another wave.
    pub reads: [Touch; 2],
}

impl Byte {
    /// Adds a load or a store where that is all there is to do, and says whether it did: it meets what its own wave did, and what it
    /// knows, as far as that has come.
    pub fn settles(&mut self, kind: Kind, touch: &Touch, settled: &Settled<'_>) -> bool {
        let [number, atomic] = self.numbers;
        let [last, other] = &self.atomics;
        let is_settled = settled.has_come(&self.write, number)
            && settled.has_come(last, atomic)
            && settled.is_before(other);
        if !is_settled {
            return false;
        }
        match kind {
            Kind::Load => {
                if let Some(read) = self.reads.iter_mut().find(|read| settled.is_before(read)) {
                    *read = *touch;
                }
            }
            Kind::Store if self.reads.iter().all(|read| settled.is_before(read)) => {
                (self.write, self.agreed) = (*touch, false);
            }
            Kind::Store | Kind::Atomic => return false,
        }
        true
    }

    /// Adds an access, and returns those that it has a conflict with, the first to tell first; `is_before` says which are ordered
    /// before it.
    pub fn add(
        &mut self,
        kind: Kind,
        touch: &Touch,
        changed: bool,
        is_before: impl Fn(&Touch) -> bool,
    ) -> [Option<(Kind, Touch)>; 5] {
        let rival = |known: &Touch, kind| (!is_before(known)).then_some((kind, *known));
        let both = |known: [Touch; 2], kind| known.map(|touch| rival(&touch, kind));
        let write = rival(&self.write, Kind::Store);
        match kind {
            Kind::Load => {
                let own = |read: &&mut Touch| read.wave == touch.wave || is_before(read);
                if let Some(read) = self.reads.iter_mut().find(own) {
                    *read = *touch;
                }
                let [first, second] = both(self.atomics, Kind::Atomic);
                [write.filter(|_| !self.agreed), first, second, None, None]
            }
            Kind::Atomic => {
                let [first, second] = both(self.reads, Kind::Load);
                let [last, other] = self.atomics;
                // What nothing orders is what later accesses may race with.
                if last.wave != touch.wave && (is_before(&other) || !is_before(&last)) {
                    self.atomics[1] = last;
                }
                self.atomics[0] = *touch;
                [write, first, second, None, None]
            }
            Kind::Store => {
                let [first, second] = both(self.reads, Kind::Load);
                let [last, other] = both(self.atomics, Kind::Atomic);
                self.agreed = write.is_some() && !changed;
                self.write = *touch;
                [write.filter(|_| changed), last, other, first, second]
            }
        }
    }
}

/// What a wave need not look at twice.
pub struct Settled<'a> {
    /// The wave.
    pub wave: u32,
    /// What it knows.
    pub clock: &'a Clock,
    /// When the workgroup began, and when its waves last met.
    pub begun: Time,
    /// When the waves of the workgroup last met.
    pub met: Time,
    /// By wave, how many of its accesses had come for sure by then.
    pub come: &'a [Come],
    /// The same of the wave's own, now.
    pub own: Come,
}

impl Settled<'_> {
    /// Whether the wave knows that this was before.
    pub fn is_before(&self, touch: &Touch) -> bool {
        touch.time == 0 || touch.wave == self.wave || self.clock.knows(touch)
    }

    /// Of what others wrote since the waves met there may be something to hear.
    fn has_come(&self, touch: &Touch, number: Number) -> bool {
        let come = || self.come.get(touch.wave as usize).is_none_or(|come| number.has_come(*come));
        match touch.wave == self.wave {
            // Its own accesses to the LDS come in turn with this one.
            true => !number.is_moved() || touch.time < self.begun || number.has_come(self.own),
            false => touch.time < self.begun || touch.time <= self.met && come(),
        }
    }
}

/// The bytes from the first on, by dwords.
#[derive(Default)]
pub struct Bytes(Vec<Dword>);

#[derive(Clone)]
enum Dword {
    /// All of its bytes have the same history.
    Alike(Byte),
    Apart(Box<[Byte; 4]>),
}

impl Bytes {
    /// Makes place for bytes up to `end`.
    pub fn reach(&mut self, end: u64) {
        let dwords = end.div_ceil(4) as usize;
        if self.0.len() < dwords {
            self.0.resize(dwords, Dword::Alike(Byte::default()));
        }
    }

    /// How many bytes from `at` on one history is kept of for an access that ends at `end`: a dword, or one, whose dword is taken
    /// apart. `is_alike` says whether the access does the same to all bytes of a dword that has this history.
    pub fn part(&mut self, at: u64, end: u64, is_alike: impl Fn(&Byte) -> bool) -> u64 {
        let dword = &mut self.0[(at / 4) as usize];
        let Dword::Alike(byte) = dword else { return 1 };
        if at.is_multiple_of(4) && at + 4 <= end && is_alike(byte) {
            return 4;
        }
        *dword = Dword::Apart(Box::new([*byte; 4]));
        1
    }

    pub(super) fn at(&self, at: u64) -> &Byte {
        match &self.0[(at / 4) as usize] {
            Dword::Alike(byte) => byte,
            Dword::Apart(bytes) => &bytes[(at % 4) as usize],
        }
    }

    pub(super) fn at_mut(&mut self, at: u64) -> &mut Byte {
        match &mut self.0[(at / 4) as usize] {
            Dword::Alike(byte) => byte,
            Dword::Apart(bytes) => &mut bytes[(at % 4) as usize],
        }
    }
}
