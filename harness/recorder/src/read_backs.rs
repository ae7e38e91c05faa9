//! Host memory to which enqueued copies write. The recorder adds no synchronisation: it reads the memory when a call of
//! the program has waited for the copy.

use std::collections::{BTreeMap, BTreeSet};

/// A range of host memory: the address of its first byte, and its size in bytes.
pub(crate) type HostRange = (u64, u64);

/// Enqueued copies to the host that may not have completed.
#[derive(Default)]
pub(crate) struct ReadBacks {
    /// Targets of copies, each with the stream of the copy.
    pending: BTreeMap<HostRange, u64>,
    /// Targets of the copies that are nodes of graphs.
    in_graphs: BTreeSet<HostRange>,
    /// Number of captures that have not ended.
    captures: usize,
}

impl ReadBacks {
    /// Remembers a copy to the host. During a capture, the copy becomes a node of a graph.
    pub(crate) fn enqueue(&mut self, target: HostRange, stream: u64) {
        match self.captures {
            0 => drop(self.pending.insert(target, stream)),
            _ => drop(self.in_graphs.insert(target)),
        }
    }

    /// Processes a successful call. If the call may have waited for copies to the host, returns the host ranges of
    /// these copies.
    pub(crate) fn follow(&mut self, function: &str, stream: u64) -> Vec<HostRange> {
        match function.trim_end_matches("_spt") {
            "hipStreamBeginCapture" => self.captures += 1,
            "hipStreamEndCapture" => self.captures = self.captures.saturating_sub(1),
            "hipGraphLaunch" => {
                self.pending.extend(self.in_graphs.iter().map(|target| (*target, stream)));
            }
            name @ ("hipDeviceSynchronize" | "hipEventSynchronize" | "hipStreamSynchronize") => {
                let targets = self.pending.keys().copied().collect();
                // Copies of other streams may still be running, so their ranges are read again later.
                self.pending.retain(|_, of| match name {
                    "hipDeviceSynchronize" => false,
                    "hipStreamSynchronize" => *of != stream,
                    _ => true,
                });
                return targets;
            }
            _ => {}
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_read_after_the_call_that_waits_for_them() {
        let mut copies = ReadBacks::default();
        copies.enqueue((0x1000, 64), 8);
        copies.enqueue((0x2000, 64), 9);
        assert_eq!(copies.follow("hipMemcpyAsync", 8), []);
        assert_eq!(copies.follow("hipStreamSynchronize", 8), [(0x1000, 64), (0x2000, 64)]);
        assert_eq!(copies.follow("hipEventSynchronize", 0), [(0x2000, 64)]);
        assert_eq!(copies.follow("hipDeviceSynchronize", 0), [(0x2000, 64)]);
        assert_eq!(copies.follow("hipDeviceSynchronize", 0), []);
    }

    #[test]
    fn copies_of_a_graph_are_read_after_each_launch() {
        let mut copies = ReadBacks::default();
        copies.follow("hipStreamBeginCapture", 8);
        copies.enqueue((0x1000, 64), 8);
        copies.follow("hipStreamEndCapture", 8);
        assert_eq!(copies.follow("hipStreamSynchronize", 8), []);
        for _ in 0..2 {
            copies.follow("hipGraphLaunch", 8);
            assert_eq!(copies.follow("hipStreamSynchronize", 8), [(0x1000, 64)]);
        }
    }
}
