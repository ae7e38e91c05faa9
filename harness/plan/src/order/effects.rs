use super::{OrderAnalysis, join};
use crate::{OnOrder, Step, promise};

impl<'a> OrderAnalysis<'a> {
    pub(super) fn call(&mut self, step: &'a Step, host: &str) {
        match step.call.on_order() {
            OnOrder::Nothing => {}
            OnOrder::InTurn => self.effect(step, host, None),
            OnOrder::Alloc(buffer) => {
                // The earlier accesses were to other memory, to which the same name referred.
                self.accesses.remove(buffer);
                self.effect(step, host, None);
            }
            OnOrder::Free(buffer) => match promise::free_waits(self.plan.memory(buffer)) {
                true => self.wait_all(host),
                false => self.effect(step, host, None),
            },
            OnOrder::Record { event, stream } => {
                let clock = self.enqueue(stream, host);
                self.events.insert(event, clock);
            }
            OnOrder::WaitEvent { stream, event } => {
                if let Some(clock) = self.events.get(event).cloned() {
                    let actor = self.actor(stream);
                    join(self.clock(&actor), &clock);
                }
            }
            OnOrder::SyncEvent(event) => {
                if let Some(clock) = self.events.get(event).cloned() {
                    join(self.clock(host), &clock);
                }
            }
            OnOrder::NewEvent(event) => drop(self.events.remove(event)),
            OnOrder::Sync(stream) => self.wait(stream, host),
            OnOrder::SyncDevice => self.wait_all(host),
            OnOrder::EndStream(stream) => *self.created.entry(stream).or_insert(0) += 1,
            OnOrder::Replay { exec, stream } => self.replay(exec, stream, host),
        }
    }
}
