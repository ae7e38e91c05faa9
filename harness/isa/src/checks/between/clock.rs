//! What a wave knows of others: up to when what they did is ordered before what it does.

use std::sync::Arc;

/// When something happened: accesses to memory are counted over all waves of a launch, from 1 on.
pub(super) type Time = u32;

/// What is known of one wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which wave.
    pub wave: u32,
    /// Up to here its accesses were made.
    pub made: Time,
    /// Up to here what it wrote has come to memory.
    pub come: Time,
}

/// What is known of all waves; those that are left out, nothing is known of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<Entry>);

impl Clock {
    /// Of entries in any order, several of which may be of one wave.
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

    /// One for each wave of which something is known, in the order of their numbers.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// What is known of a wave.
    pub fn of(&self, wave: u32) -> Option<&Entry> {
        let found = self.0.binary_search_by_key(&wave, |entry| entry.wave);
        found.ok().map(|index| &self.0[index])
    }

    fn holds(&self, other: &Clock) -> bool {
        let known = |entry: &Entry| {
            let own = self.of(entry.wave);
            own.is_some_and(|own| own.made >= entry.made && own.come >= entry.come)
        };
        other.0.iter().all(known)
    }

    /// What both know, and how many entries that took to write down.
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
