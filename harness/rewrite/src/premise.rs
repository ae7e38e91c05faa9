//! The premises of expected results: everything on which the status or value that a step expects depends.
//!
//! "hipMalloc returns hipSuccess while another thread captures" is right in the capture mode `relaxed` and wrong in the
//! mode `global`. If an edit removes the step that changes the mode, the expectation remains although its reason is
//! gone. A premise is a set of facts. An edit is valid only if the premise of each remaining step is the same as before
//! the edit.
//!
//! A step with `returns` or `gives`, or a comparison of two buffers, depends on everything in this table. A call that
//! only has to succeed depends only on the rows with a star, because a change in the other rows cannot make success
//! wrong.
//!
//! | an expectation about | depends on |
//! | --- | --- |
//! | every call * | the environment variables, the capture mode of its host thread, and the open captures with their modes and threads |
//! | a call that names a stream * | the flags of the stream and the capture that it belongs to |
//! | a call that names a buffer * | the kind of memory, and the steps that allocate and free the buffer |
//! | a call that names another object * | the steps that create and destroy the object |
//! | a call that names a stream | the work on the stream and the waits for it |
//! | a call that names an event, generator, handle or value | the steps that use the object, and what these steps depend on |
//! | a call that names a graph or executable graph | the steps that use the object, what these steps depend on, and the nodes |
//! | a call during or at the end of a capture | earlier calls that must fail, because such calls can invalidate the capture |
//! | a comparison of buffers | the steps that write both buffers, and what these steps read |
//! | get_last_error, peek_last_error | earlier calls that must fail, the last call of the thread, and earlier queries of the error |
//! | mem_info | the objects that exist, earlier queries and trims |
//! | elapsed | earlier intervals |
//! | hip | earlier `hip` calls that name no object, because such calls change the state of the process or the device |
//!
//! Sizes are part of a premise only for calls that must fail. The number of iterations of a loop is part of a premise
//! if the loop contains one of the steps in the premise, but not the step with the expectation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use plan::{
    Call, CaptureEffect, CaptureMode, CaptureRole, Captures, Choice, DEFAULT_STREAM, FieldKind,
    MemoryEffect, NamedObject, ObjectKind, ObjectUse, Plan, Step, accepts_success, api,
};

use crate::uses::{block, reads, writes};

/// The premises of all steps with an expected result, by the ids of the steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Premises(BTreeMap<u32, BTreeSet<Fact>>);

/// One fact on which an expected result depends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    /// An environment variable of the case.
    Variable(String, String),
    /// The capture mode of the host thread that makes the call.
    Mode(&'static str),
    /// An open capture: the stream that began it, its mode, and true if the host thread of the call began it.
    Capture(String, &'static str, bool),
    /// A stream that the call names, and its flags.
    Stream(String),
    /// The capture in which a stream of the call takes part, by the stream that began the capture.
    Captured(String),
    /// A buffer, and the kind of its memory.
    Memory(String, &'static str),
    /// An object that was created and not destroyed.
    Exists(String),
    /// An earlier step: its id, and a description of the call, in most cases without its sizes.
    Step(u32, String),
    /// A loop around an earlier step: the loop's id, and its number of iterations.
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
    /// Returns the premises of the steps in a plan that state an expected result, and of the step `must_succeed`, which
    /// failed although the case expects its success. Other steps have no premise, because nothing shows that the calls
    /// before them were needed.
    pub fn for_plan(plan: &Plan, must_succeed: Option<u32>) -> Premises {
        let entries = entries(plan);
        let premise = |(at, entry): (usize, &Entry<'_>)| {
            let stated = states(entry.step);
            let has = stated || Some(entry.step.id) == must_succeed;
            has.then(|| (entry.step.id, premise(plan, &entries, at, stated)))
        };
        Premises(entries.iter().enumerate().filter_map(premise).collect())
    }

    /// Returns the premise of one step, which states an expected result or must succeed.
    pub fn for_step(plan: &Plan, id: u32) -> Premises {
        let mut all = Premises::for_plan(plan, Some(id));
        all.0.retain(|step, _| *step == id);
        all
    }

    /// Returns the functions of the calls on which the result of a step depends. A reduction of a program's text must
    /// keep calls of these functions.
    pub fn functions(plan: &Plan, id: u32) -> BTreeSet<&'static str> {
        let Premises(all) = Premises::for_step(plan, id);
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

    /// Compares these premises with those of a smaller plan, and returns the first fact that the premise of a step has
    /// gained or lost. Steps that the smaller plan does not contain are ignored.
    pub fn lost(&self, smaller: &Plan, must_succeed: Option<u32>) -> Option<LostPremise> {
        let after = Premises::for_plan(smaller, must_succeed);
        let steps = smaller.steps();
        after.0.iter().find_map(|(id, now)| {
            let before = self.0.get(id)?;
            let fact = before.symmetric_difference(now).next()?;
            let step = steps.iter().find(|step| step.id == *id)?;
            Some(LostPremise { function: api(&step.call, smaller), fact: fact.to_string() })
        })
    }
}

/// A fact that an edit changed although an expected result depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPremise {
    /// The function whose result the case expects.
    pub function: &'static str,
    fact: String,
}

impl fmt::Display for LostPremise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the expected result of {} depends on {}", self.function, self.fact)
    }
}

/// Returns true if a step states an expected status or value, or compares two buffers.
fn states(step: &Step) -> bool {
    let compares =
        matches!(step.call, Call::Equal { .. } | Call::Differ { .. } | Call::AtLeast { .. });
    compares || step.returns.is_some() || step.gives.is_some()
}

/// Returns true if, for some release, the step passes only if its call fails.
fn must_fail(step: &Step) -> bool {
    step.returns.as_ref().is_some_and(|by| by.0.iter().any(|(_, names)| !accepts_success(names)))
}

/// A step of a plan's body, and the state of the captures before the step.
struct Entry<'p> {
    step: &'p Step,
    /// Id of the thread block that contains the step; 0 for the first host thread.
    thread: u32,
    /// Loops that contain the step, as pairs of step id and iteration count.
    loops: Vec<(u32, u32)>,
    mode: CaptureMode,
    /// Open captures: the stream that began the capture, the mode, and the host thread.
    open: Vec<(&'p str, CaptureMode, u32)>,
    /// If the call becomes a graph node: the stream that began the capture, or the name of the graph.
    node_of: Option<&'p str>,
}

/// Captures at the current step, and entries of the steps before it, while [`entries`] visits the steps of a plan's
/// body in order.
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
                    // A host thread begins in the capture mode `global` (hipThreadExchangeStreamCaptureMode).
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
            if let CaptureEffect::End { stream, .. } = step.call.capture_effect() {
                self.open.retain(|(origin, ..)| *origin != stream);
            }
        }
    }
}

/// Something that steps change, and on which the result of a later call may depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect<'p> {
    /// The existence of an object, given by its kind and name. Steps that create or destroy the object change it.
    Life(ObjectKind, &'p str),
    /// The state of an object, given by its kind and name. Every step that uses the object may change it.
    Use(ObjectKind, &'p str),
    /// The nodes in the capture that began on this stream.
    Nodes(&'p str),
    /// The bytes in a buffer.
    Content(&'p str),
    /// An invalidated capture or a pending error, left by a call that must fail.
    Failures,
    /// The last error, which some queries clear.
    LastError,
    /// Earlier queries and trims of the free memory.
    FreeMemory,
    /// Intervals that were measured earlier.
    Intervals,
    /// The state of the process or the device, changed by `hip` calls that use no object.
    Process,
}

/// Returns the premise of the step with index `at` in `entries`. `stated` is true if the step states an expected
/// result, and false if its call only has to succeed.
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
        for name in named(&step.call).filter(|named| named.kind == ObjectKind::Buffer) {
            facts.extend(memory(plan, name.name));
        }
    }
    facts
}

/// Returns the facts about captures, streams, variables and memory that hold when a call is made.
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
        match named.kind {
            ObjectKind::Stream => {
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
            ObjectKind::Buffer => facts.extend(memory(plan, named.name)),
            ObjectKind::Kernel
            | ObjectKind::Event
            | ObjectKind::Graph
            | ObjectKind::Exec
            | ObjectKind::Generator
            | ObjectKind::Blaslt
            | ObjectKind::Rocblas
            | ObjectKind::Value => {}
        }
    }
    facts.insert(Fact::Step(step.id, description(plan, step, stated)));
    facts
}

fn named(call: &Call) -> impl Iterator<Item = NamedObject<'_>> {
    call.all_named().into_iter()
}

fn memory(plan: &Plan, buffer: &str) -> Option<Fact> {
    let kind = plan.buffers.get(buffer)?.memory.word();
    Some(Fact::Memory(buffer.to_owned(), kind))
}

/// Returns the objects that the steps have created and not destroyed.
fn existing(entries: &[Entry<'_>]) -> BTreeSet<Fact> {
    let mut found = BTreeSet::new();
    for entry in entries.iter().filter(|entry| plan::may_succeed(entry.step)) {
        for object in named(&entry.step.call) {
            let fact = Fact::Exists(format!("{} {}", object.kind, object.name));
            match object.role {
                ObjectUse::Created => drop(found.insert(fact)),
                ObjectUse::Destroyed => drop(found.remove(&fact)),
                ObjectUse::Used | ObjectUse::Read | ObjectUse::Written | ObjectUse::Updated => {}
            }
        }
    }
    found
}

/// Returns the aspects on which a call depends. `stated` is true for the premise of a step that states an expected
/// result. `first` is true for the call of that step itself, and false for an earlier call on which its result depends.
fn aspects<'p>(entry: &Entry<'p>, stated: bool, first: bool) -> Vec<Aspect<'p>> {
    let step = entry.step;
    let call = &step.call;
    let mut found = Vec::new();
    for NamedObject { kind: thing, name, .. } in named(call) {
        if name != DEFAULT_STREAM {
            found.push(Aspect::Life(thing, name));
        }
        // Earlier work on a stream matters only to the call with the expected result, and to an event that marks the
        // progress of the stream.
        let marks = matches!(call, Call::EventRecord { .. });
        let all = match thing {
            ObjectKind::Stream => first || marks,
            ObjectKind::Buffer | ObjectKind::Kernel => false,
            ObjectKind::Event
            | ObjectKind::Graph
            | ObjectKind::Exec
            | ObjectKind::Generator
            | ObjectKind::Blaslt
            | ObjectKind::Rocblas
            | ObjectKind::Value => true,
        };
        if stated && all {
            found.push(Aspect::Use(thing, name));
        }
    }
    if !stated {
        return found;
    }
    if let CaptureEffect::End { stream, .. } = call.capture_effect() {
        found.push(Aspect::Nodes(stream));
    }
    if let Call::Equal { a, b } | Call::Differ { a, b } = call {
        found.extend([Aspect::Content(a), Aspect::Content(b)]);
    } else if let Call::AtLeast { buffer, .. } = call {
        found.push(Aspect::Content(buffer));
    } else if !writes(call).is_empty() || matches!(call.memory_effect(), MemoryEffect::Replay(_)) {
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

/// Returns true if the call of a step changes an aspect.
fn touches(entry: &Entry<'_>, aspect: Aspect<'_>) -> bool {
    let step = entry.step;
    let call = &step.call;
    let names = |thing: ObjectKind, name: &str, such: fn(ObjectUse) -> bool| {
        named(call).any(|n| n.kind == thing && n.name == name && such(n.role))
    };
    let replays = matches!(call.memory_effect(), MemoryEffect::Replay(_));
    match aspect {
        Aspect::Life(thing, name) => {
            names(thing, name, |role| matches!(role, ObjectUse::Created | ObjectUse::Destroyed))
        }
        Aspect::Use(ObjectKind::Stream, _) if matches!(call, Call::DeviceSynchronize) => true,
        Aspect::Use(thing, name) => names(thing, name, |_| true),
        Aspect::Nodes(of) => entry.node_of == Some(of),
        Aspect::Content(buffer) => replays || writes(call).contains(&buffer),
        Aspect::Failures => must_fail(step),
        Aspect::LastError => asks_last_error(call),
        Aspect::FreeMemory => matches!(call, Call::MemGetInfo | Call::TrimPool),
        Aspect::Intervals => matches!(call, Call::EventElapsed { .. }),
        Aspect::Process => {
            let uses = |n: NamedObject<'_>| n.role != ObjectUse::Created;
            matches!(call, Call::Hip { .. }) && !named(call).any(uses)
        }
    }
}

fn asks_last_error(call: &Call) -> bool {
    matches!(call, Call::GetLastError | Call::PeekAtLastError)
}

/// Describes a call by its function, keywords and flags. If `stated` is true, the description also contains the objects
/// that the call names. Sizes are left out unless the call must fail.
fn description(plan: &Plan, step: &Step, stated: bool) -> String {
    let work = step.call.work();
    // If a call must fail, its sizes may be the reason. Edits do not change the arguments of `hip` steps.
    if must_fail(step) || matches!(work, Call::Hip { .. } | Call::HipValue { .. }) {
        return format!("{work:?}");
    }
    let sized = !matches!(work.memory_effect(), MemoryEffect::Nothing);
    let mut parts = vec![api(&step.call, plan).to_owned()];
    for field in work.fields() {
        let part = match field.value_type {
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
