/// An error that can give the user a hint on how to resolve it.
pub trait Hint: std::error::Error {
    /// Returns the hint: what the user can do, as a fragment in lower case without a full stop. `None` if the error
    /// message is sufficient.
    fn hint(&self) -> Option<String>;
}

#[cfg(test)]
pub(crate) fn in_full(error: &dyn Hint) -> String {
    format!("{error}; {}", error.hint().unwrap_or_default())
}
