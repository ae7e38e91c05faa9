//! Reads the verbs whose keys differ from the fields of the resulting calls. Each function reads all keys of a step
//! before it returns, so that all mistakes are reported.

use plan::{
    Box3d, BufferAddress, Call, Choice, CopyApi, DEFAULT_STREAM, HostFuncApi, Keys, Name,
    ObjectKind, ReadVerb, ScalarType,
};

use super::{MAX_REPEATS, MAX_SLEEP_MS, args::Args, gemm, read_block, repeats};

impl ReadVerb for Args<'_, '_, '_, '_> {
    fn alloc(&mut self) -> Option<Call> {
        let (buffer, stream) = self.buffer_in_stream()?;
        Some(Call::Alloc { buffer, stream })
    }

    fn free(&mut self) -> Option<Call> {
        let (buffer, stream) = self.buffer_in_stream()?;
        Some(Call::Free { buffer, stream })
    }

    fn fill(&mut self) -> Option<Call> {
        let given = |key| self.fields.as_ref().and_then(|fields| fields.get(key));
        match (given("numbers"), given("file")) {
            (Some(_), Some(node)) => {
                self.reader.mistake(node.at, "give `numbers` or `file`, not both");
                return None;
            }
            (Some(_), None) => return gemm::fill(self),
            (None, Some(_)) => {
                let (buffer, file) = self.buffer_and_file();
                return Some(Call::FillFile { buffer: buffer?, file: file?? });
            }
            (None, None) => {}
        }
        // Placeholder: the stamp becomes the id of the step when the plan is complete.
        Some(Call::Fill { buffer: self.buffer("buffer")?, stamp: 0 })
    }

    fn copy(&mut self) -> Option<Call> {
        let (to, from) = (self.buffer("to"), self.buffer("from"));
        let offsets = (self.number("to_offset", Some(0)), self.number("from_offset", Some(0)));
        let bytes = self.given_number("bytes");
        let default = match self.get("stream") {
            Some(_) => CopyApi::MemcpyAsync,
            None => CopyApi::Memcpy,
        };
        let (api, stream) = (self.choice("api", Some(default)), self.stream("stream"));
        let to = BufferAddress { buffer: to?, offset: offsets.0? };
        let from = BufferAddress { buffer: from?, offset: offsets.1? };
        let (room, have) = (self.room(&to), self.room(&from));
        let Some(bytes) = bytes?.or((room == have).then_some(have)) else {
            let sizes = format!(
                "`{}` has {have} bytes from its offset on, but `{}` has {room}",
                from.buffer, to.buffer
            );
            self.reader.mistake(self.node.at, format!("{sizes}; give `bytes`"));
            return None;
        };
        self.or_node(Call::Copy { to, from, bytes, api: api?, stream: stream? })
    }

    fn copy_2d(&mut self) -> Option<Call> {
        let (to, from) = (self.place("to"), self.place("from"));
        let (width, height) = (self.number("width", None), self.number("height", None));
        let pitches = (self.given_number("to_pitch"), self.given_number("from_pitch"));
        let (asynchronous, stream) = self.asynchronous();
        let width = width?;
        Some(Call::Copy2d {
            to: to?,
            to_pitch: pitches.0?.unwrap_or(width),
            from: from?,
            from_pitch: pitches.1?.unwrap_or(width),
            width,
            height: height?,
            asynchronous: asynchronous?,
            stream: stream?,
        })
    }

    fn copy_3d(&mut self) -> Option<Call> {
        let (to, from) = (self.buffer("to"), self.buffer("from"));
        let (width, height) = (self.number("width", None), self.number("height", None));
        let depth = self.number("depth", Some(1));
        let to = self.in_box(to, ["to_pitch", "to_rows", "to_at"], (width, height));
        let from = self.in_box(from, ["from_pitch", "from_rows", "from_at"], (width, height));
        let (asynchronous, stream) = self.asynchronous();
        let (to, from, asynchronous) = (to?, from?, asynchronous?);
        let (width, height, depth, stream) = (width?, height?, depth?, stream?);
        Some(Call::Copy3d { to, from, width, height, depth, asynchronous, stream })
    }

    fn set_rows(&mut self) -> Option<Call> {
        let to = self.buffer("to");
        let (width, height) = (self.number("width", None), self.number("height", None));
        let depth = self.given_number("depth");
        let to = self.in_box(to, ["pitch", "rows", "at"], (width, height));
        let value = self.number("value", None);
        let (asynchronous, stream) = self.asynchronous();
        let (to, value, asynchronous) = (to?, value?, asynchronous?);
        let (width, height, depth, stream) = (width?, height?, depth?, stream?);
        Some(Call::SetRows { to, value, width, height, depth, asynchronous, stream })
    }

    fn set(&mut self) -> Option<Call> {
        let (buffer, offset) = (self.buffer("to"), self.number("offset", Some(0)));
        let (value, words): (Option<u64>, _) = (self.number("value", None), self.flag("words"));
        let bytes = self.given_number("bytes");
        let (asynchronous, stream) = self.asynchronous();
        let (to, words) = (BufferAddress { buffer: buffer?, offset: offset? }, words?);
        let most = if words { u32::MAX } else { u8::MAX.into() };
        let Some(value) = u32::try_from(value?).ok().filter(|value| *value <= most) else {
            let what = if words { "a word" } else { "a byte" };
            self.reader.mistake(self.at("value"), format!("`value` must be {what}, 0 to {most}"));
            return None;
        };
        let bytes = bytes?.unwrap_or_else(|| self.room(&to));
        for (key, number) in [("bytes", bytes), ("offset", to.offset)] {
            if words && !number.is_multiple_of(4) {
                self.reader.mistake(
                    self.at(key),
                    "words have 4 bytes, so the address and the size must be multiples \
                    of 4",
                );
                return None;
            }
        }
        let (asynchronous, stream) = (asynchronous?, stream?);
        self.or_node(Call::Set { to, value, words, bytes, asynchronous, stream })
    }

    fn launch(&mut self) -> Option<Call> {
        let call = self.kernel_launch()?;
        self.or_node(call)
    }

    fn host_func(&mut self) -> Option<Call> {
        let buffer = self.buffer("buffer");
        let api = self.choice("api", Some(HostFuncApi::LaunchHostFunc));
        let stream = self.stream("stream");
        self.or_node(Call::HostFunc { buffer: buffer?, api: api?, stream: stream? })
    }

    fn sync(&mut self) -> Option<Call> {
        match self.reader.text(self.node, &self.what)? {
            "device" => Some(Call::DeviceSynchronize),
            _ => Some(Call::StreamSynchronize { stream: self.stream("stream")? }),
        }
    }

    fn rand_generate(&mut self) -> Option<Call> {
        let (to, generator) = (self.place("to"), self.thing("generator", ObjectKind::Generator));
        let (count, to) = (self.given_number("count"), to?);
        let count = count?.unwrap_or(self.room(&to) / 4);
        Some(Call::RandGenerate { generator: generator?, to, count })
    }

    fn blaslt_heuristic(&mut self) -> Option<Call> {
        let (handle, problem, bias) =
            (self.thing("handle", ObjectKind::Blaslt), gemm::problem(self), self.flag("bias"));
        let mut problem = problem?;
        problem.bias = bias?;
        Some(Call::BlasltHeuristic { handle: handle?, problem })
    }

    fn blaslt_matmul(&mut self) -> Option<Call> {
        let (handle, problem, operands, stream) = gemm::product(self, ObjectKind::Blaslt)?;
        Some(Call::BlasltMatmul { handle, problem, operands, stream })
    }

    fn rocblas_gemm(&mut self) -> Option<Call> {
        let (handle, problem, operands, stream) = gemm::product(self, ObjectKind::Rocblas)?;
        Some(Call::RocblasGemm { handle, problem, operands, stream })
    }

    fn hip(&mut self) -> Option<Call> {
        self.hip_call()
    }

    fn hip_value(&mut self) -> Option<Call> {
        self.look_at_value()
    }

    fn check(&mut self) -> Option<Call> {
        let (buffer, file) = self.buffer_and_file();
        Some(Call::Check { buffer: self.brought_to_host(buffer?), file: file? })
    }

    fn equal(&mut self) -> Option<Call> {
        let (a, b) = self.two_buffers("equal")?;
        Some(Call::Equal { a, b })
    }

    fn differ(&mut self) -> Option<Call> {
        let (a, b) = self.two_buffers("differ")?;
        Some(Call::Differ { a, b })
    }

    fn at_least(&mut self) -> Option<Call> {
        let types = [
            ScalarType::I8,
            ScalarType::U8,
            ScalarType::I16,
            ScalarType::U16,
            ScalarType::I32,
            ScalarType::U32,
            ScalarType::I64,
            ScalarType::U64,
            ScalarType::F32,
            ScalarType::F64,
        ];
        let types = types.map(|ty| (ty.word(), ty));
        let buffer = self.buffer("buffer");
        let ty = self.required("type").and_then(|node| self.reader.choice(node, "`type`", &types));
        let value = self.required("value");
        let (buffer, ty, value) = (buffer?, ty?, value?);
        let least = self.hip_number(value, ty)?;
        let bytes = self.scope.buffers[&buffer].bytes;
        if bytes == 0 || !bytes.is_multiple_of(ty.bytes() as u64) {
            let message =
                format!("`{buffer}` has {bytes} bytes: not a whole number of {}", ty.word());
            self.reader.mistake(self.at("type"), message);
            return None;
        }
        Some(Call::AtLeast { buffer: self.brought_to_host(buffer), least })
    }

    fn sleep(&mut self) -> Option<Call> {
        let ms = self.number("ms", None)?;
        if ms > MAX_SLEEP_MS {
            let message = format!("`sleep` is at most {MAX_SLEEP_MS} milliseconds");
            self.reader.mistake(self.node.at, message);
            return None;
        }
        Some(Call::Sleep { ms })
    }

    fn repeat(&mut self) -> Option<Call> {
        let at = self.at("count");
        let count: u64 = self.number("count", None)?;
        let count = u32::try_from(count).ok().filter(|c| (1..=MAX_REPEATS).contains(c));
        if count.is_none() {
            self.reader.mistake(at, format!("`count` must be 1 to {MAX_REPEATS}"));
        }
        let steps = self.required("steps")?;
        let body = read_block(self.reader, self.scope, steps);
        let count = count?;
        if u64::from(count) * repeats(&body) > MAX_REPEATS.into() {
            let message = format!(
                "together with the nested blocks, this makes more than {MAX_REPEATS} repeats"
            );
            self.reader.mistake(at, message);
            return None;
        }
        Some(Call::Repeat { count, body })
    }

    fn thread(&mut self) -> Option<Call> {
        Some(Call::Thread { body: read_block(self.reader, self.scope, self.node) })
    }
}

impl Args<'_, '_, '_, '_> {
    /// Reads the part of `buffer` that a 3D copy or fill uses, from the step's keys with the names `pitch`, `rows` and
    /// `at`. If a key is missing, the pitch is `width`, a slice has `height` rows, or the part begins at the first
    /// byte.
    fn in_box(
        &mut self,
        buffer: Option<Name>,
        [pitch, rows, at]: [&str; 3],
        (width, height): (Option<u64>, Option<u64>),
    ) -> Option<Box3d> {
        let mut begins = Some([0; 3]);
        if let Some(node) = self.get(at) {
            let numbers = self.reader.list(node);
            let read: Vec<_> =
                numbers.iter().map(|n| self.reader.number(n, &format!("`{at}`"))).collect();
            begins = read.into_iter().collect::<Option<Vec<u64>>>().and_then(|n| n.try_into().ok());
            if numbers.len() != 3 {
                let message = format!("`{at}` needs three numbers: byte, row and slice");
                self.reader.mistake(node.at, message);
            }
        }
        let (pitch, rows) = (self.given_number(pitch), self.given_number(rows));
        let (pitch, rows) = (pitch?.or(width)?, rows?.or(height)?);
        Some(Box3d { buffer: buffer?, pitch, rows, at: begins? })
    }

    /// Reads the keys `async` and `stream`. Reports a `stream` without `async` as a mistake, because a synchronous call
    /// does not use a stream.
    fn asynchronous(&mut self) -> (Option<bool>, Option<Name>) {
        let (asynchronous, stream) = (self.flag("async"), self.stream("stream"));
        if let (None, Some(given)) = (self.get("async"), self.get("stream")) {
            let name = stream.as_deref().unwrap_or("s");
            let message = format!("{} without `async` takes no stream", self.what);
            let help = format!(
                "write `async: true, stream: {name}` for the asynchronous function, or leave out `stream`"
            );
            self.reader.mistake_with_help(given.at, message, Some(help));
        }
        (asynchronous, stream)
    }

    /// Reads the name of a buffer, or a mapping with a buffer and a stream. If no stream is given, returns the null
    /// stream.
    fn buffer_in_stream(&mut self) -> Option<(Name, Name)> {
        let buffer = self.buffer("buffer");
        let stream = match self.fields {
            Some(_) => self.stream("stream"),
            None => Some(DEFAULT_STREAM.to_owned()),
        };
        Some((buffer?, stream?))
    }

    fn two_buffers(&mut self, verb: &str) -> Option<(Name, Name)> {
        let [a, b] = self.reader.list(self.node) else {
            let message = format!("`{verb}` takes two buffers: `{verb}: [a, b]`");
            self.reader.mistake(self.node.at, message);
            return None;
        };
        let at_b = b.at;
        let (a, b) = (self.scope.buffer(self.reader, a), self.scope.buffer(self.reader, b));
        let (a, b) = (a?, b?);
        if a == b {
            self.reader.mistake(at_b, format!("`{verb}` compares `{a}` with itself"));
            return None;
        }
        let (one, other) = (self.scope.buffers[&a].bytes, self.scope.buffers[&b].bytes);
        if one != other {
            let sizes = format!("`{a}` has {one} bytes and `{b}` has {other}");
            self.reader.mistake_with_help(
                at_b,
                format!("{sizes}, so they always differ"),
                Some(format!("`{verb}` needs buffers of equal size")),
            );
            return None;
        }
        Some((self.brought_to_host(a), self.brought_to_host(b)))
    }

    /// Reads a buffer, and optionally the name of a file that must have as many bytes as the buffer. The second result
    /// is `Some(None)` if the step names no file, and `None` if the file is wrong.
    fn buffer_and_file(&mut self) -> (Option<Name>, Option<Option<String>>) {
        let buffer = self.buffer("buffer");
        let node = match &self.fields {
            Some(fields) => fields.get("file"),
            None => None,
        };
        let Some(node) = node else { return (buffer, Some(None)) };
        let file = self.scope.file(self.reader, node);
        if let (Some(buffer), Some((name, length))) = (&buffer, &file) {
            let bytes = self.scope.buffers[buffer].bytes;
            if bytes != *length {
                let message = format!("`{buffer}` has {bytes} bytes, but `{name}` has {length}");
                self.reader.mistake(node.at, message);
                return (None, None);
            }
        }
        (buffer, file.map(|(name, _)| Some(name)))
    }

    fn brought_to_host(&mut self, buffer: Name) -> Name {
        self.scope.on_host(self.reader, buffer, self.step, self.before)
    }
}
