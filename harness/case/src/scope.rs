//! Names of objects that the steps of a trial may use, and the checks of these names.

use std::collections::{BTreeMap, BTreeSet};

use plan::{
    Buffer, BufferAddress, Call, CaseKernel, CopyApi, DEFAULT_STREAM, Files, HipFunction, Step,
    StreamKind,
};

use crate::{
    SourceSpan, Trial,
    added_buffers::{BACK, host_buffer_for},
    diagnostic::suggest,
    hints,
    kernels::{KernelDeclaration, Kernels},
    matrix::Matrix,
    read::Reader,
    yaml::Node,
};

/// Maximum number of streams in a case. The limit exists because any stream may wait for any other, so the analysis of
/// their order takes quadratic time.
const MAX_STREAMS: usize = 1000;

/// Origin of a value: the function that returned it, and the index of the parameter through which it was returned.
pub(crate) type ValueOrigin = (&'static HipFunction, usize);

/// Objects that steps may name, and buffers that are added to the plan while the steps are read.
pub(crate) struct Scope<'a> {
    pub(crate) matrix: &'a Matrix,
    pub(crate) trial: &'a Trial,
    pub(crate) buffers: BTreeMap<String, Buffer>,
    /// Names of declared buffers. Buffers whose declaration has a mistake are included.
    pub(crate) declared: BTreeSet<String>,
    /// Host buffers that checks add. Steps cannot name them.
    pub(crate) added: BTreeMap<String, Buffer>,
    /// Buffers whose declaration contains a mistake. The mistake is reported at the declaration only.
    pub(crate) broken: BTreeSet<String>,
    /// True if the declarations of buffers could not be read. Any name may then be a buffer. `unknown_kernels` has the
    /// same meaning for kernels.
    pub(crate) unknown_buffers: bool,
    pub(crate) unknown_kernels: bool,
    pub(crate) streams: BTreeMap<String, StreamKind>,
    pub(crate) events: BTreeSet<String>,
    kernels: &'a Kernels,
    /// Kernels that the case declares, with the source in the case file or in a file of the case's folder.
    pub(crate) own_kernels: BTreeMap<String, KernelDeclaration>,
    /// Values that earlier `hip` steps have returned, each with its origin.
    pub(crate) values: BTreeMap<String, ValueOrigin>,
    next_id: u32,
}

impl<'a> Scope<'a> {
    /// Returns a scope without objects. `kernels` contains the kernel sources outside of the case file, by name.
    pub(crate) fn new(matrix: &'a Matrix, trial: &'a Trial, kernels: &'a Kernels) -> Self {
        Scope {
            matrix,
            trial,
            buffers: BTreeMap::new(),
            declared: BTreeSet::new(),
            added: BTreeMap::new(),
            broken: BTreeSet::new(),
            unknown_buffers: false,
            unknown_kernels: false,
            streams: BTreeMap::new(),
            events: BTreeSet::new(),
            kernels,
            own_kernels: BTreeMap::new(),
            values: BTreeMap::new(),
            next_id: 0,
        }
    }
}

impl Scope<'_> {
    pub(crate) fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// Creates a step for a call that the case file does not contain. The step requires the call to succeed.
    pub(crate) fn step(&mut self, call: Call, line: u32) -> Step {
        Step { id: self.id(), call, returns: None, gives: None, line, planted: Vec::new() }
    }

    pub(crate) fn source(&self, kernel: &str) -> String {
        let own = self.own_kernels.get(kernel).and_then(|own| own.source.as_ref());
        own.or_else(|| self.kernels.get(kernel)).cloned().unwrap_or_default()
    }

    /// Returns the definition of a kernel that the case declares, in the case file or in a file of the case's folder;
    /// `None` for a kernel of the built-in kernel library.
    pub(crate) fn own_kernel(&self, kernel: &str) -> Option<CaseKernel> {
        if plan::kernel(kernel).is_some() {
            return None;
        }
        let source = self.source(kernel);
        let own = self.own_kernels.get(kernel).cloned().unwrap_or_default();
        let place = match (&own.source, own.line) {
            (_, line) if own.source.is_some() || own.code.is_some() => format!("line {line}"),
            _ => {
                let line = source.lines().position(|line| line.contains("__global__"));
                format!("`{kernel}.hip`, line {}", line.map_or(1, |n| n + 1))
            }
        };
        let parameters = plan::own_parameters(&source, kernel);
        let KernelDeclaration { options, computes, code, .. } = own;
        Some(CaseKernel { place, options, parameters, computes, code })
    }

    /// Reads the name of a file in the case's folder. Returns the name, and the size of the file in bytes.
    pub(crate) fn file(&self, reader: &mut Reader, node: &Node) -> Option<(String, u64)> {
        let name = reader.text(node, "`file`")?;
        let found = self.kernels.file(reader, node.at, name)?;
        Some((name.to_owned(), found.bytes().len() as u64))
    }

    /// Returns the files that the steps and kernels of a plan use.
    pub(crate) fn files(&self, plan: &plan::Plan) -> Files {
        let of_steps = plan.steps().into_iter().filter_map(|step| {
            let (Call::FillFile { file, .. } | Call::Check { file: Some(file), .. }) = &step.call
            else {
                return None;
            };
            Some(file)
        });
        let of_kernels = plan.own_kernels.values().filter_map(|own| own.code.as_ref());
        let names = of_steps.chain(of_kernels.map(|code| &code.file));
        let found =
            names.filter_map(|name| Some((name.clone(), self.kernels.files.get(name)?.clone())));
        found.collect()
    }

    pub(crate) fn buffer(&mut self, reader: &mut Reader, node: &Node) -> Option<String> {
        let name = reader.text(node, "a buffer")?;
        if self.broken.contains(name) || self.unknown_buffers {
            return None;
        }
        if !self.buffers.contains_key(name) {
            let help = hints::forms::buffer(name)
                .or_else(|| suggest(name, self.buffers.keys().map(String::as_str)));
            reader.mistake_with_help(node.at, format!("unknown buffer `{name}`"), help);
            return None;
        }
        Some(name.to_owned())
    }

    /// Reads the name of a stream. An undeclared stream is a blocking stream, as hipStreamCreate creates it.
    pub(crate) fn stream(&mut self, reader: &mut Reader, node: &Node) -> Option<String> {
        let name = reader.text(node, "a stream")?;
        if name == "device" {
            reader.mistake(
                node.at,
                "a stream cannot be named `device`, because `sync: device` means all streams",
            );
            return None;
        }
        if name != DEFAULT_STREAM {
            if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(name) {
                reader.mistake(node.at, format!("a case has at most {MAX_STREAMS} streams"));
                return None;
            }
            if let Some(help) = hints::stream(name) {
                let before = reader.mistakes.len();
                reader.name(node.at, name, "a stream");
                if reader.mistakes.len() == before {
                    reader.mistake(node.at, format!("a stream cannot be called `{name}`"));
                }
                for mistake in &mut reader.mistakes[before..] {
                    mistake.help = Some(help.clone());
                }
                return None;
            }
            if !self.streams.contains_key(name) {
                reader.name(node.at, name, "a stream");
                self.streams.insert(name.to_owned(), StreamKind::Blocking);
            }
        }
        Some(name.to_owned())
    }

    pub(crate) fn event(&mut self, reader: &mut Reader, at: SourceSpan, name: &str) -> String {
        reader.name(at, name, "an event");
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

    /// Returns the name of the buffer if the host can read its memory. Otherwise adds a host buffer, appends a step to
    /// `before` that copies the device buffer into the host buffer, and returns the name of the host buffer.
    pub(crate) fn on_host(
        &mut self,
        reader: &mut Reader,
        name: String,
        at: SourceSpan,
        before: &mut Vec<Step>,
    ) -> String {
        let buffer = &self.buffers[&name];
        if buffer.memory.on_host() {
            return name;
        }
        let bytes = buffer.bytes;
        let back = format!("{name}{BACK}");
        if self.declared.contains(&back) {
            let message = format!(
                "this step makes a host buffer `{back}`, but the case declares one with that name"
            );
            let help = format!("give the buffer `{back}` of the case another name");
            reader.mistake_with_help(at, message, Some(help));
        }
        let spec = host_buffer_for(buffer);
        self.added.insert(back.clone(), spec);
        let call = Call::Copy {
            to: BufferAddress { buffer: back.clone(), offset: 0 },
            from: BufferAddress { buffer: name, offset: 0 },
            bytes,
            api: CopyApi::Memcpy,
            stream: DEFAULT_STREAM.into(),
        };
        let step = self.step(call, at.line);
        before.push(step);
        back
    }
}
