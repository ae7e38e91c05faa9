//! Remembers which function failed first, for steps that make several calls.

use std::{
    cell::Cell,
    ffi::{c_char, c_int},
};

thread_local! {
    static FIRST: Cell<Option<(&'static str, c_int)>> = const { Cell::new(None) };
}

/// Return type of a library function.
pub(crate) trait Returned {
    /// Returns the status unless it means success.
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

/// Remembers a failure of this thread if it is the first one.
pub(crate) fn note(function: &'static str, returned: impl Returned) {
    if let Some(status) = returned.failed() {
        FIRST.set(FIRST.get().or(Some((function, status))));
    }
}

/// Returns, and forgets, the first function of this thread that failed since the last call, with its status.
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
