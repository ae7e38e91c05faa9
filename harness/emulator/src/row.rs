/// One contiguous piece of a copy: `len` bytes from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) len: usize,
}
