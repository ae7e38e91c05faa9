//! Where the variables of handles and buffers are declared: at the call that makes them, or at the top of `main` where
//! another block uses them too.

use std::collections::BTreeMap;

use plan::{Call, Plan, Step};

use crate::names::{Kind, Names};

/// The variables of a program.
pub(crate) struct Declared(BTreeMap<(Kind, String), Use>);

#[derive(Default)]
struct Use {
    /// Calls that make it, in the text.
    makers: u32,
    /// Whether its first mention is a call that makes it, outside of all blocks.
    made_first: bool,
    mentioned: bool,
}

impl Declared {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut declared = Declared(BTreeMap::new());
        for (_, steps) in plan.phases() {
            declared.walk(steps, 0);
        }
        declared
    }

    fn walk(&mut self, steps: &[Step], depth: u32) {
        for step in steps {
            match &step.call {
                Call::Repeat { body, .. } | Call::Thread { body } => self.walk(body, depth + 1),
                call => {
                    for (kind, name, makes) in mentions(call) {
                        let entry = self.0.entry((kind, name.to_owned())).or_default();
                        if !entry.mentioned {
                            entry.mentioned = true;
                            entry.made_first = makes && depth == 0;
                        }
                        entry.makers += u32::from(makes);
                    }
                }
            }
        }
    }

    /// Whether the variable is declared at the top.
    pub(crate) fn is_hoisted(&self, kind: Kind, name: &str) -> bool {
        self.0.get(&(kind, name.to_owned())).is_none_or(|u| !u.made_first || u.makers != 1)
    }

    /// The declarations at the top, one line per type.
    pub(crate) fn lines(&self, names: &mut Names) -> Vec<String> {
        let mut by_type: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for (kind, name) in self.0.keys() {
            if *kind != Kind::Kernel && self.is_hoisted(*kind, name) {
                let identifier = names.of(*kind, name);
                let star = if *kind == Kind::Buffer { "*" } else { "" };
                by_type
                    .entry(type_of(*kind))
                    .or_default()
                    .push(format!("{star}{identifier} = nullptr"));
            }
        }
        by_type.into_iter().map(|(ty, names)| format!("{ty} {};", names.join(", "))).collect()
    }
}

/// The type of a variable, without the star of a pointer.
pub(crate) fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Buffer => "unsigned char",
        Kind::Stream => "hipStream_t",
        Kind::Event => "hipEvent_t",
        Kind::Graph => "hipGraph_t",
        Kind::Exec => "hipGraphExec_t",
        Kind::Kernel => "hipModule_t",
        Kind::Generator => "hiprandGenerator_t",
        Kind::Blaslt => "hipblasLtHandle_t",
        Kind::Rocblas => "rocblas_handle",
        Kind::Loop | Kind::Value => "int",
    }
}

/// The variable that a call makes, if any.
pub(crate) fn made(call: &Call) -> Option<(Kind, &str)> {
    mentions(call).into_iter().find(|(_, _, makes)| *makes).map(|(kind, name, _)| (kind, name))
}

/// The variables that a call mentions, and whether it makes them.
fn mentions(call: &Call) -> Vec<(Kind, &str, bool)> {
    fn stream(name: &str) -> (Kind, &str, bool) {
        (Kind::Stream, name, false)
    }
    let mut all: Vec<(Kind, &str, bool)> = match call {
        Call::AddNode { graph, node } => {
            let used = mentions(node).into_iter();
            [(Kind::Graph, graph.as_str(), false)].into_iter().chain(used).collect()
        }
        Call::Alloc { buffer, stream: s } => vec![(Kind::Buffer, buffer, true), stream(s)],
        Call::Free { buffer, stream: s } => vec![(Kind::Buffer, buffer, false), stream(s)],
        Call::Poison { buffer }
        | Call::Fill { buffer, .. }
        | Call::FillNumbers { buffer, .. }
        | Call::Check { buffer }
        | Call::Guards { buffer } => vec![(Kind::Buffer, buffer, false)],
        Call::Copy { to, from, stream: s, .. } | Call::Copy2d { to, from, stream: s, .. } => {
            vec![(Kind::Buffer, &to.buffer, false), (Kind::Buffer, &from.buffer, false), stream(s)]
        }
        Call::Set { to, stream: s, .. } => vec![(Kind::Buffer, &to.buffer, false), stream(s)],
        Call::Compile { kernel } | Call::Load { kernel } => vec![(Kind::Kernel, kernel, true)],
        Call::Unload { kernel } | Call::FindSymbol { kernel, .. } => {
            vec![(Kind::Kernel, kernel, false)]
        }
        Call::HostFunc { buffer, stream: s, .. } => {
            vec![(Kind::Buffer, buffer, false), stream(s)]
        }
        Call::Launch { args, stream: s, .. } => args
            .iter()
            .filter_map(|arg| match arg {
                plan::Arg::Address(place) => Some((Kind::Buffer, place.buffer.as_str(), false)),
                _ => None,
            })
            .chain([stream(s)])
            .collect(),
        Call::StreamCreate { stream } => vec![(Kind::Stream, stream, true)],
        Call::StreamDestroy { stream: s }
        | Call::StreamSynchronize { stream: s }
        | Call::StreamQuery { stream: s }
        | Call::BeginCapture { stream: s, .. }
        | Call::IsCapturing { stream: s } => vec![stream(s)],
        Call::EventCreate { event, .. } => vec![(Kind::Event, event, true)],
        Call::EventElapsed { start, end } => {
            vec![(Kind::Event, start, false), (Kind::Event, end, false)]
        }
        Call::EventDestroy { event }
        | Call::EventSynchronize { event }
        | Call::EventQuery { event } => vec![(Kind::Event, event, false)],
        Call::StreamWaitEvent { stream: s, event } | Call::EventRecord { event, stream: s } => {
            vec![(Kind::Event, event, false), stream(s)]
        }
        Call::EndCapture { stream: s, graph } => vec![(Kind::Graph, graph, true), stream(s)],
        Call::EmptyGraph { graph, .. } => vec![(Kind::Graph, graph, true)],
        Call::GraphNodeCount { graph } | Call::GraphDestroy { graph } => {
            vec![(Kind::Graph, graph, false)]
        }
        Call::GraphInstantiate { exec, graph } => {
            vec![(Kind::Exec, exec, true), (Kind::Graph, graph, false)]
        }
        Call::GraphLaunch { exec, stream: s } => vec![(Kind::Exec, exec, false), stream(s)],
        Call::GraphExecUpdate { exec, graph } => {
            vec![(Kind::Exec, exec, false), (Kind::Graph, graph, false)]
        }
        Call::GraphExecDestroy { exec } => vec![(Kind::Exec, exec, false)],
        Call::RandCreate { generator, .. } => vec![(Kind::Generator, generator, true)],
        Call::RandSeed { generator, .. }
        | Call::RandOffset { generator, .. }
        | Call::RandDestroy { generator } => vec![(Kind::Generator, generator, false)],
        Call::RandStream { generator, stream: s } => {
            vec![(Kind::Generator, generator, false), stream(s)]
        }
        Call::RandGenerate { generator, to, .. } => {
            vec![(Kind::Generator, generator, false), (Kind::Buffer, &to.buffer, false)]
        }
        Call::BlasltCreate { handle } => vec![(Kind::Blaslt, handle, true)],
        Call::BlasltHeuristic { handle, .. } | Call::BlasltDestroy { handle } => {
            vec![(Kind::Blaslt, handle, false)]
        }
        Call::RocblasCreate { handle } => vec![(Kind::Rocblas, handle, true)],
        Call::RocblasDestroy { handle } => vec![(Kind::Rocblas, handle, false)],
        Call::BlasltMatmul { handle, operands, stream: s, .. } => {
            let mut all = vec![(Kind::Blaslt, handle.as_str(), false), stream(s)];
            all.extend(operand_buffers(operands).map(|b| (Kind::Buffer, b, false)));
            all
        }
        Call::RocblasGemm { handle, operands, stream: s, .. } => {
            let mut all = vec![(Kind::Rocblas, handle.as_str(), false), stream(s)];
            all.extend(operand_buffers(operands).map(|b| (Kind::Buffer, b, false)));
            all
        }
        Call::Equal { a, b } | Call::Differ { a, b } => {
            vec![(Kind::Buffer, a, false), (Kind::Buffer, b, false)]
        }
        Call::DeviceSynchronize
        | Call::GetLastError
        | Call::DeviceAttribute { .. }
        | Call::MemGetInfo
        | Call::TrimPool
        | Call::FreeAddress { .. }
        | Call::Sleep { .. }
        | Call::Repeat { .. }
        | Call::Thread { .. } => Vec::new(),
    };
    all.retain(|(kind, name, _)| !(*kind == Kind::Stream && *name == plan::DEFAULT_STREAM));
    all
}

/// The buffers of a product.
pub(crate) fn operand_buffers(operands: &plan::Operands) -> impl Iterator<Item = &str> {
    [Some(&operands.a), Some(&operands.b), Some(&operands.d), operands.bias.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
}
