//! Events with which host threads wait for the driver.
//!
//! With DTIF, ROCr polls signals instead of waiting for the events of queues. Threads of ROCr may still use events.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    address_map,
    status::Status,
    types::{Event, EventDescriptor},
};

#[derive(Debug)]
struct State {
    set: bool,
    /// True if the event stays set after a thread has waited for it.
    manual: bool,
    /// Number of times that the event has been set, plus one.
    age: u64,
}

static EVENTS: Mutex<BTreeMap<u32, State>> = Mutex::new(BTreeMap::new());
static CHANGED: Condvar = Condvar::new();

/// Timeout value that means no timeout.
const FOREVER: u32 = u32::MAX;

/// # Safety
/// As the thunk requires, `descriptor` must be valid for reading and `to` for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtCreateEvent(
    descriptor: *const EventDescriptor,
    manual: bool,
    set: bool,
    to: *mut *mut Event,
) -> Status {
    if descriptor.is_null() || to.is_null() {
        return Status::INVALID_PARAMETER;
    }
    // SAFETY: the caller passes a pointer that is valid for reading.
    let descriptor = unsafe { descriptor.read_unaligned() };
    let mut events = address_map::lock(&EVENTS);
    let id = events.last_key_value().map_or(1, |(last, _)| last + 1);
    events.insert(id, State { set, manual, age: 1 });
    let mut data = [0; 5];
    data[0] = descriptor.sync_variable as u32;
    data[1] = (descriptor.sync_variable >> 32) as u32;
    data[2] = descriptor.sync_bytes as u32;
    let event = Event { id, kind: descriptor.kind, data, hardware_data: [0; 5] };
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { to.write(Box::into_raw(Box::new(event))) };
    Status::SUCCESS
}

/// # Safety
/// As the thunk requires, `event` must be null, or an event that `hsaKmtCreateEvent` returned and that was not
/// destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtDestroyEvent(event: *mut Event) -> Status {
    if event.is_null() {
        return Status::INVALID_HANDLE;
    }
    // SAFETY: the caller passes an event that was allocated as a box and is destroyed once.
    let event = unsafe { Box::from_raw(event) };
    address_map::lock(&EVENTS).remove(&{ event.id });
    CHANGED.notify_all();
    Status::SUCCESS
}

/// Changes the state of an event, and wakes the threads that wait for events.
///
/// # Safety
/// As the thunk requires, `event` must be null or an event that was created and not destroyed.
unsafe fn change(event: *const Event, change: impl FnOnce(&mut State)) -> Status {
    if event.is_null() {
        return Status::INVALID_HANDLE;
    }
    // SAFETY: the pointer is not null, and the caller passes an event that was not destroyed.
    let id = unsafe { (*event).id };
    let mut events = address_map::lock(&EVENTS);
    let Some(state) = events.get_mut(&id) else { return Status::INVALID_HANDLE };
    change(state);
    CHANGED.notify_all();
    Status::SUCCESS
}

/// # Safety
/// As the thunk requires, `event` must be null or an event that was created and not destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtSetEvent(event: *const Event) -> Status {
    let set = |state: &mut State| {
        state.set = true;
        state.age += 1;
    };
    // SAFETY: the caller passes null or an event that was not destroyed.
    unsafe { change(event, set) }
}

/// # Safety
/// As the thunk requires, `event` must be null or an event that was created and not destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtResetEvent(event: *const Event) -> Status {
    // SAFETY: the caller passes null or an event that was not destroyed.
    unsafe { change(event, |state| state.set = false) }
}

/// # Safety
/// As the thunk requires, `event` must be null or an event that was created and not destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtQueryEventState(event: *const Event) -> Status {
    let mut set = false;
    // SAFETY: the caller passes null or an event that was not destroyed.
    let found = unsafe { change(event, |state| set = state.set) };
    if found == Status::SUCCESS && !set { Status::WAIT_TIMEOUT } else { found }
}

/// Waits until one of the events is set, or all of them if `all` is true. Before the call, `ages` contains for each
/// event the age that the caller saw last. After the call, it contains the current ages.
fn wait(ids: &[u32], ages: &mut [u64], all: bool, milliseconds: u32) -> Status {
    let end = Instant::now() + Duration::from_millis(milliseconds.into());
    let mut events = address_map::lock(&EVENTS);
    loop {
        // If the event was set after the caller's last query, the wait is over, even if another thread has reset the
        // event.
        let done = |(index, id): (usize, &u32)| match events.get(id) {
            Some(state) => state.set || ages.get(index).is_some_and(|age| *age < state.age),
            // A destroyed event ends the wait.
            None => true,
        };
        let mut each = ids.iter().enumerate().map(done);
        let met = if all { each.all(|done| done) } else { each.any(|done| done) };
        if met {
            for (index, id) in ids.iter().enumerate() {
                if let Some(state) = events.get_mut(id) {
                    state.set &= state.manual;
                    if let Some(age) = ages.get_mut(index) {
                        *age = state.age;
                    }
                }
            }
            return Status::SUCCESS;
        }
        let left = end.saturating_duration_since(Instant::now());
        if milliseconds == FOREVER {
            events = CHANGED.wait(events).unwrap_or_else(PoisonError::into_inner);
        } else if left.is_zero() {
            return Status::WAIT_TIMEOUT;
        } else {
            let waited = CHANGED.wait_timeout(events, left);
            events = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// # Safety
/// As the thunk requires, `events` must point at `count` events that were not destroyed, and `ages` must be null or
/// point at `count` numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtWaitOnMultipleEvents_Ext(
    events: *const *const Event,
    count: u32,
    all: bool,
    milliseconds: u32,
    ages: *mut u64,
) -> Status {
    if events.is_null() {
        return Status::INVALID_HANDLE;
    }
    let count = count as usize;
    // SAFETY: the caller passes `count` events that were not destroyed.
    let ids: Vec<u32> = (0..count).map(|index| unsafe { (**events.add(index)).id }).collect();
    let ages = if ages.is_null() {
        &mut []
    } else {
        // SAFETY: the pointer is not null, and the caller passes `count` numbers.
        unsafe { std::slice::from_raw_parts_mut(ages, count) }
    };
    wait(&ids, ages, all, milliseconds)
}

/// # Safety
/// As the thunk requires, `events` must point at `count` events that were not destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtWaitOnMultipleEvents(
    events: *const *const Event,
    count: u32,
    all: bool,
    milliseconds: u32,
) -> Status {
    let ages = std::ptr::null_mut();
    // SAFETY: the caller passes `count` events that were not destroyed.
    unsafe { hsaKmtWaitOnMultipleEvents_Ext(events, count, all, milliseconds, ages) }
}

/// # Safety
/// As the thunk requires, `event` must be an event that was not destroyed, and `age` must be null or valid for reading
/// and writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtWaitOnEvent_Ext(
    event: *const Event,
    milliseconds: u32,
    age: *mut u64,
) -> Status {
    if event.is_null() {
        return Status::INVALID_HANDLE;
    }
    // SAFETY: the arguments are one event that was not destroyed, and one number or null.
    unsafe { hsaKmtWaitOnMultipleEvents_Ext(&event, 1, true, milliseconds, age) }
}

/// # Safety
/// As the thunk requires, `event` must be an event that was not destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtWaitOnEvent(event: *const Event, milliseconds: u32) -> Status {
    // SAFETY: the caller passes an event that was not destroyed.
    unsafe { hsaKmtWaitOnEvent_Ext(event, milliseconds, std::ptr::null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_resets_automatic_events_only() {
        let descriptor = EventDescriptor { kind: 0, node: 1, sync_variable: 0, sync_bytes: 0 };
        for manual in [false, true] {
            let mut event = std::ptr::null_mut();
            // SAFETY: the pointers are to local variables, and the event exists until it is destroyed.
            unsafe {
                assert_eq!(
                    hsaKmtCreateEvent(&descriptor, manual, false, &mut event),
                    Status::SUCCESS
                );
                assert_eq!(hsaKmtWaitOnEvent(event, 0), Status::WAIT_TIMEOUT);
                hsaKmtSetEvent(event);
                assert_eq!(hsaKmtWaitOnEvent(event, FOREVER), Status::SUCCESS);
                let second = if manual { Status::SUCCESS } else { Status::WAIT_TIMEOUT };
                assert_eq!(hsaKmtWaitOnEvent(event, 1), second);
                let mut age = 1;
                assert_eq!(hsaKmtWaitOnEvent_Ext(event, 1, &mut age), Status::SUCCESS);
                assert_eq!(age, 2, "the event has been set since the first query");
                hsaKmtDestroyEvent(event);
            }
        }
    }
}
