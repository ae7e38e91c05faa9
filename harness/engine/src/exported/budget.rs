//! The time that a search for a shorter program may take.

use std::time::Instant;

/// The time of a search, and its listener.
#[derive(Clone, Copy)]
pub struct ShortenBudget<'a> {
    /// When the search ends with the shortest program so far.
    pub deadline: Instant,
    /// Is called with the number of tries so far.
    pub tried: &'a dyn Fn(u32),
}

impl ShortenBudget<'_> {
    pub(super) fn is_spent(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
