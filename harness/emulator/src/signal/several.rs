//! Waits for several signals: functions of AMD's extension, and signal groups.

use super::{Signals, settle, wait_until};
use crate::{
    abi::{Agent, Condition, Out, Signal, Status, array},
    order,
    part::DeviceComponent as _,
    schedule,
};

/// One of the conditions of a wait: a signal, a comparison, and the value to compare with.
type Term = (Signal, Condition, i64);

fn is_met(&(signal, condition, reference): &Term) -> bool {
    condition.holds(signal.load(), reference)
}

/// Combines three arrays of a C caller into the conditions of a wait. Returns `None` if an array is missing or a
/// condition is unknown.
///
/// # Safety
/// Each pointer must be null or valid for `count` elements.
unsafe fn terms(
    count: u32,
    signals: *const Signal,
    conditions: *const u32,
    references: *const i64,
) -> Option<Vec<Term>> {
    // SAFETY: HSA requires the caller to pass `count` elements of each array.
    let (signals, conditions, references) =
        unsafe { (array(signals, count), array(conditions, count), array(references, count)) };
    let terms = signals.iter().zip(conditions).zip(references);
    let terms = terms.map(|((signal, condition), reference)| {
        Some((*signal, Condition::from_c(*condition)?, *reference))
    });
    terms.collect::<Option<Vec<Term>>>().filter(|terms| terms.len() == count as usize)
}

/// Waits until `poll` returns a value, but at most for `timeout` nanoseconds; then returns `None`. During the wait, the
/// device executes the work that its schedule requires for the conditions `terms`.
fn wait<T>(terms: &[Term], timeout: u64, poll: impl Fn() -> Option<T>) -> Option<T> {
    let answer = poll().or_else(|| {
        let _waiting: Vec<_> =
            terms.iter().map(|term| schedule::Waiting::new(term.0, term.1, term.2)).collect();
        wait_until(schedule::patience(timeout), poll)
    });
    terms
        .iter()
        .filter(|term| is_met(term))
        .for_each(|(signal, ..)| order::host_read_signal(*signal));
    settle();
    answer
}

fn wait_any(terms: &[Term], timeout: u64) -> Option<(usize, i64)> {
    let first = || {
        terms.iter().enumerate().find_map(|(index, (signal, condition, reference))| {
            let value = signal.load();
            condition.holds(value, *reference).then_some((index, value))
        })
    };
    wait(terms, timeout, first)
}

/// Value that a wait returns in place of an index if it timed out or an argument is invalid.
const NO_INDEX: u32 = u32::MAX;

/// `hsa_amd_signal_wait_any`.
///
/// # Safety
/// As HSA requires, each array must have `count` elements.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_signal_wait_any(
    count: u32,
    signals: *const Signal,
    conditions: *const u32,
    references: *const i64,
    timeout: u64,
    _hint: u32,
    satisfying: Out<i64>,
) -> u32 {
    // SAFETY: HSA requires the caller to pass `count` elements of each array.
    let Some(terms) = (unsafe { terms(count, signals, conditions, references) }) else {
        return NO_INDEX;
    };
    let Some((index, value)) = wait_any(&terms, timeout) else { return NO_INDEX };
    satisfying.put_if_wanted(value);
    index as u32
}

/// `hsa_amd_signal_wait_all`, as version 1.9 of AMD's extension declares it. Returns zero if all conditions became
/// true.
///
/// # Safety
/// As HSA requires, each array must have `count` elements, and `satisfying` must be null or have space for `count`
/// elements.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_signal_wait_all(
    count: u32,
    signals: *const Signal,
    conditions: *const u32,
    references: *const i64,
    timeout: u64,
    _hint: u32,
    satisfying: Out<i64>,
) -> u32 {
    // SAFETY: HSA requires the caller to pass `count` elements of each array.
    let Some(terms) = (unsafe { terms(count, signals, conditions, references) }) else {
        return NO_INDEX;
    };
    let values = || {
        let values = terms.iter().map(|(signal, condition, reference)| {
            let value = signal.load();
            condition.holds(value, *reference).then_some(value)
        });
        values.collect::<Option<Vec<i64>>>()
    };
    let Some(values) = wait(&terms, timeout, values) else { return NO_INDEX };
    if !satisfying.is_null() {
        satisfying.put_all(values);
    }
    0
}

fn with_groups<T>(act: impl FnOnce(&mut Vec<Vec<Signal>>) -> T) -> T {
    act(&mut Signals::current().groups.lock())
}

fn place(group: u64) -> usize {
    usize::try_from(group).unwrap_or(0).wrapping_sub(1)
}

/// `hsa_signal_group_create`.
///
/// # Safety
/// As HSA requires, `signals` must point at `count` signals.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_signal_group_create(
    count: u32,
    signals: *const Signal,
    consumers: u32,
    agents: *const Agent,
    group: Out<u64>,
) -> Status {
    // SAFETY: HSA requires the caller to pass `count` signals.
    let signals = unsafe { array(signals, count) };
    if signals.is_empty() || consumers == 0 || agents.is_null() || group.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    group.put(with_groups(|groups| {
        groups.push(signals.to_vec());
        groups.len() as u64
    }))
}

#[unsafe(no_mangle)]
extern "C" fn hsa_signal_group_destroy(group: u64) -> Status {
    let signals = with_groups(|groups| groups.get_mut(place(group)).map(std::mem::take));
    match signals {
        Some(signals) if !signals.is_empty() => Status::SUCCESS,
        _ => Status::INVALID_SIGNAL_GROUP,
    }
}

/// `hsa_signal_group_wait_any_scacquire`.
///
/// # Safety
/// As HSA requires, the arrays must have an element for each signal of the group.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_signal_group_wait_any_scacquire(
    group: u64,
    conditions: *const u32,
    references: *const i64,
    _hint: u32,
    signal: Out<Signal>,
    value: Out<i64>,
) -> Status {
    let signals = with_groups(|groups| groups.get(place(group)).cloned()).unwrap_or_default();
    if signals.is_empty() {
        return Status::INVALID_SIGNAL_GROUP;
    }
    // SAFETY: `signals` is a vector, and HSA requires the caller to pass one element of the other arrays for each
    // signal of the group.
    let terms = unsafe { terms(signals.len() as u32, signals.as_ptr(), conditions, references) };
    let (Some(terms), false, false) = (terms, signal.is_null(), value.is_null()) else {
        return Status::INVALID_ARGUMENT;
    };
    let Some((index, seen)) = wait_any(&terms, u64::MAX) else { return Status::ERROR };
    signal.put_if_wanted(signals[index]);
    value.put(seen)
}

/// `hsa_signal_group_wait_any_relaxed`.
///
/// # Safety
/// As HSA requires, the arrays must have an element for each signal of the group.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_signal_group_wait_any_relaxed(
    group: u64,
    conditions: *const u32,
    references: *const i64,
    hint: u32,
    signal: Out<Signal>,
    value: Out<i64>,
) -> Status {
    // SAFETY: the arguments are passed on unchanged.
    unsafe {
        hsa_signal_group_wait_any_scacquire(group, conditions, references, hint, signal, value)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::create, *};

    /// Waits for at most 1 µs until any, and then until all, of two new signals with these values are zero. Compares
    /// the results and the returned values.
    #[track_caller]
    fn check(values: [i64; 2], any: (u32, i64), all: (u32, [i64; 2])) {
        let signals = values.map(create);
        let (conditions, references) = ([0u32; 2], [0i64; 2]);
        let (mut one, mut both) = (-1i64, [-1i64; 2]);
        let arguments = (signals.as_ptr(), conditions.as_ptr(), references.as_ptr());
        // SAFETY: `Out` is a transparent pointer, and the arrays have two elements.
        let returned = unsafe {
            let to_one = std::mem::transmute::<*mut i64, Out<i64>>(&raw mut one);
            let to_both = std::mem::transmute::<*mut i64, Out<i64>>(both.as_mut_ptr());
            let (signals, conditions, references) = arguments;
            (
                hsa_amd_signal_wait_any(2, signals, conditions, references, 1000, 0, to_one),
                hsa_amd_signal_wait_all(2, signals, conditions, references, 1000, 0, to_both),
            )
        };
        assert_eq!(((returned.0, one), (returned.1, both)), (any, all));
    }

    #[test]
    fn wait_any_and_wait_all() {
        check([1, 0], (1, 0), (NO_INDEX, [-1, -1]));
        check([0, 0], (0, 0), (0, [0, 0]));
        check([3, 4], (NO_INDEX, -1), (NO_INDEX, [-1, -1]));
    }

    #[test]
    fn waits_for_a_group_until_it_is_destroyed() {
        let signals = [create(1), create(0)];
        let (conditions, references) = ([0u32; 2], [0i64; 2]);
        let (mut group, mut lowered, mut value) = (0u64, Signal::NONE, -1i64);
        // SAFETY: `Out` is a transparent pointer, and the arrays have two elements.
        let statuses = unsafe {
            let to_group = std::mem::transmute::<*mut u64, Out<u64>>(&raw mut group);
            let to_signal = std::mem::transmute::<*mut Signal, Out<Signal>>(&raw mut lowered);
            let to_value = std::mem::transmute::<*mut i64, Out<i64>>(&raw mut value);
            let (conditions, references) = (conditions.as_ptr(), references.as_ptr());
            let wait = hsa_signal_group_wait_any_relaxed;
            [
                hsa_signal_group_create(2, signals.as_ptr(), 1, &Agent::CPU, to_group),
                wait(group, conditions, references, 0, to_signal, to_value),
                hsa_signal_group_destroy(group),
                wait(group, conditions, references, 0, to_signal, to_value),
            ]
        };
        let gone = Status::INVALID_SIGNAL_GROUP;
        assert_eq!(statuses, [Status::SUCCESS, Status::SUCCESS, Status::SUCCESS, gone]);
        assert_eq!((lowered, value), (signals[1], 0));
    }
}
