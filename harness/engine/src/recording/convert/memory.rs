//! Converts allocations, copies and memsets.

use plan::{
    Buffer, BufferAddress, Call, CopyApi, DEFAULT_STREAM, FileContent, GUARD_BYTE, GUARD_BYTES,
    Memory, POISON_BYTE, Step,
};

use recorder::trace::CONTENTS;

use super::{super::arguments::RecordedCall, Allocation, Converter};

/// Largest total size of the files of a case, in bytes.
const MAX_BYTES: usize = 64 << 20;

impl<'t> Converter<'t> {
    /// Converts allocations, and calls that free memory. Returns false for other calls.
    pub(super) fn allocation(
        &mut self,
        call: RecordedCall<'t>,
        rest: &mut &[RecordedCall<'t>],
    ) -> Result<bool, String> {
        let (memory, result) = match call.name() {
            "hipMalloc" => (Memory::Device, "ptr"),
            "hipHostMalloc" if call.number("flags")? == 0 => (Memory::HostPinned, "ptr"),
            "hipMallocManaged" if call.number("flags")? == 1 => (Memory::Managed, "dev_ptr"),
            "hipMallocAsync" => (Memory::DeviceAsync, "dev_ptr"),
            "hipFree" | "hipHostFree" | "hipFreeAsync" => return self.free(call).map(|()| true),
            _ => return Ok(false),
        };
        if !call.succeeded() {
            return Err("a failing allocation".to_owned());
        }
        let (at, size) = (call.output_handle(result)?, call.number("size")?);
        let guarded = self.take_poison(at, size, rest);
        let is_declared = self.in_setup && memory != Memory::DeviceAsync;
        let buffer = self.new_name("b");
        let (start, bytes) = match guarded {
            Some(true) => (at + GUARD_BYTES, size - 2 * GUARD_BYTES),
            Some(false) | None => (at, size),
        };
        if is_declared && guarded.is_none() {
            self.notes.insert(
                "the set-up writes a pattern of poison to each buffer with hipMemset".to_owned(),
            );
        } else if !is_declared && guarded.is_some() {
            return Err("memory with guards is allocated after the set-up".to_owned());
        }
        if guarded.is_some() {
            self.take_initial(&buffer, start, bytes, rest);
        }
        let spec = Buffer { memory, bytes, guarded: guarded == Some(true) };
        self.plan.buffers.insert(buffer.clone(), spec);
        self.memory.insert(at, Allocation { buffer: buffer.clone(), start, bytes });
        if !is_declared {
            self.in_setup = false;
            let stream = match memory {
                Memory::DeviceAsync => self.stream(call, "stream")?,
                _ => DEFAULT_STREAM.to_owned(),
            };
            self.step(Some(call), Call::Alloc { buffer, stream });
        }
        Ok(true)
    }

    /// Removes from `rest` the calls with which the set-up of a case writes poison to a buffer. Returns true if these
    /// calls write guards too. Returns `None` if `rest` does not begin with such calls.
    pub(super) fn take_poison(
        &self,
        at: u64,
        size: u64,
        rest: &mut &[RecordedCall<'t>],
    ) -> Option<bool> {
        let sets = |call: Option<&RecordedCall<'_>>, start: u64, byte: u8, bytes: u64| {
            call.is_some_and(|call| {
                call.name() == "hipMemset"
                    && call.succeeded()
                    && call.address("dst") == Ok(start)
                    && call.number("value") == Ok(byte.into())
                    && call.number("sizeBytes") == Ok(bytes)
            })
        };
        let inner = size.checked_sub(2 * GUARD_BYTES);
        if let Some(inner) = inner
            && sets(rest.first(), at, GUARD_BYTE, size)
            && sets(rest.get(1), at + GUARD_BYTES, POISON_BYTE, inner)
        {
            *rest = &rest[2..];
            return Some(true);
        }
        if sets(rest.first(), at, POISON_BYTE, size) {
            *rest = &rest[1..];
            return Some(false);
        }
        None
    }

    /// Removes from `rest` the call with which the set-up of a case writes the initial content of a buffer.
    pub(super) fn take_initial(
        &mut self,
        buffer: &str,
        start: u64,
        bytes: u64,
        rest: &mut &[RecordedCall<'t>],
    ) {
        let Some(next) = rest.first().filter(|next| {
            next.succeeded()
                && next.address("dst") == Ok(start)
                && next.number("sizeBytes") == Ok(bytes)
        }) else {
            return;
        };
        let to = BufferAddress { buffer: buffer.to_owned(), offset: 0 };
        let stream = DEFAULT_STREAM.to_owned();
        let call = match next.name() {
            "hipMemset" if next.number("value") == Ok(0) => {
                Call::Set { to, value: 0, words: false, bytes, asynchronous: false, stream }
            }
            "hipMemcpy" if next.content().is_some() && !self.uses_code => {
                let from = BufferAddress { buffer: format!("{buffer}.initial"), offset: 0 };
                Call::Copy { to, from, bytes, api: CopyApi::Memcpy, stream }
            }
            _ => return,
        };
        *rest = &rest[1..];
        let id = self.plan.setup.len() as u32;
        let step = Step { id, call, returns: None, gives: None, line: 0, planted: Vec::new() };
        self.plan.setup.push(step);
    }

    /// Returns true if the call reads a guard of a buffer. A case with guards does that at its end, after it has waited
    /// for the device.
    pub(super) fn is_read_of_guard(&self, call: RecordedCall<'_>) -> bool {
        let Ok(at) = call.address("src") else { return false };
        call.name() == "hipMemcpy"
            && call.number("sizeBytes") == Ok(GUARD_BYTES)
            && self.memory.values().any(|found| {
                let spec = self.plan.buffers.get(&found.buffer);
                spec.is_some_and(|spec| spec.guarded)
                    && (at + GUARD_BYTES == found.start || at == found.start + found.bytes)
            })
    }

    pub(super) fn free(&mut self, call: RecordedCall<'t>) -> Result<(), String> {
        let at = call.address(if call.name() == "hipFreeAsync" { "dev_ptr" } else { "ptr" })?;
        let found = self.memory.get(&at).cloned();
        let found = found.ok_or_else(|| format!("no recorded call allocated {at:#x}"))?;
        let stream = match call.name() {
            "hipFreeAsync" => self.stream(call, "stream")?,
            _ => DEFAULT_STREAM.to_owned(),
        };
        self.in_setup = false;
        self.step(Some(call), Call::Free { buffer: found.buffer, stream });
        if call.succeeded() {
            self.memory.remove(&at);
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, call: RecordedCall<'t>) -> Result<Call, String> {
        let name = call.name();
        let (to, from, bytes) =
            (call.address("dst")?, call.address("src")?, call.number("sizeBytes")?);
        let api = match name {
            "hipMemcpy" => CopyApi::Memcpy,
            "hipMemcpyAsync" => CopyApi::MemcpyAsync,
            "hipMemcpyWithStream" => CopyApi::MemcpyWithStream,
            _ => CopyApi::MemcpyDirected,
        };
        let stream = match matches!(api, CopyApi::MemcpyAsync | CopyApi::MemcpyWithStream) {
            true => self.stream(call, "stream")?,
            false => DEFAULT_STREAM.to_owned(),
        };
        if to == 0 || from == 0 {
            return Err("a copy with a null pointer".to_owned());
        }
        let (to_place, from_place) =
            (self.place_or_host(to, bytes)?, self.place_or_host(from, bytes)?);
        if let Ok(kind) = call.number("kind") {
            let memory =
                |place: &BufferAddress| self.plan.buffers.get(&place.buffer).map(|b| b.memory);
            let managed =
                [&to_place, &from_place].iter().any(|p| memory(p) == Some(Memory::Managed));
            let (a, b) = (self.is_on_host(&from_place.buffer), self.is_on_host(&to_place.buffer));
            let usual = match (a, b) {
                _ if managed => 4,
                (true, true) => 0,
                (true, false) => 1,
                (false, true) => 2,
                (false, false) => 3,
            };
            if kind != usual {
                return Err(format!("its kind is {kind}, where a case passes {usual}"));
            }
        }
        if self.is_on_host(&from_place.buffer) && call.content().is_some() {
            self.fill(&from_place, call)?;
        }
        if call.succeeded() && self.is_on_host(&to_place.buffer) {
            let is_captured = self.captured.contains(&stream);
            let buffer = to_place.buffer.clone();
            if is_captured {
                self.by_graphs.insert(buffer);
            } else {
                self.unchecked.insert(buffer, stream.clone());
            }
            if let Some(copy) = self.current.clone() {
                self.copies.insert(to_place.buffer.clone(), copy);
            }
            let written = call.end.wrote.as_ref().map(|content| content.xxh3.clone());
            self.remember_content(&to_place, bytes, written);
        }
        Ok(Call::Copy { to: to_place, from: from_place, bytes, api, stream })
    }

    /// Adds a step that fills a host buffer before a copy from it, unless the buffer already has the recorded content.
    pub(super) fn fill(
        &mut self,
        from: &BufferAddress,
        call: RecordedCall<'t>,
    ) -> Result<(), String> {
        let Some(content) = call.content() else { return Ok(()) };
        if self.contents.get(&from.buffer) == Some(&content.xxh3) {
            return Ok(());
        }
        let buffer = from.buffer.clone();
        let step = match self.uses_code {
            true if !self.is_whole(from, content.bytes) => {
                return Err(
                    "it copies from a part of a buffer, whose other bytes are unknown".to_owned()
                );
            }
            true => {
                let file = self.bytes_of(&content.xxh3)?;
                let bytes = self.plan.files.get(&file).map_or(&[][..], FileContent::bytes);
                if let Some((offset, at)) = self.address_in(bytes) {
                    let buffer = &at.buffer;
                    return Err(format!(
                        "byte {offset} of its content is an address in buffer `{buffer}`, which differs between runs"
                    ));
                }
                Call::FillFile { buffer, file }
            }
            false => {
                let note =
                    "the bytes that the program copies from the host are replaced by patterns";
                self.notes.insert(note.to_owned());
                Call::Fill { buffer, stamp: 0 }
            }
        };
        self.step(None, step);
        self.remember_content(from, content.bytes, Some(content.xxh3.clone()));
        Ok(())
    }

    /// Remembers `content`, the XXH3 hash of a host buffer's content. Forgets the content if the hash is `None`, or if
    /// the `bytes` bytes at `place` are only a part of the buffer.
    pub(super) fn remember_content(
        &mut self,
        place: &BufferAddress,
        bytes: u64,
        content: Option<String>,
    ) {
        match content.filter(|_| self.is_whole(place, bytes)) {
            Some(content) => drop(self.contents.insert(place.buffer.clone(), content)),
            None => drop(self.contents.remove(&place.buffer)),
        }
    }

    fn is_whole(&self, place: &BufferAddress, bytes: u64) -> bool {
        place.offset == 0
            && self.plan.buffers.get(&place.buffer).is_some_and(|of| of.bytes == bytes)
    }

    /// Searches bytes for the address of a buffer. Returns the offset in the bytes of the first address found, and the
    /// place to which this address leads. `None` if no address is found.
    pub(super) fn address_in(&self, bytes: &[u8]) -> Option<(usize, BufferAddress)> {
        let (words, _) = bytes.as_chunks::<8>();
        let place = |word: &[u8; 8]| self.place(u64::from_le_bytes(*word), 1);
        words.iter().enumerate().find_map(|(index, word)| Some((8 * index, place(word)?)))
    }

    /// Adds a file with recorded bytes to the case, and returns its name.
    pub(super) fn bytes_of(&mut self, xxh3: &str) -> Result<String, String> {
        let name = format!("{xxh3}.bin");
        if !self.plan.files.contains_key(&name) {
            self.plan.files.insert(name.clone(), self.recorded(xxh3)?.into());
        }
        Ok(name)
    }

    /// Reads the recorded bytes with this XXH3 hash.
    pub(super) fn recorded(&self, xxh3: &str) -> Result<Vec<u8>, String> {
        let read = std::fs::read(self.trace.folder.join(CONTENTS).join(xxh3));
        read.map_err(|error| format!("its bytes were not recorded: {error}"))
    }

    /// Adds a problem if the files of the case are too large in total.
    pub(super) fn check_size(&mut self) {
        let bytes: usize = self.plan.files.values().map(|file| file.bytes().len()).sum();
        if bytes > MAX_BYTES {
            let [has, most] = [bytes, MAX_BYTES].map(|bytes| bytes >> 20);
            self.problems
                .push(format!("its files would have {has} MiB; at most {most} are allowed"));
        }
    }

    pub(super) fn set(&mut self, call: RecordedCall<'t>) -> Result<Call, String> {
        let words = call.name().contains("D32");
        let asynchronous = call.name().ends_with("Async");
        let at = ["dst", "dest"].iter().find_map(|name| call.address(name).ok());
        let at = at.ok_or("its address was not recorded")?;
        let bytes = if words { 4 * call.number("count")? } else { call.number("sizeBytes")? };
        let to =
            self.place(at, bytes).ok_or_else(|| format!("{at:#x} is not in recorded memory"))?;
        let stream = match asynchronous {
            true => self.stream(call, "stream")?,
            false => DEFAULT_STREAM.to_owned(),
        };
        let value = call.number("value")? as u32;
        Ok(Call::Set { to, value, words, bytes, asynchronous, stream })
    }
}
