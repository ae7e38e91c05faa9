//! Finds calls that HIP refuses, or that have no effect, at their position in a plan. In most cases the author forgot
//! to name a stream, or wrote a step too early.
//!
//! | call | source |
//! | --- | --- |
//! | work in the null stream while a blocking stream is captured | hip_runtime_api.h of 7.2.4, hipErrorStreamCaptureImplicit |
//! | a call that may wait for the device while a stream is captured | hipStreamCaptureMode in the same header; the case capture/forbidden-calls has the calls |
//! | a call that uses an event before it is recorded | hipStreamWaitEvent and hipEventSynchronize succeed at once, hipEventElapsedTime returns hipErrorInvalidHandle |
//! | a memset of pageable host memory | hipMemsetAsync of 7.2.4 returns hipErrorInvalidValue on the emulated device |
//! | work in another stream while the captured stream gets none | the graph is empty, and the work executes at once |
//! | the time until an event for which the host has not waited | hipEventElapsedTime: hipErrorNotReady |
//!
//! A step that lists accepted statuses may be misplaced on purpose, so it is not reported.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Asynchronous, Call, CaptureMode, CaptureRole, Captures, DEFAULT_STREAM, Memory, OrderEffect,
    Plan, Step, StreamKind, api, may_succeed,
};

/// A step that HIP refuses, or that has no effect, at its position in the plan.
#[derive(Debug)]
pub struct MisplacedStep<'a> {
    /// The step.
    pub step: &'a Step,
    /// Reason why the call is wrong here.
    pub message: String,
    /// Change of the case that would make the step valid.
    pub hint: String,
}

/// Functions that HIP refuses while a stream is captured, unless the capture is relaxed, or is thread-local and was
/// begun by another thread.
const MAY_WAIT: [&str; 12] = [
    "hipEventQuery",
    "hipEventSynchronize",
    "hipFree",
    "hipHostFree",
    "hipHostMalloc",
    "hipHostRegister",
    "hipMalloc",
    "hipMallocManaged",
    "hipMallocPitch",
    "hipStreamQuery",
    "hipStreamSynchronize",
    "hipDeviceSynchronize",
];

const INTENDED_HINT: &str = "if this is intended, list the status in `returns`";

/// Returns the steps of the body that HIP refuses, or that have no effect, at their position.
pub fn misplaced_steps(plan: &Plan) -> Vec<MisplacedStep<'_>> {
    let mut places = PlacementAnalysis {
        plan,
        captures: Captures::new(plan),
        open: BTreeMap::new(),
        thread: 0,
        changes_mode: plan.steps().iter().any(|step| changes_mode(&step.call, plan)),
        recorded: BTreeSet::new(),
        ever_recorded: recorded_in(&plan.body),
        in_repeat: BTreeSet::new(),
        instantiated: instantiated_in(&plan.body),
        waited: BTreeSet::new(),
        found: Vec::new(),
    };
    places.steps(&plan.body);
    places.found
}

fn changes_mode(call: &Call, plan: &Plan) -> bool {
    api(call, plan) == "hipThreadExchangeStreamCaptureMode"
}

struct OpenCapture<'a> {
    mode: CaptureMode,
    thread: u32,
    /// True if a call has joined the capture.
    has_calls: bool,
    /// First work that a step enqueued to an uncaptured stream during this capture, and the name of that stream.
    elsewhere: Option<(&'a Step, &'a str)>,
}

/// State of the search for misplaced steps, before or after one step of the body.
struct PlacementAnalysis<'a> {
    plan: &'a Plan,
    captures: Captures<'a>,
    /// Captures that have begun and not ended, by their stream.
    open: BTreeMap<&'a str, OpenCapture<'a>>,
    /// Host thread of the step: 0, or the line of its `thread` block.
    thread: u32,
    /// True if a step changes the capture mode of its thread. Then it is unknown which calls are refused.
    changes_mode: bool,
    recorded: BTreeSet<&'a str>,
    /// Events that some step records. Any other event has a misspelt name, which the crate `case` reports.
    ever_recorded: BTreeSet<&'a str>,
    /// Events that the current `repeat` block records. From the second repetition on, they have been recorded.
    in_repeat: BTreeSet<&'a str>,
    /// Graphs from which a step creates an executable graph. Such a graph is probably not meant to be empty.
    instantiated: BTreeSet<&'a str>,
    /// Recorded events that have certainly completed, because the host has waited for them.
    waited: BTreeSet<&'a str>,
    found: Vec<MisplacedStep<'a>>,
}

impl<'a> PlacementAnalysis<'a> {
    fn steps(&mut self, steps: &'a [Step]) {
        for step in steps {
            match &step.call {
                Call::Repeat { count, body } => {
                    let before = self.in_repeat.clone();
                    if *count > 1 {
                        self.in_repeat.extend(recorded_in(body));
                    }
                    self.steps(body);
                    self.in_repeat = before;
                }
                Call::Thread { body } => {
                    let before = std::mem::replace(&mut self.thread, step.line);
                    self.steps(body);
                    self.thread = before;
                }
                _ => self.step(step),
            }
        }
    }

    fn step(&mut self, step: &'a Step) {
        let is_open = !self.open.is_empty();
        let role = self.captures.visit(step);
        if step.returns.is_none() {
            // A mistake in the use of captures and graphs is reported by the reference model.
            let wrong = match role {
                Ok(CaptureRole::Now) if is_open => self.during_capture(step),
                _ => None,
            };
            let wrong = wrong
                .or_else(|| self.misplaced_event_call(step))
                .or_else(|| self.misplaced_memory_call(step));
            self.found.extend(wrong.map(|(message, hint)| MisplacedStep { step, message, hint }));
        }
        match role {
            Ok(CaptureRole::Captured(of)) => {
                self.open.get_mut(of).into_iter().for_each(|capture| capture.has_calls = true);
            }
            Ok(CaptureRole::Now) => self.note_uncaptured(step),
            _ => {}
        }
        // If the case expects that the end of a capture fails, the capture was invalidated before, or its state is
        // unknown.
        if let Call::EndCapture { stream, graph, .. } = &step.call {
            let ended = self.open.remove(stream.as_str());
            let ended = ended.filter(|_| self.instantiated.contains(graph.as_str()));
            let elsewhere = ended.filter(|capture| !capture.has_calls).and_then(|it| it.elsewhere);
            self.found.extend(elsewhere.map(|(step, other)| {
                let message = format!(
                    "the capture of `{stream}` gets no call: this one goes to stream `{other}`, which is not being captured"
                );
                let hint = format!("write `stream: {stream}`, or move this step out of the capture");
                MisplacedStep { step, message, hint }
            }));
        }
        if may_succeed(step) {
            self.apply(&step.call);
        }
    }

    /// Remembers work that is enqueued to an uncaptured stream while other streams are being captured.
    fn note_uncaptured(&mut self, step: &'a Step) {
        let work = matches!(step.call.order_effect(), OrderEffect::ProgramOrder);
        let Some(stream) = self.captures.stream(&step.call).filter(|_| work) else { return };
        let open = self.open.iter_mut().filter(|(name, _)| **name != stream);
        open.for_each(|(_, capture)| _ = capture.elsewhere.get_or_insert((step, stream)));
    }

    fn apply(&mut self, call: &'a Call) {
        if let Call::BeginCapture { stream, mode } = call {
            let (mode, thread) = (*mode, self.thread);
            let begun = OpenCapture { mode, thread, has_calls: false, elsewhere: None };
            self.open.insert(stream, begun);
        }
        if let OrderEffect::Record { event, .. } = call.order_effect() {
            self.recorded.insert(event);
            self.waited.remove(event);
        }
        if may_wait(call) {
            self.waited = self.recorded.clone();
        }
    }

    /// Returns the message and the hint if HIP refuses the call because a stream is captured; `None` if it does not.
    fn during_capture(&self, step: &'a Step) -> Option<(String, String)> {
        let name = api(&step.call, self.plan);
        let blocking =
            |name: &str| self.plan.streams.get(name).is_none_or(|k| *k == StreamKind::Blocking);
        let captured = self.open.keys().find(|name| blocking(name));
        if let Some(captured) = captured
            && self.captures.stream(&step.call) == Some(DEFAULT_STREAM)
        {
            let message = format!(
                "{name} uses the null stream, which waits for stream `{captured}`, and `{captured}` is being captured"
            );
            let hint = format!(
                "give the call `stream: {captured}` to make it a node of the graph (`set` and `copy_2d` also `async: true`), or \
                 move it, and each check, after `end_capture`; {INTENDED_HINT}"
            );
            return Some((message, hint));
        }
        if self.changes_mode || !MAY_WAIT.contains(&name) {
            return None;
        }
        let of_device = name == "hipDeviceSynchronize";
        let refuses = |capture: &OpenCapture<'_>| match capture.mode {
            CaptureMode::Global => true,
            CaptureMode::ThreadLocal => capture.thread == self.thread,
            CaptureMode::Relaxed => of_device && capture.thread == self.thread,
        };
        let (stream, _) = self.open.iter().find(|(_, capture)| refuses(capture))?;
        let message = format!("{name} is refused while stream `{stream}` is being captured");
        let hint =
            format!("move it before `begin_capture` or after `end_capture`; {INTENDED_HINT}");
        Some((message, hint))
    }

    /// Returns the message and the hint for a memset of pageable host memory, which HIP does not accept; `None` for any
    /// other call.
    fn misplaced_memory_call(&self, step: &'a Step) -> Option<(String, String)> {
        let (Call::Set { to, .. } | Call::SetHalves { to, .. }) = &step.call else { return None };
        let memory = self.plan.buffers.get(&to.buffer)?.memory;
        let name = api(&step.call, self.plan);
        (memory == Memory::HostPageable).then(|| {
            let message = format!(
                "{name} does not accept pageable host memory, such as buffer `{}`",
                to.buffer
            );
            (message, format!("use `on: host.pinned`, or `fill`; {INTENDED_HINT}"))
        })
    }

    /// Returns the message and the hint for a call that uses an event too early; `None` for any other call.
    fn misplaced_event_call(&self, step: &'a Step) -> Option<(String, String)> {
        let early = |event: &str| {
            let message = format!("event `{event}` has not been recorded here");
            let hint = format!(
                "move `record: {{event: {event}, stream: ...}}` before this step; {INTENDED_HINT}"
            );
            (message, hint)
        };
        if let Call::EventElapsed { start, end } = &step.call {
            let events = [start.as_str(), end];
            if events.iter().any(|event| !self.ever_recorded.contains(event)) {
                return None;
            }
            if let Some(event) = events.into_iter().find(|event| !self.recorded.contains(event)) {
                return Some(early(event));
            }
            let event = events.into_iter().find(|event| !self.waited.contains(event))?;
            let message = format!("event `{event}` may not have happened here");
            let hint = format!("write `sync_event: {event}` before this step; {INTENDED_HINT}");
            return Some((message, hint));
        }
        let event = match &step.call {
            Call::StreamWaitEvent { event, .. }
            | Call::EventSynchronize { event }
            | Call::EventQuery { event } => event.as_str(),
            _ => return None,
        };
        let is_later = self.ever_recorded.contains(event) && !self.in_repeat.contains(event);
        (is_later && !self.recorded.contains(event)).then(|| early(event))
    }
}

/// Returns the events that some step of a block records.
fn recorded_in(steps: &[Step]) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for step in steps {
        if let OrderEffect::Record { event, .. } = step.call.order_effect() {
            found.insert(event);
        }
        found.extend(step.call.body().into_iter().flat_map(recorded_in));
    }
    found
}

/// Returns the graphs from which some step of a block creates an executable graph.
fn instantiated_in(steps: &[Step]) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for step in steps {
        if let Call::GraphInstantiate { graph, .. } = &step.call {
            found.insert(graph.as_str());
        }
        found.extend(step.call.body().into_iter().flat_map(instantiated_in));
    }
    found
}

/// Returns true if the host may learn during the call that work of the device has completed: the call waits for the
/// device or queries its progress, or takes so long that the work may complete meanwhile.
fn may_wait(call: &Call) -> bool {
    let waits = matches!(
        call.order_effect(),
        OrderEffect::Sync(_)
            | OrderEffect::SyncDevice
            | OrderEffect::SyncEvent(_)
            | OrderEffect::Free(_)
    );
    let looks = matches!(
        call,
        Call::StreamQuery { .. } | Call::EventQuery { .. } | Call::Sleep { .. } | Call::Hip { .. }
    );
    waits || looks || matches!(call, Call::Copy { api, .. } if !api.is_asynchronous())
}
