//! Records the last accesses to each byte of the LDS. Most accesses are to whole dwords. The bytes of a dword that was
//! only accessed as a whole share one [`Byte`].

use super::{AccessPosition, Clock, CompletedCounts, Kind, Time};

/// Last access of one kind to a byte. The type is small, because each [`Byte`] contains several such values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touch {
    /// Time of the access.
    pub time: Time,
    /// Number of the wave in the workgroup.
    pub wave: u32,
    /// Address of the instruction.
    pub pc: u64,
}

/// Last accesses to one byte, or to each byte of a dword whose bytes have all been accessed alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Byte {
    /// Last write to the byte.
    pub write: Touch,
    /// Last atomic on the byte, and last atomic on it by another wave.
    pub atomics: [Touch; 2],
    /// Positions of the last write and of the last atomic among the accesses of their waves.
    pub numbers: [AccessPosition; 2],
    /// Number of memory accesses in the launch before the last write.
    pub in_memory: Time,
    /// True if several waves have written the same value and no synchronisation orders these writes.
    pub wrote_same_value: bool,
    /// Two reads by different waves.
    pub reads: [Touch; 2],
}

impl Byte {
    /// Records a load or a store if all conflicting accesses have completed and are ordered before it. Otherwise
    /// records nothing and returns false.
    pub fn record_if_ordered(&mut self, kind: Kind, touch: &Touch, settled: &WaveView<'_>) -> bool {
        let [number, atomic] = self.numbers;
        let [last, other] = &self.atomics;
        let is_settled = settled.has_completed(&self.write, number)
            && settled.has_completed(last, atomic)
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
                (self.write, self.wrote_same_value) = (*touch, false);
            }
            Kind::Store | Kind::Atomic => return false,
        }
        true
    }

    /// Records an access and returns the accesses with which it conflicts, the most important first. `changed` is true
    /// if the access has changed the value of the byte. `is_before` returns true for an access that is ordered before
    /// the recorded one.
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
                [write.filter(|_| !self.wrote_same_value), first, second, None, None]
            }
            Kind::Atomic => {
                let [first, second] = both(self.reads, Kind::Load);
                let [last, other] = self.atomics;
                // Of the two earlier atomics, one that is not ordered before this one is preferred, because later
                // accesses may race with it.
                if last.wave != touch.wave && (is_before(&other) || !is_before(&last)) {
                    self.atomics[1] = last;
                }
                self.atomics[0] = *touch;
                [write, first, second, None, None]
            }
            Kind::Store => {
                let [first, second] = both(self.reads, Kind::Load);
                let [last, other] = both(self.atomics, Kind::Atomic);
                self.wrote_same_value = write.is_some() && !changed;
                self.write = *touch;
                [write.filter(|_| changed), last, other, first, second]
            }
        }
    }
}

/// The part of the race check's state that [`Byte::record_if_ordered`] needs. For most accesses to the LDS, it is
/// sufficient to decide that the access is not a race.
pub struct WaveView<'a> {
    /// Number of the wave in the workgroup.
    pub wave: u32,
    /// Vector clock of the wave.
    pub clock: &'a Clock,
    /// Time at which the workgroup started.
    pub begun: Time,
    /// Time of the last barrier of the workgroup.
    pub met: Time,
    /// For each wave, the accesses that had certainly completed at the last barrier.
    pub come: &'a [CompletedCounts],
    /// Accesses of this wave that have completed.
    pub own: CompletedCounts,
}

impl WaveView<'_> {
    /// Returns true if the access is ordered before the next access of the current wave.
    pub fn is_before(&self, touch: &Touch) -> bool {
        touch.time == 0 || touch.wave == self.wave || self.clock.knows(touch)
    }

    fn has_completed(&self, touch: &Touch, number: AccessPosition) -> bool {
        let come =
            || self.come.get(touch.wave as usize).is_none_or(|come| number.has_completed(*come));
        match touch.wave == self.wave {
            // The wave needs no wait for its own LDS accesses, because they complete in order with the current one.
            true => !number.is_moved() || touch.time < self.begun || number.has_completed(self.own),
            false => touch.time < self.begun || touch.time <= self.met && come(),
        }
    }
}

/// Last accesses to all bytes of the LDS, stored by dword.
#[derive(Default)]
pub struct Bytes(Vec<Dword>);

#[derive(Clone)]
enum Dword {
    /// All bytes of the dword have been accessed alike.
    Alike(Byte),
    Apart(Box<[Byte; 4]>),
}

impl Bytes {
    /// Extends the list of dwords, so that it covers all offsets below `end`.
    pub fn reach(&mut self, end: u64) {
        let dwords = end.div_ceil(4) as usize;
        if self.0.len() < dwords {
            self.0.resize(dwords, Dword::Alike(Byte::default()));
        }
    }

    /// Returns the number of bytes at `at` that an access can handle together: 4 if the access covers the whole dword
    /// and affects its bytes alike, otherwise 1. If the result is 1, the bytes of the dword no longer share one
    /// [`Byte`]. `end` is the end of the access. `is_alike` returns true if the access has the same effect on all bytes
    /// that share the given [`Byte`].
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
