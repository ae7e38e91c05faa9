//! Races in the LDS: waves of a workgroup that touch the same bytes with no barrier between.
//!
//! What two waves do between the same two barriers has no order. A conflict is a write and any other access of a second wave,
//! by the byte. Two atomics are none, neither are an atomic and a read, which may be a wave that polls. Waves that write the
//! bytes that are there already, such as a flag that each of them sets, are let pass.
//!
//! A barrier orders only what has come: a write that its wave had not waited for may come after what another wave reads.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Found, access::Kind};

/// One side of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) wave: u32,
    pub(crate) kind: Kind,
    /// Address of the instruction.
    pub(crate) pc: u64,
    /// The instruction.
    pub(crate) text: Arc<str>,
}

/// Who touched a byte last, in one way. There are many of these.
#[derive(Clone, Copy, Default)]
struct Touch {
    /// Between which barriers: 0 stands for never, and the number goes on from one workgroup to the next.
    interval: u32,
    wave: u32,
    pc: u64,
}

impl Touch {
    /// Whether another wave touched the byte in this interval.
    fn is_of_another(&self, now: &Touch) -> bool {
        self.interval == now.interval && self.wave != now.wave
    }
}

/// What happened to one byte.
#[derive(Clone, Default)]
struct Byte {
    write: Touch,
    /// Which of the accesses of its wave the write was.
    number: u32,
    /// Several waves wrote the same.
    agreed: bool,
    atomic: Touch,
    /// The first read of the interval, and the first of another wave.
    reads: [Touch; 2],
}

/// An access that is made.
#[derive(Clone, Copy)]
pub(crate) struct By {
    pub(crate) kind: Kind,
    pub(crate) wave: u32,
    pub(crate) pc: u64,
    /// How many accesses to the LDS the wave had made with it.
    pub(crate) number: u32,
}

#[derive(Default)]
pub(crate) struct Races {
    bytes: Vec<Byte>,
    interval: u32,
    /// The first interval of the workgroup.
    begun: u32,
    /// By wave, how many of its accesses had come for sure at the last barrier.
    come: Vec<u32>,
    texts: HashMap<u64, Arc<str>>,
    /// The pairs of instructions that were told.
    told: HashSet<[u64; 2]>,
}

impl Races {
    /// A workgroup begins.
    pub(crate) fn begin(&mut self) {
        self.interval += 1;
        self.begun = self.interval;
    }

    /// The waves have met at a barrier; by wave, how many of its accesses have come for sure.
    pub(crate) fn barrier(&mut self, come: impl Iterator<Item = u32>) {
        self.interval += 1;
        self.come.clear();
        self.come.extend(come);
    }

    /// Notes the text of an instruction that touches the LDS.
    pub(crate) fn runs(&mut self, pc: u64, text: &Arc<str>) {
        self.texts.entry(pc).or_insert_with(|| text.clone());
    }

    /// Notes an access to bytes that held `before` and hold `now`.
    pub(crate) fn touch(
        &mut self,
        by: &By,
        offset: u64,
        (before, now): (&[u8], &[u8]),
        found: &mut Vec<Found>,
    ) {
        let By { kind, wave, pc, number } = *by;
        let touch = Touch { interval: self.interval, wave, pc };
        let end = offset as usize + now.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, Byte::default());
        }
        let access = |kind, touch: Touch| {
            let text = self.texts.get(&touch.pc).cloned().unwrap_or_default();
            Access { wave: touch.wave, kind, pc: touch.pc, text }
        };
        let (begun, come) = (self.begun, &self.come);
        for (index, byte) in self.bytes[offset as usize..end].iter_mut().enumerate() {
            let at = offset + index as u64;
            let write = byte.write;
            if kind != Kind::Store
                && (begun..touch.interval).contains(&write.interval)
                && write.wave != wave
                && come.get(write.wave as usize).is_some_and(|come| byte.number > *come)
                && self.told.insert([write.pc, pc])
            {
                let (write, read) = (access(Kind::Store, write), access(kind, touch));
                found.push(Found::LdsEarly { offset: at, write, read });
            }
            if let Some((kind_before, other)) = byte.add(kind, &touch, before[index] != now[index])
                && self.told.insert([other.pc, pc])
            {
                let (first, second) = (access(kind_before, other), access(kind, touch));
                found.push(Found::LdsRace { offset: at, first, second });
            }
            if kind == Kind::Store {
                byte.number = number;
            }
        }
    }
}

impl Byte {
    /// Adds an access, and returns the one that it races with.
    fn add(&mut self, kind: Kind, touch: &Touch, changed: bool) -> Option<(Kind, Touch)> {
        let rival = |known: &Touch, kind| known.is_of_another(touch).then_some((kind, *known));
        match kind {
            Kind::Load => {
                let write = rival(&self.write, Kind::Store).filter(|_| !self.agreed);
                let [first, second] = &mut self.reads;
                if first.interval != touch.interval {
                    *first = *touch;
                } else if first.wave != touch.wave && second.interval != touch.interval {
                    *second = *touch;
                }
                write
            }
            Kind::Atomic => {
                let write = rival(&self.write, Kind::Store);
                self.atomic = *touch;
                write
            }
            Kind::Store => {
                let write = rival(&self.write, Kind::Store);
                let read = self.reads.iter().find_map(|read| rival(read, Kind::Load));
                let first = rival(&self.atomic, Kind::Atomic).or(read);
                self.agreed = write.is_some() && !changed;
                self.write = *touch;
                write.filter(|_| changed).or(first)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind::*, *};

    /// Accesses of waves to the same byte, `None` being a barrier; which of them race, by their places in the list.
    #[track_caller]
    fn check(list: &[Option<(u32, Kind, bool)>], expected: &[(u64, u64)]) {
        let (mut races, mut found) = (Races::default(), Vec::new());
        races.begin();
        for (index, entry) in list.iter().enumerate() {
            let Some((wave, kind, changed)) = *entry else {
                races.barrier([u32::MAX; 3].into_iter());
                continue;
            };
            let bytes = (&[0][..], &[u8::from(changed)][..]);
            races.touch(&By { kind, wave, pc: index as u64, number: 1 }, 7, bytes, &mut found);
        }
        let pair = |found: &Found| match found {
            Found::LdsRace { offset: 7, first, second } => (first.pc, second.pc),
            other => panic!("{other:?}"),
        };
        assert_eq!(found.iter().map(pair).collect::<Vec<_>>(), expected, "{list:?}");
    }

    #[test]
    fn a_write_and_an_access_of_another_wave_need_a_barrier_between() {
        let write = |wave| Some((wave, Store, true));
        let same = |wave| Some((wave, Store, false));
        let read = |wave| Some((wave, Load, false));
        let atomic = |wave| Some((wave, Atomic, true));
        check(&[write(0), read(1)], &[(0, 1)]);
        check(&[write(0), None, read(1)], &[]);
        check(&[read(1), write(0)], &[(0, 1)]);
        check(&[read(1), None, write(0)], &[]);
        check(&[write(0), read(0), write(0)], &[]);
        check(&[write(0), write(1)], &[(0, 1)]);
        check(&[read(0), read(1), read(0)], &[]);
        // A read by the writer itself hides no other one.
        check(&[read(0), read(1), write(0)], &[(1, 2)]);
        check(&[read(2), read(2), read(1), None, read(1), write(1)], &[]);
        // Atomics order nothing, and count as writes against plain ones only.
        check(&[atomic(0), atomic(1), read(2)], &[]);
        check(&[write(0), atomic(1)], &[(0, 1)]);
        check(&[atomic(1), write(0)], &[(0, 1)]);
        // A flag that all set.
        check(&[write(0), same(1), same(2), read(2)], &[]);
        check(&[write(0), same(1), write(2)], &[(1, 2)]);
        check(&[read(0), same(1)], &[(0, 1)]);
    }
}
