//! The processes that a session started: the kernel log speaks of them by their numbers.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use supervise::Observed;

#[derive(Default)]
pub(crate) struct Processes(Mutex<BTreeSet<u32>>);

impl Processes {
    pub(crate) fn note(&self, seen: &Observed) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(seen.pid);
    }

    pub(crate) fn all(&self) -> BTreeSet<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
