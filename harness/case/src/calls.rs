//! The verbs of `steps`: each is one call, or a block of calls.

mod answers;
mod gemm;
mod launch;
mod node;
mod statuses;

use plan::{
    Call, CaptureMode, CopyApi, DEFAULT_STREAM, DeviceAttribute, HostFuncApi, Memory, Place,
    RandKind, Step, StreamKind, Verb, verbs,
};

pub(crate) use self::statuses::every as every_status;
use crate::{
    At,
    diagnostic::suggest,
    lower::Scope,
    matrix::read_selector,
    read::{Fields, Reader},
    yaml::{Node, Value},
};

/// How often a step may be repeated. All of it is executed by the reference model too.
const MOST_REPEATS: u32 = 1_000_000;

/// Milliseconds that the host may sleep: a trial that is silent for 30 s hangs, unless the command line says otherwise.
const MOST_SLEEP: u64 = 20_000;

/// How often the step of a block that is repeated most is. Blocks inside have passed, so that no number is large.
fn repeats(steps: &[Step]) -> u64 {
    let step = |step: &Step| match &step.call {
        Call::Repeat { count, body } => u64::from(*count) * repeats(body),
        Call::Thread { body } => repeats(body),
        _ => 1,
    };
    steps.iter().map(step).max().unwrap_or(1)
}

/// Reads a list of steps.
pub(crate) fn read_steps(reader: &mut Reader, scope: &mut Scope, node: &Node) -> Vec<Step> {
    let mut steps = Vec::new();
    for item in reader.list(node) {
        read_step(reader, scope, item, &mut steps);
    }
    steps
}

/// Reads the steps of a block.
fn read_block(reader: &mut Reader, scope: &mut Scope, node: &Node) -> Vec<Step> {
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        reader.mistake(node.at, "a block needs steps");
    }
    read_steps(reader, scope, node)
}

/// Reads one step, and adds it with those that it needs beforehand.
pub(crate) fn read_step(reader: &mut Reader, scope: &mut Scope, node: &Node, out: &mut Vec<Step>) {
    let Some(entries) = reader.entries(node, "a step") else { return };
    let mut verb = None;
    let (mut returns, mut gives) = (None, None);
    for (key, value) in entries {
        match key.text.as_str() {
            "returns" => returns = reader.by_version(value, "`returns`"),
            "gives" => gives = reader.by_version(value, "`gives`"),
            "when" => {
                if !read_selector(reader, value, scope.matrix).matches(scope.trial) {
                    return;
                }
            }
            text => match verbs().find(|verb| verb.name == text) {
                Some(_) if verb.is_some() => {
                    reader.mistake(key.at, "a step has one verb; start the next one with `-`");
                }
                Some(known) => verb = Some((known, value)),
                None => {
                    let known = verbs().map(|verb| verb.name).chain(["returns", "gives", "when"]);
                    let near = crate::diagnostic::nearest(text, known);
                    let help = match near {
                        Some(word) => format!("did you mean `{word}`?"),
                        None => "see `rocrepro explain --steps` for all steps".to_owned(),
                    };
                    reader.mistake_with_help(
                        key.at,
                        format!("there is no step `{text}`"),
                        Some(help),
                    );
                    return;
                }
            },
        }
    }
    let Some((verb, value)) = verb else {
        return reader.mistake(node.at, "a step needs a verb such as `copy`");
    };
    if let Some((_, value)) = entries.iter().find(|(key, _)| key.text == "returns") {
        answers::check_returns(reader, verb.name, value);
    }
    if let Some((key, value)) = entries.iter().find(|(key, _)| key.text == "gives") {
        answers::check_gives(reader, verb, key, value);
    }
    if let Some(call) = read_call(reader, scope, verb, value, node.at, out) {
        let step =
            Step { id: scope.id(), call, returns, gives, line: node.at.line, planted: Vec::new() };
        out.push(step);
    }
}

/// Reads the value of a verb; steps that it needs beforehand go to `before`.
fn read_call(
    reader: &mut Reader,
    scope: &mut Scope,
    &Verb { name: verb, keys, .. }: &Verb,
    node: &Node,
    at: At,
    before: &mut Vec<Step>,
) -> Option<Call> {
    let what = format!("`{verb}`");
    // Verbs without keys take one name, a list or nothing.
    if keys.is_empty() {
        return simple(reader, scope, verb, node, at, before);
    }
    if let ("fill" | "alloc" | "free", Value::Scalar(_)) = (verb, &node.value) {
        let buffer = scope.buffer(reader, node)?;
        return Some(memory_call(verb, buffer, DEFAULT_STREAM.into()));
    }
    let fields = reader.fields(node, &what, keys)?;
    let mut args = Args { reader, scope, fields, what };
    match verb {
        "fill" if args.fields.get("numbers").is_some() => gemm::fill(&mut args),
        "alloc" | "free" | "fill" => {
            let buffer = args.buffer("buffer")?;
            Some(memory_call(verb, buffer, args.stream()?))
        }
        "copy" => args.copy().and_then(|call| args.or_node(call)),
        "copy_2d" => {
            let (to, from) = args.both_buffers()?;
            let width = args.number("width")?;
            let pitch = |args: &mut Args, key| args.number_or(key, width);
            Some(Call::Copy2d {
                to: Place { buffer: to, offset: 0 },
                to_pitch: pitch(&mut args, "to_pitch")?,
                from: Place { buffer: from, offset: 0 },
                from_pitch: pitch(&mut args, "from_pitch")?,
                width,
                height: args.number("height")?,
                asynchronous: args.flag("async")?,
                stream: args.stream()?,
            })
        }
        "set" => {
            let buffer = args.buffer("to")?;
            let offset = args.number_or("offset", 0)?;
            let rest = args.scope.buffers[&buffer].bytes.saturating_sub(offset);
            let (value, words) = (args.number("value")?, args.flag("words")?);
            let most = if words { u32::MAX } else { u8::MAX.into() };
            let Some(value) = u32::try_from(value).ok().filter(|value| *value <= most) else {
                let what = if words { "a word" } else { "a byte" };
                args.reader.mistake(args.at("value"), format!("`value` is {what}, 0 to {most}"));
                return None;
            };
            let bytes = args.number_or("bytes", rest)?;
            if words && !(bytes | offset).is_multiple_of(4) {
                args.reader.mistake(args.at("bytes"), "words are 4 bytes, at a multiple of 4");
                return None;
            }
            let asynchronous = args.flag("async")?;
            let to = Place { buffer, offset };
            let call = Call::Set { to, value, words, bytes, asynchronous, stream: args.stream()? };
            args.or_node(call)
        }
        "launch" => args.launch().and_then(|call| args.or_node(call)),
        "find_symbol" => {
            let kernel = args.kernel()?;
            let (symbol, variable) = (args.name("symbol")?, args.flag("variable")?);
            Some(Call::FindSymbol { kernel, symbol, variable })
        }
        "host_func" => {
            let apis = [
                ("launch_host_func", HostFuncApi::LaunchHostFunc),
                ("add_callback", HostFuncApi::AddCallback),
            ];
            let call = Call::HostFunc {
                buffer: args.buffer("buffer")?,
                api: args.choice_or("api", &apis, HostFuncApi::LaunchHostFunc)?,
                stream: args.stream()?,
            };
            args.or_node(call)
        }
        "record" => Some(Call::EventRecord { event: args.event()?, stream: args.stream()? }),
        "elapsed" => {
            let (start, end) = (args.name("start")?, args.name("end")?);
            let (start, end) = (args.scope.event(&start), args.scope.event(&end));
            Some(Call::EventElapsed { start, end })
        }
        "device_attribute" => {
            let node = args.required("attribute")?;
            let attribute = args.reader.choice(node, "`attribute`", ATTRIBUTES)?;
            let device = match args.fields.get("device") {
                Some(node) => args.reader.number32(node, "`device`")?,
                None => 0,
            };
            Some(Call::DeviceAttribute { attribute, device })
        }
        "wait" => Some(Call::StreamWaitEvent { stream: args.stream()?, event: args.event()? }),
        "begin_capture" => {
            let modes = [
                ("global", CaptureMode::Global),
                ("thread_local", CaptureMode::ThreadLocal),
                ("relaxed", CaptureMode::Relaxed),
            ];
            let mode = args.choice_or("mode", &modes, CaptureMode::Global)?;
            Some(Call::BeginCapture { stream: args.stream()?, mode })
        }
        "end_capture" => {
            Some(Call::EndCapture { stream: args.stream()?, graph: args.name("graph")? })
        }
        "empty_graph" => {
            let graph = args.name("graph")?;
            let nodes = args.required("nodes")?;
            Some(Call::EmptyGraph { graph, nodes: args.reader.number32(nodes, "`nodes`")? })
        }
        "instantiate" => {
            Some(Call::GraphInstantiate { exec: args.name("exec")?, graph: args.name("graph")? })
        }
        "launch_graph" => {
            Some(Call::GraphLaunch { exec: args.name("exec")?, stream: args.stream()? })
        }
        "update_graph" => {
            Some(Call::GraphExecUpdate { exec: args.name("exec")?, graph: args.name("graph")? })
        }
        "rand_create" => {
            let kinds = [
                ("xorwow", RandKind::Xorwow),
                ("mrg32k3a", RandKind::Mrg32k3a),
                ("philox", RandKind::Philox),
            ];
            Some(Call::RandCreate {
                generator: args.name("generator")?,
                kind: args.choice_or("kind", &kinds, RandKind::Xorwow)?,
                host: args.flag("host")?,
            })
        }
        "rand_seed" => {
            Some(Call::RandSeed { generator: args.name("generator")?, seed: args.number("seed")? })
        }
        "rand_offset" => Some(Call::RandOffset {
            generator: args.name("generator")?,
            offset: args.number("offset")?,
        }),
        "rand_stream" => {
            Some(Call::RandStream { generator: args.name("generator")?, stream: args.stream()? })
        }
        "rand_generate" => {
            let buffer = args.buffer("to")?;
            let words = args.scope.buffers[&buffer].bytes / 4;
            Some(Call::RandGenerate {
                generator: args.name("generator")?,
                to: Place { buffer, offset: 0 },
                count: args.number_or("count", words)?,
            })
        }
        "blaslt_heuristic" | "blaslt_matmul" | "rocblas_gemm" => gemm::read(&mut args, verb),
        "repeat" => {
            let at = args.at("count");
            let count = args.number("count")?;
            let count = u32::try_from(count).ok().filter(|c| (1..=MOST_REPEATS).contains(c));
            if count.is_none() {
                args.reader.mistake(at, format!("`count` must be 1 to {MOST_REPEATS}"));
            }
            let steps = args.required("steps")?;
            let body = read_block(reader, scope, steps);
            let count = count?;
            if u64::from(count) * repeats(&body) > MOST_REPEATS.into() {
                reader.mistake(
                    at,
                    format!("with the blocks inside of it, more than {MOST_REPEATS} repeats"),
                );
                return None;
            }
            Some(Call::Repeat { count, body })
        }
        _ => unread(reader, verb, at),
    }
}

/// A verb of the table that nothing here reads: it must not be dropped in silence.
fn unread(reader: &mut Reader, verb: &str, at: At) -> Option<Call> {
    reader.mistake(at, format!("`{verb}` has no reader; this is a defect of rocrepro"));
    None
}

fn memory_call(verb: &str, buffer: String, stream: String) -> Call {
    match verb {
        "alloc" => Call::Alloc { buffer, stream },
        "free" => Call::Free { buffer, stream },
        _ => {
            // The stamp is the step's own id, given when the plan is finished.
            Call::Fill { buffer, stamp: 0 }
        }
    }
}

/// Verbs whose value is one name, two names, a number or nothing.
fn simple(
    reader: &mut Reader,
    scope: &mut Scope,
    verb: &str,
    node: &Node,
    at: At,
    before: &mut Vec<Step>,
) -> Option<Call> {
    match verb {
        "sync" => match reader.text(node, "`sync`")? {
            "device" => Some(Call::DeviceSynchronize),
            _ => Some(Call::StreamSynchronize { stream: scope.stream(reader, node)? }),
        },
        "query" => Some(Call::StreamQuery { stream: scope.stream(reader, node)? }),
        "is_capturing" => Some(Call::IsCapturing { stream: scope.stream(reader, node)? }),
        "create_stream" => {
            let stream = scope.stream(reader, node)?;
            if stream == DEFAULT_STREAM {
                reader.mistake(node.at, "the default stream is always there");
            }
            Some(Call::StreamCreate { stream })
        }
        "destroy_stream" => Some(Call::StreamDestroy { stream: scope.stream(reader, node)? }),
        "get_last_error" | "mem_info" | "trim_pool" => {
            if !matches!(&node.value, Value::Scalar(text) if text.is_empty()) {
                reader.mistake(node.at, format!("`{verb}` takes nothing"));
            }
            Some(match verb {
                "get_last_error" => Call::GetLastError,
                "mem_info" => Call::MemGetInfo,
                _ => Call::TrimPool,
            })
        }
        "check" => {
            let buffer = scope.buffer(reader, node)?;
            Some(Call::Check { buffer: scope.on_host(reader, buffer, at, before) })
        }
        "equal" | "differ" => {
            let [a, b] = reader.list(node) else {
                reader.mistake(node.at, format!("`{verb}` takes two buffers: `{verb}: [a, b]`"));
                return None;
            };
            let at_b = b.at;
            let (a, b) = (scope.buffer(reader, a)?, scope.buffer(reader, b)?);
            if a == b {
                reader.mistake(at_b, format!("`{verb}` compares `{a}` with itself"));
                return None;
            }
            let (one, other) = (scope.buffers[&a].bytes, scope.buffers[&b].bytes);
            if one != other {
                let sizes = format!("`{a}` has {one} bytes and `{b}` has {other}");
                reader.mistake_with_help(
                    at_b,
                    format!("{sizes}: they are never the same"),
                    Some(format!("`{verb}` takes buffers of one size")),
                );
                return None;
            }
            let a = scope.on_host(reader, a, at, before);
            let b = scope.on_host(reader, b, at, before);
            Some(if verb == "equal" { Call::Equal { a, b } } else { Call::Differ { a, b } })
        }
        "free_address" => {
            Some(Call::FreeAddress { address: reader.number(node, "`free_address`")? })
        }
        "sleep" => {
            let ms = reader.number(node, "`sleep`")?;
            if ms > MOST_SLEEP {
                reader.mistake(node.at, format!("`sleep` is at most {MOST_SLEEP} milliseconds"));
                return None;
            }
            Some(Call::Sleep { ms })
        }
        "thread" => Some(Call::Thread { body: read_block(reader, scope, node) }),
        _ => {
            let name = reader.text(node, &format!("`{verb}`"))?.to_owned();
            Some(match verb {
                "sync_event" => Call::EventSynchronize { event: scope.event(&name) },
                "query_event" => Call::EventQuery { event: scope.event(&name) },
                "node_count" => Call::GraphNodeCount { graph: name },
                "destroy_exec" => Call::GraphExecDestroy { exec: name },
                "destroy_graph" => Call::GraphDestroy { graph: name },
                "rand_destroy" => Call::RandDestroy { generator: name },
                "blaslt_create" => Call::BlasltCreate { handle: name },
                "blaslt_destroy" => Call::BlasltDestroy { handle: name },
                "rocblas_create" => Call::RocblasCreate { handle: name },
                "rocblas_destroy" => Call::RocblasDestroy { handle: name },
                _ => return unread(reader, verb, at),
            })
        }
    }
}

/// The keys of one step.
struct Args<'r, 's, 'n, 'c> {
    reader: &'r mut Reader,
    scope: &'s mut Scope<'c>,
    fields: Fields<'n>,
    what: String,
}

impl<'n> Args<'_, '_, 'n, '_> {
    fn required(&mut self, key: &str) -> Option<&'n Node> {
        self.reader.required(&self.fields, &self.what, key)
    }

    fn name(&mut self, key: &str) -> Option<String> {
        let node = self.required(key)?;
        self.reader.text(node, &format!("`{key}`")).map(str::to_owned)
    }

    fn buffer(&mut self, key: &str) -> Option<String> {
        let node = self.required(key)?;
        self.scope.buffer(self.reader, node)
    }

    fn both_buffers(&mut self) -> Option<(String, String)> {
        // Both are read before either may be missing, so that both mistakes are told.
        let (to, from) = (self.buffer("to"), self.buffer("from"));
        Some((to?, from?))
    }

    /// Where a key's value stands, or the whole mapping.
    fn at(&self, key: &str) -> At {
        self.fields.get(key).map_or(self.fields.at, |node| node.at)
    }

    fn event(&mut self) -> Option<String> {
        let name = self.name("event")?;
        Some(self.scope.event(&name))
    }

    /// The stream, or the default stream.
    fn stream(&mut self) -> Option<String> {
        match self.fields.get("stream") {
            Some(node) => self.scope.stream(self.reader, node),
            None => Some(DEFAULT_STREAM.to_owned()),
        }
    }

    fn number(&mut self, key: &str) -> Option<u64> {
        let node = self.required(key)?;
        self.reader.number(node, &format!("`{key}`"))
    }

    fn number_or(&mut self, key: &str, default: u64) -> Option<u64> {
        match self.fields.get(key) {
            Some(node) => self.reader.number(node, &format!("`{key}`")),
            None => Some(default),
        }
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        match self.fields.get(key) {
            Some(node) => self.reader.flag(node, &format!("`{key}`")),
            None => Some(false),
        }
    }

    fn choice_or<T: Copy>(&mut self, key: &str, choices: &[(&str, T)], default: T) -> Option<T> {
        match self.fields.get(key) {
            Some(node) => self.reader.choice(node, &format!("`{key}`"), choices),
            None => Some(default),
        }
    }

    fn copy(&mut self) -> Option<Call> {
        let (to, from) = self.both_buffers()?;
        let (to_offset, from_offset) =
            (self.number_or("to_offset", 0)?, self.number_or("from_offset", 0)?);
        let size = |name: &str, offset| self.scope.buffers[name].bytes.saturating_sub(offset);
        let (room, have) = (size(&to, to_offset), size(&from, from_offset));
        let bytes = match self.fields.get("bytes") {
            Some(node) => self.reader.number(node, "`bytes`")?,
            None if room == have => have,
            None => {
                self.reader.mistake(
                    self.fields.at,
                    format!("`{from}` has {have} bytes there and `{to}` {room}; give `bytes`"),
                );
                return None;
            }
        };
        let apis = [
            ("memcpy", CopyApi::Memcpy),
            ("memcpy_async", CopyApi::MemcpyAsync),
            ("memcpy_with_stream", CopyApi::MemcpyWithStream),
            ("memcpy_directed", CopyApi::MemcpyDirected),
        ];
        let streamed = self.fields.get("stream").is_some();
        let default = if streamed { CopyApi::MemcpyAsync } else { CopyApi::Memcpy };
        Some(Call::Copy {
            to: Place { buffer: to, offset: to_offset },
            from: Place { buffer: from, offset: from_offset },
            bytes,
            api: self.choice_or("api", &apis, default)?,
            stream: self.stream()?,
        })
    }

    fn kernel(&mut self) -> Option<String> {
        let name = self.name("kernel")?;
        if !self.scope.has_kernel(&name) {
            let help = suggest(&name, self.scope.kernel_names());
            let at = self.at("kernel");
            self.reader.mistake_with_help(at, format!("there is no kernel `{name}`"), help);
            return None;
        }
        Some(name)
    }
}

pub(crate) const MEMORIES: &[(&str, Memory)] = &[
    ("device", Memory::Device),
    ("device.pitched", Memory::DevicePitched),
    ("device.async", Memory::DeviceAsync),
    ("managed", Memory::Managed),
    ("host.pageable", Memory::HostPageable),
    ("host.pinned", Memory::HostPinned),
    ("host.registered", Memory::HostRegistered),
];

pub(crate) const ATTRIBUTES: &[(&str, DeviceAttribute)] = &[
    ("warp_size", DeviceAttribute::WarpSize),
    ("max_threads_per_block", DeviceAttribute::MaxThreadsPerBlock),
    ("multiprocessor_count", DeviceAttribute::MultiprocessorCount),
];

pub(crate) const STREAM_KINDS: &[(&str, StreamKind)] =
    &[("blocking", StreamKind::Blocking), ("non_blocking", StreamKind::NonBlocking)];
