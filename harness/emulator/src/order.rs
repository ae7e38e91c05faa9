//! Happens-before tracking of packets and copies for the sanitizer. Two of them that access the same bytes, at least
//! one writing, need a synchronisation that makes one wait for the other.
//!
//! The order is that which HSA guarantees, not the order of this run. Each packet and copy has a vector clock: the set
//! of packets and copies that are known to be complete before it, as in dynamic race detectors (FastTrack, PLDI 2009).
//! It contains:
//!
//! * what the host knew when it submitted the work;
//! * on a queue, what an earlier barrier bit or barrier packet waited for, and with its own barrier bit all earlier
//!   packets (HSA Platform System Architecture Specification 1.2, 2.9);
//! * the work that lowered the signals that it waits for.
//!
//! The host learns from the signals that it waits for or reads. All its threads count as one, because synchronisation
//! between them is not visible here. Direct memory accesses of the host are not visible either.

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
pub(crate) use state::{Known, Work};

use crate::{abi::Signal, faults, findings, locks::Mutex, part::Part as _, row::Row, sanitizer};

/// Maximum distance from the oldest pending packet at which a packet may overtake others.
pub(crate) const WINDOW: usize = 64;

/// Happens-before state of a device.
#[derive(Default)]
pub(crate) struct Order(Mutex<State>);

thread_local! {
    /// Packet that this thread executes. The state belongs to the thread, not to the device.
    static PACKET: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Returns the state if the sanitizer is on.
fn state() -> Option<MutexGuard<'static, State>> {
    // A separate cold function: each packet and each read of a signal calls this, mostly without the sanitizer.
    #[cold]
    #[inline(never)]
    fn watched() -> Option<MutexGuard<'static, State>> {
        // With this fault injected, packets overtake each other because of the fault, not by a mistake of the program.
        let overtaken = faults::planted(Fault::QueueBarrierIgnored).is_some();
        (!overtaken).then(|| Order::here().0.lock())
    }
    if sanitizer::is_on() { watched() } else { None }
}

fn with_packet<T>(act: impl FnOnce(&mut State, &mut Work) -> T) -> Option<T> {
    let mut state = state()?;
    PACKET.with_borrow_mut(|packet| packet.as_mut().map(|work| act(&mut state, work)))
}

/// Records that the host rang the doorbell of a queue. Packets before `end` are written.
pub(crate) fn rang(queue: u64, end: u64) {
    if let Some(mut state) = state() {
        state.rings(queue, end, sanitizer::current_line());
    }
}

/// Records that this thread starts a packet of a queue.
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

/// Records that this thread's packet is a barrier and has waited for these signals.
pub(crate) fn waited(signals: &[Signal]) {
    with_packet(|state, work| {
        signals.iter().for_each(|signal| state.waited(work, signal.0));
        state.holds_up(work);
    });
}

/// Records that this thread's packet is complete, immediately before it lowers `completion`.
pub(crate) fn end_packet(completion: Signal) {
    with_packet(|state, work| {
        state.end_packet(work);
        lower(state, work, completion);
    });
    PACKET.set(None);
}

fn lower(state: &mut State, work: &Work, signal: Signal) {
    let Some(cell) = signal.cell() else { return };
    state.lowers(work, signal.0);
    // The host may read this signal without a call.
    if cell.exposed.load(Ordering::Acquire) != 0 {
        state.host_saw(signal.0);
    }
}

/// Records an access of this thread's packet.
///
/// # Errors
/// Returns the earlier access if the two are unordered.
pub(crate) fn touch(kind: AccessKind, range: Range<u64>) -> Result<(), Unordered> {
    with_packet(|state, work| state.touch(work, kind, range)).unwrap_or(Ok(()))
}

/// Returns what the host knows when it submits a copy; `None` without the sanitizer.
pub(crate) fn submitted() -> Option<Known> {
    state().map(|state| state.known(sanitizer::current_line()))
}

/// Records a copy that has waited for these signals and is about to move these rows. Returns `None` without the
/// sanitizer.
///
/// # Errors
/// Returns an unordered earlier access if the sanitizer must stop at its first finding.
pub(crate) fn begin_copy(
    submitted: Option<&Known>,
    waited: &[Signal],
    rows: &[Row],
) -> Result<Option<Work>, Unordered> {
    let (Some(known), Some(mut state)) = (submitted, state()) else { return Ok(None) };
    let mut work = state.begin_copy("the copy", known.clone());
    waited.iter().for_each(|signal| state.waited(&mut work, signal.0));
    findings::of_copy(state.touch_rows(&mut work, rows))?;
    Ok(Some(work))
}

/// Records that a copy is complete, immediately before it lowers `completion`.
pub(crate) fn end_copy(work: Option<&Work>, completion: Signal) {
    if let (Some(work), Some(mut state)) = (work, state()) {
        lower(&mut state, work, completion);
    }
}

/// Records a copy that the host executes itself.
///
/// # Errors
/// Returns the errors of [`begin_copy`].
pub(crate) fn host_copy(rows: &[Row]) -> Result<(), Unordered> {
    let Some(mut state) = state() else { return Ok(()) };
    let known = state.known(sanitizer::current_line());
    let mut work = state.begin_copy("the host's copy", known);
    state.is_of_the_host(&work);
    findings::of_copy(state.touch_rows(&mut work, rows))
}

/// Records that the host read the value of a signal.
pub(crate) fn host_saw(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_saw(signal.0);
    }
}

/// Records that the host set the value of a signal.
pub(crate) fn host_set(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_set(signal.0);
    }
}

/// Records that the host added to a signal.
pub(crate) fn host_added(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_added(signal.0);
    }
}

/// Removes freed memory: a later allocation at the same address has no relation to it.
pub(crate) fn forget(range: Range<u64>) {
    if let Some(mut state) = state() {
        state.forget(range);
    }
}
