//! What the buffers must hold, computed by the printed program on the host, in program order and beside the calls.
//!
//! The rules are those of `plan::reference`: a call that may not succeed has no effect, and what a stream records while it is
//! captured takes effect at each launch. Only buffers that a check depends on are followed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use plan::{
    Arg, Call, CaptureRole, Captures, OnCaptures, OnMemory, Plan, ScalarType, Step, Thing, kernel,
    may_succeed,
};

use crate::{
    formula,
    literal::value,
    math,
    names::{Kind, Names},
    support::{Helper, kernel_on_host},
    wanted::{as_elements, want},
};

pub(crate) struct Expected<'a> {
    plan: &'a Plan,
    followed: BTreeSet<&'a str>,
    captures: Captures<'a>,
    /// The effects of what is being captured, by the stream that began the capture.
    recordings: BTreeMap<&'a str, Recording>,
    /// What the nodes of graphs do that are made by hand.
    by_hand: BTreeMap<&'a str, Recording>,
    /// What a launch of each graph does; none where it does nothing that matters.
    graphs: HashMap<&'a str, Option<String>>,
    /// The function, or the variable that holds it, behind each executable graph.
    execs: HashMap<&'a str, Option<String>>,
    /// How deep in loops the walk is.
    depth: usize,
    loops: Vec<String>,
    functions: Vec<(String, Vec<String>)>,
    variables: BTreeSet<String>,
    kernels: BTreeSet<String>,
    helpers: Vec<Helper>,
    views: bool,
    in_setup: bool,
}

/// The effects that a capture collects.
struct Recording {
    lines: Vec<String>,
    /// Loop depth where it began.
    depth: usize,
    indent: usize,
}

impl<'a> Expected<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Expected {
            plan,
            followed: followed(plan),
            captures: Captures::new(plan),
            recordings: BTreeMap::new(),
            by_hand: BTreeMap::new(),
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

    /// A loop begins.
    pub(crate) fn open(&mut self, variable: &str, count: u32) {
        self.depth += 1;
        let line = format!("for (int {variable} = 0; {variable} < {count}; {variable}++) {{");
        for capture in self.recordings.values_mut().chain(self.by_hand.values_mut()) {
            capture.push(line.clone());
            capture.indent += 1;
        }
        self.loops.push(line);
    }

    /// A loop ends.
    pub(crate) fn close(&mut self) {
        self.depth -= 1;
        let opened = self.loops.pop();
        for capture in self.recordings.values_mut().chain(self.by_hand.values_mut()) {
            capture.indent = capture.indent.saturating_sub(1);
            if capture.lines.last().map(|l| l.trim()) == opened.as_deref() {
                capture.lines.pop();
            } else {
                capture.push("}".to_owned());
            }
        }
    }

    /// Kernels that are computed on the host.
    pub(crate) fn kernels(&self) -> BTreeSet<String> {
        self.kernels.clone()
    }

    pub(crate) fn uses_views(&self) -> bool {
        self.views
    }

    pub(crate) fn take_helpers(&mut self) -> Vec<Helper> {
        std::mem::take(&mut self.helpers)
    }

    /// The variables at the top of `main`.
    pub(crate) fn declarations(&self, names: &mut Names) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.followed.is_empty() {
            lines.push(
                "// What the buffers must hold, kept on the host beside the calls.".to_owned(),
            );
        }
        for buffer in &self.followed {
            let bytes = self.plan.buffers.get(*buffer).map_or(0, |b| b.bytes);
            lines.push(format!(
                "std::vector<unsigned char> {}({bytes}, POISON);",
                want(names, buffer)
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

    /// The lines that keep the expected bytes right after this step was made.
    ///
    /// # Errors
    /// A capture that begins in a block and ends outside of it.
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
            Ok(CaptureRole::Added(graph)) => self.add(step, graph, names),
            // A plan that was checked has no mistakes.
            Ok(CaptureRole::Nothing) | Err(_) => Ok(Vec::new()),
        }
    }

    /// Captures and graphs, and whatever takes effect at once.
    fn control(&mut self, step: &'a Step, names: &mut Names) -> Result<Vec<String>, String> {
        if let OnMemory::Replay(exec) = step.call.on_memory() {
            let function = self.execs.get(exec).cloned().flatten();
            return Ok(function.iter().map(|function| format!("{function}();")).collect());
        }
        match step.call.on_captures() {
            OnCaptures::Begin(stream) => {
                self.recordings.insert(stream, Recording::at(self.depth));
            }
            OnCaptures::End { stream, graph } => {
                let Some(recording) = self.recordings.remove(stream) else {
                    return Ok(Vec::new());
                };
                if recording.depth != self.depth {
                    return Err(format!(
                        "the capture of stream `{stream}` begins in a block and ends outside of it"
                    ));
                }
                let function = self.function(names, graph, recording.lines);
                self.graphs.insert(graph, function);
                self.by_hand.remove(graph);
            }
            OnCaptures::EmptyGraph(graph) => {
                self.graphs.insert(graph, None);
                self.by_hand.insert(graph, Recording::at(self.depth));
            }
            OnCaptures::Instantiate { exec, graph } | OnCaptures::Update { exec, graph } => {
                let function = self.made(names, graph)?;
                if !self.changes(exec) {
                    self.execs.insert(exec, function);
                    return Ok(Vec::new());
                }
                let name = format!("replay_{}", names.of(Kind::Exec, exec));
                self.variables.insert(name.clone());
                self.execs.insert(exec, Some(name.clone()));
                return Ok(vec![match &function {
                    Some(function) => format!("{name} = {function};"),
                    None => format!("{name} = [] {{}};"),
                }]);
            }
            OnCaptures::AddChild { graph, child } => {
                let function = self.made(names, child)?;
                let depth = self.depth;
                if let Some(made) = self.by_hand.get_mut(graph) {
                    if depth < made.depth {
                        return Err(format!(
                            "graph `{graph}` is made in a block and gets nodes outside of it"
                        ));
                    }
                    function.iter().for_each(|function| made.push(format!("{function}();")));
                }
            }
            OnCaptures::Clone { clone, graph } => {
                let function = self.made(names, graph)?;
                self.by_hand.remove(clone);
                self.graphs.insert(clone, function);
            }
            // They change nothing that a launch does to bytes; what is done without a graph is done at once.
            OnCaptures::Nothing
            | OnCaptures::LookAt(_)
            | OnCaptures::EndExec(_)
            | OnCaptures::EndGraph(_)
            | OnCaptures::RandStream { .. }
            | OnCaptures::NewGenerator(_)
            | OnCaptures::NewEvent(_)
            | OnCaptures::Allocated => return Ok(self.effect(step, names)),
        }
        Ok(Vec::new())
    }

    /// What a launch of a graph would do now; none where that is nothing.
    ///
    /// # Errors
    /// The graph is made in a block around this step.
    fn made(&mut self, names: &mut Names, graph: &'a str) -> Result<Option<String>, String> {
        if let Some(made) = self.by_hand.get(graph) {
            let mut lines = made.lines.clone();
            // Loops around this call, which add no node before it.
            for opened in self.loops.iter().rev().take(made.indent) {
                if lines.pop().is_none_or(|line| line.trim() != opened) {
                    return Err(format!(
                        "graph `{graph}` is used in a block that adds nodes to it"
                    ));
                }
            }
            let function = self.function(names, graph, lines);
            self.graphs.insert(graph, function);
        }
        Ok(self.graphs.get(graph).cloned().flatten())
    }

    /// A graph that is made node by node gets one.
    ///
    /// # Errors
    /// The graph is made in a block that this step is outside of.
    fn add(
        &mut self,
        step: &'a Step,
        graph: &str,
        names: &mut Names,
    ) -> Result<Vec<String>, String> {
        let lines = self.effect(step, names);
        let depth = self.depth;
        let Some(made) = self.by_hand.get_mut(graph) else { return Ok(Vec::new()) };
        if depth < made.depth {
            return Err(format!("graph `{graph}` is made in a block and gets nodes outside of it"));
        }
        lines.into_iter().for_each(|line| made.push(line));
        Ok(Vec::new())
    }

    /// The name of a function with these effects; none where there are none.
    fn function(&mut self, names: &mut Names, graph: &str, lines: Vec<String>) -> Option<String> {
        if lines.is_empty() {
            return None;
        }
        let name = names.fresh(Kind::Value, &format!("replay_{graph}"));
        self.functions.push((name.clone(), lines));
        Some(name)
    }

    /// Whether more than one step decides what an executable graph does.
    fn changes(&self, exec: &str) -> bool {
        let decides = |call: &Call| {
            let made = call.on_captures();
            matches!(made, OnCaptures::Instantiate { exec: e, .. } | OnCaptures::Update { exec: e, .. } if e == exec)
        };
        let steps = self.plan.steps().into_iter();
        let deciding = steps.filter(|step| decides(&step.call) && may_succeed(step));
        deciding.count() > 1
    }

    /// What the call does to the bytes of buffers that are followed.
    fn effect(&mut self, step: &'a Step, names: &mut Names) -> Vec<String> {
        let followed = &self.followed;
        let follows = |buffer: &str| followed.contains(buffer);
        match step.call.work().on_memory() {
            OnMemory::Alloc(buffer) | OnMemory::Poison(buffer)
                if follows(buffer) && !self.in_setup =>
            {
                vec![self.filled(names, buffer, "POISON")]
            }
            OnMemory::Fill { buffer, .. } | OnMemory::FillNumbers { buffer, .. }
                if follows(buffer) =>
            {
                let (want, got) = (want(names, buffer), names.of(Kind::Buffer, buffer));
                vec![format!("{want}.assign({got}, {got} + {});", self.bytes(buffer))]
            }
            OnMemory::Copy { to, from, bytes } if follows(&to.buffer) => {
                let whole = [to, from]
                    .iter()
                    .all(|place| place.offset == 0 && self.bytes(&place.buffer) == bytes);
                let (dst, src) = (want(names, &to.buffer), want(names, &from.buffer));
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
            OnMemory::Rows { to: (to, to_pitch), from: (from, from_pitch), width, height }
                if follows(&to.buffer) =>
            {
                let (dst, src) = (want(names, &to.buffer), want(names, &from.buffer));
                let (from, to) = (plus(from.offset), plus(to.offset));
                vec![
                    format!("for (size_t row = 0; row < {height}; row++)"),
                    format!(
                        "  std::copy_n({src}.begin(){from} + row * {from_pitch}, {width}, {dst}.begin(){to} + row * {to_pitch});"
                    ),
                ]
            }
            OnMemory::Boxes { to, from, size } if follows(&to.buffer) => {
                let (dst, src) = (want(names, &to.buffer), want(names, &from.buffer));
                let line = |(row, slice)| {
                    let (to, from) = (to.offset(row, slice), from.offset(row, slice));
                    let (to, from, width) = (plus(to), plus(from), size[0]);
                    format!("std::copy_n({src}.begin(){from}, {width}, {dst}.begin(){to});")
                };
                rows_of(size).map(line).collect()
            }
            OnMemory::SetBox { to, value, size } if follows(&to.buffer) => {
                let dst = want(names, &to.buffer);
                let line = |(row, slice)| {
                    let (to, width) = (plus(to.offset(row, slice)), size[0]);
                    format!("std::fill_n({dst}.begin(){to}, {width}, {value});")
                };
                rows_of(size).map(line).collect()
            }
            OnMemory::Set { to, value, element: 1, bytes } if follows(&to.buffer) => {
                vec![if to.offset == 0 && bytes == self.bytes(&to.buffer) {
                    self.filled(names, &to.buffer, &value.to_string())
                } else {
                    let dst = want(names, &to.buffer);
                    format!("std::fill_n({dst}.begin(){}, {bytes}, {value});", plus(to.offset))
                }]
            }
            OnMemory::Set { to, value, element, bytes } if follows(&to.buffer) => {
                let (dst, offset) = (want(names, &to.buffer), to.offset);
                vec![
                    format!("for (size_t i = 0; i < {bytes}; i++)"),
                    format!(
                        "  {dst}[{offset} + i] = static_cast<unsigned char>({value}u >> (i % {element} * 8));"
                    ),
                ]
            }
            OnMemory::CountUp(buffer) if follows(buffer) => {
                vec![format!("for (unsigned char& byte : {}) byte++;", want(names, buffer))]
            }
            OnMemory::Launch { kernel, grid, block, args } => {
                self.launch(names, kernel, grid, block, args)
            }
            OnMemory::Product { problem, operands, .. } if follows(&operands.d) => {
                self.helpers.push(Helper::MatmulOnHost);
                self.helpers.extend(math::element_helper(problem.dtype));
                vec![math::on_host(problem, operands, |buffer| want(names, buffer))]
            }
            // Buffers that are not followed, and what changes no bytes that a check can read.
            OnMemory::Nothing
            | OnMemory::Alloc(_)
            | OnMemory::Free(_)
            | OnMemory::Poison(_)
            | OnMemory::Fill { .. }
            | OnMemory::FillNumbers { .. }
            | OnMemory::Copy { .. }
            | OnMemory::Rows { .. }
            | OnMemory::Boxes { .. }
            | OnMemory::SetBox { .. }
            | OnMemory::Set { .. }
            | OnMemory::CountUp(_)
            | OnMemory::Generate { .. }
            | OnMemory::Foreign { .. }
            | OnMemory::Product { .. }
            | OnMemory::Replay(_)
            | OnMemory::Check(_)
            | OnMemory::Compare(..)
            | OnMemory::Guards(_) => Vec::new(),
        }
    }

    fn bytes(&self, buffer: &str) -> u64 {
        self.plan.buffers.get(buffer).map_or(0, |b| b.bytes)
    }

    fn filled(&self, names: &mut Names, buffer: &str, value: &str) -> String {
        format!("{}.assign({}, {value});", want(names, buffer), self.bytes(buffer))
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
            let followed = &self.followed;
            let follows = |buffer: &str| followed.contains(buffer);
            let lines = formula::on_host(self.plan, names, name, (items, args), &follows);
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
        if !self.followed.contains(out.buffer.as_str()) || kernel_on_host(name).is_none() {
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
                // The first number of these kernels counts elements, and only those that the grid covers are computed; the two
                // that work together in a workgroup take all.
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

/// Row and slice of each row of a box.
fn rows_of([_, height, depth]: [u64; 3]) -> impl Iterator<Item = (u64, u64)> {
    (0..depth).flat_map(move |slice| (0..height).map(move |row| (row, slice)))
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

/// Element types of a library kernel's arguments.
fn types_of(kernel: &str) -> [&'static str; 4] {
    match kernel {
        "copy_u8" => ["unsigned char", "unsigned char", "", ""],
        "saxpy_f32" => ["float", "float", "", ""],
        "matmul_f32" => ["float", "float", "float", ""],
        "to_f32" => ["float", "uint32_t", "", ""],
        _ => ["uint32_t", "uint32_t", "", ""],
    }
}

/// The buffers that checks read, and those that their bytes come from.
fn followed(plan: &Plan) -> BTreeSet<&str> {
    let steps = plan.steps();
    let mut followed: BTreeSet<&str> = steps
        .iter()
        .filter_map(|step| {
            let Call::Check { buffer } = &step.call else { return None };
            Some(buffer.as_str())
        })
        .collect();
    loop {
        let before = followed.len();
        for step in &steps {
            let (to, from) = flow(&step.call);
            if to.iter().any(|to| followed.contains(to)) {
                followed.extend(from);
            }
        }
        if followed.len() == before {
            return followed;
        }
    }
}

/// The buffers that a call writes and those that it reads for that.
fn flow(call: &Call) -> (Vec<&str>, Vec<&str>) {
    let named = call.work().named().into_iter().filter(|named| named.thing == Thing::Buffer);
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for buffer in named {
        to.extend(buffer.is_written().then_some(buffer.name));
        from.extend(buffer.is_read().then_some(buffer.name));
    }
    (to, from)
}
