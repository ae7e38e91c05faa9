//! Happens-before tracking of packets and copies for the sanitizer. If two packets or copies access the same bytes and
//! at least one of them writes, a synchronisation must make one wait for the other.
//!
//! The tracked order is the order that HSA guarantees, not the order in which this run happens to execute the work.
//! Each packet and copy has a vector clock, as in dynamic race detectors (FastTrack, PLDI 2009). The clock is the set
//! of packets and copies that are known to be complete before the packet or copy starts. It contains:
//!
//! * the clock of the host at the time of the submission;
//! * for a packet, the work for which an earlier barrier bit or barrier packet of the same queue has waited. If the
//!   packet itself has the barrier bit, all earlier packets of the queue (HSA Platform System Architecture
//!   Specification 1.2, 2.9);
//! * the work that decremented the signals for which the packet or copy waits.
//!
//! The clock of the host grows when the host waits for a signal or reads one. All threads of the host share one clock,
//! because the device does not observe how threads synchronise. Direct memory accesses by the host are not observed
//! either.

mod accesses;
mod clock;
mod state;

use std::{
    cell::RefCell,
    ops::Range,
    sync::{MutexGuard, atomic::Ordering},
};

use device::Fault;
use isa::{AccessKind, Unordered};
use state::State;
pub(crate) use state::{Submission, Work};

use crate::{
    abi::Signal, faults, findings, locks::Mutex, part::DeviceComponent as _, row::Row, sanitizer,
};

/// Number of packets, counted from the oldest pending packet, that may start out of order.
pub(crate) const WINDOW: usize = 64;

#[derive(Default)]
pub(crate) struct Order(Mutex<State>);

thread_local! {
    /// Packet that this thread executes. The variable is per thread, not per device.
    static PACKET: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Returns the state of the tracking. Returns `None` if the sanitizer is off or the fault `queue.barrier-ignored` is
/// injected.
fn state() -> Option<MutexGuard<'static, State>> {
    // The function is cold and not inlined, because this code is reached for each packet and each read of a signal,
    // mostly without the sanitizer.
    #[cold]
    #[inline(never)]
    fn watched() -> Option<MutexGuard<'static, State>> {
        // If this fault is injected, packets overtake each other because of the fault, not because of a mistake in the
        // program.
        let overtaken = faults::injected(Fault::QueueBarrierIgnored).is_some();
        (!overtaken).then(|| Order::current().0.lock())
    }
    if sanitizer::is_on() { watched() } else { None }
}

fn with_packet<T>(act: impl FnOnce(&mut State, &mut Work) -> T) -> Option<T> {
    let mut state = state()?;
    PACKET.with_borrow_mut(|packet| packet.as_mut().map(|work| act(&mut state, work)))
}

/// Records that the host rang the doorbell of a queue. By then the host has written all packets with an index below
/// `end`.
pub(crate) fn doorbell_rang(queue: u64, end: u64) {
    if let Some(mut state) = state() {
        state.record_doorbell(queue, end, sanitizer::current_line());
    }
}

/// Records that this thread starts to execute the packet with this index in a queue. `barrier_bit` is that of its
/// header.
pub(crate) fn begin_packet(queue: u64, index: u64, barrier_bit: bool) {
    if let Some(mut state) = state() {
        let line = sanitizer::current_line();
        PACKET.set(Some(state.begin_packet(queue, index, barrier_bit, line)));
    }
}

/// Records the kernel that this thread's packet launches.
pub(crate) fn launches(kernel: &str) {
    with_packet(|state, work| state.launches(work, kernel));
}

/// Records that the packet of this thread is a barrier packet that has waited for these signals.
pub(crate) fn waited(signals: &[Signal]) {
    with_packet(|state, work| {
        signals.iter().for_each(|signal| state.waited(work, signal.0));
        state.block_later_packets(work);
    });
}

/// Records that the packet of this thread is complete. Must be called immediately before the packet decrements
/// `completion`.
pub(crate) fn end_packet(completion: Signal) {
    with_packet(|state, work| {
        state.end_packet(work);
        lower(state, work, completion);
    });
    PACKET.set(None);
}

fn lower(state: &mut State, work: &Work, signal: Signal) {
    let Some(cell) = signal.cell() else { return };
    state.record_decrement(work, signal.0);
    // The host can read this signal without calling this library.
    if cell.exposed.load(Ordering::Acquire) != 0 {
        state.host_read_signal(signal.0);
    }
}

/// Records a memory access by the packet of this thread.
///
/// # Errors
/// Returns the earlier access if the order of the two accesses is not guaranteed.
pub(crate) fn touch(kind: AccessKind, range: Range<u64>) -> Result<(), Unordered> {
    with_packet(|state, work| state.touch(work, kind, range)).unwrap_or(Ok(()))
}

/// Returns the current vector clock of the host, which a copy keeps from its submission until it starts; `None` without
/// the sanitizer.
pub(crate) fn submitted() -> Option<Submission> {
    state().map(|state| state.known(sanitizer::current_line()))
}

/// Records a copy that has waited for the signals `waited` and is about to copy `rows`. Returns a value that must be
/// passed to [`end_copy`]; `None` without the sanitizer.
///
/// # Errors
/// Returns the earlier access if the order of the two accesses is not guaranteed and the sanitizer must stop at its
/// first finding.
pub(crate) fn begin_copy(
    submitted: Option<&Submission>,
    waited: &[Signal],
    rows: &[Row],
) -> Result<Option<Work>, Unordered> {
    let (Some(known), Some(mut state)) = (submitted, state()) else { return Ok(None) };
    let mut work = state.begin_copy("the copy", known.clone());
    waited.iter().for_each(|signal| state.waited(&mut work, signal.0));
    findings::report_copy(state.touch_rows(&mut work, rows))?;
    Ok(Some(work))
}

/// Records that a copy is complete. Must be called immediately before the copy decrements `completion`.
pub(crate) fn end_copy(work: Option<&Work>, completion: Signal) {
    if let (Some(work), Some(mut state)) = (work, state()) {
        lower(&mut state, work, completion);
    }
}

/// Records a copy that the host executes itself.
///
/// # Errors
/// Returns the same errors as [`begin_copy`].
pub(crate) fn host_copy(rows: &[Row]) -> Result<(), Unordered> {
    let Some(mut state) = state() else { return Ok(()) };
    let known = state.known(sanitizer::current_line());
    let mut work = state.begin_copy("the host's copy", known);
    state.complete_on_host(&work);
    findings::report_copy(state.touch_rows(&mut work, rows))
}

pub(crate) fn host_read_signal(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_read_signal(signal.0);
    }
}

pub(crate) fn host_set_signal(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_set_signal(signal.0);
    }
}

pub(crate) fn host_added_to_signal(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_added_to_signal(signal.0);
    }
}

/// Forgets the accesses to freed memory, because a later allocation at the same address is unrelated to it.
pub(crate) fn forget(range: Range<u64>) {
    if let Some(mut state) = state() {
        state.forget(range);
    }
}
