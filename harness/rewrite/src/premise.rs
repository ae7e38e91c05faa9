//! The premises of expected results: the state on which the status or value that a step expects depends.
//!
//! "hipMalloc returns hipSuccess while another thread captures" is right in the capture mode `relaxed` and wrong in the mode
//! `global`. An edit that removes the change of the mode keeps the expectation and removes its reason. The premises of a plan
//! are facts; an edit is valid only if each step that is left has the premise that it had at the start.
//!
//! Steps that state `returns` or `gives`, and comparisons of two buffers, rest on everything in this table. A call that must
//! merely succeed rests on the rows marked with a star, because success is right in every other state.
//!
//! | an expectation of | rests on |
//! | --- | --- |
//! | every call * | the environment variables, the capture mode of its host thread, and the open captures with their modes and threads |
//! | a call that names a stream * | the flags of the stream and the capture that it belongs to |
//! | a call that names a buffer * | the kind of memory, and the steps that allocate and free the buffer |
//! | a call that names another object * | the steps that make and end the object |
//! | a call that names a stream | the work on the stream and the waits for it |
//! | a call that names an event, generator, handle or value | the steps that use the object, and what these rest on |
//! | a call that names a graph or executable graph | likewise, and the nodes |
//! | a call during or at the end of a capture | earlier calls that must fail, because these can invalidate the capture |
//! | a comparison of buffers | the writers of both buffers, and what these read |
//! | get_last_error, peek_last_error | earlier calls that must fail, the last call of the thread, and earlier queries of the error |
//! | mem_info | the objects that exist, earlier queries and trims |
//! | elapsed | earlier intervals |
//! | hip | earlier `hip` calls that name no object, because these change the state of the process or the device |
//!
//! Sizes are part of a premise only for calls that must fail. The number of iterations is, for steps in loops around which the expectation is not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use plan::{
    Call, CaptureMode, CaptureRole, Captures, Choice, DEFAULT_STREAM, FieldKind, Named, NamedAs,
    OnCaptures, OnMemory, Plan, Step, Thing, accepts_success, api,
};

use crate::uses::{block, reads, writes};

/// The premises of all steps that state an expected result, by the ids of the steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Premises(BTreeMap<u32, BTreeSet<Fact>>);

/// A part of a premise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    /// An environment variable of the case.
    Variable(String, String),
    /// The capture mode of the host thread that makes the call.
    Mode(&'static str),
    /// An open capture: its stream, its mode, and whether the same thread began it.
    Capture(String, &'static str, bool),
    /// A stream that the call names, and its flags.
    Stream(String),
    /// The capture to which a stream of the call belongs, by the stream that began it.
    Captured(String),
    /// The kind of memory of a buffer.
    Memory(String, &'static str),
    /// An object that was made and not ended.
    Exists(String),
    /// A step without its sizes.
    Step(u32, String),
    /// Iterations of a loop around a step.
    Iterations(u32, u32),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Variable(name, value) => write!(f, "the variable {name}={value}"),
            Fact::Mode(mode) => write!(f, "the capture mode {mode} of its thread"),
            Fact::Capture(stream, mode, _) => write!(f, "the capture of {stream} in mode {mode}"),
            Fact::Stream(flags) => write!(f, "its stream ({flags})"),
            Fact::Captured(origin) => write!(f, "the capture of {origin} that its stream is in"),
            Fact::Memory(buffer, kind) => write!(f, "the memory of {buffer} ({kind})"),
            Fact::Exists(name) => write!(f, "the existence of {name}"),
            Fact::Step(_, what) => f.write_str(what),
            Fact::Iterations(_, count) => write!(f, "{count} iterations"),
        }
    }
}

impl Premises {
    /// Returns the premises of a plan. `must_succeed` is a step that fails although its success is right; other steps
    /// without a stated result have no premise, because nothing shows that they were needed.
    pub fn of(plan: &Plan, must_succeed: Option<u32>) -> Premises {
        let entries = entries(plan);
        let premise = |(at, entry): (usize, &Entry<'_>)| {
            let stated = states(entry.step);
            let has = stated || Some(entry.step.id) == must_succeed;
            has.then(|| (entry.step.id, premise(plan, &entries, at, stated)))
        };
        Premises(entries.iter().enumerate().filter_map(premise).collect())
    }

    /// Returns the premise of one step, which states its result or must succeed.
    pub fn of_step(plan: &Plan, id: u32) -> Premises {
        let mut all = Premises::of(plan, Some(id));
        all.0.retain(|step, _| *step == id);
        all
    }

    /// Returns the functions of the calls on which a step rests, for a reduction of a text.
    pub fn functions(plan: &Plan, id: u32) -> BTreeSet<&'static str> {
        let Premises(all) = Premises::of_step(plan, id);
        let facts = all.values().flatten();
        let calls = facts.filter_map(|fact| match fact {
            Fact::Mode(mode) if *mode != CaptureMode::Global.word() => {
                Some("hipThreadExchangeStreamCaptureMode")
            }
            Fact::Capture(..) => Some("hipStreamBeginCapture"),
            Fact::Step(id, _) => plan
                .steps()
                .into_iter()
                .find(|step| step.id == *id)
                .map(|step| api(&step.call, plan)),
            Fact::Mode(_)
            | Fact::Variable(..)
            | Fact::Stream(_)
            | Fact::Captured(_)
            | Fact::Memory(..)
            | Fact::Exists(_)
            | Fact::Iterations(..) => None,
        });
        calls.collect()
    }

    /// Returns the first fact that a step of a smaller plan no longer rests on, or rests on in addition, with the function
    /// of the step. Steps that the smaller plan does not contain have lost nothing.
    pub fn lost(&self, smaller: &Plan, must_succeed: Option<u32>) -> Option<LostPremise> {
        let after = Premises::of(smaller, must_succeed);
        let steps = smaller.steps();
        after.0.iter().find_map(|(id, now)| {
            let before = self.0.get(id)?;
            let fact = before.symmetric_difference(now).next()?;
            let step = steps.iter().find(|step| step.id == *id)?;
            Some(LostPremise { function: api(&step.call, smaller), fact: fact.to_string() })
        })
    }
}

/// A fact on which an expected result rests and that an edit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPremise {
    /// The function whose result is expected.
    pub function: &'static str,
    fact: String,
}

impl fmt::Display for LostPremise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the expected result of {} depends on {}", self.function, self.fact)
    }
}

/// Returns true if a step states a result, or compares two buffers.
fn states(step: &Step) -> bool {
    let compares = matches!(step.call, Call::Equal { .. } | Call::Differ { .. });
    compares || step.returns.is_some() || step.gives.is_some()
}

/// Returns true if a step can pass only by a failure of its call for some release.
fn must_fail(step: &Step) -> bool {
    step.returns.as_ref().is_some_and(|by| by.0.iter().any(|(_, names)| !accepts_success(names)))
}

/// A step of the body, and the state before it.
struct Entry<'p> {
    step: &'p Step,
    /// Id of the thread block around the step; 0 for the first thread.
    thread: u32,
    /// Loops around the step: ids and counts.
    loops: Vec<(u32, u32)>,
    mode: CaptureMode,
    /// Open captures: stream, mode and thread.
    open: Vec<(&'p str, CaptureMode, u32)>,
    /// The stream that began the capture, or the graph, in which the call is a node.
    node_of: Option<&'p str>,
}

/// The walk over a body that collects the entries.
struct Walk<'p> {
    captures: Captures<'p>,
    open: Vec<(&'p str, CaptureMode, u32)>,
    entries: Vec<Entry<'p>>,
}

fn entries(plan: &Plan) -> Vec<Entry<'_>> {
    let mut walk = Walk { captures: Captures::new(plan), open: Vec::new(), entries: Vec::new() };
    walk.body(&plan.body, 0, &mut { CaptureMode::Global }, &[]);
    walk.entries
}

impl<'p> Walk<'p> {
    fn body(
        &mut self,
        steps: &'p [Step],
        thread: u32,
        mode: &mut CaptureMode,
        loops: &[(u32, u32)],
    ) {
        for step in steps {
            if let Some(body) = block(&step.call) {
                if let Call::Repeat { count, .. } = step.call {
                    let loops = [loops, &[(step.id, count)]].concat();
                    self.body(body, thread, mode, &loops);
                } else {
                    // A thread begins in the mode `global` (hipThreadExchangeStreamCaptureMode).
                    self.body(body, step.id, &mut { CaptureMode::Global }, loops);
                }
                continue;
            }
            let node_of = match self.captures.visit(step) {
                Ok(CaptureRole::Captured(origin) | CaptureRole::Added(origin)) => Some(origin),
                Ok(CaptureRole::Now | CaptureRole::Nothing) | Err(_) => None,
            };
            let (open, loops) = (self.open.clone(), loops.to_vec());
            self.entries.push(Entry { step, thread, loops, mode: *mode, open, node_of });
            if let Call::ExchangeCaptureMode { mode: new } = step.call {
                *mode = new;
            }
            if let Call::BeginCapture { stream, mode } = &step.call
                && plan::may_succeed(step)
            {
                self.open.push((stream, *mode, thread));
            }
            if let OnCaptures::End { stream, .. } = step.call.on_captures() {
                self.open.retain(|(origin, ..)| *origin != stream);
            }
        }
    }
}

/// A state that steps change, and on which a result may depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect<'p> {
    /// An object exists: the steps that make and end it.
    Life(Thing, &'p str),
    /// All uses of an object.
    Use(Thing, &'p str),
    /// The nodes of the capture that began on a stream.
    Nodes(&'p str),
    /// The bytes of a buffer.
    Content(&'p str),
    /// Calls that must fail.
    Failures,
    /// Queries of the last error.
    LastError,
    /// Queries and trims of the free memory.
    FreeMemory,
    /// Measured intervals.
    Intervals,
    /// Calls that name no object.
    Process,
}

/// Returns the premise of the entry with this index.
fn premise(plan: &Plan, entries: &[Entry<'_>], at: usize, stated: bool) -> BTreeSet<Fact> {
    let entry = &entries[at];
    let mut facts = state(plan, entry, stated);
    let mut pending = aspects(entry, stated, true);
    let mut known = BTreeSet::new();
    let mut steps = BTreeSet::new();
    if asks_last_error(&entry.step.call) {
        let own = |n: &usize| entries[*n].thread == entry.thread;
        steps.extend((0..at).rev().find(own));
    }
    if matches!(entry.step.call, Call::MemGetInfo) {
        facts.extend(existing(&entries[..at]));
    }
    while let Some(aspect) = pending.pop() {
        if !known.insert(aspect) {
            continue;
        }
        for (n, earlier) in entries[..at].iter().enumerate() {
            if touches(earlier, aspect) && steps.insert(n) {
                pending.extend(aspects(earlier, stated, false));
            }
        }
    }
    for n in steps {
        let Entry { step, loops, .. } = &entries[n];
        facts.insert(Fact::Step(step.id, description(plan, step, stated)));
        let around = loops.iter().filter(|one| !entry.loops.contains(one));
        facts.extend(around.map(|(id, count)| Fact::Iterations(*id, *count)));
        for name in named(&step.call).filter(|named| named.thing == Thing::Buffer) {
            facts.extend(memory(plan, name.name));
        }
    }
    facts
}

/// Returns the state in which a call is made.
fn state(plan: &Plan, entry: &Entry<'_>, stated: bool) -> BTreeSet<Fact> {
    let Entry { step, thread, mode, open, node_of, .. } = entry;
    let mut facts = BTreeSet::from([Fact::Mode(mode.word())]);
    let variables = plan.environment.iter();
    facts.extend(variables.map(|(name, value)| Fact::Variable(name.clone(), value.clone())));
    facts.extend(open.iter().map(|(stream, mode, began)| {
        Fact::Capture((*stream).to_owned(), mode.word(), began == thread)
    }));
    facts.extend(node_of.map(|origin| Fact::Captured(origin.to_owned())));
    for named in named(&step.call) {
        match named.thing {
            Thing::Stream => {
                let kind = plan.streams.get(named.name).map(|kind| kind.word());
                let flags = match named.name {
                    DEFAULT_STREAM => "null stream".to_owned(),
                    name => {
                        format!(
                            "{} {}",
                            kind.unwrap_or("made by a step"),
                            if stated { name } else { "" }
                        )
                    }
                };
                facts.insert(Fact::Stream(flags.trim().to_owned()));
            }
            Thing::Buffer => facts.extend(memory(plan, named.name)),
            Thing::Kernel
            | Thing::Event
            | Thing::Graph
            | Thing::Exec
            | Thing::Generator
            | Thing::Blaslt
            | Thing::Rocblas
            | Thing::Value => {}
        }
    }
    facts.insert(Fact::Step(step.id, description(plan, step, stated)));
    facts
}

fn named(call: &Call) -> impl Iterator<Item = Named<'_>> {
    call.all_named().into_iter()
}

fn memory(plan: &Plan, buffer: &str) -> Option<Fact> {
    let kind = plan.buffers.get(buffer)?.memory.word();
    Some(Fact::Memory(buffer.to_owned(), kind))
}

/// Returns the objects that steps made and did not end.
fn existing(entries: &[Entry<'_>]) -> BTreeSet<Fact> {
    let mut found = BTreeSet::new();
    for entry in entries.iter().filter(|entry| plan::may_succeed(entry.step)) {
        for object in named(&entry.step.call) {
            let fact = Fact::Exists(format!("{} {}", object.thing, object.name));
            match object.role {
                NamedAs::Made => drop(found.insert(fact)),
                NamedAs::Ended => drop(found.remove(&fact)),
                NamedAs::Used | NamedAs::Read | NamedAs::Written | NamedAs::Updated => {}
            }
        }
    }
    found
}

/// Returns the aspects on which a call rests. `first` is true for the call whose result is expected, and false for a call that
/// this one rests on.
fn aspects<'p>(entry: &Entry<'p>, stated: bool, first: bool) -> Vec<Aspect<'p>> {
    let step = entry.step;
    let call = &step.call;
    let mut found = Vec::new();
    for Named { thing, name, .. } in named(call) {
        if name != DEFAULT_STREAM {
            found.push(Aspect::Life(thing, name));
        }
        // The work on a stream matters to a call that asks about it, and to an event that marks its progress.
        let marks = matches!(call, Call::EventRecord { .. });
        let all = match thing {
            Thing::Stream => first || marks,
            Thing::Buffer | Thing::Kernel => false,
            Thing::Event
            | Thing::Graph
            | Thing::Exec
            | Thing::Generator
            | Thing::Blaslt
            | Thing::Rocblas
            | Thing::Value => true,
        };
        if stated && all {
            found.push(Aspect::Use(thing, name));
        }
    }
    if !stated {
        return found;
    }
    if let OnCaptures::End { stream, .. } = call.on_captures() {
        found.push(Aspect::Nodes(stream));
    }
    if let Call::Equal { a, b } | Call::Differ { a, b } = call {
        found.extend([Aspect::Content(a), Aspect::Content(b)]);
    } else if !writes(call).is_empty() || matches!(call.on_memory(), OnMemory::Replay(_)) {
        found.extend(reads(call).into_iter().map(Aspect::Content).filter(|_| !first));
    }
    if first && (!entry.open.is_empty() || asks_last_error(call)) {
        found.push(Aspect::Failures);
    }
    if asks_last_error(call) {
        found.push(Aspect::LastError);
    }
    if matches!(call, Call::MemGetInfo) {
        found.extend([Aspect::FreeMemory, Aspect::Process]);
    }
    if matches!(call, Call::EventElapsed { .. }) {
        found.push(Aspect::Intervals);
    }
    if matches!(call, Call::Hip { .. }) && first {
        found.push(Aspect::Process);
    }
    found
}

/// Returns true if a call changes an aspect.
fn touches(entry: &Entry<'_>, aspect: Aspect<'_>) -> bool {
    let step = entry.step;
    let call = &step.call;
    let names = |thing: Thing, name: &str, such: fn(NamedAs) -> bool| {
        named(call).any(|n| n.thing == thing && n.name == name && such(n.role))
    };
    let replays = matches!(call.on_memory(), OnMemory::Replay(_));
    match aspect {
        Aspect::Life(thing, name) => {
            names(thing, name, |role| matches!(role, NamedAs::Made | NamedAs::Ended))
        }
        Aspect::Use(Thing::Stream, _) if matches!(call, Call::DeviceSynchronize) => true,
        Aspect::Use(thing, name) => names(thing, name, |_| true),
        Aspect::Nodes(of) => entry.node_of == Some(of),
        Aspect::Content(buffer) => replays || writes(call).contains(&buffer),
        Aspect::Failures => must_fail(step),
        Aspect::LastError => asks_last_error(call),
        Aspect::FreeMemory => matches!(call, Call::MemGetInfo | Call::TrimPool),
        Aspect::Intervals => matches!(call, Call::EventElapsed { .. }),
        Aspect::Process => {
            let uses = |n: Named<'_>| n.role != NamedAs::Made;
            matches!(call, Call::Hip { .. }) && !named(call).any(uses)
        }
    }
}

fn asks_last_error(call: &Call) -> bool {
    matches!(call, Call::GetLastError | Call::PeekAtLastError)
}

/// Describes a call by its function, its words and flags, and, if its result is stated, its objects. Sizes of work that must succeed
/// are left out.
fn description(plan: &Plan, step: &Step, stated: bool) -> String {
    let work = step.call.work();
    // The sizes may be the reason why a call must fail. Edits do not change the arguments of `hip`.
    if must_fail(step) || matches!(work, Call::Hip { .. } | Call::HipValue { .. }) {
        return format!("{work:?}");
    }
    let sized = !matches!(work.on_memory(), OnMemory::Nothing);
    let mut parts = vec![api(&step.call, plan).to_owned()];
    for field in work.fields() {
        let part = match field.holds {
            FieldKind::Word | FieldKind::Text => true,
            FieldKind::Number => !sized,
            FieldKind::Name(..) | FieldKind::Place(_) => stated,
        };
        if part {
            parts.push(format!("{}={}", field.key, field.value));
        }
    }
    parts.join(" ")
}
