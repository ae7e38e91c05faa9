//! Mitigations that do the same work with other calls.
//!
//! A mitigation edits only the body of a plan. The edited plan may break the rules of stream captures, or contain a
//! race. It is then written as a case and lowered again, which adds set-up, guards and teardown and rejects invalid
//! plans.

use std::collections::BTreeSet;

use plan::{Call, DEFAULT_STREAM, Memory, Plan, Step, StreamKind, WorkStream, captured_steps};

/// A changed plan that does the same work with other calls.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// Description of the change, in the imperative mood.
    pub name: &'static str,
    /// Effect of the change, in one sentence.
    pub meaning: &'static str,
    /// Component that is suspect if the change helps.
    pub component: &'static str,
    /// The changed plan, with unchanged set-up and teardown.
    pub plan: Plan,
}

/// Function that changes a plan, or returns false if the change does not apply to the plan.
type Edit = fn(&mut Plan) -> bool;

const EDITS: &[(&str, &str, &str, Edit)] = &[
    (
        "pin the host buffers",
        "Host memory is allocated with hipHostMalloc, so no copy uses a staging buffer.",
        "staging of pageable memory",
        |plan| replace_memory(plan, Memory::HostPageable, Memory::HostPinned),
    ),
    ("allocate by hipMalloc", "hipMalloc replaces hipMallocAsync.", "memory pools", |plan| {
        replace_memory(plan, Memory::DeviceAsync, Memory::Device)
    }),
    (
        "copy by hipMemcpy outside of captures",
        "The host waits for every copy outside of captures.",
        "ordering of asynchronous copies",
        |plan| edit_outside_captures(plan, &mut |step, out| out.push(make_synchronous(step))),
    ),
    (
        "synchronise the device after each submission outside of captures",
        "No work is pending when the next call is made.",
        "ordering of commands",
        |plan| {
            edit_outside_captures(plan, &mut |step, out| {
                let sync = submits(&step.call).then(|| new_step(Call::DeviceSynchronize));
                out.push(step);
                out.extend(sync);
            })
        },
    ),
    (
        "synchronise before reading",
        "The device is idle before each read-back.",
        "ordering of copies to the host",
        |plan| {
            edit_outside_captures(plan, &mut |step, out| {
                if reads(&step.call) {
                    out.push(new_step(Call::DeviceSynchronize));
                }
                out.push(step);
            })
        },
    ),
    (
        "synchronise after every graph launch",
        "No replay overlaps with later work, and no output is overwritten before it is read.",
        "ordering of graph launches",
        |plan| {
            edit_outside_captures(plan, &mut |step, out| {
                let launched = if let Call::GraphLaunch { stream, .. } = &step.call {
                    Some(stream.clone())
                } else {
                    None
                };
                out.push(step);
                out.extend(launched.map(|stream| new_step(Call::StreamSynchronize { stream })));
            })
        },
    ),
    (
        "use one stream",
        "All work of the program uses one stream.",
        "ordering between streams",
        merge_streams,
    ),
    (
        "use a stream instead of the null stream",
        "Work of the null stream uses a separate stream.",
        "the null stream",
        replace_null_stream,
    ),
    (
        "use a fresh stream for each capture",
        "No stream is captured twice.",
        "state that remains in a stream after a capture",
        use_fresh_streams,
    ),
    (
        "warm up before the capture",
        "Every kernel in a stream capture is launched once before the capture begins.",
        "first use of a kernel inside of a capture",
        warm_up,
    ),
    (
        "create generators before the capture",
        "Random generators are created and seeded outside of captures.",
        "set-up of a library inside of a capture",
        create_before_capture,
    ),
];

/// Returns the rewrites that apply to a plan. The changed plans may be invalid.
pub fn rewrites(plan: &Plan) -> Vec<Rewrite> {
    let apply =
        |(name, meaning, component, edit): &(&'static str, &'static str, &'static str, Edit)| {
            let mut plan = plan.clone();
            let body = plan.body.clone();
            let buffers = plan.buffers.clone();
            let applies = edit(&mut plan) && (plan.body != body || plan.buffers != buffers);
            applies.then_some(Rewrite { name, meaning, component, plan })
        };
    EDITS.iter().filter_map(apply).collect()
}

/// Returns a step for a new call. Its id is assigned when the plan is lowered again.
fn new_step(call: Call) -> Step {
    Step { id: 0, call, returns: None, gives: None, line: 0, planted: Vec::new() }
}

/// Changes the memory kind of the declared buffers of kind `from`. Buffers that lowering adds have a dot in their names
/// and are not changed.
fn replace_memory(plan: &mut Plan, from: Memory, to: Memory) -> bool {
    let mut changed = false;
    for (name, buffer) in &mut plan.buffers {
        if buffer.memory == from && !name.contains('.') {
            buffer.memory = to;
            changed = true;
        }
    }
    changed
}

/// Rebuilds every list of steps, including those in blocks, by calling `edit` for each step outside of captures. Steps
/// inside of captures are kept.
fn edit_outside_captures(plan: &mut Plan, edit: &mut dyn FnMut(Step, &mut Vec<Step>)) -> bool {
    let during = captured_steps(plan).during;
    let body = std::mem::take(&mut plan.body);
    plan.body = edit_steps(body, &during, edit);
    true
}

fn edit_steps(
    steps: Vec<Step>,
    during: &BTreeSet<u32>,
    edit: &mut dyn FnMut(Step, &mut Vec<Step>),
) -> Vec<Step> {
    let mut out = Vec::with_capacity(steps.len());
    for mut step in steps {
        if let Call::Repeat { body, .. } | Call::Thread { body } = &mut step.call {
            *body = edit_steps(std::mem::take(body), during, edit);
            out.push(step);
        } else if during.contains(&step.id) {
            out.push(step);
        } else {
            edit(step, &mut out);
        }
    }
    out
}

fn make_synchronous(mut step: Step) -> Step {
    if let Some(asynchronous) = step.call.asynchronous_mut()
        && asynchronous.is_asynchronous()
    {
        asynchronous.make_plain();
    }
    step
}

/// Returns true if the device may still be working when the call returns.
fn submits(call: &Call) -> bool {
    match call.work_stream() {
        WorkStream::NullStream
        | WorkStream::Stream(_)
        | WorkStream::Library(_)
        | WorkStream::Generator(_) => true,
        // Allocations and markers are not work that the device executes.
        WorkStream::NoStream
        | WorkStream::Mark(_)
        | WorkStream::Pool { .. }
        | WorkStream::NearestTo(_) => false,
    }
}

/// Returns true if the call is a check, or copies data to the host for a check.
fn reads(call: &Call) -> bool {
    call.is_check() || matches!(call, Call::Copy { to, .. } if to.buffer.contains('.'))
}

fn each_call(steps: &mut [Step], edit: &mut dyn FnMut(&mut Call)) {
    for step in steps {
        edit(&mut step.call);
        if let Call::Repeat { body, .. } | Call::Thread { body } = &mut step.call {
            each_call(body, edit);
        }
    }
}

fn merge_streams(plan: &mut Plan) -> bool {
    let Some(first) = plan.streams.keys().next().cloned() else { return false };
    if plan.streams.len() < 2 {
        return false;
    }
    plan.streams.retain(|name, _| *name == first);
    each_call(&mut plan.body, &mut |call| {
        if let Some(stream) = call.stream_mut()
            && stream != DEFAULT_STREAM
        {
            stream.clone_from(&first);
        }
    });
    true
}

fn replace_null_stream(plan: &mut Plan) -> bool {
    const FRESH_STREAM: &str = "own";
    if plan.streams.contains_key(FRESH_STREAM) {
        return false;
    }
    let mut changed = false;
    let mut body = std::mem::take(&mut plan.body);
    each_call(&mut body, &mut |call| {
        // Calls of these kinds ignore the stream that they name.
        let ignores_stream = match call.work_stream() {
            WorkStream::NullStream => true,
            WorkStream::Pool { buffer, .. } => !plan.is_pool_memory(buffer),
            WorkStream::NoStream
            | WorkStream::Stream(_)
            | WorkStream::Library(_)
            | WorkStream::Generator(_)
            | WorkStream::Mark(_)
            | WorkStream::NearestTo(_) => false,
        };
        if !ignores_stream
            && let Some(stream) = call.stream_mut()
            && stream == DEFAULT_STREAM
        {
            FRESH_STREAM.clone_into(stream);
            changed = true;
        }
    });
    plan.body = body;
    plan.streams.insert(FRESH_STREAM.to_owned(), StreamKind::Blocking);
    changed
}

/// If a stream is captured a second time, uses a new stream for this capture and for all later work on the stream. Only
/// captures at the top level of the body are changed, because the steps there are executed once and in order.
fn use_fresh_streams(plan: &mut Plan) -> bool {
    let mut captured = BTreeSet::new();
    let mut renamed: Vec<(String, String)> = Vec::new();
    let mut body = std::mem::take(&mut plan.body);
    for step in &mut body {
        if let Call::BeginCapture { stream, .. } = &step.call
            && !captured.insert(stream.clone())
        {
            let fresh = format!("{stream}{}", renamed.len() + 2);
            let kind = plan.streams.get(stream).copied().unwrap_or(StreamKind::Blocking);
            plan.streams.insert(fresh.clone(), kind);
            renamed.retain(|(old, _)| old != stream);
            renamed.push((stream.clone(), fresh));
        }
        each_call(std::slice::from_mut(step), &mut |call| {
            if let Some(stream) = call.stream_mut()
                && let Some((_, fresh)) = renamed.iter().find(|(old, _)| old == stream)
            {
                stream.clone_from(fresh);
            }
        });
    }
    plan.body = body;
    !renamed.is_empty()
}

/// Inserts, before each capture, an uncaptured copy of each launch in the capture. Each copy is followed by a
/// synchronisation with the device.
fn warm_up(plan: &mut Plan) -> bool {
    let mut out: Vec<Step> = Vec::new();
    let mut begin = None;
    let mut warmed = false;
    for step in std::mem::take(&mut plan.body) {
        match (&step.call, begin) {
            (Call::BeginCapture { .. }, None) => begin = Some(out.len()),
            (Call::EndCapture { .. }, Some(_)) => begin = None,
            (Call::Launch { .. }, Some(at)) => {
                out.insert(at, new_step(Call::DeviceSynchronize));
                out.insert(at, Step { line: 0, ..step.clone() });
                begin = Some(at + 2);
                warmed = true;
            }
            _ => {}
        }
        out.push(step);
    }
    plan.body = out;
    warmed
}

/// Moves calls that create generators and handles from the inside of a capture to the steps before it.
fn create_before_capture(plan: &mut Plan) -> bool {
    let mut out: Vec<Step> = Vec::new();
    let mut begin = None;
    let mut moved = false;
    for step in std::mem::take(&mut plan.body) {
        match (&step.call, begin) {
            (Call::BeginCapture { .. }, None) => begin = Some(out.len()),
            (Call::EndCapture { .. }, Some(_)) => begin = None,
            (
                Call::RandCreate { .. }
                | Call::RandSeed { .. }
                | Call::RandStream { .. }
                | Call::BlasltCreate { .. }
                | Call::RocblasCreate { .. },
                Some(at),
            ) => {
                out.insert(at, step);
                begin = Some(at + 1);
                moved = true;
                continue;
            }
            _ => {}
        }
        out.push(step);
    }
    plan.body = out;
    moved
}

#[cfg(test)]
mod tests {
    use case::{Case, Kernels, lower};
    use plan::CopyApi;

    use super::*;

    fn plan(text: &str) -> Plan {
        let case = Case::parse("t/t", text).unwrap_or_else(|e| panic!("{e:?}"));
        let trial = &case.trials()[0];
        lower(&case, trial, &Kernels::new(), &[]).unwrap_or_else(|e| panic!("{e:?}")).plan
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let names: Vec<_> = rewrites(&plan(text)).iter().map(|r| r.name).collect();
        assert_eq!(names, expected);
    }

    const COPY: &str = "\
title: A copy arrives
source: [test]
buffers:
  src: {on: host.pageable, bytes: 64, fill: pattern}
  dst: {on: device, bytes: 64}
steps:
  - copy: {to: dst, from: src, api: memcpy_async, stream: s}
  - sync: s
  - check: dst
faults: [copy.zero]
";

    #[test]
    fn only_applicable_rewrites_are_offered() {
        check(
            COPY,
            &[
                "pin the host buffers",
                "copy by hipMemcpy outside of captures",
                "synchronise the device after each submission outside of captures",
                "synchronise before reading",
            ],
        );
    }

    #[test]
    fn every_kind_of_work_is_synchronised() {
        let steps = [
            "copy_3d: {to: dst, from: src, width: 4, height: 4, depth: 2, async: true, stream: s}",
            "set_rows: {to: dst, value: 1, width: 4, height: 4, async: true, stream: s}",
            "set_halves: {to: dst, value: 1, count: 4, stream: s}",
            "host_func: {buffer: src, stream: s}",
        ];
        for step in steps {
            let text = COPY
                .replace("copy: {to: dst, from: src, api: memcpy_async, stream: s}", step)
                .replace("on: device, bytes: 64", "on: device, bytes: 64, fill: zero")
                .replace("host.pageable", "host.pinned");
            let plan = plan(&text);
            let found = rewrites(&plan);
            let named = |name: &str| found.iter().find(|rewrite| rewrite.name.contains(name));
            let waits = named("synchronise the device after").expect(step);
            assert!(matches!(waits.plan.body[1].call, Call::DeviceSynchronize), "{step}");
            let mut call = plan.body[0].call.clone();
            let chosen = call.asynchronous_mut().is_some();
            assert_eq!(named("copy by hipMemcpy").is_some(), chosen, "{step}");
        }
    }

    #[test]
    fn rewrites_can_be_written_and_lowered() {
        let plan = plan(COPY);
        for rewrite in rewrites(&plan) {
            let header = case::Header {
                title: "A copy arrives".to_owned(),
                source: vec!["test".to_owned()],
                faults: Case::parse("t/t", COPY).unwrap().faults,
                ..case::Header::default()
            };
            let text = case::write(&rewrite.plan, &header, &Kernels::new());
            let case = Case::parse("t/t", &text)
                .unwrap_or_else(|e| panic!("{}: {e:?}\n{text}", rewrite.name));
            let lowered = lower(&case, &case.trials()[0], &Kernels::new(), &[]);
            assert!(lowered.is_ok(), "{}: {lowered:?}\n{text}", rewrite.name);
        }
    }

    #[test]
    fn rewrites_leave_captures_unchanged() {
        let text = "\
title: A captured copy arrives
source: [test]
buffers:
  src: {on: host.pinned, bytes: 64, fill: pattern}
  dst: {on: device, bytes: 64}
steps:
  - begin_capture: {stream: s}
  - copy: {to: dst, from: src, api: memcpy_async, stream: s}
  - end_capture: {stream: s, graph: g}
  - instantiate: {exec: x, graph: g}
  - launch_graph: {exec: x, stream: s}
  - sync: s
  - check: dst
faults: [copy.zero]
";
        let rewritten = rewrites(&plan(text));
        let captured = |p: &Plan| {
            let inside =
                |s: &&Step| matches!(&s.call, Call::Copy { api: CopyApi::MemcpyAsync, .. });
            p.body.iter().filter(inside).count()
        };
        assert!(rewritten.iter().all(|r| captured(&r.plan) == 1));
        let names: Vec<_> = rewritten.iter().map(|r| r.name).collect();
        assert!(names.contains(&"synchronise after every graph launch"), "{names:?}");
    }
}
