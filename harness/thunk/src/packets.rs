//! Packet processor, which executes the packets of a queue one at a time.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use aql::{BarrierPacket, BarrierValuePacket, Condition, DispatchPacket, kind};

use crate::{clocks, dispatch, queue::Queue};

/// `amd_signal_t`.
#[repr(C, align(64))]
pub(crate) struct SignalCell {
    kind: AtomicI64,
    value: AtomicI64,
    mailbox: AtomicU64,
    event: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    queue: AtomicU64,
    reserved: u64,
}

const _: () = assert!(size_of::<SignalCell>() == 64);

/// `hsa_signal_t`: the address of a [`SignalCell`], or zero for no signal.
fn cell(signal: u64) -> Option<&'static SignalCell> {
    // SAFETY: HSA requires that a signal in a packet lives until the packet is complete. All fields are atomic.
    (signal != 0).then(|| unsafe { &*(signal as *const SignalCell) })
}

/// Completion signal and start time of a finished packet.
pub(crate) struct Completion {
    signal: u64,
    start: u64,
}

impl Completion {
    /// Decrements the signal.
    pub(crate) fn lower(self) {
        let Some(cell) = cell(self.signal) else { return };
        cell.start.store(self.start, Ordering::Relaxed);
        cell.end.store(clocks::gpu(), Ordering::Relaxed);
        cell.value.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) enum Outcome {
    Done(Completion),
    /// The queue stops. The number is an exception code of the driver (`HSA_DBG_TRAP_EXCEPTION_CODE`).
    Error(u32),
    /// The queue stops without an error, because it is being destroyed or because a kernel does not end.
    Stopped,
}

/// Exception codes of the driver (`HSA_DBG_TRAP_EXCEPTION_CODE`).
pub(crate) mod exception {
    pub(crate) const WAVE_TRAP: u32 = 2;
    pub(crate) const ILLEGAL_INSTRUCTION: u32 = 4;
    pub(crate) const DIMENSIONS_INVALID: u32 = 16;
    pub(crate) const LDS_SIZE_INVALID: u32 = 17;
    pub(crate) const CODE_INVALID: u32 = 18;
    pub(crate) const PACKET_UNSUPPORTED: u32 = 20;
    pub(crate) const WORKGROUP_SIZE_INVALID: u32 = 21;
    pub(crate) const VENDOR_UNSUPPORTED: u32 = 23;
    /// The code of a memory fault that ROCr passes on to the queue's callback. It leaves the code of a wave
    /// (`QUEUE_WAVE_MEMORY_VIOLATION`) to an event that it does not create with DTIF.
    pub(crate) const DEVICE_MEMORY_VIOLATION: u32 = 33;
}

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

/// Waits for a condition on signals, which the host and other queues change without a notice. Returns false if the
/// queue stops.
fn wait(queue: &Queue, condition: impl Fn() -> bool) -> bool {
    /// Interval between two looks, in microseconds. It doubles from the first value to the second.
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
