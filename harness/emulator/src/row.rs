/// One contiguous piece of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) len: usize,
}
