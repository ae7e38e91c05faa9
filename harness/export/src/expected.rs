//! What the buffers must hold, computed by the printed program on the host, in program order and beside the calls.
//!
//! The rules are those of `plan::reference`: a call that may not succeed has no effect, and what a stream records while it is
//! captured takes effect at each launch. Only buffers that a check depends on are followed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use plan::{Arg, Call, Captures, Place, Plan, Role, ScalarType, Step, kernel, may_succeed};

use crate::{
    arguments::value,
    declare::operand_buffers,
    formula, math,
    names::{Kind, Names},
    support::{Helper, kernel_on_host},
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
            Ok(Role::Now) => self.control(step, names),
            Ok(Role::Captured(origin)) => {
                let lines = self.effect(step, names);
                if let Some(recording) = self.recordings.get_mut(origin) {
                    lines.into_iter().for_each(|line| recording.push(line));
                }
                Ok(Vec::new())
            }
            Ok(Role::Added(graph)) => self.add(step, graph, names),
            // A plan that was checked has no mistakes.
            Ok(Role::Nothing) | Err(_) => Ok(Vec::new()),
        }
    }

    /// Captures and graphs, and whatever takes effect at once.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other calls have effects of their own")]
    fn control(&mut self, step: &'a Step, names: &mut Names) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        match &step.call {
            Call::BeginCapture { stream, .. } => {
                let recording = Recording { lines: Vec::new(), depth: self.depth, indent: 0 };
                self.recordings.insert(stream, recording);
            }
            Call::EndCapture { stream, graph } => {
                let Some(recording) = self.recordings.remove(stream.as_str()) else {
                    return Ok(lines);
                };
                if recording.depth != self.depth {
                    return Err(format!(
                        "the capture of stream `{stream}` begins in a block and ends outside of it"
                    ));
                }
                let function = self.function(names, graph, recording.lines);
                self.graphs.insert(graph, function);
                self.by_hand.remove(graph.as_str());
            }
            Call::EmptyGraph { graph, .. } => {
                self.graphs.insert(graph, None);
                let made = Recording { lines: Vec::new(), depth: self.depth, indent: 0 };
                self.by_hand.insert(graph, made);
            }
            Call::GraphInstantiate { exec, graph } | Call::GraphExecUpdate { exec, graph } => {
                let function = self.made(names, graph)?;
                if self.changes(exec) {
                    let name = format!("replay_{}", names.of(Kind::Exec, exec));
                    self.variables.insert(name.clone());
                    lines.push(match &function {
                        Some(function) => format!("{name} = {function};"),
                        None => format!("{name} = [] {{}};"),
                    });
                    self.execs.insert(exec, Some(name));
                } else {
                    self.execs.insert(exec, function);
                }
            }
            Call::GraphAddChild { graph, child } => {
                let function = self.made(names, child)?;
                let depth = self.depth;
                if let Some(made) = self.by_hand.get_mut(graph.as_str()) {
                    if depth < made.depth {
                        return Err(format!(
                            "graph `{graph}` is made in a block and gets nodes outside of it"
                        ));
                    }
                    function.iter().for_each(|function| made.push(format!("{function}();")));
                }
            }
            Call::GraphClone { clone, graph } => {
                let function = self.made(names, graph)?;
                self.by_hand.remove(clone.as_str());
                self.graphs.insert(clone, function);
            }
            Call::GraphLaunch { exec, .. } => {
                if let Some(Some(function)) = self.execs.get(exec.as_str()) {
                    lines.push(format!("{function}();"));
                }
            }
            _ => lines = self.effect(step, names),
        }
        Ok(lines)
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
        let decides = |call: &Call| matches!(call, Call::GraphInstantiate { exec: e, .. } | Call::GraphExecUpdate { exec: e, .. } if e == exec);
        let steps = self.plan.steps().into_iter();
        let deciding = steps.filter(|step| decides(&step.call) && may_succeed(step));
        deciding.count() > 1
    }

    /// What the call does to the bytes of buffers that are followed.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what changes no bytes that checks read is left out"
    )]
    fn effect(&mut self, step: &'a Step, names: &mut Names) -> Vec<String> {
        let mut lines = Vec::new();
        let follows = |buffer: &str| self.followed.contains(buffer);
        match step.call.work() {
            Call::Alloc { buffer, .. } if follows(buffer) && !self.in_setup => {
                lines.push(self.filled(names, buffer, "POISON"));
            }
            Call::Poison { buffer } if follows(buffer) && !self.in_setup => {
                lines.push(self.filled(names, buffer, "POISON"));
            }
            Call::Fill { buffer, .. } | Call::FillNumbers { buffer, .. } if follows(buffer) => {
                let (want, got) = (want(names, buffer), names.of(Kind::Buffer, buffer));
                lines.push(format!("{want}.assign({got}, {got} + {});", self.bytes(buffer)));
            }
            Call::Copy { to, from, bytes, .. } if follows(&to.buffer) => {
                let whole = [to, from]
                    .iter()
                    .all(|place| place.offset == 0 && self.bytes(&place.buffer) == *bytes);
                let (dst, src) = (want(names, &to.buffer), want(names, &from.buffer));
                lines.push(if whole {
                    format!("{dst} = {src};")
                } else {
                    format!(
                        "std::copy_n({src}.begin(){}, {bytes}, {dst}.begin(){});",
                        plus(from.offset),
                        plus(to.offset)
                    )
                });
            }
            Call::Copy2d { to, to_pitch, from, from_pitch, width, height, .. }
                if follows(&to.buffer) =>
            {
                let (dst, src) = (want(names, &to.buffer), want(names, &from.buffer));
                lines.push(format!("for (size_t row = 0; row < {height}; row++)"));
                lines.push(format!(
                    "  std::copy_n({src}.begin(){} + row * {from_pitch}, {width}, {dst}.begin(){} + row * {to_pitch});",
                    plus(from.offset),
                    plus(to.offset)
                ));
            }
            Call::Copy3d { to, from, width, height, depth, .. } if follows(&to.buffer) => {
                let (dst, src) = (want(names, &to.buffer), want(names, &from.buffer));
                let rows = (0..*depth).flat_map(|slice| (0..*height).map(move |row| (row, slice)));
                lines.extend(rows.map(|(row, slice)| {
                    let (to, from) = (to.offset(row, slice), from.offset(row, slice));
                    format!(
                        "std::copy_n({src}.begin(){}, {width}, {dst}.begin(){});",
                        plus(from),
                        plus(to)
                    )
                }));
            }
            Call::SetRows { to, value, width, height, depth, .. } if follows(&to.buffer) => {
                let dst = want(names, &to.buffer);
                let rows = (0..depth.unwrap_or(1))
                    .flat_map(|slice| (0..*height).map(move |row| (row, slice)));
                lines.extend(rows.map(|(row, slice)| {
                    let to = plus(to.offset(row, slice));
                    format!("std::fill_n({dst}.begin(){to}, {width}, {value});")
                }));
            }
            Call::Set { to, value, words: true, bytes, .. } if follows(&to.buffer) => {
                let dst = want(names, &to.buffer);
                lines.push(format!("for (size_t i = 0; i < {bytes}; i++)"));
                lines.push(format!(
                    "  {dst}[{} + i] = static_cast<unsigned char>({value}u >> (i % 4 * 8));",
                    to.offset
                ));
            }
            Call::Set { to, value, bytes, .. } if follows(&to.buffer) => {
                lines.push(if to.offset == 0 && *bytes == self.bytes(&to.buffer) {
                    self.filled(names, &to.buffer, &value.to_string())
                } else {
                    let dst = want(names, &to.buffer);
                    format!("std::fill_n({dst}.begin(){}, {bytes}, {value});", plus(to.offset))
                });
            }
            Call::HostFunc { buffer, .. } if follows(buffer) => {
                lines.push(format!("for (unsigned char& byte : {}) byte++;", want(names, buffer)));
            }
            Call::Launch { kernel, grid, block, args, .. } => {
                lines.extend(self.launch(names, kernel, grid, block, args));
            }
            Call::BlasltMatmul { problem, operands, .. }
            | Call::RocblasGemm { problem, operands, .. }
                if follows(&operands.d) =>
            {
                self.helpers.push(Helper::MatmulOnHost);
                self.helpers.extend(math::element_helper(problem.dtype));
                lines.push(math::on_host(problem, operands, |buffer| want(names, buffer)));
            }
            _ => {}
        }
        lines
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

impl Recording {
    fn push(&mut self, line: String) {
        self.lines.push(format!("{}{line}", "  ".repeat(self.indent)));
    }
}

/// The variable with the bytes that a buffer must hold.
pub(crate) fn want(names: &mut Names, buffer: &str) -> String {
    format!("want_{}", names.of(Kind::Buffer, buffer))
}

/// What lies at a place, as numbers of a type.
pub(crate) fn as_elements(names: &mut Names, place: &Place, ty: &str) -> String {
    let want = want(names, &place.buffer);
    match place.offset {
        0 => format!("as<{ty}>({want})"),
        offset => format!("as<{ty}>({want}, {offset})"),
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
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what changes no bytes that checks read is left out"
)]
fn flow(call: &Call) -> (Vec<&str>, Vec<&str>) {
    match call.work() {
        Call::Copy { to, from, .. } | Call::Copy2d { to, from, .. } => {
            (vec![&to.buffer], vec![&from.buffer])
        }
        Call::Copy3d { to, from, .. } => (vec![&to.buffer], vec![&from.buffer]),
        Call::Launch { kernel: name, args, .. } => {
            let mut places: Vec<&str> =
                args.iter().filter_map(Arg::place).map(|p| p.buffer.as_str()).collect();
            match kernel(name) {
                Some(_) => {
                    let from = places.split_off(1.min(places.len()));
                    (places, from)
                }
                None => (places.clone(), places),
            }
        }
        Call::BlasltMatmul { operands, .. } | Call::RocblasGemm { operands, .. } => {
            (vec![&operands.d], operand_buffers(operands).collect())
        }
        _ => (Vec::new(), Vec::new()),
    }
}
