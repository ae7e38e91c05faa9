//! Nodes of the topology: node 0 is the host processor, and the GPUs follow.

use crate::{configuration, status::Status};

/// Number of a node. A value of this type always denotes an existing node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u32);

impl Node {
    pub(crate) const HOST: Node = Node(0);

    /// Returns the node with this number.
    ///
    /// # Errors
    /// Fails if the node does not exist.
    pub(crate) fn new(number: u32) -> Result<Node, Status> {
        (number < count()).then_some(Node(number)).ok_or(Status::INVALID_NODE_UNIT)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns the index of the GPU, counted from 0; `None` for the host.
    pub(crate) fn gpu(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    pub(crate) fn all() -> impl Iterator<Item = Node> {
        (0..count()).map(Node)
    }

    pub(crate) fn gpus() -> impl Iterator<Item = Node> {
        (1..count()).map(Node)
    }
}

pub(crate) fn count() -> u32 {
    configuration::get().devices + 1
}
