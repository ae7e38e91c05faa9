//! What calls order and touch, by the names under which their declarations ask for it.

use super::{Order, Touch, join};
use crate::{Arg, Box3d, CopyApi, Memory, Operands, Parameter, Place, Step, promise};

/// The accesses of a call, and whether they are over when it returns.
type Touches<'a> = (Vec<Touch<'a>>, bool);

/// What calls order.
impl<'a> Order<'a> {
    /// The call's accesses come when it is its turn, and it orders nothing else.
    pub(crate) fn in_turn(&mut self, step: &'a Step, host: &str) {
        self.effect(step, host, None);
    }

    pub(crate) fn alloc(&mut self, step: &'a Step, host: &str, buffer: &str) {
        // What was done to the memory of that name before was done to other memory.
        self.accesses.remove(buffer);
        self.effect(step, host, None);
    }

    pub(crate) fn free(&mut self, step: &'a Step, host: &str, buffer: &str) {
        match promise::free_waits(self.plan.memory(buffer)) {
            true => self.wait_all(host),
            false => self.effect(step, host, None),
        }
    }

    pub(crate) fn record(&mut self, _: &'a Step, host: &str, event: &'a str, stream: &str) {
        let clock = self.enqueue(stream, host);
        self.events.insert(event, clock);
    }

    pub(crate) fn wait_event(&mut self, _: &'a Step, _: &str, stream: &str, event: &str) {
        if let Some(clock) = self.events.get(event).cloned() {
            let actor = self.actor(stream);
            join(self.clock(&actor), &clock);
        }
    }

    pub(crate) fn sync_event(&mut self, _: &'a Step, host: &str, event: &str) {
        if let Some(clock) = self.events.get(event).cloned() {
            join(self.clock(host), &clock);
        }
    }

    pub(crate) fn new_event(&mut self, _: &'a Step, _: &str, event: &str) {
        self.events.remove(event);
    }

    pub(crate) fn sync(&mut self, _: &'a Step, host: &str, stream: &str) {
        self.wait(stream, host);
    }

    pub(crate) fn sync_device(&mut self, _: &'a Step, host: &str) {
        self.wait_all(host);
    }

    pub(crate) fn end_stream(&mut self, _: &'a Step, _: &str, stream: &'a str) {
        *self.created.entry(stream).or_insert(0) += 1;
    }

    pub(crate) fn launch_graph(&mut self, _: &'a Step, host: &str, exec: &'a str, stream: &'a str) {
        self.replay(exec, stream, host);
    }
}

fn range(place: &Place, bytes: u64, write: bool) -> Touch<'_> {
    Touch::of(&place.buffer, (place.offset, bytes), write)
}

/// From the first byte of a box to its last.
fn in_box(of: &Box3d, [width, height, depth]: [u64; 3], write: bool) -> Touch<'_> {
    let first = of.offset(0, 0);
    let bytes = match [width, height, depth].contains(&0) {
        true => 0,
        false => (of.offset(height - 1, depth - 1) - first).saturating_add(width),
    };
    Touch::of(&of.buffer, (first, bytes), write)
}

/// What calls touch.
impl<'a> Order<'a> {
    /// A buffer that is not there is told of elsewhere.
    fn memory_at(&self, place: &Place) -> Memory {
        self.plan.memory(&place.buffer).unwrap_or(Memory::Device)
    }

    pub(crate) fn reads(&self, buffer: &'a str) -> Touches<'a> {
        (vec![Touch::whole(buffer, false)], false)
    }

    pub(crate) fn reads_both(&self, a: &'a str, b: &'a str) -> Touches<'a> {
        (vec![Touch::whole(a, false), Touch::whole(b, false)], false)
    }

    pub(crate) fn writes(&self, buffer: &'a str) -> Touches<'a> {
        (vec![Touch::whole(buffer, true)], false)
    }

    pub(crate) fn writes_range(&self, to: &'a Place, bytes: u64) -> Touches<'a> {
        (vec![range(to, bytes, true)], false)
    }

    /// Memory of a pool is there in the order of a stream; other memory comes when the call is made.
    pub(crate) fn allocation(&self, buffer: &'a str) -> Touches<'a> {
        let touch = Touch { what: "allocated", ..Touch::whole(buffer, true) };
        match self.plan.memory(buffer) == Some(Memory::DeviceAsync) {
            true => (vec![touch], false),
            false => (Vec::new(), false),
        }
    }

    /// Memory of a pool goes in the order of a stream; what waits for the device is seen to elsewhere.
    pub(crate) fn freed(&self, buffer: &'a str) -> Touches<'a> {
        (vec![Touch { what: "freed", ..Touch::whole(buffer, true) }], false)
    }

    pub(crate) fn copies(
        &self,
        to: &'a Place,
        from: &'a Place,
        bytes: u64,
        api: CopyApi,
    ) -> Touches<'a> {
        let (source, target) = (self.memory_at(from), self.memory_at(to));
        let staged = api == CopyApi::MemcpyAsync && promise::is_staged(source);
        let read = Touch { staged, ..range(from, bytes, false) };
        (vec![read, range(to, bytes, true)], promise::copy_is_over(api, source, target))
    }

    pub(crate) fn rows(
        &self,
        (to, to_pitch): (&'a Place, u64),
        (from, from_pitch): (&'a Place, u64),
        size: (u64, u64),
        asynchronous: bool,
    ) -> Touches<'a> {
        let span = |pitch: u64| match size {
            (0, _) | (_, 0) => 0,
            (width, height) => (height - 1).saturating_mul(pitch).saturating_add(width),
        };
        let (source, target) = (self.memory_at(from), self.memory_at(to));
        let staged = asynchronous && promise::is_staged(source);
        let read = Touch { staged, ..range(from, span(from_pitch), false) };
        let over = promise::rows_are_over(asynchronous, source, target);
        (vec![read, range(to, span(to_pitch), true)], over)
    }

    pub(crate) fn boxes(
        &self,
        to: &'a Box3d,
        from: &'a Box3d,
        size: [u64; 3],
        asynchronous: bool,
    ) -> Touches<'a> {
        let memory = |of: &Box3d| self.plan.memory(&of.buffer).unwrap_or(Memory::Device);
        let (source, target) = (memory(from), memory(to));
        let staged = asynchronous && promise::is_staged(source);
        let read = Touch { staged, ..in_box(from, size, false) };
        let over = promise::rows_are_over(asynchronous, source, target);
        (vec![read, in_box(to, size, true)], over)
    }

    pub(crate) fn writes_box(&self, to: &'a Box3d, size: [u64; 3]) -> Touches<'a> {
        (vec![in_box(to, size, true)], false)
    }

    /// How far a kernel reaches is not declared: to the end of the buffer.
    pub(crate) fn arguments(&self, kernel: &str, args: &'a [Arg]) -> Touches<'a> {
        let parameters = crate::kernel(kernel).map(|k| k.parameters);
        let touches = args.iter().enumerate().flat_map(|(i, arg)| {
            arg.places().into_iter().map(move |(place, only_read)| {
                let write = parameters.map_or(!only_read, |p| p.get(i) == Some(&Parameter::Out));
                range(place, u64::MAX, write)
            })
        });
        (touches.collect(), false)
    }

    pub(crate) fn operands(&self, operands: &'a Operands) -> Touches<'a> {
        let read = [Some(&operands.a), Some(&operands.b), operands.bias.as_ref()];
        let reads = read.into_iter().flatten().map(|buffer| Touch::whole(buffer, false));
        (reads.chain([Touch::whole(&operands.d, true)]).collect(), false)
    }
}
