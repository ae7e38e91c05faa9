use std::io;

use hip_sys::LoadError;

/// Reason why the worker cannot execute an order (the plan and its settings), for example a mistake in the plan or a
/// problem of the machine. Such a reason says nothing about the ROCm stack under test.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WorkerError(pub(crate) String);

impl From<LoadError> for WorkerError {
    // The worker looks up every function of a plan before set-up. A function that is missing later is therefore a
    // mistake in the module `needs`.
    fn from(missing: LoadError) -> Self {
        WorkerError(missing.to_string())
    }
}

impl From<io::Error> for WorkerError {
    fn from(error: io::Error) -> Self {
        WorkerError(error.to_string())
    }
}
