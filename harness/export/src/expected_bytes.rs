//! Prints C++ code that computes the expected bytes of buffers on the host, in program order, next to the calls.
//!
//! The rules are those of `plan::reference`: a call that may not succeed has no effect, and work that a stream captures
//! takes effect each time the graph is launched. Only buffers on which some check depends are tracked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use plan::{
    Arg, Box3d, Call, CaptureEffect, CaptureRole, Captures, MemoryEffect, ObjectKind, Plan,
    ScalarType, Step, kernel, may_succeed,
};

use crate::{
    expected_names::{as_elements, expected_bytes_of},
    formula,
    helpers::{Helper, kernel_on_host},
    literal::value,
    matrix_products,
    names::{NameKind, Names},
};

/// State of the computation of expected bytes while the steps of the plan are visited in program order.
pub(crate) struct Expected<'a> {
    plan: &'a Plan,
    /// Names of the buffers whose expected bytes the program computes.
    tracked: BTreeSet<&'a str>,
    captures: Captures<'a>,
    /// Effects of the captures in progress, by the stream that began the capture.
    recordings: BTreeMap<&'a str, Recording>,
    /// Effects of the graphs that are built node by node, by the name of the graph.
    node_by_node: BTreeMap<&'a str, Recording>,
    /// For each graph, the name of the C++ function that applies the effects of a launch; `None` if a launch changes no
    /// tracked buffer.
    graphs: HashMap<&'a str, Option<String>>,
    /// For each executable graph, the name of the C++ function that applies the effects of a launch, or the name of the
    /// C++ variable that contains this function.
    execs: HashMap<&'a str, Option<String>>,
    /// Number of loops around the current step.
    depth: usize,
    /// C++ heads of the loops around the current step, outermost loop first.
    loops: Vec<String>,
    /// C++ functions that apply the effects of graph launches: name and lines of each.
    functions: Vec<(String, Vec<String>)>,
    variables: BTreeSet<String>,
    kernels: BTreeSet<String>,
    helpers: Vec<Helper>,
    views: bool,
    in_setup: bool,
}

/// Lines of C++ that apply effects which take place later, when a graph is launched.
struct Recording {
    lines: Vec<String>,
    /// Number of loops around the step at which the collection of these lines began.
    depth: usize,
    indent: usize,
}

impl<'a> Expected<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Expected {
            plan,
            tracked: tracked(plan),
            captures: Captures::new(plan),
            recordings: BTreeMap::new(),
            node_by_node: BTreeMap::new(),
            graphs: HashMap::new(),
            execs: HashMap::new(),
            depth: 0,
            loops: Vec::new(),
            functions: Vec::new(),
            variables: BTreeSet::new(),
            kernels: BTreeSet::new(),
            helpers: Vec::new(),
            views: false,
            in_setup: true,
        }
    }

    pub(crate) fn enter_loop(&mut self, variable: &str, count: u32) {
        self.depth += 1;
        let line = format!("for (int {variable} = 0; {variable} < {count}; {variable}++) {{");
        for capture in self.recordings.values_mut().chain(self.node_by_node.values_mut()) {
            capture.push(line.clone());
            capture.indent += 1;
        }
        self.loops.push(line);
    }

    pub(crate) fn leave_loop(&mut self) {
        self.depth -= 1;
        let opened = self.loops.pop();
        for capture in self.recordings.values_mut().chain(self.node_by_node.values_mut()) {
            capture.indent = capture.indent.saturating_sub(1);
            if capture.lines.last().map(|l| l.trim()) == opened.as_deref() {
                capture.lines.pop();
            } else {
                capture.push("}".to_owned());
            }
        }
    }

    /// Returns the names of the library kernels whose results the program computes on the host.
    pub(crate) fn kernels(&self) -> BTreeSet<String> {
        self.kernels.clone()
    }

    pub(crate) fn uses_views(&self) -> bool {
        self.views
    }

    pub(crate) fn take_helpers(&mut self) -> Vec<Helper> {
        std::mem::take(&mut self.helpers)
    }

    pub(crate) fn declarations(&self, names: &mut Names) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.tracked.is_empty() {
            lines.push("// Expected content of the buffers, computed on the host.".to_owned());
        }
        for buffer in &self.tracked {
            let bytes = self.plan.buffers.get(*buffer).map_or(0, |b| b.bytes);
            lines.push(format!(
                "std::vector<unsigned char> {}({bytes}, POISON);",
                expected_bytes_of(names, buffer)
            ));
        }
        for (name, effects) in &self.functions {
            if let [one] = effects.as_slice() {
                lines.push(format!("auto {name} = [&] {{ {one} }};"));
                continue;
            }
            lines.push(format!("auto {name} = [&] {{"));
            lines.extend(effects.iter().map(|effect| format!("  {effect}")));
            lines.push("};".to_owned());
        }
        for variable in &self.variables {
            lines.push(format!("std::function<void()> {variable};"));
        }
        lines
    }

    /// Returns the lines of C++ that update the expected bytes after this step.
    ///
    /// # Errors
    /// Fails if a capture begins in a block and ends outside of it, or if a graph is built in one block and used in
    /// another.
    pub(crate) fn step(
        &mut self,
        step: &'a Step,
        names: &mut Names,
    ) -> Result<Vec<String>, String> {
        self.in_setup = self.plan.setup.iter().any(|s| s.id == step.id);
        match self.captures.visit(step) {
            Ok(CaptureRole::Now) => self.control(step, names),
            Ok(CaptureRole::Captured(origin)) => {
                let lines = self.effect(step, names);
                if let Some(recording) = self.recordings.get_mut(origin) {
                    lines.into_iter().for_each(|line| recording.push(line));
                }
                Ok(Vec::new())
            }
            Ok(CaptureRole::Added(graph)) => self.add_node(step, graph, names),
            // An invalid plan has already been refused, so this error cannot occur here.
            Ok(CaptureRole::Nothing) | Err(_) => Ok(Vec::new()),
        }
    }

    /// Returns the lines of C++ that update the expected bytes, for a step that concerns captures or graphs, or whose
    /// call takes effect immediately.
    fn control(&mut self, step: &'a Step, names: &mut Names) -> Result<Vec<String>, String> {
        if let MemoryEffect::Replay(exec) = step.call.memory_effect() {
            let function = self.execs.get(exec).cloned().flatten();
            return Ok(function.iter().map(|function| format!("{function}();")).collect());
        }
        match step.call.capture_effect() {
            CaptureEffect::Begin(stream) => {
                self.recordings.insert(stream, Recording::at(self.depth));
            }
            CaptureEffect::End { stream, graph } => {
                let Some(recording) = self.recordings.remove(stream) else {
                    return Ok(Vec::new());
                };
                if recording.depth != self.depth {
                    return Err(format!(
                        "the capture of stream `{stream}` begins in a block and ends outside of it"
                    ));
                }
                let function = self.define_function(names, graph, recording.lines);
                self.graphs.insert(graph, function);
                self.node_by_node.remove(graph);
            }
            CaptureEffect::EmptyGraph(graph) => {
                self.graphs.insert(graph, None);
                self.node_by_node.insert(graph, Recording::at(self.depth));
            }
            CaptureEffect::Instantiate { exec, graph } | CaptureEffect::Update { exec, graph } => {
                let function = self.graph_function(names, graph)?;
                if !self.is_replaced(exec) {
                    self.execs.insert(exec, function);
                    return Ok(Vec::new());
                }
                let name = format!("replay_{}", names.identifier(NameKind::Exec, exec));
                self.variables.insert(name.clone());
                self.execs.insert(exec, Some(name.clone()));
                return Ok(vec![match &function {
                    Some(function) => format!("{name} = {function};"),
                    None => format!("{name} = [] {{}};"),
                }]);
            }
            CaptureEffect::AddChild { graph, child } => {
                let function = self.graph_function(names, child)?;
                let depth = self.depth;
                if let Some(made) = self.node_by_node.get_mut(graph) {
                    if depth < made.depth {
                        return Err(format!(
                            "graph `{graph}` is created in a block and gets nodes outside of the block"
                        ));
                    }
                    function.iter().for_each(|function| made.push(format!("{function}();")));
                }
            }
            CaptureEffect::Clone { clone, graph } => {
                let function = self.graph_function(names, graph)?;
                self.node_by_node.remove(clone);
                self.graphs.insert(clone, function);
            }
            // These calls do not change what a launch of a graph writes. Outside of captures and graphs, a call takes
            // effect immediately.
            CaptureEffect::Nothing
            | CaptureEffect::InspectGraph(_)
            | CaptureEffect::DestroyExec(_)
            | CaptureEffect::DestroyGraph(_)
            | CaptureEffect::RandStream { .. }
            | CaptureEffect::NewGenerator(_)
            | CaptureEffect::NewEvent(_)
            | CaptureEffect::Allocated => return Ok(self.effect(step, names)),
        }
        Ok(Vec::new())
    }

    /// Returns the name of the C++ function that applies the effects of the graph as it is after this step; `None` if a
    /// launch of the graph would have no effects.
    ///
    /// # Errors
    /// Fails if the graph is being built in a block around this step.
    fn graph_function(
        &mut self,
        names: &mut Names,
        graph: &'a str,
    ) -> Result<Option<String>, String> {
        if let Some(made) = self.node_by_node.get(graph) {
            let mut lines = made.lines.clone();
            // Removes the heads of the loops that contain this step, provided that no node has been added inside the
            // loops.
            for opened in self.loops.iter().rev().take(made.indent) {
                if lines.pop().is_none_or(|line| line.trim() != opened) {
                    return Err(format!(
                        "graph `{graph}` is used in a block that adds nodes to the graph"
                    ));
                }
            }
            let function = self.define_function(names, graph, lines);
            self.graphs.insert(graph, function);
        }
        Ok(self.graphs.get(graph).cloned().flatten())
    }

    /// Adds the effects of a node to a graph that is built node by node.
    ///
    /// # Errors
    /// Fails if the graph was created in a block that does not contain this step.
    fn add_node(
        &mut self,
        step: &'a Step,
        graph: &str,
        names: &mut Names,
    ) -> Result<Vec<String>, String> {
        let lines = self.effect(step, names);
        let depth = self.depth;
        let Some(made) = self.node_by_node.get_mut(graph) else { return Ok(Vec::new()) };
        if depth < made.depth {
            return Err(format!(
                "graph `{graph}` is created in a block and gets nodes outside of the block"
            ));
        }
        lines.into_iter().for_each(|line| made.push(line));
        Ok(Vec::new())
    }

    /// Defines a C++ function whose body is `lines`, and returns its name; `None` if `lines` is empty.
    fn define_function(
        &mut self,
        names: &mut Names,
        graph: &str,
        lines: Vec<String>,
    ) -> Option<String> {
        if lines.is_empty() {
            return None;
        }
        let name = names.fresh(NameKind::Value, &format!("replay_{graph}"));
        self.functions.push((name.clone(), lines));
        Some(name)
    }

    /// Returns true if several steps determine which graph an executable graph runs. The C++ function that applies the
    /// effects of a launch must then be in a variable.
    fn is_replaced(&self, exec: &str) -> bool {
        use CaptureEffect::{Instantiate, Update};
        let decides = |call: &Call| {
            let made = call.capture_effect();
            matches!(made, Instantiate { exec: e, .. } | Update { exec: e, .. } if e == exec)
        };
        let steps = self.plan.steps().into_iter();
        let deciding = steps.filter(|step| decides(&step.call) && may_succeed(step));
        deciding.count() > 1
    }

    /// Returns the lines of C++ that apply the effects of a call to the expected bytes of tracked buffers.
    fn effect(&mut self, step: &'a Step, names: &mut Names) -> Vec<String> {
        let tracked = &self.tracked;
        let tracks = |buffer: &str| tracked.contains(buffer);
        match step.call.work().memory_effect() {
            MemoryEffect::Alloc(buffer) | MemoryEffect::Poison(buffer)
                if tracks(buffer) && !self.in_setup =>
            {
                vec![self.filled(names, buffer, "POISON")]
            }
            MemoryEffect::Fill { buffer, .. } | MemoryEffect::FillNumbers { buffer, .. }
                if tracks(buffer) =>
            {
                let (want, got) =
                    (expected_bytes_of(names, buffer), names.identifier(NameKind::Buffer, buffer));
                vec![format!("{want}.assign({got}, {got} + {});", self.bytes(buffer))]
            }
            MemoryEffect::Copy { to, from, bytes } if tracks(&to.buffer) => {
                let whole = [to, from]
                    .iter()
                    .all(|place| place.offset == 0 && self.bytes(&place.buffer) == bytes);
                let (dst, src) =
                    (expected_bytes_of(names, &to.buffer), expected_bytes_of(names, &from.buffer));
                vec![if whole {
                    format!("{dst} = {src};")
                } else {
                    format!(
                        "std::copy_n({src}.begin(){}, {bytes}, {dst}.begin(){});",
                        plus(from.offset),
                        plus(to.offset)
                    )
                }]
            }
            MemoryEffect::Rows { to: (to, to_pitch), from: (from, from_pitch), width, height }
                if tracks(&to.buffer) =>
            {
                let (dst, src) =
                    (expected_bytes_of(names, &to.buffer), expected_bytes_of(names, &from.buffer));
                let (from, to) = (plus(from.offset), plus(to.offset));
                vec![
                    format!("for (size_t row = 0; row < {height}; row++)"),
                    format!(
                        "  std::copy_n({src}.begin(){from} + row * {from_pitch}, {width}, {dst}.begin(){to} + row * {to_pitch});"
                    ),
                ]
            }
            MemoryEffect::Boxes { to, from, size } if tracks(&to.buffer) => {
                let (dst, src) =
                    (expected_bytes_of(names, &to.buffer), expected_bytes_of(names, &from.buffer));
                let [to, from] = [to, from].map(|place| row_of_box(place, size));
                let line =
                    format!("std::copy_n({src}.begin(){from}, {}, {dst}.begin(){to});", size[0]);
                for_each_row(size, &line)
            }
            MemoryEffect::SetBox { to, value, size } if tracks(&to.buffer) => {
                let (dst, row) = (expected_bytes_of(names, &to.buffer), row_of_box(to, size));
                let line = format!("std::fill_n({dst}.begin(){row}, {}, {value});", size[0]);
                for_each_row(size, &line)
            }
            MemoryEffect::Set { to, value, element: 1, bytes } if tracks(&to.buffer) => {
                vec![if to.offset == 0 && bytes == self.bytes(&to.buffer) {
                    self.filled(names, &to.buffer, &value.to_string())
                } else {
                    let dst = expected_bytes_of(names, &to.buffer);
                    format!("std::fill_n({dst}.begin(){}, {bytes}, {value});", plus(to.offset))
                }]
            }
            MemoryEffect::Set { to, value, element, bytes } if tracks(&to.buffer) => {
                let (dst, offset) = (expected_bytes_of(names, &to.buffer), to.offset);
                vec![
                    format!("for (size_t i = 0; i < {bytes}; i++)"),
                    format!(
                        "  {dst}[{offset} + i] = static_cast<unsigned char>({value}u >> (i % {element} * 8));"
                    ),
                ]
            }
            MemoryEffect::CountUp(buffer) if tracks(buffer) => {
                vec![format!(
                    "for (unsigned char& byte : {}) byte++;",
                    expected_bytes_of(names, buffer)
                )]
            }
            MemoryEffect::Launch { kernel, grid, block, args } => {
                self.launch(names, kernel, grid, block, args)
            }
            MemoryEffect::Product { problem, operands, .. } if tracks(&operands.d) => {
                self.helpers.push(Helper::MatmulOnHost);
                self.helpers.extend(matrix_products::element_helper(problem.dtype));
                vec![matrix_products::on_host(problem, operands, |buffer| {
                    expected_bytes_of(names, buffer)
                })]
            }
            // These calls concern buffers that are not tracked, or change no bytes that a check can read.
            MemoryEffect::Nothing
            | MemoryEffect::Alloc(_)
            | MemoryEffect::Free(_)
            | MemoryEffect::Poison(_)
            | MemoryEffect::Fill { .. }
            | MemoryEffect::FillNumbers { .. }
            | MemoryEffect::FillFile { .. }
            | MemoryEffect::Copy { .. }
            | MemoryEffect::Rows { .. }
            | MemoryEffect::Boxes { .. }
            | MemoryEffect::SetBox { .. }
            | MemoryEffect::Set { .. }
            | MemoryEffect::CountUp(_)
            | MemoryEffect::Generate { .. }
            | MemoryEffect::Foreign { .. }
            | MemoryEffect::Product { .. }
            | MemoryEffect::Replay(_)
            | MemoryEffect::Check { .. }
            | MemoryEffect::Compare(..)
            | MemoryEffect::Read(_)
            | MemoryEffect::Guards(_) => Vec::new(),
        }
    }

    fn bytes(&self, buffer: &str) -> u64 {
        self.plan.buffers.get(buffer).map_or(0, |b| b.bytes)
    }

    fn filled(&self, names: &mut Names, buffer: &str, value: &str) -> String {
        format!("{}.assign({}, {value});", expected_bytes_of(names, buffer), self.bytes(buffer))
    }

    fn launch(
        &mut self,
        names: &mut Names,
        name: &str,
        grid: &[u32; 3],
        block: &[u32; 3],
        args: &[Arg],
    ) -> Vec<String> {
        let items: u64 = grid.iter().chain(block).map(|&x| u64::from(x)).product();
        if kernel(name).is_none() {
            let tracked = &self.tracked;
            let tracks = |buffer: &str| tracked.contains(buffer);
            let lines = formula::on_host(self.plan, names, name, (items, args), &tracks);
            self.views |= !lines.is_empty();
            return lines;
        }
        self.launch_of_library(names, name, items, args).into_iter().collect()
    }

    fn launch_of_library(
        &mut self,
        names: &mut Names,
        name: &str,
        items: u64,
        args: &[Arg],
    ) -> Option<String> {
        let library = kernel(name)?;
        let Some(Arg::Address(out)) = args.first() else { return None };
        if !self.tracked.contains(out.buffer.as_str()) || kernel_on_host(name).is_none() {
            return None;
        }
        self.kernels.insert(name.to_owned());
        self.views = true;
        let types = types_of(name);
        let mut numbers = 0;
        let text: Vec<String> = args
            .iter()
            .zip(types)
            .map(|(arg, ty)| match arg {
                Arg::Address(place) | Arg::Input(place) => as_elements(names, place, ty),
                // The first number of these kernels is the number of elements. An element is computed only if the grid
                // has a work-item for it. In the two kernels whose work-items cooperate, all elements are processed.
                Arg::Number(number) if number.ty == ScalarType::U32 => {
                    numbers += 1;
                    let together = matches!(library.name, "sum_u32" | "matmul_f32");
                    if numbers == 1 && !together {
                        number.bits.min(items).to_string()
                    } else {
                        number.to_string()
                    }
                }
                Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => value(arg),
            })
            .collect();
        Some(format!("{name}_on_host({});", text.join(", ")))
    }
}

/// Returns the offset of a row in a box as C++. The expression contains the variables `slice` and `row` of
/// [`for_each_row`].
fn row_of_box(place: &Box3d, [_, height, depth]: [u64; 3]) -> String {
    let mut offset = plus(place.offset(0, 0));
    if depth > 1 {
        offset.push_str(&format!(" + slice * {}", place.rows.saturating_mul(place.pitch)));
    }
    if height > 1 {
        offset.push_str(&format!(" + row * {}", place.pitch));
    }
    offset
}

/// Returns the lines of C++ that execute a statement for each row of a box.
fn for_each_row([width, height, depth]: [u64; 3], statement: &str) -> Vec<String> {
    if width == 0 || height == 0 || depth == 0 {
        return Vec::new();
    }
    let loops = [("slice", depth), ("row", height)].into_iter().filter(|(_, count)| *count > 1);
    let mut lines: Vec<String> = loops
        .map(|(name, count)| format!("for (size_t {name} = 0; {name} < {count}; {name}++)"))
        .collect();
    lines.push(statement.to_owned());
    (0..).zip(lines).map(|(depth, line)| format!("{}{line}", "  ".repeat(depth))).collect()
}

impl Recording {
    fn at(depth: usize) -> Self {
        Recording { lines: Vec::new(), depth, indent: 0 }
    }

    fn push(&mut self, line: String) {
        self.lines.push(format!("{}{line}", "  ".repeat(self.indent)));
    }
}

fn plus(offset: u64) -> String {
    if offset == 0 { String::new() } else { format!(" + {offset}") }
}

/// Returns the C++ types of the elements to which the arguments of a library kernel point, in the order of the
/// arguments. The entries after the pointers are empty.
fn types_of(kernel: &str) -> [&'static str; 4] {
    match kernel {
        "copy_u8" => ["unsigned char", "unsigned char", "", ""],
        "saxpy_f32" => ["float", "float", "", ""],
        "matmul_f32" => ["float", "float", "float", ""],
        "to_f32" => ["float", "uint32_t", "", ""],
        _ => ["uint32_t", "uint32_t", "", ""],
    }
}

/// Returns the names of the buffers that checks read, and of all buffers from which bytes reach these buffers.
fn tracked(plan: &Plan) -> BTreeSet<&str> {
    let steps = plan.steps();
    let mut tracked: BTreeSet<&str> = steps
        .iter()
        .filter_map(|step| {
            let Call::Check { buffer, .. } = &step.call else { return None };
            Some(buffer.as_str())
        })
        .collect();
    loop {
        let before = tracked.len();
        for step in &steps {
            let (to, from) = flow(&step.call);
            if to.iter().any(|to| tracked.contains(to)) {
                tracked.extend(from);
            }
        }
        if tracked.len() == before {
            return tracked;
        }
    }
}

/// Returns the names of the buffers that a call writes, and of the buffers whose bytes determine what it writes.
fn flow(call: &Call) -> (Vec<&str>, Vec<&str>) {
    let named = call.work().named().into_iter().filter(|named| named.kind == ObjectKind::Buffer);
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for buffer in named {
        to.extend(buffer.is_written().then_some(buffer.name));
        from.extend(buffer.is_read().then_some(buffer.name));
    }
    (to, from)
}
