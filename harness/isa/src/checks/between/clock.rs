//! Vector clock of a wave. For each other wave, it contains the time up to which accesses happen before this wave's
//! next access.

use std::sync::Arc;

/// Number of a memory access, counted from 1 over all waves of a launch.
pub(super) type Time = u32;

/// Entry of a [`Clock`] for one wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the wave in the launch.
    pub wave: u32,
    /// Accesses of the wave up to this time happen before the next access of the clock's owner.
    pub made: Time,
    /// Writes of the wave up to this time have reached memory.
    pub come: Time,
}

/// Vector clock. It orders no accesses of a wave for which it has no entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<Entry>);

impl Clock {
    /// Creates a clock from entries in any order. Several entries for one wave are merged.
    pub fn new(mut entries: Vec<Entry>) -> Clock {
        entries.sort_unstable_by_key(|entry| entry.wave);
        entries.dedup_by(|entry, kept| {
            let same = entry.wave == kept.wave;
            if same {
                (kept.made, kept.come) = (kept.made.max(entry.made), kept.come.max(entry.come));
            }
            same
        });
        Clock(entries)
    }

    /// Returns the entries, ordered by wave.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Returns the entry for a wave; `None` if the clock does not have one.
    pub fn entry(&self, wave: u32) -> Option<&Entry> {
        let found = self.0.binary_search_by_key(&wave, |entry| entry.wave);
        found.ok().map(|index| &self.0[index])
    }

    fn holds(&self, other: &Clock) -> bool {
        let known = |entry: &Entry| {
            let own = self.entry(entry.wave);
            own.is_some_and(|own| own.made >= entry.made && own.come >= entry.come)
        };
        other.0.iter().all(known)
    }

    /// Returns a clock with the entries of both clocks, and the number of entries that were allocated for it.
    pub fn join(one: &Arc<Clock>, other: &Arc<Clock>) -> (Arc<Clock>, usize) {
        if Arc::ptr_eq(one, other) || one.holds(other) {
            return (one.clone(), 0);
        }
        if other.holds(one) {
            return (other.clone(), 0);
        }
        let all = Clock::new([&one.0[..], &other.0[..]].concat());
        let made = all.0.len();
        (Arc::new(all), made)
    }
}
