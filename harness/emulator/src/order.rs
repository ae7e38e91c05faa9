//! Which work is ordered before which, for the sanitizer: two packets or copies that touch the same bytes, one of them
//! writing, need something that makes one wait for the other.
//!
//! The order is that of the interface, not that of this run. What a packet or copy knows to be complete is its *clock*, as in
//! dynamic race detectors (FastTrack, PLDI 2009):
//!
//! * what the host knew when it handed the work over;
//! * on a queue what a barrier bit or a barrier packet before it waited for, and with its own barrier bit all packets
//!   before it (HSA Platform System Architecture Specification 1.2, 2.9);
//! * what lowered the signals that it waits for.
//!
//! The host knows what the signals tell that it waits for or looks at. All its threads count as one, since what they tell
//! each other is not seen here, and what it touches by itself is not seen either.

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

/// How far behind the front a packet may overtake others.
pub(crate) const WINDOW: usize = 64;

/// What is known of the order.
#[derive(Default)]
pub(crate) struct Order(Mutex<State>);

thread_local! {
    /// The packet that this thread carries out. It is the thread that is asked, so this is no part of the device.
    static PACKET: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// The state, while somebody looks at the order.
fn state() -> Option<MutexGuard<'static, State>> {
    // Apart, as each packet and each look at a signal asks, mostly for nothing.
    #[cold]
    #[inline(never)]
    fn watched() -> Option<MutexGuard<'static, State>> {
        // Packets that overtake each other are the planted fault's mistake.
        let overtaken = faults::planted(Fault::QueueBarrierIgnored).is_some();
        (!overtaken).then(|| Order::here().0.lock())
    }
    if sanitizer::is_on() { watched() } else { None }
}

fn with_packet<T>(act: impl FnOnce(&mut State, &mut Work) -> T) -> Option<T> {
    let mut state = state()?;
    PACKET.with_borrow_mut(|packet| packet.as_mut().map(|work| act(&mut state, work)))
}

/// The host rang the doorbell of a queue, whose packets before that index are written.
pub(crate) fn rang(queue: u64, end: u64) {
    if let Some(mut state) = state() {
        state.rings(queue, end, sanitizer::current_line());
    }
}

/// This thread takes up a packet of a queue.
pub(crate) fn begin_packet(queue: u64, index: u64, barrier_bit: bool) {
    if let Some(mut state) = state() {
        let line = sanitizer::current_line();
        PACKET.set(Some(state.begin_packet(queue, index, barrier_bit, line)));
    }
}

/// The packet of this thread launches that kernel.
pub(crate) fn launches(kernel: &str) {
    with_packet(|state, work| state.launches(work, kernel));
}

/// The packet of this thread is a barrier, and has waited for these signals.
pub(crate) fn waited(signals: &[Signal]) {
    with_packet(|state, work| {
        signals.iter().for_each(|signal| state.waited(work, signal.0));
        state.holds_up(work);
    });
}

/// The packet of this thread is complete, and is about to lower that signal.
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
    // The host may look at this one without a call.
    if cell.exposed.load(Ordering::Acquire) != 0 {
        state.host_saw(signal.0);
    }
}

/// The packet of this thread touches these bytes.
///
/// # Errors
/// What touched them before, with nothing to order the two.
pub(crate) fn touch(kind: AccessKind, range: Range<u64>) -> Result<(), Unordered> {
    with_packet(|state, work| state.touch(work, kind, range)).unwrap_or(Ok(()))
}

/// What the host knows as it hands over a copy; nothing while nobody looks.
pub(crate) fn submitted() -> Option<Known> {
    state().map(|state| state.known(sanitizer::current_line()))
}

/// A copy that waited for these signals is about to move these rows; nothing while nobody looks.
///
/// # Errors
/// As of [`touch`], where the sanitizer is to stop at its first finding.
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

/// A copy is complete, and is about to lower that signal.
pub(crate) fn end_copy(work: Option<&Work>, completion: Signal) {
    if let (Some(work), Some(mut state)) = (work, state()) {
        lower(&mut state, work, completion);
    }
}

/// The host moves these rows by itself.
///
/// # Errors
/// As of [`begin_copy`].
pub(crate) fn host_copy(rows: &[Row]) -> Result<(), Unordered> {
    let Some(mut state) = state() else { return Ok(()) };
    let known = state.known(sanitizer::current_line());
    let mut work = state.begin_copy("the host's copy", known);
    state.is_of_the_host(&work);
    findings::of_copy(state.touch_rows(&mut work, rows))
}

/// The host has seen the value of a signal.
pub(crate) fn host_saw(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_saw(signal.0);
    }
}

/// The host gives a signal a value of its own.
pub(crate) fn host_set(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_set(signal.0);
    }
}

/// The host adds to a signal.
pub(crate) fn host_added(signal: Signal) {
    if let Some(mut state) = state() {
        state.host_added(signal.0);
    }
}

/// Memory is given back: who gets the addresses next has nothing to do with what was there.
pub(crate) fn forget(range: Range<u64>) {
    if let Some(mut state) = state() {
        state.forget(range);
    }
}
