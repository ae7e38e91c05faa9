//! The time budget of a search for a shorter program.

use std::time::Instant;

/// Time limit of a search for a shorter program, and the function that reports its progress.
#[derive(Clone, Copy)]
pub struct ShortenBudget<'a> {
    /// Time at which the search ends. Its result is the shortest program found by then.
    pub deadline: Instant,
    /// Function that the search calls with the number of programs tried so far.
    pub tried: &'a dyn Fn(u32),
}

impl ShortenBudget<'_> {
    pub(super) fn is_spent(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
