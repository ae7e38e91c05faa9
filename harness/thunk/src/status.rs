//! Results of the thunk's functions.

/// Status that a function of the thunk returns (`HSAKMT_STATUS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Status(pub(crate) u32);

impl Status {
    pub(crate) const SUCCESS: Status = Status(0);
    pub(crate) const ERROR: Status = Status(1);
    pub(crate) const INVALID_PARAMETER: Status = Status(3);
    pub(crate) const INVALID_HANDLE: Status = Status(4);
    pub(crate) const INVALID_NODE_UNIT: Status = Status(5);
    pub(crate) const NO_MEMORY: Status = Status(6);
    pub(crate) const NOT_SUPPORTED: Status = Status(11);
    pub(crate) const WAIT_TIMEOUT: Status = Status(31);
    pub(crate) const MEMORY_NOT_REGISTERED: Status = Status(36);
}
