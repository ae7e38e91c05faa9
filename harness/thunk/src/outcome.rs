//! The result of a packet, and the completion signal that the host receives.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clocks;

/// Layout of a signal in memory (`amd_signal_t` of ROCr).
#[repr(C, align(64))]
pub(crate) struct SignalCell {
    kind: AtomicI64,
    pub(crate) value: AtomicI64,
    mailbox: AtomicU64,
    event: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    queue: AtomicU64,
    reserved: u64,
}

const _: () = assert!(size_of::<SignalCell>() == 64);

/// Returns the signal with this `hsa_signal_t`, which is the address of a [`SignalCell`]; `None` for 0, which means no
/// signal.
pub(crate) fn cell(signal: u64) -> Option<&'static SignalCell> {
    // SAFETY: HSA requires that a signal in a packet lives until the packet is complete. All fields are atomic.
    (signal != 0).then(|| unsafe { &*(signal as *const SignalCell) })
}

/// Completion signal and start time of a finished packet.
pub(crate) struct Completion {
    pub(crate) signal: u64,
    pub(crate) start: u64,
}

impl Completion {
    /// Stores the start and end time of the packet in the signal, and decrements the signal. Does nothing without a
    /// signal.
    pub(crate) fn lower(self) {
        let Some(cell) = cell(self.signal) else { return };
        cell.start.store(self.start, Ordering::Relaxed);
        cell.end.store(clocks::gpu(), Ordering::Relaxed);
        cell.value.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Result of a packet.
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
    /// The only exception code for a memory fault that ROCr passes on to the queue's callback. ROCr reports the other
    /// one, `QUEUE_WAVE_MEMORY_VIOLATION`, through an event that it does not create with DTIF.
    pub(crate) const DEVICE_MEMORY_VIOLATION: u32 = 33;
}
