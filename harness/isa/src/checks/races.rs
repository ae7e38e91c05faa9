//! Races in the LDS: waves of a workgroup that touch the same bytes with no barrier between.
//!
//! What two waves do between the same two barriers has no order. A conflict is a write and any other access of a second wave,
//! by the byte. Two atomics are none, neither are an atomic and a read, which may be a wave that polls. Waves that write the
//! bytes that are there already, such as a flag that each of them sets, are let pass.

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
    /// Several waves wrote the same.
    agreed: bool,
    atomic: Touch,
    /// The first read of the interval, and the first of another wave.
    reads: [Touch; 2],
}

#[derive(Default)]
pub(crate) struct Races {
    bytes: Vec<Byte>,
    interval: u32,
    texts: HashMap<u64, Arc<str>>,
    /// The pairs of instructions that were told.
    told: HashSet<[u64; 2]>,
}

impl Races {
    /// A workgroup begins, or its waves have met at a barrier.
    pub(crate) fn barrier(&mut self) {
        self.interval += 1;
    }

    /// Notes the text of an instruction that touches the LDS.
    pub(crate) fn runs(&mut self, pc: u64, text: &Arc<str>) {
        self.texts.entry(pc).or_insert_with(|| text.clone());
    }

    /// Notes an access to bytes that held `before` and hold `now`.
    pub(crate) fn touch(
        &mut self,
        kind: Kind,
        wave: u32,
        pc: u64,
        offset: u64,
        (before, now): (&[u8], &[u8]),
        found: &mut Vec<Found>,
    ) {
        let touch = Touch { interval: self.interval, wave, pc };
        let end = offset as usize + now.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, Byte::default());
        }
        for (index, byte) in self.bytes[offset as usize..end].iter_mut().enumerate() {
            if let Some((kind_before, other)) = byte.add(kind, &touch, before[index] != now[index])
                && self.told.insert([other.pc, pc])
            {
                let access = |kind, touch: Touch| {
                    let text = self.texts.get(&touch.pc).cloned().unwrap_or_default();
                    Access { wave: touch.wave, kind, pc: touch.pc, text }
                };
                let (first, second) = (access(kind_before, other), access(kind, touch));
                let offset = offset + index as u64;
                found.push(Found::LdsRace { offset, first, second });
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
        races.barrier();
        for (index, entry) in list.iter().enumerate() {
            let Some((wave, kind, changed)) = *entry else {
                races.barrier();
                continue;
            };
            let bytes = (&[0][..], &[u8::from(changed)][..]);
            races.touch(kind, wave, index as u64, 7, bytes, &mut found);
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
