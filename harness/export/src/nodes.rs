//! Prints C++ code that builds graphs node by node.

use plan::{Call, Step};

use crate::{
    calls::{HIP, dim},
    form::Form,
    helpers::Helper,
    memory::direction,
    names::NameKind,
    printer::Printer,
};

impl Printer<'_> {
    /// Prints the creation of a graph with a chain of empty nodes, to which other nodes may be added later.
    pub(crate) fn empty_graph(&mut self, step: &Step, graph: &str, nodes: u32) {
        let name = self.declare_created(NameKind::Graph, graph);
        self.status(step, &format!("hipGraphCreate(&{name}, 0)"), HIP);
        if nodes == 0 && !self.has_added_nodes(graph) {
            return;
        }
        let (last, node) = self.node_variables(graph);
        self.line(format!("hipGraphNode_t {last} = nullptr, {node} = nullptr;"));
        if nodes == 0 {
            return;
        }
        let index = self.names.fresh(NameKind::Loop, "n");
        self.line(format!("for (int {index} = 0; {index} < {nodes}; {index}++, {last} = {node})"));
        let call = format!("hipGraphAddEmptyNode(&{node}, {name}, &{last}, {index} > 0)");
        let from = self.position();
        self.status(step, &call, HIP);
        self.indent_since(from);
        self.names.release(&index);
    }

    /// Prints a call that adds a node to a graph. When the graph is launched, the node does what `call` does, after the
    /// last node that was added before.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other calls cannot be added as nodes")]
    pub(crate) fn add_node(&mut self, step: &Step, graph: &str, call: &Call) {
        let name = self.name(NameKind::Graph, graph);
        let (last, node) = self.node_variables(graph);
        let place = format!("&{node}, {name}, &{last}, {last} != nullptr");
        let text = match call {
            Call::Launch { kernel, grid, block, args, shared, .. } => {
                self.need(Helper::AddKernel);
                let arguments = self.arguments(kernel, args);
                let behind =
                    if arguments.is_empty() { String::new() } else { format!(", {arguments}") };
                let function = match self.form_of(kernel) {
                    Form::Hiprtc => self.name(NameKind::Kernel, kernel),
                    Form::Hipcc => format!("reinterpret_cast<void*>({kernel})"),
                };
                let (grid, block) = (dim(*grid), dim(*block));
                format!("add_kernel({place}, {function}, {grid}, {block}, {shared}{behind})")
            }
            Call::Copy { to, from, bytes, .. } => {
                let kind =
                    direction(self.buffer(&to.buffer).memory, self.buffer(&from.buffer).memory);
                let (to, from) = (self.place(to), self.place(from));
                format!("hipGraphAddMemcpyNode1D({place}, {to}, {from}, {bytes}, {kind})")
            }
            Call::Set { to, value, words, bytes, .. } => {
                let size = if *words { 4 } else { 1 };
                let params = self.names.fresh(NameKind::Value, "set");
                let to = self.place(to);
                self.line(format!(
                    "const hipMemsetParams {params} = {{{to}, {size}, 1, {bytes}, {value}, {}}};",
                    bytes / size
                ));
                format!("hipGraphAddMemsetNode({place}, &{params})")
            }
            Call::HostFunc { buffer, .. } => {
                self.need(Helper::AddOne);
                let (bytes, data) =
                    (self.buffer(buffer).bytes, self.name(NameKind::Buffer, buffer));
                let params = self.names.fresh(NameKind::Value, "host");
                self.line(format!(
                    "const hipHostNodeParams {params} = {{add_one<{bytes}>, {data}}};"
                ));
                format!("hipGraphAddHostNode({place}, &{params})")
            }
            // `plan::impossible_steps` rejects plans in which any other call is a node.
            _ => return self.unsupported_call(step),
        };
        self.status(step, &text, HIP);
        self.line(format!("{last} = {node};"));
    }

    /// Prints a call that adds a child graph node to a graph. The node depends on the node that was added last.
    pub(crate) fn add_child(&mut self, step: &Step, graph: &str, child: &str) {
        let (name, child) = (self.name(NameKind::Graph, graph), self.name(NameKind::Graph, child));
        let (last, node) = self.node_variables(graph);
        let call = format!(
            "hipGraphAddChildGraphNode(&{node}, {name}, &{last}, {last} != nullptr, {child})"
        );
        self.status(step, &call, HIP);
        self.line(format!("{last} = {node};"));
    }

    fn has_added_nodes(&self, graph: &str) -> bool {
        let adds = |step: &&Step| matches!(&step.call, Call::AddNode { graph: to, .. } | Call::GraphAddChild { graph: to, .. } if to == graph);
        self.plan.steps().iter().any(adds)
    }

    /// Returns the names of two C++ variables: for the last node of a graph, and for the node that is being added.
    fn node_variables(&mut self, graph: &str) -> (String, String) {
        if !self.ends.contains_key(graph) {
            let made = (
                self.names.fresh(NameKind::Value, "before"),
                self.names.fresh(NameKind::Value, "node"),
            );
            self.ends.insert(graph.to_owned(), made);
        }
        self.ends[graph].clone()
    }
}
