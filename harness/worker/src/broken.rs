use std::io;

use hip_sys::LoadError;

/// Reason why the order cannot be executed: the plan itself is wrong, or the machine is in trouble. It proves nothing
/// about the stack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

impl From<LoadError> for Broken {
    // Every function that a plan calls was looked up before set-up, so a missing one is a mistake in `needs`.
    fn from(missing: LoadError) -> Self {
        Broken(missing.to_string())
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Broken(error.to_string())
    }
}
