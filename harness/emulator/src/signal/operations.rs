//! Functions that read and change the value of a signal, under all names of the HSA interface.

use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use super::{look, wait_for};
use crate::{
    abi::{Signal, SignalCell, export},
    events, order, queue,
};

fn store(signal: Signal, value: i64) {
    let Some(cell) = signal.cell() else { return };
    match cell.queue.load(SeqCst) {
        0 => {
            order::host_set_signal(signal);
            cell.value.store(value, SeqCst);
            events::notify();
        }
        queue => {
            cell.value.store(value, SeqCst);
            queue::ring(queue);
        }
    }
}

/// Sets the value of the signal without waking waiting threads.
fn silent_store(signal: Signal, value: i64) {
    if let Some(cell) = signal.cell() {
        order::host_set_signal(signal);
        cell.value.store(value, SeqCst);
    }
}

/// Changes the value of the signal atomically with `change`, and wakes waiting threads. Returns the previous value,
/// which `change` returns; 0 for the null handle.
fn change(signal: Signal, change: impl FnOnce(&AtomicI64) -> i64) -> i64 {
    let Some(SignalCell { value, .. }) = signal.cell() else { return 0 };
    order::host_added_to_signal(signal);
    let before = change(value);
    events::notify();
    before
}

fn add(signal: Signal, operand: i64) {
    change(signal, |value| value.fetch_add(operand, SeqCst));
}

fn subtract(signal: Signal, operand: i64) {
    change(signal, |value| value.fetch_sub(operand, SeqCst));
}

fn and(signal: Signal, operand: i64) {
    change(signal, |value| value.fetch_and(operand, SeqCst));
}

fn or(signal: Signal, operand: i64) {
    change(signal, |value| value.fetch_or(operand, SeqCst));
}

fn xor(signal: Signal, operand: i64) {
    change(signal, |value| value.fetch_xor(operand, SeqCst));
}

fn exchange(signal: Signal, new: i64) -> i64 {
    let before = change(signal, |value| value.swap(new, SeqCst));
    order::host_read_signal(signal);
    before
}

/// Compares and swaps the value of the signal. Returns the previous value, even if it does not equal `expected`.
fn cas(signal: Signal, expected: i64, new: i64) -> i64 {
    let before =
        change(signal, |value| match value.compare_exchange(expected, new, SeqCst, SeqCst) {
            Ok(before) | Err(before) => before,
        });
    order::host_read_signal(signal);
    before
}

export! {
    fn look(signal: Signal) -> i64;
    hsa_signal_load_relaxed hsa_signal_load_scacquire hsa_signal_load_acquire
}

export! {
    fn store(signal: Signal, value: i64);
    hsa_signal_store_relaxed hsa_signal_store_screlease hsa_signal_store_release
}

export! {
    fn silent_store(signal: Signal, value: i64);
    hsa_signal_silent_store_relaxed hsa_signal_silent_store_screlease
}

export! {
    fn wait_for(signal: Signal, condition: u32, reference: i64, timeout: u64, hint: u32) -> i64;
    hsa_signal_wait_relaxed hsa_signal_wait_scacquire hsa_signal_wait_acquire
}

export! {
    fn exchange(signal: Signal, value: i64) -> i64;
    hsa_signal_exchange_relaxed hsa_signal_exchange_scacq_screl hsa_signal_exchange_scacquire
    hsa_signal_exchange_screlease hsa_signal_exchange_acq_rel hsa_signal_exchange_acquire
    hsa_signal_exchange_release
}

export! {
    fn cas(signal: Signal, expected: i64, value: i64) -> i64;
    hsa_signal_cas_relaxed hsa_signal_cas_scacq_screl hsa_signal_cas_scacquire hsa_signal_cas_screlease
    hsa_signal_cas_acq_rel hsa_signal_cas_acquire hsa_signal_cas_release
}

export! {
    fn add(signal: Signal, value: i64);
    hsa_signal_add_relaxed hsa_signal_add_scacq_screl hsa_signal_add_scacquire hsa_signal_add_screlease
    hsa_signal_add_acq_rel hsa_signal_add_acquire hsa_signal_add_release
}

export! {
    fn subtract(signal: Signal, value: i64);
    hsa_signal_subtract_relaxed hsa_signal_subtract_scacq_screl hsa_signal_subtract_scacquire
    hsa_signal_subtract_screlease hsa_signal_subtract_acq_rel hsa_signal_subtract_acquire
    hsa_signal_subtract_release
}

export! {
    fn and(signal: Signal, value: i64);
    hsa_signal_and_relaxed hsa_signal_and_scacq_screl hsa_signal_and_scacquire hsa_signal_and_screlease
    hsa_signal_and_acq_rel hsa_signal_and_acquire hsa_signal_and_release
}

export! {
    fn or(signal: Signal, value: i64);
    hsa_signal_or_relaxed hsa_signal_or_scacq_screl hsa_signal_or_scacquire hsa_signal_or_screlease
    hsa_signal_or_acq_rel hsa_signal_or_acquire hsa_signal_or_release
}

export! {
    fn xor(signal: Signal, value: i64);
    hsa_signal_xor_relaxed hsa_signal_xor_scacq_screl hsa_signal_xor_scacquire hsa_signal_xor_screlease
    hsa_signal_xor_acq_rel hsa_signal_xor_acquire hsa_signal_xor_release
}

#[cfg(test)]
mod tests {
    use super::{super::create, *};

    #[track_caller]
    fn check(operation: impl Fn(Signal) -> i64, returned: i64, left: i64) {
        let signal = create(0b1100);
        assert_eq!((operation(signal), look(signal)), (returned, left));
        assert!(super::super::destroy(signal));
    }

    /// Wraps an operation that returns nothing, so that a test can treat all operations alike.
    fn silent(operation: extern "C" fn(Signal, i64)) -> impl Fn(Signal) -> i64 {
        move |signal| {
            operation(signal, 0b1010);
            -1
        }
    }

    #[test]
    fn operations_change_and_return_values() {
        check(silent(hsa_signal_store_release), -1, 0b1010);
        check(silent(hsa_signal_silent_store_screlease), -1, 0b1010);
        check(silent(hsa_signal_add_release), -1, 0b1100 + 0b1010);
        check(silent(hsa_signal_subtract_acq_rel), -1, 0b1100 - 0b1010);
        check(silent(hsa_signal_and_relaxed), -1, 0b1000);
        check(silent(hsa_signal_or_screlease), -1, 0b1110);
        check(silent(hsa_signal_xor_scacquire), -1, 0b0110);
        check(|signal| hsa_signal_exchange_acquire(signal, 7), 0b1100, 7);
        check(|signal| hsa_signal_cas_scacq_screl(signal, 0b1100, 7), 0b1100, 7);
        check(|signal| hsa_signal_cas_release(signal, 3, 7), 0b1100, 0b1100);
        check(|signal| hsa_signal_wait_acquire(signal, 3, 2, u64::MAX, 0), 0b1100, 0b1100);
        check(|_| hsa_signal_exchange_relaxed(Signal::NONE, 7), 0, 0b1100);
    }
}
