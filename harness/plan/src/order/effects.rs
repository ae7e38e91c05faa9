use super::{OrderAnalysis, join};
use crate::{OrderEffect, Step, promise};

impl<'a> OrderAnalysis<'a> {
    pub(super) fn call(&mut self, step: &'a Step, host: &str) {
        match step.call.order_effect() {
            OrderEffect::Nothing => {}
            OrderEffect::ProgramOrder => self.effect(step, host, None),
            OrderEffect::Alloc(buffer) => {
                // The earlier accesses were to other memory, to which the same name referred.
                self.accesses.remove(buffer);
                self.effect(step, host, None);
            }
            OrderEffect::Free(buffer) => match promise::free_waits(self.plan.memory(buffer)) {
                true => self.wait_all(host),
                false => self.effect(step, host, None),
            },
            OrderEffect::Record { event, stream } => {
                let clock = self.enqueue(stream, host);
                self.events.insert(event, clock);
            }
            OrderEffect::WaitEvent { stream, event } => {
                if let Some(clock) = self.events.get(event).cloned() {
                    let actor = self.actor(stream);
                    join(self.clock(&actor), &clock);
                }
            }
            OrderEffect::SyncEvent(event) => {
                if let Some(clock) = self.events.get(event).cloned() {
                    join(self.clock(host), &clock);
                }
            }
            OrderEffect::NewEvent(event) => drop(self.events.remove(event)),
            OrderEffect::Sync(stream) => self.wait(stream, host),
            OrderEffect::SyncDevice => self.wait_all(host),
            OrderEffect::DestroyStream(stream) => *self.created.entry(stream).or_insert(0) += 1,
            OrderEffect::Replay { exec, stream } => self.replay(exec, stream, host),
        }
    }
}
