//! Sets of byte offsets in a buffer, stored as ranges.

use std::{collections::BTreeMap, ops::Range};

/// A set of byte offsets. The map contains the start and end of disjoint, non-adjacent and non-empty ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn from_range(range: Range<u64>) -> Self {
        let mut ranges = Ranges::default();
        ranges.add(range);
        ranges
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the start and the end of each range.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(from, to)| (*from, *to))
    }

    pub(super) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Ranges that touch or overlap the new one are merged into it.
        while let Some((&from, &to)) =
            self.0.range(..=end).next_back().filter(|(_, to)| **to >= start)
        {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&from, &to)) =
            self.0.range(..range.end).next_back().filter(|(_, to)| **to > range.start)
        {
            self.0.remove(&from);
            if to > range.end {
                self.0.insert(range.end, to);
            }
            if from < range.start {
                self.0.insert(from, range.start);
            }
        }
    }

    /// Returns the part of the set inside a range, with offsets relative to the start of the range.
    pub(super) fn part(&self, range: Range<u64>) -> Ranges {
        if range.is_empty() {
            return Ranges::default();
        }
        let reach = self.0.range(..range.end).rev().take_while(|(_, to)| **to > range.start);
        let part = reach
            .map(|(from, to)| (from.saturating_sub(range.start), to.min(&range.end) - range.start));
        Ranges(part.collect())
    }

    /// Replaces the part of the set inside `at..at + len` by `part`, whose offsets are relative to `at`.
    pub(super) fn put(&mut self, at: u64, len: u64, part: &Ranges) {
        self.remove(at..at + len);
        for (from, to) in &part.0 {
            self.add(at + from..at + to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn bytes(ranges: &Ranges) -> BTreeSet<u64> {
        ranges.0.iter().flat_map(|(from, to)| *from..*to).collect()
    }

    proptest! {
        #[test]
        fn ranges_behave_like_sets_of_bytes(edits in prop::collection::vec((0..3, 0..20u64, 0..9u64), 0..12)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (what, at, len) in edits {
                let range = at..at + len;
                match what {
                    0 => {
                        ranges.add(range.clone());
                        set.extend(range);
                    }
                    1 => {
                        ranges.remove(range.clone());
                        set.retain(|byte| !range.contains(byte));
                    }
                    _ => {
                        let part = ranges.part(range.clone());
                        let inside = set.iter().filter(|byte| range.contains(byte));
                        let inside: BTreeSet<u64> = inside.map(|byte| byte - at).collect();
                        prop_assert_eq!(bytes(&part), inside.clone());
                        ranges.put(at + 3, len, &part);
                        set.retain(|byte| !(at + 3..at + 3 + len).contains(byte));
                        set.extend(inside.iter().map(|byte| byte + at + 3));
                    }
                }
                prop_assert_eq!(bytes(&ranges), set.clone());
                prop_assert_eq!(ranges.is_empty(), set.is_empty());
                // Ranges are neither adjacent nor empty.
                let apart = ranges.0.iter().zip(ranges.0.iter().skip(1)).all(|(a, b)| a.1 < b.0);
                prop_assert!(apart && ranges.0.iter().all(|(from, to)| from < to), "{:?}", ranges);
            }
        }
    }
}
