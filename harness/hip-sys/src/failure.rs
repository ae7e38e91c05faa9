//! Which function failed, where one step makes several calls.

use std::{
    cell::Cell,
    ffi::{c_char, c_int},
};

thread_local! {
    static FIRST: Cell<Option<(&'static str, c_int)>> = const { Cell::new(None) };
}

/// What a function of a library returns.
pub(crate) trait Returned {
    /// A status other than success.
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

/// Keeps the first failure of this thread.
pub(crate) fn note(function: &'static str, returned: impl Returned) {
    if let Some(status) = returned.failed() {
        FIRST.set(FIRST.get().or(Some((function, status))));
    }
}

/// The first function of this thread that returned a status other than success since this was last asked, with the status.
pub fn first_failure() -> Option<(&'static str, c_int)> {
    FIRST.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_kept_until_it_is_asked_for() {
        assert_eq!(first_failure(), None);
        note("good", 0);
        note("first", 3);
        note("second", 4);
        assert_eq!(first_failure(), Some(("first", 3)));
        note("third", 5);
        std::thread::spawn(|| assert_eq!(first_failure(), None)).join().unwrap();
        assert_eq!(first_failure(), Some(("third", 5)));
    }
}
