//! Steps as YAML.

use std::collections::{BTreeMap, BTreeSet};

use plan::{
    Arg, ByVersion, Call, CaptureMode, CopyApi, DEFAULT_STREAM, Dtype, HostFuncApi, MatmulProblem,
    Named, Place, Plan, RandKind, Step, Thing, VersionRange, kernel,
};

use super::{
    line,
    scalar::{flow_list, flow_map, plain},
    word,
};
use crate::{
    calls::ATTRIBUTES,
    lower::{BACK, beside},
};

/// How the steps of a plan are written.
pub(super) struct Steps {
    /// Host buffers that a check of a device buffer brings with it, and that nothing else uses.
    implied: BTreeSet<String>,
}

impl Steps {
    pub(super) fn of(plan: &Plan) -> Steps {
        // All uses must be in such checks, or the buffer has a life of its own.
        let mut uses = BTreeMap::new();
        count(&plan.body, &mut uses);
        let mut folded = BTreeMap::new();
        fold_count(plan, &plan.body, &mut folded);
        let implied = folded.into_iter().filter(|(name, n)| uses.get(name) == Some(n));
        Steps { implied: implied.map(|(name, _)| name).collect() }
    }

    /// Whether lowering adds this buffer by itself.
    pub(super) fn implied(&self, buffer: &str) -> bool {
        self.implied.contains(buffer)
    }

    pub(super) fn write(&self, out: &mut String, plan: &Plan, steps: &[Step], indent: usize) {
        let mut rest = steps;
        while !rest.is_empty() {
            let (copies, check) = fold(plan, rest);
            let spaces = " ".repeat(indent);
            if copies > 0 && self.all_implied(&rest[..copies]) {
                let step = &rest[copies];
                line(out, &format!("{spaces}- {}", self.check(step)));
                attributes(out, step, indent);
                rest = &rest[check..];
                continue;
            }
            let step = &rest[0];
            match &step.call {
                Call::Repeat { count, body } => {
                    line(out, &format!("{spaces}- repeat:"));
                    line(out, &format!("{spaces}    count: {count}"));
                    line(out, &format!("{spaces}    steps:"));
                    self.write(out, plan, body, indent + 6);
                }
                Call::Thread { body } => {
                    line(out, &format!("{spaces}- thread:"));
                    self.write(out, plan, body, indent + 4);
                }
                call => line(out, &format!("{spaces}- {}", self.call(plan, call))),
            }
            attributes(out, step, indent);
            rest = &rest[1..];
        }
    }

    fn all_implied(&self, copies: &[Step]) -> bool {
        copies.iter().all(|step| back(&step.call).is_some_and(|(name, _)| self.implied(name)))
    }

    /// A check whose implied buffers are named by what they are copied from.
    fn check(&self, step: &Step) -> String {
        let name = |buffer: &str| match buffer.strip_suffix(BACK) {
            Some(device) if self.implied(buffer) => plain(device),
            _ => plain(buffer),
        };
        match &step.call {
            Call::Equal { a, b } => format!("equal: [{}, {}]", name(a), name(b)),
            Call::Differ { a, b } => format!("differ: [{}, {}]", name(a), name(b)),
            Call::Check { buffer } => format!("check: {}", name(buffer)),
            _ => String::new(),
        }
    }

    fn call(&self, plan: &Plan, call: &Call) -> String {
        self.call_in(plan, call, None)
    }

    /// A call in its stream, or as a node of a graph, which has neither a stream nor a choice of functions.
    fn call_in(&self, plan: &Plan, call: &Call, graph: Option<&str>) -> String {
        let on = |stream: &str| match graph {
            Some(graph) => Some(("graph", plain(graph))),
            None => (stream != DEFAULT_STREAM).then(|| ("stream", plain(stream))),
        };
        let size = |buffer: &str| plan.buffers.get(buffer).map_or(0, |b| b.bytes);
        match call {
            Call::Alloc { buffer, stream } => memory("alloc", buffer, stream),
            Call::Free { buffer, stream } => memory("free", buffer, stream),
            Call::FreeAddress { address } => format!("free_address: {address}"),
            Call::Fill { buffer, .. } => format!("fill: {}", plain(buffer)),
            Call::FillNumbers { buffer, dtype, .. } => verb(
                "fill",
                vec![("buffer", plain(buffer)), ("numbers", dtype_name(*dtype).into())],
            ),
            Call::Copy { to, from, bytes, api, stream } => {
                let mut fields = vec![("to", plain(&to.buffer)), ("from", plain(&from.buffer))];
                let room = size(&to.buffer).saturating_sub(to.offset);
                let have = size(&from.buffer).saturating_sub(from.offset);
                if room != have || *bytes != have {
                    fields.push(("bytes", bytes.to_string()));
                }
                fields
                    .extend(offset("to_offset", to).into_iter().chain(offset("from_offset", from)));
                let default = match stream.as_str() {
                    DEFAULT_STREAM if graph.is_none() => CopyApi::Memcpy,
                    _ => CopyApi::MemcpyAsync,
                };
                if *api != default {
                    fields.push(("api", copy_api(*api).to_owned()));
                }
                fields.extend(on(stream));
                verb("copy", fields)
            }
            Call::Copy2d {
                to,
                to_pitch,
                from,
                from_pitch,
                width,
                height,
                asynchronous,
                stream,
            } => {
                let mut fields = vec![("to", plain(&to.buffer)), ("from", plain(&from.buffer))];
                for (key, pitch) in [("to_pitch", to_pitch), ("from_pitch", from_pitch)] {
                    if pitch != width {
                        fields.push((key, pitch.to_string()));
                    }
                }
                fields.push(("width", width.to_string()));
                fields.push(("height", height.to_string()));
                fields.extend(flag("async", *asynchronous));
                fields.extend(on(stream));
                verb("copy_2d", fields)
            }
            Call::Set { to, value, words, bytes, asynchronous, stream } => {
                let mut fields = vec![("to", plain(&to.buffer)), ("value", value.to_string())];
                fields.extend(flag("words", *words));
                if *bytes != size(&to.buffer).saturating_sub(to.offset) {
                    fields.push(("bytes", bytes.to_string()));
                }
                fields.extend(offset("offset", to));
                fields.extend(flag("async", *asynchronous && graph.is_none()));
                fields.extend(on(stream));
                verb("set", fields)
            }
            Call::Launch { kernel, grid, block, args, stream } => {
                let mut fields =
                    vec![("kernel", plain(kernel)), ("args", flow_list(args.iter().map(argument)))];
                fields.extend(geometry(kernel, *grid, *block, args));
                fields.extend(on(stream));
                verb("launch", fields)
            }
            Call::AddNode { graph, node } => self.call_in(plan, node, Some(graph)),
            Call::FindSymbol { kernel, symbol, variable } => {
                let fields = [("kernel", plain(kernel)), ("symbol", plain(symbol))];
                verb("find_symbol", fields.into_iter().chain(flag("variable", *variable)).collect())
            }
            Call::HostFunc { buffer, api, stream } => {
                let api = match api {
                    HostFuncApi::LaunchHostFunc => None,
                    HostFuncApi::AddCallback => Some(("api", "add_callback".to_owned())),
                };
                let buffer = [("buffer", plain(buffer))];
                verb("host_func", buffer.into_iter().chain(api).chain(on(stream)).collect())
            }
            Call::StreamCreate { stream } => format!("create_stream: {}", plain(stream)),
            Call::StreamDestroy { stream } => format!("destroy_stream: {}", plain(stream)),
            Call::StreamSynchronize { stream } => format!("sync: {}", plain(stream)),
            Call::StreamQuery { stream } => format!("query: {}", plain(stream)),
            Call::StreamWaitEvent { stream, event } => {
                let stream = on(stream);
                verb("wait", stream.into_iter().chain([("event", plain(event))]).collect())
            }
            Call::DeviceSynchronize => "sync: device".to_owned(),
            Call::EventRecord { event, stream } => {
                verb("record", [("event", plain(event))].into_iter().chain(on(stream)).collect())
            }
            Call::EventSynchronize { event } => format!("sync_event: {}", plain(event)),
            Call::EventQuery { event } => format!("query_event: {}", plain(event)),
            Call::EventElapsed { start, end } => {
                verb("elapsed", vec![("start", plain(start)), ("end", plain(end))])
            }
            Call::BeginCapture { stream, mode } => {
                let mode = match mode {
                    CaptureMode::Global => None,
                    CaptureMode::ThreadLocal => Some(("mode", "thread_local".to_owned())),
                    CaptureMode::Relaxed => Some(("mode", "relaxed".to_owned())),
                };
                verb("begin_capture", on(stream).into_iter().chain(mode).collect())
            }
            Call::EndCapture { stream, graph } => verb(
                "end_capture",
                on(stream).into_iter().chain([("graph", plain(graph))]).collect(),
            ),
            Call::IsCapturing { stream } => format!("is_capturing: {}", plain(stream)),
            Call::EmptyGraph { graph, nodes } => {
                verb("empty_graph", vec![("graph", plain(graph)), ("nodes", nodes.to_string())])
            }
            Call::GraphNodeCount { graph } => format!("node_count: {}", plain(graph)),
            Call::GraphInstantiate { exec, graph } => {
                verb("instantiate", vec![("exec", plain(exec)), ("graph", plain(graph))])
            }
            Call::GraphLaunch { exec, stream } => verb(
                "launch_graph",
                [("exec", plain(exec))].into_iter().chain(on(stream)).collect(),
            ),
            Call::GraphExecUpdate { exec, graph } => {
                verb("update_graph", vec![("exec", plain(exec)), ("graph", plain(graph))])
            }
            Call::GraphExecDestroy { exec } => format!("destroy_exec: {}", plain(exec)),
            Call::GraphDestroy { graph } => format!("destroy_graph: {}", plain(graph)),
            Call::GetLastError => "get_last_error:".to_owned(),
            Call::DeviceAttribute { attribute, device } => {
                let attribute = word(ATTRIBUTES, *attribute).to_owned();
                let mut fields = vec![("attribute", attribute)];
                if *device != 0 {
                    fields.push(("device", device.to_string()));
                }
                verb("device_attribute", fields)
            }
            Call::MemGetInfo => "mem_info:".to_owned(),
            Call::TrimPool => "trim_pool:".to_owned(),
            Call::RandCreate { generator, kind, host } => {
                let kind = match kind {
                    RandKind::Xorwow => None,
                    RandKind::Mrg32k3a => Some(("kind", "mrg32k3a".to_owned())),
                    RandKind::Philox => Some(("kind", "philox".to_owned())),
                };
                let generator = [("generator", plain(generator))];
                verb(
                    "rand_create",
                    generator.into_iter().chain(kind).chain(flag("host", *host)).collect(),
                )
            }
            Call::RandSeed { generator, seed } => {
                verb("rand_seed", vec![("generator", plain(generator)), ("seed", seed.to_string())])
            }
            Call::RandOffset { generator, offset } => verb(
                "rand_offset",
                vec![("generator", plain(generator)), ("offset", offset.to_string())],
            ),
            Call::RandStream { generator, stream } => verb(
                "rand_stream",
                [("generator", plain(generator))].into_iter().chain(on(stream)).collect(),
            ),
            Call::RandGenerate { generator, to, count } => {
                let mut fields = vec![("generator", plain(generator)), ("to", plain(&to.buffer))];
                if *count != size(&to.buffer) / 4 {
                    fields.push(("count", count.to_string()));
                }
                verb("rand_generate", fields)
            }
            Call::RandDestroy { generator } => format!("rand_destroy: {}", plain(generator)),
            Call::BlasltCreate { handle } => format!("blaslt_create: {}", plain(handle)),
            Call::BlasltHeuristic { handle, problem } => {
                let mut fields = self::problem(handle, problem);
                fields.extend(flag("bias", problem.bias));
                verb("blaslt_heuristic", fields)
            }
            Call::BlasltMatmul { handle, problem, operands, stream }
            | Call::RocblasGemm { handle, problem, operands, stream } => {
                let mut fields = self::problem(handle, problem);
                for (key, buffer) in [("a", &operands.a), ("b", &operands.b), ("d", &operands.d)] {
                    fields.push((key, plain(buffer)));
                }
                fields.extend(operands.bias.iter().map(|b| ("bias", plain(b))));
                fields.extend(on(stream));
                let name = match call {
                    Call::RocblasGemm { .. } => "rocblas_gemm",
                    _ => "blaslt_matmul",
                };
                verb(name, fields)
            }
            Call::BlasltDestroy { handle } => format!("blaslt_destroy: {}", plain(handle)),
            Call::RocblasCreate { handle } => format!("rocblas_create: {}", plain(handle)),
            Call::RocblasDestroy { handle } => format!("rocblas_destroy: {}", plain(handle)),
            Call::Check { buffer } => format!("check: {}", plain(buffer)),
            Call::Equal { a, b } => format!("equal: [{}, {}]", plain(a), plain(b)),
            Call::Differ { a, b } => format!("differ: [{}, {}]", plain(a), plain(b)),
            Call::Sleep { ms } => format!("sleep: {ms}"),
            // Only lowering makes these, around the steps; blocks are written by the caller.
            Call::Poison { .. }
            | Call::Compile { .. }
            | Call::Load { .. }
            | Call::Unload { .. }
            | Call::EventCreate { .. }
            | Call::EventDestroy { .. }
            | Call::Guards { .. }
            | Call::Repeat { .. }
            | Call::Thread { .. } => String::new(),
        }
    }
}

fn verb(name: &str, fields: Vec<(&str, String)>) -> String {
    format!("{name}: {}", flow_map(fields))
}

fn memory(name: &str, buffer: &str, stream: &str) -> String {
    match stream {
        DEFAULT_STREAM => format!("{name}: {}", plain(buffer)),
        _ => verb(name, vec![("buffer", plain(buffer)), ("stream", plain(stream))]),
    }
}

fn flag(key: &'static str, set: bool) -> Option<(&'static str, String)> {
    set.then(|| (key, "true".to_owned()))
}

fn offset(key: &'static str, place: &Place) -> Option<(&'static str, String)> {
    (place.offset != 0).then(|| (key, place.offset.to_string()))
}

fn copy_api(api: CopyApi) -> &'static str {
    match api {
        CopyApi::Memcpy => "memcpy",
        CopyApi::MemcpyAsync => "memcpy_async",
        CopyApi::MemcpyWithStream => "memcpy_with_stream",
        CopyApi::MemcpyDirected => "memcpy_directed",
    }
}

fn dtype_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "f32",
        Dtype::F16 => "f16",
        Dtype::Bf16 => "bf16",
        Dtype::F64 => "f64",
        Dtype::I8 => "i8",
        Dtype::I32 => "i32",
    }
}

fn problem(handle: &str, problem: &MatmulProblem) -> Vec<(&'static str, String)> {
    let letter = |transposed| if transposed { 't' } else { 'n' };
    let mut fields = vec![
        ("handle", plain(handle)),
        ("dtype", dtype_name(problem.dtype).to_owned()),
        ("m", problem.m.to_string()),
        ("n", problem.n.to_string()),
        ("k", problem.k.to_string()),
    ];
    if problem.transpose_a || problem.transpose_b {
        let text = [letter(problem.transpose_a), letter(problem.transpose_b)];
        fields.push(("transpose", text.iter().collect()));
    }
    fields
}

fn argument(arg: &Arg) -> String {
    match arg {
        Arg::Address(place) if place.offset == 0 => plain(&place.buffer),
        Arg::Address(place) => {
            flow_map(vec![("buffer", plain(&place.buffer)), ("offset", place.offset.to_string())])
        }
        Arg::U32(value) => value.to_string(),
        Arg::F32(value) => plain(&value.to_string()),
    }
}

/// `items` where one number says it, else `grid`; `block` where it is not the usual one.
fn geometry(
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    args: &[Arg],
) -> Vec<(&'static str, String)> {
    let list = |sizes: [u32; 3]| {
        let used = sizes.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
        flow_list(sizes[..used].iter().map(u32::to_string))
    };
    let mut fields = Vec::new();
    let groups = |items: u32| items.div_ceil(block[0].max(1)).max(1);
    let flat = grid[1..] == [1, 1] && block[1..] == [1, 1] && grid[0] > 0;
    if flat && grid[0] > 1 {
        // The number of elements that the kernel is told is what a person would write.
        let told = args.iter().find_map(|arg| match arg {
            Arg::U32(n) if kernel(name).is_some() && groups(*n) == grid[0] => Some(*n),
            _ => None,
        });
        match told.or_else(|| grid[0].checked_mul(block[0])) {
            Some(items) => fields.push(("items", items.to_string())),
            None => fields.push(("grid", list(grid))),
        }
    } else if grid != [1; 3] {
        fields.push(("grid", list(grid)));
    }
    if block != [256, 1, 1] {
        fields.push(("block", list(block)));
    }
    fields
}

/// `returns` and `gives`, below their verb.
fn attributes(out: &mut String, step: &Step, indent: usize) {
    let texts = |list: &[String]| match list {
        [one] => plain(one),
        list => flow_list(list.iter().map(|t| plain(t))),
    };
    for (key, values) in [("returns", &step.returns), ("gives", &step.gives)] {
        let Some(ByVersion(ranges)) = values else { continue };
        let text = match ranges.as_slice() {
            [(range, list)] if *range == VersionRange::ALL => texts(list),
            ranges => {
                let each: Vec<_> = ranges
                    .iter()
                    .map(|(range, list)| format!("{}: {}", quoted_key(range), texts(list)))
                    .collect();
                format!("{{{}}}", each.join(", "))
            }
        };
        line(out, &format!("{}  {key}: {text}", " ".repeat(indent)));
    }
}

/// A range begins with characters that a plain key must not begin with.
fn quoted_key(range: &VersionRange) -> String {
    format!("\"{range}\"")
}

/// The host buffer that a check's copy fills, and what it is filled from.
fn back(call: &Call) -> Option<(&str, &str)> {
    match call {
        Call::Copy { to, from, api: CopyApi::Memcpy, stream, .. }
            if stream == DEFAULT_STREAM
                && to.offset == 0
                && from.offset == 0
                && to.buffer.strip_suffix(BACK) == Some(from.buffer.as_str()) =>
        {
            Some((&to.buffer, &from.buffer))
        }
        _ => None,
    }
}

/// How many of the first steps are the copies of the check that follows them, and where that check ends.
fn fold(plan: &Plan, steps: &[Step]) -> (usize, usize) {
    let whole = |call: &Call| match call {
        Call::Copy { bytes, .. } => back(call).is_some_and(|(to, from)| {
            let spec = |name: &str| plan.buffers.get(name);
            spec(to).zip(spec(from)).is_some_and(|(to, from)| {
                *to == beside(from) && !from.memory.on_host() && to.bytes == *bytes
            })
        }),
        _ => false,
    };
    let plain = |step: &Step| whole(&step.call) && step.returns.is_none() && step.gives.is_none();
    let copies = steps.iter().take_while(|step| plain(step)).count();
    let Some(check) = steps.get(copies) else { return (0, 0) };
    // The last copies belong to the check, each in the order of its buffers.
    let wanted: Vec<&str> = match &check.call {
        Call::Check { buffer } => vec![buffer],
        Call::Equal { a, b } | Call::Differ { a, b } => vec![a, b],
        _ => return (0, 0),
    };
    let wanted: Vec<&str> = wanted.into_iter().filter(|name| name.ends_with(BACK)).collect();
    let names = |steps: &[Step]| -> Vec<String> {
        steps.iter().filter_map(|s| back(&s.call)).map(|(to, _)| to.to_owned()).collect()
    };
    if copies == wanted.len() && names(&steps[..copies]) == wanted {
        (copies, copies + 1)
    } else {
        (0, 0)
    }
}

/// Uses of each buffer whose name has the ending.
fn count(steps: &[Step], uses: &mut BTreeMap<String, usize>) {
    for step in steps {
        if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
            count(body, uses);
            continue;
        }
        for Named { thing, name, .. } in step.call.all_named() {
            if thing == Thing::Buffer && name.ends_with(BACK) {
                *uses.entry(name.to_owned()).or_insert(0) += 1;
            }
        }
    }
}

fn fold_count(plan: &Plan, steps: &[Step], uses: &mut BTreeMap<String, usize>) {
    let mut at = 0;
    while at < steps.len() {
        let (copies, end) = fold(plan, &steps[at..]);
        if let Call::Repeat { body, .. } | Call::Thread { body } = &steps[at].call {
            fold_count(plan, body, uses);
        }
        if copies == 0 {
            at += 1;
            continue;
        }
        count(&steps[at..at + end], uses);
        at += end;
    }
}
