//! Reads steps with the key `graph`, which add a node to a graph in place of making the call.

use plan::{Call, CopyApi, Keys, ObjectKind};

use super::args::Args;

impl Args<'_, '_, '_, '_> {
    /// If the step has the key `graph`, returns the call that adds a node with the effect of `call` to that graph.
    /// Otherwise returns `call`.
    pub(super) fn or_node(&mut self, mut call: Call) -> Option<Call> {
        let Some(_) = self.get("graph") else { return Some(call) };
        let graph = self.thing("graph", ObjectKind::Graph)?;
        let mut refused = false;
        for key in ["stream", "async", "api", "cooperative"] {
            if let Some(given) = self.get(key) {
                let what = &self.what;
                let message = format!(
                    "{what} with `graph` adds a node, which has no `{key}`; remove one of the two"
                );
                self.reader.mistake(given.at, message);
                refused = true;
            }
        }
        if let Call::Copy { api, .. } = &mut call {
            *api = CopyApi::MemcpyAsync;
        }
        if let Call::Set { asynchronous, .. } = &mut call {
            *asynchronous = true;
        }
        (!refused).then(|| Call::AddNode { graph, node: Box::new(call) })
    }
}
