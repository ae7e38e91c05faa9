//! Errors that say what to do.

/// An error with advice for the user.
pub trait Hint: std::error::Error {
    /// Returns what the user can do, as a fragment in lower case without a full stop; nothing if the message says it all.
    fn hint(&self) -> Option<String>;
}

/// Returns an error and its hint in one line.
#[cfg(test)]
pub(crate) fn in_full(error: &dyn Hint) -> String {
    format!("{error}; {}", error.hint().unwrap_or_default())
}
