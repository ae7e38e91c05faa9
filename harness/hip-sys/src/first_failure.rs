//! Stores, for each thread, which HIP or library function failed first. A step of a case may call several functions,
//! and a report names the one that failed.

use std::{
    cell::Cell,
    ffi::{c_char, c_int},
};

thread_local! {
    static FIRST: Cell<Option<(&'static str, c_int)>> = const { Cell::new(None) };
}

pub(crate) trait Returned {
    fn failed(self) -> Option<c_int>;
}

impl Returned for c_int {
    fn failed(self) -> Option<c_int> {
        (self != 0).then_some(self)
    }
}

impl Returned for *const c_char {
    fn failed(self) -> Option<c_int> {
        None
    }
}

/// Stores the name of a function and its status if the function failed, unless this thread has already stored a
/// failure.
pub(crate) fn note(function: &'static str, returned: impl Returned) {
    if let Some(status) = returned.failed() {
        FIRST.set(FIRST.get().or(Some((function, status))));
    }
}

/// Returns the function that failed first in this thread since the last call of `take_first_failure`, with its status.
/// Removes both from the thread. Returns `None` if no function has failed.
pub fn take_first_failure() -> Option<(&'static str, c_int)> {
    FIRST.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_is_kept_per_thread_until_taken() {
        assert_eq!(take_first_failure(), None);
        note("good", 0);
        note("first", 3);
        note("second", 4);
        assert_eq!(take_first_failure(), Some(("first", 3)));
        note("third", 5);
        std::thread::spawn(|| assert_eq!(take_first_failure(), None)).join().unwrap();
        assert_eq!(take_first_failure(), Some(("third", 5)));
    }
}
