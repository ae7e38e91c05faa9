//! Packet processor, which executes the packets of a queue one at a time.

use std::time::Duration;

use device::Fault;

use crate::{
    abi::{BarrierPacket, BarrierValuePacket, Condition, DispatchPacket, Signal, Status, packet},
    clock, delay,
    dispatch::{self, QueueContext},
    events, faults,
    locks::Mutex,
    order,
    part::DeviceComponent as _,
    report::trace,
};

/// Completion signal and start time of a finished packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Signal to decrement. `None` if the packet has no signal or if an injected fault prevents the decrement.
    pub(crate) signal: Option<Signal>,
    /// Start time of the packet, in ticks of the system clock.
    pub(crate) start: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(Completion),
    /// The queue stops, and its error callback must be called with this status.
    Error(Status),
    /// The queue stops without a callback, because the GPU hangs or because the fault was reported as a system event.
    Hang,
}

#[derive(Default)]
pub(crate) struct InKernels(Mutex<Vec<u64>>);

/// Returns true if the queue is executing a kernel, which cannot be interrupted.
pub(crate) fn in_kernel(queue: u64) -> bool {
    InKernels::current().0.lock().contains(&queue)
}

/// Executes the packet in a slot of the queue's ring.
pub(crate) fn process(queue: &QueueContext<'_>, index: u64, slot: *mut u8) -> Outcome {
    let start = clock::now();
    // SAFETY: the slot has a valid header, so the host has written all 64 bytes and does not change them until the
    // packet is done. All fields are plain integers.
    let (dispatch, barrier, value) = unsafe {
        (
            slot.cast::<DispatchPacket>().read(),
            slot.cast::<BarrierPacket>().read(),
            slot.cast::<BarrierValuePacket>().read(),
        )
    };
    order::begin_packet(queue.id, index, dispatch.header & packet::BARRIER_BIT != 0);
    let outcome = execute(queue, slot, (&dispatch, &barrier, &value), start);
    if let Outcome::Done(completion) = &outcome {
        order::end_packet(completion.signal.unwrap_or(Signal::NONE));
    }
    outcome
}

fn execute(
    queue: &QueueContext<'_>,
    slot: *mut u8,
    (dispatch, barrier, value): (&DispatchPacket, &BarrierPacket, &BarrierValuePacket),
    start: u64,
) -> Outcome {
    match dispatch.header as u8 {
        packet::DISPATCH => run_kernel(queue, slot, dispatch, start),
        packet::BARRIER_AND => {
            let signals = live(barrier);
            wait(queue, || signals.iter().all(|signal| signal.load() == 0));
            order::waited(&signals);
            done(barrier.completion, start)
        }
        packet::BARRIER_OR => {
            let signals = live(barrier);
            wait(queue, || signals.is_empty() || signals.iter().any(|signal| signal.load() == 0));
            order::waited(&signals);
            done(barrier.completion, start)
        }
        packet::VENDOR if value.format == packet::FORMAT_BARRIER_VALUE => {
            let Some(condition) = Condition::from_c(value.condition) else {
                return Outcome::Error(Status::INVALID_PACKET_FORMAT);
            };
            let met = || condition.holds(value.signal.load() & value.mask, value.value);
            wait(queue, || value.signal == Signal::NONE || met());
            order::waited(&[value.signal]);
            done(value.completion, start)
        }
        kind => {
            trace!("queue {}: packet of type {kind} is not known", queue.id);
            Outcome::Error(Status::INVALID_PACKET_FORMAT)
        }
    }
}

/// Returns the signals for which the packet in this slot still waits; `None` if the packet may start.
pub(crate) fn holds_up(slot: *mut u8) -> Option<Vec<Signal>> {
    // SAFETY: the slot has a valid header, so the host has written the packet and does not change it. All fields are
    // plain integers.
    let (barrier, value) =
        unsafe { (slot.cast::<BarrierPacket>().read(), slot.cast::<BarrierValuePacket>().read()) };
    let unmet = || -> Vec<Signal> {
        live(&barrier).into_iter().filter(|signal| signal.load() != 0).collect()
    };
    match barrier.header as u8 {
        packet::BARRIER_AND => Some(unmet()).filter(|unmet| !unmet.is_empty()),
        packet::BARRIER_OR => {
            let none = unmet().len() == live(&barrier).len() && !live(&barrier).is_empty();
            none.then(unmet)
        }
        packet::VENDOR if value.format == packet::FORMAT_BARRIER_VALUE => {
            let condition = Condition::from_c(value.condition)?;
            let met = condition.holds(value.signal.load() & value.mask, value.value);
            (value.signal != Signal::NONE && !met).then(|| vec![value.signal])
        }
        _ => None,
    }
}

fn live(barrier: &BarrierPacket) -> Vec<Signal> {
    barrier.dependencies.into_iter().filter(|signal| *signal != Signal::NONE).collect()
}

fn wait(queue: &QueueContext<'_>, condition: impl Fn() -> bool) {
    events::wait_until(None, || (queue.stopping() || condition()).then_some(()));
}

fn done(signal: Signal, start: u64) -> Outcome {
    let signal = (signal != Signal::NONE).then_some(signal);
    Outcome::Done(Completion { signal, start })
}

fn run_kernel(
    queue: &QueueContext<'_>,
    slot: *mut u8,
    packet: &DispatchPacket,
    start: u64,
) -> Outcome {
    let in_kernels = InKernels::current();
    in_kernels.0.lock().push(queue.address);
    let early =
        faults::active_fault(Fault::SignalEarly).filter(|_| packet.completion != Signal::NONE);
    if let Some(planted) = early {
        order::end_packet(packet.completion);
        packet.completion.complete(start);
        delay::sleep(Duration::from_millis(planted.amount("ms")));
    }
    // If another thread destroys the queue, it either finds the queue in the list, or has set `stopping` before this
    // check.
    let result = if queue.stopping() {
        Err(dispatch::Failure::Hang)
    } else {
        dispatch::run(packet, slot as u64, queue)
    };
    in_kernels.0.lock().retain(|address| *address != queue.address);
    match result {
        Ok(()) if early.is_some() || faults::is_active(Fault::SignalStuck) => {
            done(Signal::NONE, start)
        }
        Ok(()) => done(packet.completion, start),
        Err(dispatch::Failure::Queue(status)) => Outcome::Error(status),
        Err(dispatch::Failure::Hang) => Outcome::Hang,
    }
}
