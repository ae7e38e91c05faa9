//! Packet processor, which executes the packets of a queue one at a time.

use std::{sync::atomic::Ordering, time::Duration};

use aql::{BarrierPacket, BarrierValuePacket, Condition, DispatchPacket, kind};

use crate::{
    clocks, dispatch,
    outcome::{Completion, Outcome, SignalCell, cell, exception},
    queue::Queue,
};

/// Executes the packet in a slot of the queue's ring.
pub(crate) fn process(queue: &Queue, slot: u64) -> Outcome {
    let start = clocks::gpu();
    // SAFETY: the slot has a valid header, so the host has written all 64 bytes and does not change them until the
    // packet is done. All fields are plain integers.
    let (dispatch, barrier, value) = unsafe {
        (
            (slot as *const DispatchPacket).read(),
            (slot as *const BarrierPacket).read(),
            (slot as *const BarrierValuePacket).read(),
        )
    };
    let done = |signal| Outcome::Done(Completion { signal, start });
    let live = || barrier.dependencies.into_iter().filter_map(cell);
    let is_met = |cell: &SignalCell| cell.value.load(Ordering::SeqCst) == 0;
    let waited = match dispatch.header as u8 {
        kind::DISPATCH => {
            return match dispatch::run(queue, &dispatch, slot) {
                Ok(()) => done(dispatch.completion),
                Err(outcome) => outcome,
            };
        }
        kind::BARRIER_AND => wait(queue, || live().all(is_met)),
        kind::BARRIER_OR => {
            let none = live().next().is_none();
            wait(queue, || none || live().any(is_met))
        }
        // The commands invalidate caches, which the device does not have.
        kind::VENDOR if value.format == kind::FORMAT_COMMANDS => return done(barrier.completion),
        kind::VENDOR if value.format == kind::FORMAT_BARRIER_VALUE => {
            let Some(condition) = Condition::from_c(value.condition) else {
                return Outcome::Error(exception::VENDOR_UNSUPPORTED);
            };
            let met = |cell: &SignalCell| {
                condition.holds(cell.value.load(Ordering::SeqCst) & value.mask, value.value)
            };
            wait(queue, || cell(value.signal).is_none_or(met))
        }
        kind::VENDOR => return Outcome::Error(exception::VENDOR_UNSUPPORTED),
        _ => return Outcome::Error(exception::PACKET_UNSUPPORTED),
    };
    if waited { done(barrier.completion) } else { Outcome::Stopped }
}

/// Waits for a condition on signals. The host and other queues change signals without notifying the device. Returns
/// false if the queue stops.
fn wait(queue: &Queue, condition: impl Fn() -> bool) -> bool {
    /// Interval between two checks, in microseconds. It is doubled from the first value up to the second.
    const INTERVALS: (u64, u64) = (5, 500);
    let mut interval = INTERVALS.0;
    loop {
        if queue.stopping() {
            return false;
        }
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_micros(interval));
        interval = (interval * 2).min(INTERVALS.1);
    }
}
