//! Converts the recorded calls of a process to a case with the same calls as steps.
//!
//! The set-up of a case allocates its buffers, creates its streams and events, and compiles its kernels, so calls that
//! do this before the first other call become declarations. The calls at the end that free everything are left out,
//! because a case frees everything without a step.
//!
//! If all kernels are those of the library, the reference model computes their results from any bytes. Then the step
//! `fill` writes a pattern before a copy from the host. Otherwise the case has the code objects of the kernels, the
//! bytes that the program copied from the host, and those that it copied back.

mod kernels;
mod memory;
mod queries;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use case::{Header, Kernels, RecordedStep};
use device::{Fault, FaultSpec};
use plan::{
    Buffer, BufferAddress, ByVersion, Call, CaptureMode, DEFAULT_STREAM, Files, Memory, Plan, Step,
    StreamKind,
};
use recorder::trace::{Address, ProcessTrace};

use super::{arguments::RecordedCall, generic, status_name};

/// A case that was made from recorded calls.
#[derive(Debug)]
pub struct ConvertedCase {
    /// The case file.
    pub yaml: String,
    /// Differences between the program and the case that do not change what the calls do.
    pub notes: BTreeSet<String>,
    /// Files that the case names.
    pub files: Files,
    /// The recorded call of each step, in the order of the steps of the case; `None` for a step that no call made.
    pub calls: Vec<Option<RecordedStep>>,
}

/// Functions that free or destroy objects. Their calls at the end of a program do not become steps.
const RELEASE_FUNCTIONS: &[&str] = &[
    "hipEventDestroy",
    "hipFree",
    "hipGraphDestroy",
    "hipGraphExecDestroy",
    "hipHostFree",
    "hipHostUnregister",
    "hipModuleUnload",
    "hipStreamDestroy",
    "__hipUnregisterFatBinary",
];

/// An allocation of the program.
#[derive(Clone)]
struct Allocation {
    buffer: String,
    /// Address of the buffer's first byte. If the buffer has guards, the allocation begins before this address.
    start: u64,
    bytes: u64,
}

struct Converter<'t> {
    plan: Plan,
    trace: &'t ProcessTrace,
    library: &'t Kernels,
    notes: BTreeSet<String>,
    problems: Vec<String>,
    /// Allocations by their start addresses.
    memory: BTreeMap<u64, Allocation>,
    /// Buffers of the case that replace pageable memory of the program, by address and size of that memory.
    host: HashMap<(u64, u64), String>,
    /// XXH3 hash of the content of each host buffer whose content is known, by the name of the buffer.
    contents: HashMap<String, String>,
    /// Names of other objects by their handles.
    names: HashMap<u64, String>,
    /// Names of values that `hip` steps returned, by the recorded handle or address.
    values: HashMap<u64, String>,
    /// Kernel sources by the handle of the hipRTC program.
    programs: HashMap<u64, String>,
    /// Kernel sources, by the XXH3 hash of the code that was compiled from them.
    code: HashMap<String, String>,
    /// XXH3 hashes of the code of modules, by the handle of the module.
    modules: HashMap<u64, String>,
    /// Kernels of code objects by their handles: the handle of the module, and the name in the code object.
    functions: HashMap<u64, (u64, String)>,
    /// Architectures for which the case has code objects. `None` if the case has no code objects.
    architectures: Option<BTreeSet<String>>,
    /// True if the program launches kernels that are not in the library.
    uses_code: bool,
    /// Streams whose work is being captured into a graph.
    captured: BTreeSet<String>,
    /// Host buffers that were written after their last check. The value is the stream of the copy that wrote the
    /// buffer.
    unchecked: BTreeMap<String, String>,
    /// Host buffers to which captured copies write.
    by_graphs: BTreeSet<String>,
    /// Unchecked host buffers that copies wrote before an event was recorded on the stream of the copies, by the name
    /// of the event.
    before_events: HashMap<String, BTreeSet<String>>,
    /// True until the first call that is not part of the set-up.
    in_setup: bool,
    /// True after the first read of a guard, the bytes before or after a buffer by which writes out of bounds are
    /// detected.
    reads_guards: bool,
    counts: HashMap<&'static str, usize>,
    /// The call that is being converted.
    current: Option<RecordedStep>,
    /// The calls from which the steps were made, in the order of the steps.
    calls: Vec<Option<RecordedStep>>,
    /// The last copy to each host buffer, by the name of the buffer.
    copies: HashMap<String, RecordedStep>,
}

/// Converts the recording of one process.
///
/// # Errors
/// Returns everything that a case cannot express, each with the number of its call.
pub fn convert(
    trace: &ProcessTrace,
    library: &Kernels,
    title: &str,
) -> Result<ConvertedCase, Vec<String>> {
    let mut calls = Vec::new();
    let mut problems = Vec::new();
    for (call, end) in &trace.calls {
        match end {
            Some(end) => calls.push(RecordedCall { call, end }),
            None => {
                problems.push(format!("call {}: {} did not return", call.number, call.function))
            }
        }
    }
    let threads: BTreeSet<u32> = calls.iter().map(|call| call.call.thread).collect();
    if threads.len() > 1 {
        problems.push(format!(
            "{} threads made calls, but the steps of a case are those of one",
            threads.len()
        ));
    }
    let is_end =
        |call: &RecordedCall<'_>| call.succeeded() && RELEASE_FUNCTIONS.contains(&call.name());
    let body = calls.len() - calls.iter().rev().take_while(|call| is_end(call)).count();
    let mut converter = Converter {
        plan: Plan::empty(),
        trace,
        library,
        notes: BTreeSet::new(),
        problems,
        memory: BTreeMap::new(),
        host: HashMap::new(),
        contents: HashMap::new(),
        names: HashMap::new(),
        values: HashMap::new(),
        programs: HashMap::new(),
        code: HashMap::new(),
        modules: HashMap::new(),
        functions: HashMap::new(),
        architectures: None,
        uses_code: trace.calls.iter().any(|(call, _)| kernels::is_of_code(call, library)),
        captured: BTreeSet::new(),
        unchecked: BTreeMap::new(),
        by_graphs: BTreeSet::new(),
        before_events: HashMap::new(),
        in_setup: true,
        reads_guards: false,
        counts: HashMap::new(),
        current: None,
        calls: Vec::new(),
        copies: HashMap::new(),
    };
    let mut rest = &calls[..body];
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let (number, function) = (first.call.number, first.call.function.clone());
        converter.current = Some(RecordedStep { number, function });
        if let Err(why) = converter.call(*first, &mut rest) {
            let call = format!("call {}: {}", first.call.number, first.name());
            converter.problems.push(format!("{call}: {why}"));
        }
    }
    converter.check_written(|_, _| true);
    converter.check_size();
    if converter.problems.is_empty() {
        Ok(converter.written(title))
    } else {
        Err(converter.problems)
    }
}

impl generic::Objects for Converter<'_> {
    fn name(&self, handle: u64) -> Option<String> {
        self.names.get(&handle).cloned()
    }

    fn value(&self, handle: u64) -> Option<String> {
        self.values.get(&handle).cloned()
    }

    fn memory(&mut self, at: u64, bytes: Option<u64>) -> Option<BufferAddress> {
        self.place(at, bytes.unwrap_or_default())
    }

    fn new_value(&mut self, handle: Option<u64>) -> String {
        let name = self.new_name("v");
        if let Some(handle) = handle.filter(|handle| *handle != 0) {
            self.values.insert(handle, name.clone());
        }
        name
    }
}

impl<'t> Converter<'t> {
    fn written(mut self, title: &str) -> ConvertedCase {
        if !self.plan.body.iter().any(|step| matches!(step.call, Call::Check { .. })) {
            self.notes.insert(
                "the program reads no result with a copy, so the case checks only statuses"
                    .to_owned(),
            );
        }
        let about = self
            .notes
            .iter()
            .fold("Made from the recorded calls of a program.".to_owned(), |text, note| {
                format!("{text} Note: {note}.")
            });
        let gfx = self.architectures.take().unwrap_or_default().into_iter().collect();
        let header = Header {
            needs: case::Needs { gfx, ..case::Needs::default() },
            title: title.to_owned(),
            about: Some(about),
            source: vec!["the calls of the program".to_owned()],
            faults: vec![case::FaultEntry {
                planted: FaultSpec::from(Fault::CopyZero),
                on: Default::default(),
                signature: None,
                shows: Vec::new(),
            }],
            ..Header::default()
        };
        let yaml = case::write(&self.plan, &header, self.library);
        ConvertedCase { yaml, notes: self.notes, files: self.plan.files, calls: self.calls }
    }

    fn step(&mut self, recorded: Option<RecordedCall<'_>>, call: Call) {
        self.stated(recorded, call, None);
    }

    fn stated(&mut self, recorded: Option<RecordedCall<'_>>, call: Call, gives: Option<String>) {
        let failed = recorded.filter(|recorded| !recorded.succeeded());
        let returns = failed.map(|call| vec![status_name(call.name(), call.end.status)]);
        let id = self.plan.body.len() as u32;
        let mut of = self.current.clone();
        if let Call::Check { buffer, .. } = &call {
            // A check compares the bytes that a copy wrote.
            of = self.copies.get(buffer).cloned();
        }
        self.calls.push(of);
        self.plan.body.push(Step {
            id,
            call,
            returns: returns.map(ByVersion::always),
            gives: gives.map(|value| ByVersion::always(vec![value])),
            line: 0,
            planted: Vec::new(),
        });
    }

    /// Returns a new name: a prefix and a number of two digits, so that names sort in the order of their creation.
    fn new_name(&mut self, prefix: &'static str) -> String {
        let count = self.counts.entry(prefix).or_default();
        *count += 1;
        format!("{prefix}{:02}", *count - 1)
    }

    fn named(&self, handle: u64, what: &str) -> Result<String, String> {
        let name = self.names.get(&handle).cloned();
        name.ok_or_else(|| format!("no recorded call created the {what} {handle:#x}"))
    }

    fn stream(&self, call: RecordedCall<'_>, name: &str) -> Result<String, String> {
        match call.address(name)? {
            0 => Ok(DEFAULT_STREAM.to_owned()),
            1 | 2 => {
                Err("a case has no step on the legacy or per-thread default stream".to_owned())
            }
            handle => self.named(handle, "stream"),
        }
    }

    /// Finds the buffer that contains an address range in memory allocated by HIP; `None` if no allocation contains the
    /// range.
    fn place(&self, at: u64, bytes: u64) -> Option<BufferAddress> {
        let (_, found) = self.memory.range(..=at).next_back()?;
        let offset = at.checked_sub(found.start)?;
        (offset + bytes <= found.bytes)
            .then(|| BufferAddress { buffer: found.buffer.clone(), offset })
    }

    /// Finds the buffer that contains an address range in memory allocated by HIP. For pageable memory of the program,
    /// returns the buffer that replaces it in the case, and declares this buffer on first use.
    fn place_or_host(&mut self, at: u64, bytes: u64) -> Result<BufferAddress, String> {
        if let Some(place) = self.place(at, bytes) {
            return Ok(place);
        }
        if self.place(at, 0).is_some() {
            return Err(format!("its {bytes} bytes exceed a buffer"));
        }
        let known = self.host.get(&(at, bytes)).cloned();
        let buffer = known.unwrap_or_else(|| {
            let name = self.new_name("h");
            let spec = Buffer { memory: Memory::HostPageable, bytes, guarded: false };
            self.plan.buffers.insert(name.clone(), spec);
            self.host.insert((at, bytes), name.clone());
            name
        });
        Ok(BufferAddress { buffer, offset: 0 })
    }

    fn is_on_host(&self, buffer: &str) -> bool {
        self.plan.buffers.get(buffer).is_some_and(|buffer| buffer.memory.on_host())
    }

    /// Adds checks of the host buffers that finished copies wrote, because the program can read them from now on.
    /// `is_over` returns true for the buffer and stream of a finished copy.
    fn check_written(&mut self, is_over: impl Fn(&str, &str) -> bool) {
        for (buffer, stream) in std::mem::take(&mut self.unchecked) {
            if !is_over(&buffer, &stream) {
                self.unchecked.insert(buffer, stream);
                continue;
            }
            let content = self.contents.get(&buffer).filter(|_| self.uses_code).cloned();
            let file = content.and_then(|content| self.bytes_of(&content).ok());
            if self.uses_code && file.is_none() {
                self.notes.insert(
                    "the case does not check results whose bytes were not recorded".to_owned(),
                );
                continue;
            }
            self.step(None, Call::Check { buffer, file });
        }
    }

    /// Checks host memory after a call that waited for copies.
    fn check_after(&mut self, call: RecordedCall<'_>) -> Result<(), String> {
        for (Address(at), content) in &call.end.read_backs {
            if let Ok(place) = self.place_or_host(*at, content.bytes) {
                self.remember_content(&place, content.bytes, Some(content.xxh3.clone()));
            }
        }
        match call.name() {
            "hipDeviceSynchronize" => self.check_written(|_, _| true),
            "hipEventSynchronize" => {
                let event = self.named(call.address("event")?, "event")?;
                let before = self.before_events.get(&event).cloned().unwrap_or_default();
                self.check_written(|buffer, _| before.contains(buffer));
            }
            "hipStreamSynchronize" | "hipMemcpyWithStream" => {
                self.check_stream(&self.stream(call, "stream")?);
            }
            "hipMemcpy" | "hipMemcpyDtoH" => self.check_stream(DEFAULT_STREAM),
            _ => {}
        }
        Ok(())
    }

    /// Adds checks of the host buffers that copies on a stream wrote. For the null stream, copies on the blocking
    /// streams count too, because the null stream waits for them.
    fn check_stream(&mut self, stream: &str) {
        let blocking: BTreeSet<String> = match stream {
            DEFAULT_STREAM => {
                let all = self.plan.streams.iter();
                all.filter(|(_, kind)| **kind == StreamKind::Blocking)
                    .map(|(name, _)| name.clone())
                    .collect()
            }
            _ => BTreeSet::new(),
        };
        self.check_written(|_, of| of == stream || blocking.contains(of));
    }

    /// Converts one call. Some calls begin a known sequence, for example an allocation whose memory is then filled with
    /// poison. The other calls of such a sequence are removed from `rest`.
    fn call(
        &mut self,
        call: RecordedCall<'t>,
        rest: &mut &[RecordedCall<'t>],
    ) -> Result<(), String> {
        let name = call.name();
        if queries::is_query(call) {
            return Ok(());
        }
        if name == "hipGetProcAddress" && call.succeeded() {
            let note = "calls of functions that hipGetProcAddress returned may be missing";
            self.notes.insert(note.to_owned());
        }
        if self.kernels(call)? || self.allocation(call, rest)? || self.objects(call)? {
            return Ok(());
        }
        if name == "hipDeviceSynchronize" && self.in_setup && call.succeeded() {
            // The last call of the set-up of a case waits for the device as well.
            self.in_setup = false;
            return Ok(());
        }
        self.in_setup = false;
        if self.is_read_of_guard(call) {
            if !self.reads_guards
                && self.plan.body.last().is_some_and(|s| s.call == Call::DeviceSynchronize)
            {
                self.plan.body.pop();
                self.calls.pop();
            }
            self.reads_guards = true;
            return Ok(());
        }
        if self.reads_guards {
            return Err("it follows reads of guards, which a case makes at its end".to_owned());
        }
        let (step, gives) = match generic::must_be_generic(call) {
            true => (
                Call::Hip { function: name.to_owned(), args: generic::arguments(call, self)? },
                None,
            ),
            false => self.work(call)?,
        };
        self.stated(Some(call), step, gives);
        if call.succeeded() { self.check_after(call) } else { Ok(()) }
    }

    /// Converts the creation and destruction of streams and events. Returns false for other calls.
    fn objects(&mut self, call: RecordedCall<'t>) -> Result<bool, String> {
        match call.name() {
            "hipStreamCreateWithFlags" | "hipStreamCreate" if call.succeeded() => {
                let flags =
                    if call.name() == "hipStreamCreate" { 0 } else { call.number("flags")? };
                if call.name() == "hipStreamCreate" {
                    self.notes
                        .insert("hipStreamCreate is called as hipStreamCreateWithFlags".to_owned());
                }
                let kind = match flags {
                    0 => StreamKind::Blocking,
                    1 => StreamKind::NonBlocking,
                    other => return Err(format!("the flags of a stream are {other}")),
                };
                let name = self.new_name("s");
                self.names.insert(call.output_handle("stream")?, name.clone());
                self.plan.streams.insert(name.clone(), kind);
                if !self.in_setup {
                    self.step(Some(call), Call::StreamCreate { stream: name });
                }
            }
            "hipStreamDestroy" if call.address("stream")? != 0 => {
                let stream = self.stream(call, "stream")?;
                self.step(Some(call), Call::StreamDestroy { stream });
            }
            "hipEventCreate" | "hipEventCreateWithFlags" if call.succeeded() => {
                if !self.in_setup || call.name() == "hipEventCreate" || call.number("flags")? != 2 {
                    self.notes.insert(
                        "events are created in the set-up, with timing only if a step measures it"
                            .to_owned(),
                    );
                }
                let name = self.new_name("e");
                self.names.insert(call.output_handle("event")?, name.clone());
                self.plan.events.push(name);
            }
            "hipEventDestroy" if call.succeeded() => {
                self.notes.insert("events are destroyed at the end".to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the step of a call, and the value that the call must give in addition to its status, if any.
    fn work(&mut self, call: RecordedCall<'t>) -> Result<(Call, Option<String>), String> {
        let name = call.name();
        let event = |this: &Self| this.named(call.address("event")?, "event");
        let step = match name {
            "hipMemcpy"
            | "hipMemcpyAsync"
            | "hipMemcpyWithStream"
            | "hipMemcpyHtoD"
            | "hipMemcpyDtoH"
            | "hipMemcpyDtoD" => self.copy(call)?,
            "hipMemset" | "hipMemsetAsync" | "hipMemsetD32" | "hipMemsetD32Async" => {
                self.set(call)?
            }
            "hipLaunchCooperativeKernel"
            | "hipLaunchKernel"
            | "hipModuleLaunchCooperativeKernel"
            | "hipModuleLaunchKernel" => self.launch(call)?,
            "hipDeviceSynchronize" => Call::DeviceSynchronize,
            "hipGetLastError" => Call::GetLastError,
            "hipPeekAtLastError" => Call::PeekAtLastError,
            "hipStreamSynchronize" => {
                Call::StreamSynchronize { stream: self.stream(call, "stream")? }
            }
            "hipStreamQuery" => Call::StreamQuery { stream: self.stream(call, "stream")? },
            "hipEventRecord" => {
                let (event, stream) = (event(self)?, self.stream(call, "stream")?);
                let written = self.unchecked.iter().filter(|(_, of)| **of == stream);
                let written = written.map(|(buffer, _)| buffer.clone()).collect();
                self.before_events.insert(event.clone(), written);
                Call::EventRecord { event, stream }
            }
            "hipEventSynchronize" => Call::EventSynchronize { event: event(self)? },
            "hipEventQuery" => Call::EventQuery { event: event(self)? },
            "hipStreamWaitEvent" => {
                Call::StreamWaitEvent { stream: self.stream(call, "stream")?, event: event(self)? }
            }
            "hipStreamBeginCapture" => {
                let stream = self.stream(call, "stream")?;
                let mode = match call.number("mode")? {
                    0 => CaptureMode::Global,
                    1 => CaptureMode::ThreadLocal,
                    2 => CaptureMode::Relaxed,
                    other => return Err(format!("the mode is {other}")),
                };
                if call.succeeded() {
                    self.captured.insert(stream.clone());
                }
                Call::BeginCapture { stream, mode }
            }
            "hipStreamEndCapture" => {
                let stream = self.stream(call, "stream")?;
                self.captured.clear();
                let graph = self.new_name("g");
                if call.succeeded() {
                    self.names.insert(call.output_handle("pGraph")?, graph.clone());
                }
                Call::EndCapture { stream, graph }
            }
            "hipStreamIsCapturing" => {
                let words = ["none", "active", "invalidated"];
                let status =
                    call.output_number("pCaptureStatus").and_then(|at| words.get(at as usize));
                let stream = self.stream(call, "stream")?;
                return Ok((Call::IsCapturing { stream }, status.map(|word| (*word).to_owned())));
            }
            "hipGraphGetNodes" if call.address("nodes")? == 0 => {
                let count = call.output_number("numNodes").map(|count| count.to_string());
                let graph = self.named(call.address("graph")?, "graph")?;
                return Ok((Call::GraphNodeCount { graph }, count));
            }
            "hipGraphInstantiate" => {
                let graph = self.named(call.address("graph")?, "graph")?;
                let exec = self.new_name("x");
                if call.succeeded() {
                    self.names.insert(call.output_handle("pGraphExec")?, exec.clone());
                }
                Call::GraphInstantiate { exec, graph }
            }
            "hipGraphLaunch" => {
                let exec = self.named(call.address("graphExec")?, "executable graph")?;
                let stream = self.stream(call, "stream")?;
                let written = self.by_graphs.iter().map(|buffer| (buffer.clone(), stream.clone()));
                self.unchecked.extend(written);
                Call::GraphLaunch { exec, stream }
            }
            "hipGraphExecUpdate" => {
                let exec = self.named(call.address("hGraphExec")?, "executable graph")?;
                Call::GraphExecUpdate { exec, graph: self.named(call.address("hGraph")?, "graph")? }
            }
            "hipGraphExecDestroy" => {
                let exec = self.named(call.address("graphExec")?, "executable graph")?;
                Call::GraphExecDestroy { exec }
            }
            "hipGraphDestroy" => {
                Call::GraphDestroy { graph: self.named(call.address("graph")?, "graph")? }
            }
            "hipStreamGetFlags" => {
                let flags = call.output_number("flags").map(|flags| flags.to_string());
                return Ok((Call::StreamGetFlags { stream: self.stream(call, "stream")? }, flags));
            }
            "hipStreamGetPriority" => {
                let priority = call.output_number("priority").map(|priority| priority.to_string());
                return Ok((
                    Call::StreamGetPriority { stream: self.stream(call, "stream")? },
                    priority,
                ));
            }
            _ => Call::Hip { function: name.to_owned(), args: generic::arguments(call, self)? },
        };
        Ok((step, None))
    }
}
