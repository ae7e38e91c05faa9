use std::collections::{BTreeMap, BTreeSet};

use plan::{
    Arg, Box3d, BufferAddress, ByVersion, Call, Choice, CopyApi, DEFAULT_STREAM, Dtype, Field,
    FieldKind, HipArg, HipRead, HostFuncApi, KernelParameterKind, MatmulProblem, Name, NamedObject,
    ObjectKind, Operands, Plan, Scalar, ScalarType, Step, VersionRange, WriteVerb, kernel,
};

use super::{
    argument::{argument, untyped},
    hip, line,
    scalar::{flow_list, flow_map, plain},
};
use crate::added_buffers::{BACK, host_buffer_for};

pub(super) struct Steps {
    /// Host buffers that are used only by copies that precede checks. The case does not declare these buffers, because
    /// reading a check adds them.
    implied: BTreeSet<String>,
}

impl Steps {
    pub(super) fn new(plan: &Plan) -> Steps {
        // A buffer that a step other than a check or its copy uses must be declared.
        let mut uses = BTreeMap::new();
        count(&plan.body, &mut uses);
        let mut folded = BTreeMap::new();
        fold_count(plan, &plan.body, &mut folded);
        let implied = folded.into_iter().filter(|(name, n)| uses.get(name) == Some(n));
        Steps { implied: implied.map(|(name, _)| name).collect() }
    }

    /// Returns true if reading the written case adds this buffer, so that the case need not declare it.
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
                let text = step.call.write(&Line { plan, graph: None, checks: Some(self) });
                line(out, &format!("{spaces}- {text}"));
                attributes(out, step, indent);
                rest = &rest[check..];
                continue;
            }
            let step = &rest[0];
            if let Call::Repeat { count, body } = &step.call {
                line(out, &format!("{spaces}- repeat:"));
                line(out, &format!("{spaces}    count: {count}"));
                line(out, &format!("{spaces}    steps:"));
                self.write(out, plan, body, indent + 6);
            } else if let Call::Thread { body } = &step.call {
                line(out, &format!("{spaces}- thread:"));
                self.write(out, plan, body, indent + 4);
            } else {
                let text = step.call.write(&Line { plan, graph: None, checks: None });
                line(out, &format!("{spaces}- {text}"));
            }
            attributes(out, step, indent);
            rest = &rest[1..];
        }
    }

    fn all_implied(&self, copies: &[Step]) -> bool {
        copies.iter().all(|step| back(&step.call).is_some_and(|(name, _)| self.implied(name)))
    }
}

/// Form in which a call is written: as a call on a stream, or as a node of a graph. A node has neither a stream nor a
/// choice of HIP functions.
struct Line<'p> {
    plan: &'p Plan,
    graph: Option<&'p str>,
    /// Set if the call is a check. If the check copies a device buffer to an added host buffer, the name of the device
    /// buffer is written.
    checks: Option<&'p Steps>,
}

impl Line<'_> {
    fn on(&self, stream: &str) -> Option<(&'static str, String)> {
        match self.graph {
            Some(graph) => Some(("graph", plain(graph))),
            None => (stream != DEFAULT_STREAM).then(|| ("stream", plain(stream))),
        }
    }

    /// Returns the keys `async` and `stream` of a call, or the key `graph` of a node.
    fn asynchronous(&self, asynchronous: bool, stream: &str) -> Vec<(&'static str, String)> {
        let on = self.on(stream);
        // Reading a case requires an explicit `async` next to a stream, because a synchronous call ignores the stream.
        let is_said = self.graph.is_none() && (asynchronous || on.is_some());
        let key = is_said.then(|| ("async", asynchronous.to_string()));
        key.into_iter().chain(on).collect()
    }

    /// Returns the number of bytes between a place in a buffer and the end of the buffer.
    fn room(&self, place: &BufferAddress) -> u64 {
        let bytes = self.plan.buffers.get(&place.buffer).map_or(0, |b| b.bytes);
        bytes.saturating_sub(place.offset)
    }

    /// Formats the name of a checked buffer: the device buffer if the check adds the host buffer, else the buffer
    /// itself.
    fn checked(&self, buffer: &str) -> String {
        match buffer.strip_suffix(BACK) {
            Some(device) if self.checks.is_some_and(|steps| steps.implied(buffer)) => plain(device),
            _ => plain(buffer),
        }
    }

    fn product(
        &self,
        name: &str,
        handle: &str,
        problem: &MatmulProblem,
        operands: &Operands,
        stream: &str,
    ) -> String {
        let mut fields = self::problem(handle, problem);
        for (key, buffer) in [("a", &operands.a), ("b", &operands.b), ("d", &operands.d)] {
            fields.push((key, plain(buffer)));
        }
        fields.extend(operands.bias.iter().map(|b| ("bias", plain(b))));
        fields.extend(self.on(stream));
        verb(name, fields)
    }
}

fn value(field: &Field<'_>) -> String {
    match field.value_type {
        FieldKind::Name(..) | FieldKind::Place(_) | FieldKind::Text => plain(&field.value),
        FieldKind::Number | FieldKind::Word => field.value.to_string(),
    }
}

impl WriteVerb for Line<'_> {
    fn keys(&self, name: &str, keys: Vec<Field<'_>>) -> String {
        let written = keys.iter().filter(|field| !field.usual);
        verb(name, written.map(|field| (field.key, value(field))).collect())
    }

    fn value(&self, name: &str, field: Option<Field<'_>>) -> String {
        match field {
            Some(field) => format!("{name}: {}", value(&field)),
            None => format!("{name}:"),
        }
    }

    fn alloc(&self, buffer: &Name, stream: &Name) -> String {
        memory("alloc", buffer, stream)
    }

    fn free(&self, buffer: &Name, stream: &Name) -> String {
        memory("free", buffer, stream)
    }

    fn fill(&self, buffer: &Name, _: &u32) -> String {
        format!("fill: {}", plain(buffer))
    }

    fn fill_numbers(&self, buffer: &Name, dtype: &Dtype, _: &u32) -> String {
        verb("fill", vec![("buffer", plain(buffer)), ("numbers", dtype.word().to_owned())])
    }

    fn fill_file(&self, buffer: &Name, file: &String) -> String {
        verb("fill", vec![("buffer", plain(buffer)), ("file", plain(file))])
    }

    fn copy(
        &self,
        to: &BufferAddress,
        from: &BufferAddress,
        bytes: &u64,
        api: &CopyApi,
        stream: &Name,
    ) -> String {
        let mut fields = vec![("to", plain(&to.buffer)), ("from", plain(&from.buffer))];
        let have = self.room(from);
        if self.room(to) != have || *bytes != have {
            fields.push(("bytes", bytes.to_string()));
        }
        fields.extend(offset("to_offset", to).into_iter().chain(offset("from_offset", from)));
        let default = match stream.as_str() {
            DEFAULT_STREAM if self.graph.is_none() => CopyApi::Memcpy,
            _ => CopyApi::MemcpyAsync,
        };
        if *api != default {
            fields.push(("api", api.word().to_owned()));
        }
        fields.extend(self.on(stream));
        verb("copy", fields)
    }

    fn copy_2d(
        &self,
        to: &BufferAddress,
        to_pitch: &u64,
        from: &BufferAddress,
        from_pitch: &u64,
        width: &u64,
        height: &u64,
        asynchronous: &bool,
        stream: &Name,
    ) -> String {
        let mut fields = vec![("to", plain(&to.buffer)), ("from", plain(&from.buffer))];
        for (key, pitch) in [("to_pitch", to_pitch), ("from_pitch", from_pitch)] {
            if pitch != width {
                fields.push((key, pitch.to_string()));
            }
        }
        fields.push(("width", width.to_string()));
        fields.push(("height", height.to_string()));
        fields.extend(self.asynchronous(*asynchronous, stream));
        verb("copy_2d", fields)
    }

    fn copy_3d(
        &self,
        to: &Box3d,
        from: &Box3d,
        width: &u64,
        height: &u64,
        depth: &u64,
        asynchronous: &bool,
        stream: &Name,
    ) -> String {
        let mut fields = vec![("to", plain(&to.buffer)), ("from", plain(&from.buffer))];
        fields.extend(in_box(["to_pitch", "to_rows", "to_at"], to));
        fields.extend(in_box(["from_pitch", "from_rows", "from_at"], from));
        for (key, size) in [("width", width), ("height", height), ("depth", depth)] {
            fields.push((key, size.to_string()));
        }
        fields.extend(self.asynchronous(*asynchronous, stream));
        verb("copy_3d", fields)
    }

    fn set_rows(
        &self,
        to: &Box3d,
        value: &u8,
        width: &u64,
        height: &u64,
        depth: &Option<u64>,
        asynchronous: &bool,
        stream: &Name,
    ) -> String {
        let mut fields = vec![("to", plain(&to.buffer))];
        fields.extend(in_box(["pitch", "rows", "at"], to));
        fields.push(("value", value.to_string()));
        fields.push(("width", width.to_string()));
        fields.push(("height", height.to_string()));
        fields.extend(depth.map(|depth| ("depth", depth.to_string())));
        fields.extend(self.asynchronous(*asynchronous, stream));
        verb("set_rows", fields)
    }

    fn set(
        &self,
        to: &BufferAddress,
        value: &u32,
        words: &bool,
        bytes: &u64,
        asynchronous: &bool,
        stream: &Name,
    ) -> String {
        let mut fields = vec![("to", plain(&to.buffer)), ("value", value.to_string())];
        fields.extend(flag("words", *words));
        if *bytes != self.room(to) {
            fields.push(("bytes", bytes.to_string()));
        }
        fields.extend(offset("offset", to));
        fields.extend(self.asynchronous(*asynchronous, stream));
        verb("set", fields)
    }

    fn launch(
        &self,
        kernel: &Name,
        grid: &[u32; 3],
        block: &[u32; 3],
        args: &Vec<Arg>,
        shared: &u32,
        cooperative: &bool,
        stream: &Name,
    ) -> String {
        let own = self.plan.own_kernels.get(kernel).and_then(|own| own.parameters.as_ref());
        let texts = args.iter().enumerate().map(|(index, arg)| match arg {
            Arg::Number(number) if kernel_of_library(kernel) => plain(&number.to_string()),
            Arg::Number(number) => {
                let parameter = own.and_then(|own| own.get(index)).map(|parameter| &parameter.kind);
                // A number without a type is read back as the parameter's type if that type is known, else as a `u32`.
                // Every other number is written with its type.
                let usual = match parameter {
                    Some(KernelParameterKind::Number { of }) => *of == number.ty,
                    Some(
                        KernelParameterKind::Pointer { .. } | KernelParameterKind::Struct { .. },
                    ) => false,
                    Some(KernelParameterKind::Other) | None => number.ty == ScalarType::U32,
                };
                if usual { plain(&number.to_string()) } else { argument(arg) }
            }
            Arg::Input(_) if own.is_none() => untyped(arg),
            Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => argument(arg),
        });
        let mut fields = vec![("kernel", plain(kernel)), ("args", flow_list(texts))];
        fields.extend(geometry(kernel, *grid, *block, args));
        fields.extend((*shared != 0).then(|| ("shared", shared.to_string())));
        fields.extend(flag("cooperative", *cooperative));
        fields.extend(self.on(stream));
        verb("launch", fields)
    }

    fn node(&self, graph: &Name, node: &Box<Call>) -> String {
        node.write(&Line { plan: self.plan, graph: Some(graph), checks: None })
    }

    fn host_func(&self, buffer: &Name, api: &HostFuncApi, stream: &Name) -> String {
        let mut fields = vec![("buffer", plain(buffer))];
        if *api != HostFuncApi::LaunchHostFunc {
            fields.push(("api", api.word().to_owned()));
        }
        fields.extend(self.on(stream));
        verb("host_func", fields)
    }

    fn sync(&self, stream: &Name) -> String {
        format!("sync: {}", plain(stream))
    }

    fn sync_device(&self) -> String {
        "sync: device".to_owned()
    }

    fn rand_generate(&self, generator: &Name, to: &BufferAddress, count: &u64) -> String {
        let mut fields = vec![("generator", plain(generator)), ("to", plain(&to.buffer))];
        if *count != self.room(to) / 4 {
            fields.push(("count", count.to_string()));
        }
        verb("rand_generate", fields)
    }

    fn blaslt_heuristic(&self, handle: &Name, problem: &MatmulProblem) -> String {
        let mut fields = self::problem(handle, problem);
        fields.extend(flag("bias", problem.bias));
        verb("blaslt_heuristic", fields)
    }

    fn blaslt_matmul(
        &self,
        handle: &Name,
        problem: &MatmulProblem,
        operands: &Operands,
        stream: &Name,
    ) -> String {
        self.product("blaslt_matmul", handle, problem, operands, stream)
    }

    fn rocblas_gemm(
        &self,
        handle: &Name,
        problem: &MatmulProblem,
        operands: &Operands,
        stream: &Name,
    ) -> String {
        self.product("rocblas_gemm", handle, problem, operands, stream)
    }

    fn hip(&self, function: &Name, args: &Vec<HipArg>) -> String {
        let mut fields = vec![("call", plain(function))];
        if !args.is_empty() {
            fields.push(("args", flow_list(args.iter().map(hip::given))));
        }
        verb("hip", fields)
    }

    fn hip_value(&self, of: &Name, _: &Name, read: &HipRead, against: &Option<Name>) -> String {
        verb("hip_value", hip::look(of, read, against.as_ref()))
    }

    fn check(&self, buffer: &Name, file: &Option<String>) -> String {
        let buffer = self.checked(buffer);
        match file {
            Some(file) => verb("check", vec![("buffer", buffer), ("file", plain(file))]),
            None => format!("check: {buffer}"),
        }
    }

    fn equal(&self, a: &Name, b: &Name) -> String {
        format!("equal: [{}, {}]", self.checked(a), self.checked(b))
    }

    fn differ(&self, a: &Name, b: &Name) -> String {
        format!("differ: [{}, {}]", self.checked(a), self.checked(b))
    }

    fn at_least(&self, buffer: &Name, least: &Scalar) -> String {
        let ty = least.ty.word().to_owned();
        let fields = [("buffer", self.checked(buffer)), ("type", ty), ("value", least.to_string())];
        verb("at_least", fields.into())
    }

    fn sleep(&self, ms: &u64) -> String {
        format!("sleep: {ms}")
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

fn in_box([pitch, rows, at]: [&'static str; 3], of: &Box3d) -> Vec<(&'static str, String)> {
    let mut fields = vec![(pitch, of.pitch.to_string()), (rows, of.rows.to_string())];
    if of.at != [0; 3] {
        fields.push((at, flow_list(of.at.iter().map(u64::to_string))));
    }
    fields
}

fn flag(key: &'static str, set: bool) -> Option<(&'static str, String)> {
    set.then(|| (key, "true".to_owned()))
}

fn offset(key: &'static str, place: &BufferAddress) -> Option<(&'static str, String)> {
    (place.offset != 0).then(|| (key, place.offset.to_string()))
}

fn problem(handle: &str, problem: &MatmulProblem) -> Vec<(&'static str, String)> {
    let letter = |transposed| if transposed { 't' } else { 'n' };
    let mut fields = vec![
        ("handle", plain(handle)),
        ("dtype", problem.dtype.word().to_owned()),
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

fn kernel_of_library(name: &str) -> bool {
    kernel(name).is_some()
}

/// Returns the keys that describe the size of a launch: `items` if one number is enough, else `grid`. If the block does
/// not have the default size of 256 threads, `block` is added.
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
    let flat = grid[1..] == [1, 1] && block[1..] == [1, 1];
    if flat && grid[0] > 1 {
        // If an argument of the kernel is equal to the number of elements, it is written as `items`, as a person would.
        let mut numbers = args.iter().filter_map(Arg::as_u32);
        let elements = numbers.find(|n| kernel(name).is_some() && groups(*n) == grid[0]);
        match elements.or_else(|| grid[0].checked_mul(block[0])) {
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

/// Writes a version range in quotes, because a plain YAML key cannot begin with characters such as `>`.
fn quoted_key(range: &VersionRange) -> String {
    format!("\"{range}\"")
}

/// If a call copies a device buffer into the host buffer of a check, returns the host buffer and the device buffer.
fn back(call: &Call) -> Option<(&str, &str)> {
    let Call::Copy { to, from, api: CopyApi::Memcpy, stream, .. } = call else { return None };
    let whole = stream == DEFAULT_STREAM && to.offset == 0 && from.offset == 0;
    (whole && to.buffer.strip_suffix(BACK) == Some(from.buffer.as_str()))
        .then_some((&to.buffer, &from.buffer))
}

/// Counts the copies at the beginning of `steps` that belong to the check after them. Returns their number, and the
/// index after the check; (0, 0) if the steps do not begin with copies for a check.
fn fold(plan: &Plan, steps: &[Step]) -> (usize, usize) {
    let whole = |call: &Call| {
        let Call::Copy { bytes, .. } = call else { return false };
        back(call).is_some_and(|(to, from)| {
            let spec = |name: &str| plan.buffers.get(name);
            spec(to).zip(spec(from)).is_some_and(|(to, from)| {
                *to == host_buffer_for(from) && !from.memory.on_host() && to.bytes == *bytes
            })
        })
    };
    let plain = |step: &Step| whole(&step.call) && step.returns.is_none() && step.gives.is_none();
    let copies = steps.iter().take_while(|step| plain(step)).count();
    let Some(check) = steps.get(copies) else { return (0, 0) };
    // The copies must directly precede the check, and be in the order in which the check names its buffers.
    if !check.call.is_check() {
        return (0, 0);
    }
    let named = check.call.named().into_iter().map(|named| named.name);
    let wanted: Vec<&str> = named.filter(|name| name.ends_with(BACK)).collect();
    let names = |steps: &[Step]| -> Vec<String> {
        steps.iter().filter_map(|s| back(&s.call)).map(|(to, _)| to.to_owned()).collect()
    };
    if copies == wanted.len() && names(&steps[..copies]) == wanted {
        (copies, copies + 1)
    } else {
        (0, 0)
    }
}

fn count(steps: &[Step], uses: &mut BTreeMap<String, usize>) {
    for step in steps {
        if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
            count(body, uses);
            continue;
        }
        for NamedObject { kind: thing, name, .. } in step.call.all_named() {
            if thing == ObjectKind::Buffer && name.ends_with(BACK) {
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
