//! Graphs that are made node by node, in C++.

use plan::{Call, Step};

use crate::{
    calls::{HIP, dim},
    form::Form,
    memory::direction,
    names::Kind,
    printer::Printer,
    support::Helper,
};

impl Printer<'_> {
    /// A graph of empty nodes in a chain, to which others may be added.
    pub(crate) fn empty_graph(&mut self, step: &Step, graph: &str, nodes: u32) {
        let name = self.making(Kind::Graph, graph);
        self.status(step, &format!("hipGraphCreate(&{name}, 0)"), HIP);
        if nodes == 0 && !self.gets_nodes(graph) {
            return;
        }
        let (last, node) = self.ends(graph);
        self.line(format!("hipGraphNode_t {last} = nullptr, {node} = nullptr;"));
        if nodes == 0 {
            return;
        }
        let index = self.names.fresh(Kind::Loop, "n");
        self.line(format!("for (int {index} = 0; {index} < {nodes}; {index}++, {last} = {node})"));
        let call = format!("hipGraphAddEmptyNode(&{node}, {name}, &{last}, {index} > 0)");
        let from = self.lines_made();
        self.status(step, &call, HIP);
        self.indent_since(from);
        self.names.release(&index);
    }

    /// A node that makes a call, behind the last one of its graph.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other calls are no nodes by hand")]
    pub(crate) fn add_node(&mut self, step: &Step, graph: &str, call: &Call) {
        let name = self.name(Kind::Graph, graph);
        let (last, node) = self.ends(graph);
        let place = format!("&{node}, {name}, &{last}, {last} != nullptr");
        let text = match call {
            Call::Launch { kernel, grid, block, args, shared, .. } => {
                self.need(Helper::AddKernel);
                let arguments = self.arguments(kernel, args);
                let behind =
                    if arguments.is_empty() { String::new() } else { format!(", {arguments}") };
                let function = match self.form_of(kernel) {
                    Form::Hiprtc => self.name(Kind::Kernel, kernel),
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
                let params = self.names.fresh(Kind::Value, "set");
                let to = self.place(to);
                self.line(format!(
                    "const hipMemsetParams {params} = {{{to}, {size}, 1, {bytes}, {value}, {}}};",
                    bytes / size
                ));
                format!("hipGraphAddMemsetNode({place}, &{params})")
            }
            Call::HostFunc { buffer, .. } => {
                self.need(Helper::AddOne);
                let (bytes, data) = (self.buffer(buffer).bytes, self.name(Kind::Buffer, buffer));
                let params = self.names.fresh(Kind::Value, "host");
                self.line(format!(
                    "const hipHostNodeParams {params} = {{add_one<{bytes}>, {data}}};"
                ));
                format!("hipGraphAddHostNode({place}, &{params})")
            }
            // `plan::impossible_steps` refuses every other.
            _ => return self.unwritten(step),
        };
        self.status(step, &text, HIP);
        self.line(format!("{last} = {node};"));
    }

    /// A node that is another graph, behind the last one of its graph.
    pub(crate) fn add_child(&mut self, step: &Step, graph: &str, child: &str) {
        let (name, child) = (self.name(Kind::Graph, graph), self.name(Kind::Graph, child));
        let (last, node) = self.ends(graph);
        let call = format!(
            "hipGraphAddChildGraphNode(&{node}, {name}, &{last}, {last} != nullptr, {child})"
        );
        self.status(step, &call, HIP);
        self.line(format!("{last} = {node};"));
    }

    fn gets_nodes(&self, graph: &str) -> bool {
        let adds = |step: &&Step| matches!(&step.call, Call::AddNode { graph: to, .. } | Call::GraphAddChild { graph: to, .. } if to == graph);
        self.plan.steps().iter().any(adds)
    }

    /// The variables of the last node of a graph and of the one that is added.
    fn ends(&mut self, graph: &str) -> (String, String) {
        if !self.ends.contains_key(graph) {
            let made =
                (self.names.fresh(Kind::Value, "before"), self.names.fresh(Kind::Value, "node"));
            self.ends.insert(graph.to_owned(), made);
        }
        self.ends[graph].clone()
    }
}
