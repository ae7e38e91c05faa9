//! Applies the effects of calls to the buffers of the reference model.

use super::{BufferState, CurrentStep, Model, bytes::Bytes, ranges::Ranges};
use crate::{
    Buffer, BufferAddress, Dtype, GUARD_BYTE, HipArg, MemoryEffect, POISON_BYTE, fill_stamp,
    hip_accesses,
};

impl<'a, B: Bytes> Model<'a, B> {
    pub(super) fn effect(&mut self, effect: MemoryEffect<'a>, now: CurrentStep<'a>) {
        match effect {
            MemoryEffect::Nothing => {}
            MemoryEffect::Alloc(buffer) => self.alloc(now, buffer),
            MemoryEffect::Free(buffer) => self.free(now, buffer),
            MemoryEffect::Poison(buffer) => self.poison(now, buffer),
            MemoryEffect::Fill { buffer, stamp } => self.fill(now, buffer, stamp),
            MemoryEffect::FillNumbers { buffer, dtype, stamp } => {
                self.fill_numbers(now, buffer, dtype, stamp);
            }
            MemoryEffect::FillFile { buffer, file } => self.fill_file(now, buffer, file),
            MemoryEffect::Copy { to, from, bytes } => self.copy(now, to, from, bytes),
            MemoryEffect::Rows { to, from, width, height } => {
                self.rows(now, to, from, width, height)
            }
            MemoryEffect::Boxes { to, from, size } => self.boxes(now, to, from, size),
            MemoryEffect::SetBox { to, value, size } => self.set_box(now, to, value, size),
            MemoryEffect::Set { to, value, element, bytes } => {
                self.set(now, to, (value, element), bytes);
            }
            MemoryEffect::CountUp(buffer) => self.count_up(now, buffer),
            MemoryEffect::Generate { to, count } => self.generate(now, to, count),
            MemoryEffect::Foreign { function, args } => self.foreign(now, function, args),
            MemoryEffect::Product { problem, operands } => self.multiply(now, problem, operands),
            MemoryEffect::Launch { kernel, grid, block, args } => {
                self.launch(now, kernel, grid, block, args);
            }
            MemoryEffect::Replay(exec) => self.replay(now, exec),
            MemoryEffect::Check { buffer, file } => self.check(now, buffer, file),
            MemoryEffect::Compare(a, b) => {
                for buffer in [a, b] {
                    self.host_readable(now.step, buffer);
                }
            }
            MemoryEffect::Read(buffer) => {
                self.host_readable(now.step, buffer);
            }
            MemoryEffect::Guards(buffer) => {
                let guard = self.plan.buffers.get(buffer).map_or(0, Buffer::guard);
                self.expect_bytes(now, B::repeat(&[GUARD_BYTE], 2 * guard));
            }
        }
    }

    fn alloc(&mut self, now: CurrentStep<'a>, buffer: &'a str) {
        let Some(spec) = self.plan.buffers.get(buffer) else {
            return self.report(now.step, format!("buffer `{buffer}` does not exist"));
        };
        let bytes = B::repeat(&[POISON_BYTE], spec.bytes);
        // Memory that is allocated while a graph is replayed gets the creation count from the capture of the node, so
        // that later nodes of the graph can use the memory.
        let since = self.captured.unwrap_or(self.captures.creations());
        let unknown = Ranges::from_range(0..spec.bytes);
        self.states
            .insert(buffer, BufferState { bytes, since, live: true, written: false, unknown });
    }

    fn free(&mut self, now: CurrentStep<'a>, buffer: &str) {
        if let Some(state) = self.live_buffer(now.step, buffer) {
            state.live = false;
        }
    }

    fn poison(&mut self, now: CurrentStep<'a>, buffer: &str) {
        if let Some(state) = self.live_buffer(now.step, buffer) {
            state.bytes = B::repeat(&[POISON_BYTE], state.bytes.len());
            state.unknown = Ranges::default();
        }
        self.record_history(now, buffer);
    }

    fn fill(&mut self, now: CurrentStep<'a>, buffer: &str, stamp: u32) {
        let stamp = fill_stamp(stamp, now.occurrence);
        if let Some(state) = self.live_buffer(now.step, buffer) {
            state.bytes.pattern(stamp);
            state.written = true;
            state.unknown = Ranges::default();
        }
        self.record_history(now, buffer);
    }

    fn fill_numbers(&mut self, now: CurrentStep<'a>, buffer: &str, dtype: Dtype, stamp: u32) {
        let stamp = fill_stamp(stamp, now.occurrence);
        if let Some(state) = self.live_buffer(now.step, buffer) {
            state.bytes.numbers(dtype, stamp);
            state.written = true;
            // Bytes after the last whole element are not written.
            let whole = state.bytes.len() / dtype.bytes() * dtype.bytes();
            state.unknown.remove(0..whole);
        }
        self.record_history(now, buffer);
    }

    fn fill_file(&mut self, now: CurrentStep<'a>, buffer: &str, file: &str) {
        let Some(size) = self.live_buffer(now.step, buffer).map(|state| state.bytes.len()) else {
            return;
        };
        if let Some(bytes) = self.file(now, file, size) {
            let to = BufferAddress { buffer: buffer.to_owned(), offset: 0 };
            self.write(now, &to, &B::from_bytes(bytes), &Ranges::default());
        }
    }

    /// Returns the bytes of a file. If the file does not exist or does not have `size` bytes, reports a mistake and
    /// returns `None`.
    fn file(&mut self, now: CurrentStep<'a>, file: &str, size: u64) -> Option<Vec<u8>> {
        let bytes = self.plan.files.get(file).map(|file| file.bytes().to_vec());
        let length = bytes.as_ref().map(|bytes| bytes.len() as u64);
        if length != Some(size) {
            let has = length.map_or("does not exist".to_owned(), |n| format!("has {n} bytes"));
            self.report(now.step, format!("the buffer has {size} bytes, but `{file}` {has}"));
        }
        bytes.filter(|_| length == Some(size))
    }

    fn copy(&mut self, now: CurrentStep<'a>, to: &BufferAddress, from: &BufferAddress, bytes: u64) {
        if to.buffer == from.buffer && to.offset.abs_diff(from.offset) < bytes {
            return self.report(now.step, "source and target of the copy overlap".to_owned());
        }
        if let Some((data, unknown)) = self.read(now.step, from, bytes) {
            self.write(now, to, &data, &unknown);
        }
    }

    fn set(
        &mut self,
        now: CurrentStep<'a>,
        to: &BufferAddress,
        (value, element): (u32, u64),
        bytes: u64,
    ) {
        // A range beyond the end of the buffer is reported further below.
        if bytes < u64::MAX && !(to.offset | bytes).is_multiple_of(element) {
            let message = format!(
                "elements of {element} bytes must lie at multiples of {element}, which {bytes} bytes from byte {} do not",
                to.offset
            );
            return self.report(now.step, message);
        }
        if self.checked_range(now.step, to, bytes).is_none() {
            return;
        }
        let one = value.to_le_bytes();
        let data = B::repeat(one.get(..element as usize).unwrap_or(&one), bytes);
        self.write(now, to, &data, &Ranges::default());
    }

    fn count_up(&mut self, now: CurrentStep<'a>, buffer: &str) {
        if self.host_readable(now.step, buffer) {
            if let Some(state) = self.states.get_mut(buffer) {
                state.bytes.count_up();
            }
            self.record_history(now, buffer);
        }
    }

    fn generate(&mut self, now: CurrentStep<'a>, to: &BufferAddress, count: u64) {
        let bytes = count.saturating_mul(4);
        if self.checked_range(now.step, to, bytes).is_some() {
            let data = B::repeat(&[0], bytes);
            self.write(now, to, &data, &Ranges::from_range(0..bytes));
        }
    }

    fn foreign(&mut self, now: CurrentStep<'a>, function: &str, args: &'a [HipArg]) {
        for (written, place, bytes) in hip_accesses(function, args) {
            if !written {
                self.read(now.step, place, bytes);
            } else if self.checked_range(now.step, place, bytes).is_some() {
                let data = B::repeat(&[0], bytes);
                self.write(now, place, &data, &Ranges::from_range(0..bytes));
            }
        }
    }

    fn replay(&mut self, now: CurrentStep<'a>, exec: &str) {
        match self.captures.nodes(exec) {
            Ok(nodes) => {
                for node in nodes {
                    self.captured = Some(node.creations);
                    self.check_replayed_handles(now.step, node.step, node.creations);
                    self.effect(
                        node.step.call.work().memory_effect(),
                        CurrentStep { step: node.step, ..now },
                    );
                }
                self.captured = None;
            }
            Err(message) => self.report(now.step, message),
        }
    }

    fn check(&mut self, now: CurrentStep<'a>, buffer: &str, file: Option<&str>) {
        if !self.host_readable(now.step, buffer) {
            return;
        }
        if let Some(file) = file {
            let size = self.states[buffer].bytes.len();
            let Some(bytes) = self.file(now, file, size) else { return };
            let Some(state) = self.states.get_mut(buffer) else { return };
            for (from, to) in std::mem::take(&mut state.unknown).iter() {
                state.bytes.put(from, &B::from_bytes(bytes[from as usize..to as usize].to_vec()));
            }
            self.record_history(now, buffer);
        }
        let state = &self.states[buffer];
        if !state.unknown.is_empty() {
            let message = format!(
                "the content of buffer `{buffer}` cannot be computed in advance; compare the buffer with another one \
                 with `equal` or `differ`, or state under `computes` what a kernel of the case writes, or give a `file` with the right bytes"
            );
            return self.report(now.step, message);
        }
        let bytes = state.bytes.part(0..state.bytes.len());
        self.expect_bytes(now, bytes);
    }
}
