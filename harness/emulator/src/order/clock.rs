use std::collections::{BTreeMap, BTreeSet};

/// Identity of a packet or copy: its queue and its index in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkId {
    pub(super) queue: u64,
    pub(super) index: u64,
}

/// Vector clock: the set of packets and copies that are known to be complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(BTreeMap<u64, CompletedPackets>);

/// Packets of one queue that are complete.
#[derive(Clone, Debug, Default)]
struct CompletedPackets {
    /// All packets whose index is below this number are complete.
    before: u64,
    /// Indices of those complete packets that follow an incomplete one. All are greater than `before`.
    single: BTreeSet<u64>,
}

impl CompletedPackets {
    fn add(&mut self, index: u64) {
        if index >= self.before {
            self.single.insert(index);
        }
        self.compact();
    }

    fn join(&mut self, other: &CompletedPackets) {
        if self.before < other.before {
            self.before = other.before;
            self.single = self.single.split_off(&self.before);
        }
        self.single.extend(other.single.iter().filter(|index| **index >= self.before));
        self.compact();
    }

    fn compact(&mut self) {
        while self.single.remove(&self.before) {
            self.before += 1;
        }
    }
}

impl Clock {
    pub(super) fn contains(&self, place: WorkId) -> bool {
        self.0.get(&place.queue).is_some_and(|complete| {
            place.index < complete.before || complete.single.contains(&place.index)
        })
    }

    pub(super) fn add(&mut self, place: WorkId) {
        self.0.entry(place.queue).or_default().add(place.index);
    }

    pub(super) fn join(&mut self, other: &Clock) {
        for (queue, complete) in &other.0 {
            self.0.entry(*queue).or_default().join(complete);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a clock that contains these packets of queue 1 as complete.
    fn clock(known: &[u64]) -> Clock {
        let mut clock = Clock::default();
        known.iter().for_each(|index| clock.add(WorkId { queue: 1, index: *index }));
        clock
    }

    #[track_caller]
    fn check(clock: &Clock, expected: &[u64]) {
        let known = (0..12).filter(|index| clock.contains(WorkId { queue: 1, index: *index }));
        assert_eq!(known.collect::<Vec<_>>(), expected);
        assert!(!clock.contains(WorkId { queue: 2, index: 0 }));
    }

    #[test]
    fn clock_contains_added_and_joined_packets() {
        check(&clock(&[]), &[]);
        check(&clock(&[3, 0, 1, 1]), &[0, 1, 3]);
        let mut joined = clock(&[5, 0, 1, 7]);
        joined.join(&clock(&[2, 3, 0, 1, 9]));
        check(&joined, &[0, 1, 2, 3, 5, 7, 9]);
        joined.join(&clock(&[4, 6]));
        check(&joined, &[0, 1, 2, 3, 4, 5, 6, 7, 9]);
        let mut behind = clock(&[0, 8]);
        behind.join(&joined);
        check(&behind, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
