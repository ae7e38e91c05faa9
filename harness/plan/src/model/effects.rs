//! What calls do to memory.

use super::{Model, Now, State, bytes::Bytes, ranges::Ranges};
use crate::{
    Buffer, Dtype, GUARD_BYTE, HipArg, OnMemory, POISON_BYTE, Place, fill_stamp, hip_accesses,
};

impl<'a, B: Bytes> Model<'a, B> {
    /// What a call does when it takes effect.
    pub(super) fn effect(&mut self, effect: OnMemory<'a>, now: Now<'a>) {
        match effect {
            OnMemory::Nothing => {}
            OnMemory::Alloc(buffer) => self.alloc(now, buffer),
            OnMemory::Free(buffer) => self.free(now, buffer),
            OnMemory::Poison(buffer) => self.poison(now, buffer),
            OnMemory::Fill { buffer, stamp } => self.fill(now, buffer, stamp),
            OnMemory::FillNumbers { buffer, dtype, stamp } => {
                self.fill_numbers(now, buffer, dtype, stamp);
            }
            OnMemory::Copy { to, from, bytes } => self.copy(now, to, from, bytes),
            OnMemory::Rows { to, from, width, height } => self.rows(now, to, from, width, height),
            OnMemory::Boxes { to, from, size } => self.boxes(now, to, from, size),
            OnMemory::SetBox { to, value, size } => self.set_box(now, to, value, size),
            OnMemory::Set { to, value, element, bytes } => {
                self.set(now, to, (value, element), bytes);
            }
            OnMemory::CountUp(buffer) => self.count_up(now, buffer),
            OnMemory::Generate { to, count } => self.generate(now, to, count),
            OnMemory::Foreign { function, args } => self.foreign(now, function, args),
            OnMemory::Product { problem, operands } => self.multiply(now, problem, operands),
            OnMemory::Launch { kernel, grid, block, args } => {
                self.launch(now, kernel, grid, block, args);
            }
            OnMemory::Replay(exec) => self.replay(now, exec),
            OnMemory::Check(buffer) => self.check(now, buffer),
            OnMemory::Compare(a, b) => {
                for buffer in [a, b] {
                    self.host_readable(now.step, buffer);
                }
            }
            OnMemory::Guards(buffer) => {
                let guard = self.plan.buffers.get(buffer).map_or(0, Buffer::guard);
                self.expect(now, B::of(&[GUARD_BYTE], 2 * guard));
            }
        }
    }

    fn alloc(&mut self, now: Now<'a>, buffer: &'a str) {
        let Some(spec) = self.plan.buffers.get(buffer) else {
            return self.mistake(now.step, format!("there is no buffer `{buffer}`"));
        };
        let bytes = B::of(&[POISON_BYTE], spec.bytes);
        // What a graph allocates is there for the nodes behind.
        let since = self.captured.unwrap_or(self.captures.made());
        let unknown = Ranges::of(0..spec.bytes);
        self.states.insert(buffer, State { bytes, since, live: true, written: false, unknown });
    }

    fn free(&mut self, now: Now<'a>, buffer: &str) {
        if let Some(state) = self.live(now.step, buffer) {
            state.live = false;
        }
    }

    fn poison(&mut self, now: Now<'a>, buffer: &str) {
        if let Some(state) = self.live(now.step, buffer) {
            state.bytes = B::of(&[POISON_BYTE], state.bytes.len());
            state.unknown = Ranges::default();
        }
        self.remember(now, buffer);
    }

    fn fill(&mut self, now: Now<'a>, buffer: &str, stamp: u32) {
        let stamp = fill_stamp(stamp, now.occurrence);
        if let Some(state) = self.live(now.step, buffer) {
            state.bytes.pattern(stamp);
            state.written = true;
            state.unknown = Ranges::default();
        }
        self.remember(now, buffer);
    }

    fn fill_numbers(&mut self, now: Now<'a>, buffer: &str, dtype: Dtype, stamp: u32) {
        let stamp = fill_stamp(stamp, now.occurrence);
        if let Some(state) = self.live(now.step, buffer) {
            state.bytes.numbers(dtype, stamp);
            state.written = true;
            // What is less than an element is left.
            let whole = state.bytes.len() / dtype.bytes() * dtype.bytes();
            state.unknown.remove(0..whole);
        }
        self.remember(now, buffer);
    }

    fn copy(&mut self, now: Now<'a>, to: &Place, from: &Place, bytes: u64) {
        if to.buffer == from.buffer && to.offset.abs_diff(from.offset) < bytes {
            return self.mistake(now.step, "the copy overlaps what it reads".to_owned());
        }
        if let Some((data, unknown)) = self.read(now.step, from, bytes) {
            self.write(now, to, &data, &unknown);
        }
    }

    fn set(&mut self, now: Now<'a>, to: &Place, (value, element): (u32, u64), bytes: u64) {
        // What is past the end of everything is told as that, below.
        if bytes < u64::MAX && !(to.offset | bytes).is_multiple_of(element) {
            let message = format!(
                "elements of {element} bytes must lie at multiples of {element}, which {bytes} bytes from byte {} do not",
                to.offset
            );
            return self.mistake(now.step, message);
        }
        if self.range(now.step, to, bytes).is_none() {
            return;
        }
        let one = value.to_le_bytes();
        let data = B::of(one.get(..element as usize).unwrap_or(&one), bytes);
        self.write(now, to, &data, &Ranges::default());
    }

    fn count_up(&mut self, now: Now<'a>, buffer: &str) {
        if self.host_readable(now.step, buffer) {
            if let Some(state) = self.states.get_mut(buffer) {
                state.bytes.count_up();
            }
            self.remember(now, buffer);
        }
    }

    fn generate(&mut self, now: Now<'a>, to: &Place, count: u64) {
        let bytes = count.saturating_mul(4);
        if self.range(now.step, to, bytes).is_some() {
            let data = B::of(&[0], bytes);
            self.write(now, to, &data, &Ranges::of(0..bytes));
        }
    }

    fn foreign(&mut self, now: Now<'a>, function: &str, args: &'a [HipArg]) {
        for (written, place, bytes) in hip_accesses(function, args) {
            if !written {
                self.read(now.step, place, bytes);
            } else if self.range(now.step, place, bytes).is_some() {
                let data = B::of(&[0], bytes);
                self.write(now, place, &data, &Ranges::of(0..bytes));
            }
        }
    }

    fn replay(&mut self, now: Now<'a>, exec: &str) {
        match self.captures.nodes(exec) {
            Ok(nodes) => {
                for node in nodes {
                    self.captured = Some(node.made);
                    self.replayed_handles(now.step, node.step, node.made);
                    self.effect(node.step.call.work().on_memory(), Now { step: node.step, ..now });
                }
                self.captured = None;
            }
            Err(message) => self.mistake(now.step, message),
        }
    }

    fn check(&mut self, now: Now<'a>, buffer: &str) {
        if !self.host_readable(now.step, buffer) {
            return;
        }
        let state = &self.states[buffer];
        if !state.unknown.is_empty() {
            let message = format!(
                "what buffer `{buffer}` must hold cannot be known beforehand; compare it with another \
                 buffer by `equal` or `differ`"
            );
            return self.mistake(now.step, message);
        }
        let bytes = state.bytes.part(0..state.bytes.len());
        self.expect(now, bytes);
    }
}
