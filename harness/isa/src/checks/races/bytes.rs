//! Access history of the bytes of the LDS. Most are accessed as whole dwords, which have one history.

use super::{Clock, Come, Kind, Number, Time};

/// Last access of one kind to a byte. Kept small, because there are many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touch {
    /// Time of the access.
    pub time: Time,
    /// The wave.
    pub wave: u32,
    /// Address of the instruction.
    pub pc: u64,
}

/// History of one byte, or of each byte of a dword.
#[derive(Clone, Copy, Debug, Default)]
pub struct Byte {
    /// Last write.
    pub write: Touch,
    /// Last atomic, and one of another wave.
    pub atomics: [Touch; 2],
    /// Positions of the last write and the last atomic in the sequences of their waves.
    pub numbers: [Number; 2],
    /// Memory time of the last write.
    pub in_memory: Time,
    /// True if several waves wrote the same value.
    pub agreed: bool,
    /// A read, and one of another wave.
    pub reads: [Touch; 2],
}

impl Byte {
    /// Records a load or a store if it only meets ordered and completed accesses, and returns true in that case.
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

    /// Records an access and returns the accesses that it conflicts with, most important first. `is_before` returns
    /// true for accesses that are ordered before it.
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
                // An unordered access is kept, because later accesses may race with it.
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

/// State of a wave with which most accesses are checked quickly.
pub struct Settled<'a> {
    /// The wave.
    pub wave: u32,
    /// Clock of the wave.
    pub clock: &'a Clock,
    /// Time at which the workgroup started.
    pub begun: Time,
    /// Time of the last barrier.
    pub met: Time,
    /// For each wave, the accesses that had certainly completed at the last barrier.
    pub come: &'a [Come],
    /// Completed accesses of the wave itself.
    pub own: Come,
}

impl Settled<'_> {
    /// Returns true if the access is ordered before the wave's next one.
    pub fn is_before(&self, touch: &Touch) -> bool {
        touch.time == 0 || touch.wave == self.wave || self.clock.knows(touch)
    }

    /// Returns true if the access is certainly complete.
    fn has_come(&self, touch: &Touch, number: Number) -> bool {
        let come = || self.come.get(touch.wave as usize).is_none_or(|come| number.has_come(*come));
        match touch.wave == self.wave {
            // The wave's own LDS accesses complete in order with this one.
            true => !number.is_moved() || touch.time < self.begun || number.has_come(self.own),
            false => touch.time < self.begun || touch.time <= self.met && come(),
        }
    }
}

/// History of all bytes, by dword.
#[derive(Default)]
pub struct Bytes(Vec<Dword>);

#[derive(Clone)]
enum Dword {
    /// All bytes of the dword have the same history.
    Alike(Byte),
    Apart(Box<[Byte; 4]>),
}

impl Bytes {
    /// Extends the history up to the byte `end`.
    pub fn reach(&mut self, end: u64) {
        let dwords = end.div_ceil(4) as usize;
        if self.0.len() < dwords {
            self.0.resize(dwords, Dword::Alike(Byte::default()));
        }
    }

    /// Returns the number of bytes from `at` that share a history for an access up to `end`: 4, or 1 after splitting the
    /// dword. `is_alike` returns true if the access has the same effect on all bytes of a dword with this history.
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
