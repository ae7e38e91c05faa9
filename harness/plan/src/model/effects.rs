//! What calls do to memory, by the names under which their declarations ask for it.

use super::{Model, Now, State, bytes::Bytes, ranges::Ranges};
use crate::{Buffer, Dtype, GUARD_BYTE, MatmulProblem, Operands, POISON_BYTE, Place, fill_stamp};

impl<'a, B: Bytes> Model<'a, B> {
    pub(crate) fn alloc(&mut self, now: Now<'a>, buffer: &'a str) {
        let Some(spec) = self.plan.buffers.get(buffer) else {
            return self.mistake(now.step, format!("there is no buffer `{buffer}`"));
        };
        let bytes = B::of(&[POISON_BYTE], spec.bytes);
        // What a graph allocates is there for the nodes behind.
        let since = self.captured.unwrap_or(self.captures.allocations());
        let unknown = Ranges::of(0..spec.bytes);
        self.states.insert(buffer, State { bytes, since, live: true, written: false, unknown });
    }

    pub(crate) fn free(&mut self, now: Now<'a>, buffer: &str) {
        if let Some(state) = self.live(now.step, buffer) {
            state.live = false;
        }
    }

    pub(crate) fn poison(&mut self, now: Now<'a>, buffer: &str) {
        if let Some(state) = self.live(now.step, buffer) {
            state.bytes = B::of(&[POISON_BYTE], state.bytes.len());
            state.unknown = Ranges::default();
        }
        self.remember(now, buffer);
    }

    pub(crate) fn fill(&mut self, now: Now<'a>, buffer: &str, stamp: u32) {
        let stamp = fill_stamp(stamp, now.occurrence);
        if let Some(state) = self.live(now.step, buffer) {
            state.bytes.pattern(stamp);
            state.written = true;
            state.unknown = Ranges::default();
        }
        self.remember(now, buffer);
    }

    pub(crate) fn fill_numbers(&mut self, now: Now<'a>, buffer: &str, dtype: Dtype, stamp: u32) {
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

    pub(crate) fn product(
        &mut self,
        now: Now<'a>,
        handle: &str,
        problem: &MatmulProblem,
        operands: &Operands,
    ) {
        self.use_handle(now, handle);
        self.multiply(now, problem, operands);
    }

    pub(crate) fn copy(&mut self, now: Now<'a>, to: &Place, from: &Place, bytes: u64) {
        if to.buffer == from.buffer && to.offset.abs_diff(from.offset) < bytes {
            return self.mistake(now.step, "the copy overlaps what it reads".to_owned());
        }
        if let Some((data, unknown)) = self.read(now.step, from, bytes) {
            self.write(now, to, &data, &unknown);
        }
    }

    pub(crate) fn set(&mut self, now: Now<'a>, to: &Place, value: u32, words: bool, bytes: u64) {
        if self.range(now.step, to, bytes).is_none() {
            return;
        }
        let data = match words {
            true => B::of(&value.to_le_bytes(), bytes),
            false => B::of(&[value as u8], bytes),
        };
        self.write(now, to, &data, &Ranges::default());
    }

    pub(crate) fn host_func(&mut self, now: Now<'a>, buffer: &str) {
        if self.host_readable(now.step, buffer) {
            if let Some(state) = self.states.get_mut(buffer) {
                state.bytes.count_up();
            }
            self.remember(now, buffer);
        }
    }

    pub(crate) fn rand_generate(&mut self, now: Now<'a>, generator: &str, to: &Place, count: u64) {
        self.use_handle(now, generator);
        let bytes = count.saturating_mul(4);
        if self.range(now.step, to, bytes).is_some() {
            let data = B::of(&[0], bytes);
            self.write(now, to, &data, &Ranges::of(0..bytes));
        }
    }

    pub(crate) fn launch_graph(&mut self, now: Now<'a>, exec: &str) {
        match self.captures.nodes(exec) {
            Ok(nodes) => {
                for node in nodes {
                    self.captured = Some(node.allocations);
                    node.step.call.work().effect(self, Now { step: node.step, ..now });
                }
                self.captured = None;
            }
            Err(message) => self.mistake(now.step, message),
        }
    }

    pub(crate) fn make_handle(&mut self, _: Now<'a>, name: &'a str) {
        self.handles.insert(name);
    }

    pub(crate) fn use_handle(&mut self, now: Now<'a>, name: &str) {
        if !self.handles.contains(name) {
            let message = format!("there is no `{name}` here; a step must create it before");
            self.mistake(now.step, message);
        }
    }

    pub(crate) fn end_handle(&mut self, now: Now<'a>, name: &str) {
        self.use_handle(now, name);
        self.handles.remove(name);
    }

    pub(crate) fn check(&mut self, now: Now<'a>, buffer: &str) {
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

    pub(crate) fn compare(&mut self, now: Now<'a>, a: &str, b: &str) {
        for buffer in [a, b] {
            self.host_readable(now.step, buffer);
        }
    }

    pub(crate) fn guards(&mut self, now: Now<'a>, buffer: &str) {
        let guard = self.plan.buffers.get(buffer).map_or(0, Buffer::guard);
        self.expect(now, B::of(&[GUARD_BYTE], 2 * guard));
    }
}
