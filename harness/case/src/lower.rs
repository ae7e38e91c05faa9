//! One trial of a case becomes a plan.

use std::collections::{BTreeMap, BTreeSet};

use device::Planted;
use plan::{
    Buffer, Call, Choice, CopyApi, DEFAULT_STREAM, Expected, MOST_BYTES, Memory, OwnKernel,
    PLAN_VERSION, Place, Plan, Program, Reference, Step, StreamKind, races, reference, verbs,
};

mod surround;

use crate::{
    At, Case, Diagnostic, Trial,
    buffers::{Initial, read_buffer, refuse_large},
    calls::{Given, read_step, read_steps},
    diagnostic::suggest,
    for_each,
    header::finish,
    kernels::{Own, read_own},
    matrix::{Matrix, substitute},
    plant::plant,
    program,
    read::{Fields, Reader},
    yaml::{Node, Value},
};

/// Streams of a case. Each may wait for each other, so the analysis of their order takes the square of them.
const MOST_STREAMS: usize = 1000;

/// Kernel sources by name.
pub type Kernels = BTreeMap<String, String>;

/// What one trial is made of.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The calls, and what surrounds them. Where the body is a program, only what surrounds it.
    pub plan: Plan,
    /// What is done.
    pub body: Body,
}

/// What a trial does.
#[derive(Clone, Debug)]
pub enum Body {
    /// The calls of its plan, with what their checks must read.
    Calls(Reference),
    /// A program.
    Program(Box<Program>),
}

impl Body {
    /// What the checks of the plan must read; a program has none.
    pub fn expected(&self) -> &[Expected] {
        match self {
            Body::Calls(reference) => &reference.expected,
            Body::Program(_) => &[],
        }
    }
}

/// Lowers one trial to its plan, with the faults at calls planted; those of the device leave it alone.
///
/// The result has passed every static check: its accesses are ordered, nothing freed or never written is used, and every
/// check has one right answer.
///
/// # Errors
/// All mistakes of the case that this trial shows.
pub fn lower(
    case: &Case,
    trial: &Trial,
    kernels: &Kernels,
    faults: &[Planted],
) -> Result<Lowered, Vec<Diagnostic>> {
    if case.is_program() {
        let (plan, program) = program::lower(case, trial)?;
        return Ok(Lowered { plan, body: Body::Program(Box::new(program)) });
    }
    let (mut plan, reference) = sound(case, trial, kernels, reference)?;
    for fault in faults {
        plant(&mut plan, fault);
    }
    Ok(Lowered { plan, body: Body::Calls(reference) })
}

/// The plan of one trial, after the same checks as [`lower`] makes, but without the right results.
///
/// # Errors
/// Those of [`lower`].
pub fn analyse(case: &Case, trial: &Trial, kernels: &Kernels) -> Result<Plan, Vec<Diagnostic>> {
    if case.is_program() {
        return program::lower(case, trial).map(|(plan, _)| plan);
    }
    sound(case, trial, kernels, plan::analyse).map(|(plan, ())| plan)
}

/// A plan that has passed the checks, with what the last of them found out.
fn sound<T: Default>(
    case: &Case,
    trial: &Trial,
    kernels: &Kernels,
    model: impl Fn(&Plan) -> Result<T, Vec<plan::Mistake>>,
) -> Result<(Plan, T), Vec<Diagnostic>> {
    let mut reader = Reader::default();
    let mut missing = Vec::new();
    let (root, open) = for_each::expand(&mut reader, case.body(), trial, &case.matrix);
    let root = substitute(&root, trial, &mut missing);
    let plan = assemble(&mut reader, case, trial, kernels, &root);
    // What stands where a value is missing is not judged: one mistake there is enough, or has been told of the matrix.
    let mut mistakes = reader.mistakes;
    mistakes.retain(|m| !open.contains(&m.at) && missing.iter().all(|axis| axis.at != m.at));
    mistakes.extend(missing.iter().filter_map(|axis| axis.mistake(trial, &case.matrix)));
    finish(mistakes)?;
    let plan = plan.filter(|_| missing.is_empty()).ok_or_else(Vec::new)?;
    let mut mistakes = races(&plan);
    let impossible = plan::impossible(&plan).into_iter();
    mistakes.extend(impossible.map(|(step, message)| plan::Mistake { line: step.line, message }));
    let found = model(&plan).unwrap_or_else(|found| {
        mistakes.extend(found);
        T::default()
    });
    // Lowering adds steps, and buffers for checks, that the case does not know; the mistake that led there says it better.
    let added = |m: &plan::Mistake| m.line == 0 || m.message.contains(&format!("{BACK}`"));
    if !mistakes.iter().all(added) {
        mistakes.retain(|m| !added(m));
    }
    finish(mistakes.into_iter().map(|m| in_case(m, &root, trial)).collect())?;
    Ok((plan, found))
}

/// Ending of the names of host buffers that checks copy device buffers to.
pub const BACK: &str = ".back";

/// Ending of the names of host buffers whose pattern set-up copies to device buffers.
const INITIAL: &str = ".initial";

fn in_case(mistake: plan::Mistake, root: &Node, trial: &Trial) -> Diagnostic {
    let trial = trial.to_string();
    let line = mistake.line.max(1);
    Diagnostic {
        at: first_key_of_line(root, line).unwrap_or(At { line, column: 1, length: 1 }),
        message: mistake.message,
        help: (!trial.is_empty()).then(|| format!("seen in the trial {trial}")),
    }
}

/// Where the verb of a step stands, of which a plan knows the line only.
fn first_key_of_line(node: &Node, line: u32) -> Option<At> {
    match &node.value {
        Value::Map(entries) => entries.iter().find_map(|(key, value)| {
            if key.at.line == line { Some(key.at) } else { first_key_of_line(value, line) }
        }),
        Value::List(items) => items.iter().find_map(|item| first_key_of_line(item, line)),
        Value::Scalar(_) => None,
    }
}

/// The names that steps may use, and what reading them adds to the plan.
pub(crate) struct Scope<'a> {
    pub(crate) matrix: &'a Matrix,
    pub(crate) trial: &'a Trial,
    pub(crate) buffers: BTreeMap<String, Buffer>,
    /// Buffers that the case declares; lowering adds others.
    declared: BTreeSet<String>,
    /// Buffers whose declaration has a mistake, which is told there.
    broken: BTreeSet<String>,
    /// Whether buffers, or kernels, may be meant that could not be read.
    unknown_buffers: bool,
    unknown_kernels: bool,
    streams: BTreeMap<String, StreamKind>,
    events: BTreeSet<String>,
    kernels: &'a Kernels,
    /// Kernels of the case file, and what it says of those in files beside it.
    own_kernels: BTreeMap<String, Own>,
    /// What calls of any function have given so far.
    pub(crate) values: BTreeMap<String, Given>,
    next_id: u32,
}

impl Scope<'_> {
    pub(crate) fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// A step that must succeed and that the case does not spell out.
    fn step(&mut self, call: Call, line: u32) -> Step {
        Step { id: self.id(), call, returns: None, gives: None, line, planted: Vec::new() }
    }

    fn source(&self, kernel: &str) -> String {
        let own = self.own_kernels.get(kernel).and_then(|own| own.source.as_ref());
        own.or_else(|| self.kernels.get(kernel)).cloned().unwrap_or_default()
    }

    /// What is known of a kernel that is not of the library: it stands in the case file, or in a file beside it.
    pub(crate) fn own_kernel(&self, kernel: &str) -> Option<OwnKernel> {
        if plan::kernel(kernel).is_some() {
            return None;
        }
        let source = self.source(kernel);
        let own = self.own_kernels.get(kernel).cloned().unwrap_or_default();
        let place = match (&own.source, own.line) {
            (Some(_), line) => format!("line {line}"),
            (None, _) => {
                let line = source.lines().position(|line| line.contains("__global__"));
                format!("`{kernel}.hip`, line {}", line.map_or(1, |n| n + 1))
            }
        };
        let parameters = plan::own_parameters(&source, kernel);
        Some(OwnKernel { place, options: own.options, parameters, computes: own.computes })
    }

    pub(crate) fn buffer(&mut self, reader: &mut Reader, node: &Node) -> Option<String> {
        let name = reader.text(node, "a buffer")?;
        if self.broken.contains(name) || self.unknown_buffers {
            return None;
        }
        if !self.buffers.contains_key(name) {
            let help = suggest(name, self.buffers.keys().map(String::as_str));
            reader.mistake_with_help(node.at, format!("there is no buffer `{name}`"), help);
            return None;
        }
        Some(name.to_owned())
    }

    /// A stream; one that is not declared is a blocking one, as hipStreamCreate makes it.
    pub(crate) fn stream(&mut self, reader: &mut Reader, node: &Node) -> Option<String> {
        let name = reader.text(node, "a stream")?;
        if name == "device" {
            reader.mistake(node.at, "no stream is called `device`: `sync: device` means them all");
            return None;
        }
        if name != DEFAULT_STREAM {
            if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(name) {
                reader.mistake(node.at, format!("a case has at most {MOST_STREAMS} streams"));
                return None;
            }
            self.streams.entry(name.to_owned()).or_insert(StreamKind::Blocking);
        }
        Some(name.to_owned())
    }

    pub(crate) fn event(&mut self, name: &str) -> String {
        self.events.insert(name.to_owned());
        name.to_owned()
    }

    pub(crate) fn has_kernel(&self, name: &str) -> bool {
        self.unknown_kernels
            || self.kernels.contains_key(name)
            || self.own_kernels.contains_key(name)
    }

    pub(crate) fn kernel_names(&self) -> impl Iterator<Item = &str> + Clone {
        self.kernels.keys().chain(self.own_kernels.keys()).map(String::as_str)
    }

    /// The buffer itself when the host can read it, else a host buffer that a copy before the
    /// check fills.
    pub(crate) fn on_host(
        &mut self,
        reader: &mut Reader,
        name: String,
        at: At,
        before: &mut Vec<Step>,
    ) -> String {
        let buffer = &self.buffers[&name];
        if buffer.memory.on_host() {
            return name;
        }
        let bytes = buffer.bytes;
        let back = format!("{name}{BACK}");
        if self.declared.contains(&back) {
            let message = format!("this needs a host buffer `{back}`, and the case has its own");
            let help = format!("give the buffer `{back}` of the case another name");
            reader.mistake_with_help(at, message, Some(help));
        }
        let spec = beside(buffer);
        self.buffers.insert(back.clone(), spec);
        let call = Call::Copy {
            to: Place { buffer: back.clone(), offset: 0 },
            from: Place { buffer: name, offset: 0 },
            bytes,
            api: CopyApi::Memcpy,
            stream: DEFAULT_STREAM.into(),
        };
        let step = self.step(call, at.line);
        before.push(step);
        back
    }
}

/// The host buffer that lowering adds beside a device buffer, for its first content or a check. It is guarded as that is;
/// memory of a pool, which cannot be, has it guarded.
pub(crate) fn beside(device: &Buffer) -> Buffer {
    Buffer {
        memory: Memory::HostPageable,
        bytes: device.bytes,
        guarded: device.guarded || device.memory == Memory::DeviceAsync,
    }
}

/// Bytes of all buffers of a case: the reference model keeps each in the memory of the host.
const MOST_BYTES_TOGETHER: u64 = 16 << 30;

fn assemble(
    reader: &mut Reader,
    case: &Case,
    trial: &Trial,
    kernels: &Kernels,
    root: &Node,
) -> Option<Plan> {
    // The keys were checked when the file was read.
    let fields = reader.fields(root, "a case", crate::header::KEYS)?;
    let mut scope = Scope {
        matrix: &case.matrix,
        trial,
        buffers: BTreeMap::new(),
        declared: BTreeSet::new(),
        broken: BTreeSet::new(),
        unknown_buffers: false,
        unknown_kernels: false,
        streams: BTreeMap::new(),
        events: BTreeSet::new(),
        kernels,
        own_kernels: BTreeMap::new(),
        values: BTreeMap::new(),
        next_id: 0,
    };
    if let Some(node) = fields.get("streams") {
        for (key, value) in reader.entries(node, "`streams`").unwrap_or_default() {
            reader.name(key, "a stream");
            if [DEFAULT_STREAM, "device"].contains(&key.text.as_str()) {
                reader.mistake(key.at, format!("`{}` has its own meaning", key.text));
            }
            if let Some(kind) = reader.choice(value, "a stream", StreamKind::ALL) {
                scope.streams.insert(key.text.clone(), kind);
            }
        }
    }
    if let Some(node) = fields.get("kernels") {
        let entries = reader.entries(node, "`kernels`");
        scope.unknown_kernels = entries.is_none();
        for (key, value) in entries.unwrap_or_default() {
            let own = read_own(reader, key, value, kernels);
            scope.own_kernels.insert(key.text.clone(), own);
        }
    }
    let environment = read_environment(reader, &fields);
    let mut initial = BTreeMap::new();
    if let Some(node) = fields.get("buffers") {
        let entries = reader.entries(node, "`buffers`");
        scope.unknown_buffers = entries.is_none();
        for (key, value) in entries.unwrap_or_default() {
            reader.name(key, "a buffer");
            scope.declared.insert(key.text.clone());
            match read_buffer(reader, &key.text, value) {
                Some((buffer, first)) => {
                    initial.insert(key.text.clone(), first);
                    scope.buffers.insert(key.text.clone(), buffer);
                }
                None => {
                    scope.broken.insert(key.text.clone());
                }
            }
        }
        for (key, value) in reader.entries(node, "`buffers`").unwrap_or_default() {
            let staged =
                initial.get(&key.text).is_some_and(|first| matches!(first, Initial::Pattern))
                    && scope.buffers.get(&key.text).is_some_and(|b| !b.memory.on_host());
            let from = format!("{}{INITIAL}", key.text);
            if staged && scope.declared.contains(&from) {
                let message = format!(
                    "`fill: pattern` needs a host buffer `{from}`, and the case has its own"
                );
                let help = format!("give the buffer `{from}` of the case another name");
                reader.mistake_with_help(value.at, message, Some(help));
            }
        }
        // A larger one is never there. Of the others a file has fewer than 2^32.
        let there = scope.buffers.values().map(|b| b.bytes).filter(|bytes| *bytes <= MOST_BYTES);
        let bytes: u64 = there.sum();
        if bytes > MOST_BYTES_TOGETHER {
            reader.mistake(
                node.at,
                format!(
                    "the buffers have {bytes} bytes together; {MOST_BYTES_TOGETHER} is the most"
                ),
            );
        }
    }
    let mut body = Vec::new();
    if let Some(node) = fields.get("steps") {
        let before = reader.mistakes.len();
        body = read_steps(reader, &mut scope, node);
        let all_read = scope.broken.is_empty() && !scope.unknown_buffers;
        if body.is_empty() && all_read && reader.mistakes.len() == before {
            reader.mistake(fields.at, "`steps` is empty");
        }
    }
    if let Some(node) = fields.get("expect") {
        for item in reader.list(node) {
            let other = match &item.value {
                Value::Map(entries) => entries.iter().find(|(key, _)| is_other_verb(&key.text)),
                Value::List(_) | Value::Scalar(_) => None,
            };
            match other {
                Some((key, _)) => reader.mistake(
                    key.at,
                    "`expect` takes `check`, `equal` and `differ`; other steps go to `steps`",
                ),
                None => read_step(reader, &mut scope, item, &mut body),
            }
        }
    }
    stamp(&mut body);
    let plan = Plan {
        version: PLAN_VERSION,
        trial: case.trial_id(trial),
        environment,
        limits: BTreeMap::new(),
        libraries: case.needs.libraries.clone(),
        functions: case.needs.functions.clone(),
        buffers: scope.buffers.clone(),
        streams: scope.streams.clone(),
        events: scope.events.iter().cloned().collect(),
        kernels: BTreeMap::new(),
        own_kernels: BTreeMap::new(),
        setup: Vec::new(),
        body,
        verify: Vec::new(),
        teardown: Vec::new(),
    };
    if let Some(node) = fields.get("buffers") {
        refuse_large(reader, node, &plan);
    }
    Some(surround::surround(plan, scope, &initial))
}

/// The variables that a case sets.
pub(crate) fn read_environment(
    reader: &mut Reader,
    fields: &Fields<'_>,
) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    if let Some(node) = fields.get("environment") {
        for (key, value) in reader.entries(node, "`environment`").unwrap_or_default() {
            if key.text.is_empty() || key.text.contains(['=', '\0']) {
                reader.mistake(key.at, format!("no variable can be called `{}`", key.text));
            }
            if let Some(text) = reader.text(value, "a variable") {
                environment.insert(key.text.clone(), text.to_owned());
            }
        }
    }
    environment
}

/// Whether it is a step, and none that `expect` takes.
fn is_other_verb(name: &str) -> bool {
    !["check", "equal", "differ"].contains(&name) && verbs().any(|verb| verb.name == name)
}

/// Gives every fill its own stamp: the step's id.
fn stamp(steps: &mut [Step]) {
    for step in steps {
        if let Call::Fill { stamp, .. } | Call::FillNumbers { stamp, .. } = &mut step.call {
            *stamp = step.id;
        }
        if let Some(body) = step.call.body_mut() {
            stamp(body);
        }
    }
}
