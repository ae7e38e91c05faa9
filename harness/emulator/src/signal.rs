//! Signals: 64-bit values that packets and copies decrement when they complete. The host waits until a signal has a
//! certain value.

mod operations;
mod several;

use std::{
    cell::Cell,
    collections::VecDeque,
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    abi::{Agent, Condition, Out, Signal, SignalCell, SignalHandler, Status, Times},
    clock, events,
    locks::Mutex,
    memory, order,
    part::DeviceComponent as _,
    report::trace,
    rest, schedule,
};

/// `AMD_SIGNAL_KIND_INVALID`, the kind of a destroyed signal.
const KIND_INVALID: i64 = 0;
/// `AMD_SIGNAL_KIND_USER`.
const KIND_USER: i64 = 1;
/// Number of signals in one block of memory.
const BLOCK: usize = 1024;

/// All signals of a device, and the handlers that are registered for signals.
#[derive(Default)]
pub(crate) struct Signals {
    /// Unused and destroyed signals. Their memory is never freed, because programs may read a destroyed signal, which
    /// ROCr tolerates too.
    free: Mutex<VecDeque<&'static SignalCell>>,
    /// Signals whose value the host can write without a call to this library. A signal is removed when it is destroyed.
    exposed: Mutex<Vec<(Signal, events::SilentWriter)>>,
    handlers: Mutex<Vec<Handler>>,
    /// True while a handler is running. In the meantime the handler is not in `handlers`.
    running: AtomicBool,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Signals of each group. The handle of a group is its index plus one. A destroyed group is empty.
    groups: Mutex<Vec<Vec<Signal>>>,
}

impl Signal {
    pub(crate) const NONE: Signal = Signal(0);

    /// Returns the signal with this handle; `None` for the null handle.
    pub(crate) fn cell(self) -> Option<&'static SignalCell> {
        // SAFETY: a handle that is not zero is the address of a cell in a block that is never freed, and all fields
        // that change are atomic.
        (self.0 != 0).then(|| unsafe { &*(self.0 as *const SignalCell) })
    }

    /// Returns the current value of the signal, and 0 for the null handle.
    pub(crate) fn load(self) -> i64 {
        self.cell().map_or(0, |cell| cell.value.load(Ordering::Acquire))
    }

    /// Adds to the value of the signal and wakes waiting threads.
    pub(crate) fn add(self, value: i64) {
        if let Some(cell) = self.cell() {
            cell.value.fetch_add(value, Ordering::AcqRel);
            events::notify();
        }
    }

    /// Completes a packet or a copy: records its times and then decrements the signal.
    pub(crate) fn complete(self, start: u64) {
        if let Some(cell) = self.cell() {
            cell.start.store(start, Ordering::Relaxed);
            cell.end.store(clock::now().max(start + 1), Ordering::Relaxed);
            self.add(-1);
        }
    }
}

pub(crate) fn create(value: i64) -> Signal {
    let mut free = Signals::current().free.lock();
    if free.is_empty() {
        let block: &'static [SignalCell] =
            Vec::leak((0..BLOCK).map(|_| SignalCell::default()).collect());
        // Kernels may write to signals, so the block must be accessible to the GPU.
        memory::register_host_block(block.as_ptr() as usize, size_of_val(block));
        free.extend(block);
    }
    let Some(cell) = free.pop_front() else { return Signal::NONE };
    cell.value.store(value, Ordering::Relaxed);
    cell.queue.store(0, Ordering::Relaxed);
    cell.start.store(0, Ordering::Relaxed);
    cell.end.store(0, Ordering::Relaxed);
    cell.kind.store(KIND_USER, Ordering::Release);
    let signal = Signal(std::ptr::from_ref(cell) as u64);
    order::host_set_signal(signal);
    signal
}

/// Destroys a signal. Returns `false` if the handle is not a live signal.
pub(crate) fn destroy(signal: Signal) -> bool {
    let Some(cell) = signal.cell() else { return false };
    if cell.kind.swap(KIND_INVALID, Ordering::AcqRel) == KIND_INVALID {
        return false;
    }
    // If the host has the address of a signal's value, the signal is not reused, because the host may still write to
    // it.
    if cell.exposed.load(Ordering::Acquire) != 0 {
        Signals::current().exposed.lock().retain(|(known, _)| *known != signal);
    } else {
        Signals::current().free.lock().push_back(cell);
    }
    true
}

/// Waits until the comparison of the signal's value with `reference` satisfies the condition, or the timeout has
/// passed. Returns the last value. The timeout is in nanoseconds. `u64::MAX` means no timeout.
pub(crate) fn wait(signal: Signal, condition: Condition, reference: i64, timeout: u64) -> i64 {
    let look = || {
        let value = signal.load();
        condition.holds(value, reference).then_some(value)
    };
    wait_until(timeout, look).unwrap_or_else(|| signal.load())
}

/// Waits until `look` returns a value. Returns `None` if `timeout` nanoseconds have passed before that. `u64::MAX`
/// means no timeout.
fn wait_until<T>(timeout: u64, look: impl Fn() -> Option<T>) -> Option<T> {
    // Most waits end soon, so the thread spins first.
    for _ in 0..64 {
        if let Some(answer) = look() {
            return Some(answer);
        }
        std::hint::spin_loop();
    }
    let deadline = Instant::now().checked_add(Duration::from_nanos(timeout));
    let deadline = if timeout == u64::MAX { None } else { deadline };
    events::wait_until(deadline, look)
}

/// Implements a wait by the host. While the host waits, the device executes the work that its schedule requires.
/// `condition` is the C value of the condition.
fn wait_for(signal: Signal, condition: u32, reference: i64, timeout: u64, _hint: u32) -> i64 {
    let Some(condition) = Condition::from_c(condition) else { return look(signal) };
    let value = if timeout == 0 {
        look(signal)
    } else {
        let _waiting = schedule::Waiting::new(signal, condition, reference);
        wait(signal, condition, reference, schedule::patience(timeout))
    };
    order::host_read_signal(signal);
    settle();
    rest::at_call();
    value
}

/// Returns the value of a signal to a host that does not wait for it.
fn look(signal: Signal) -> i64 {
    schedule::host_polled();
    rest::at_call();
    let value = signal.load();
    order::host_read_signal(signal);
    value
}

struct Handler {
    signal: Signal,
    condition: Condition,
    reference: i64,
    function: SignalHandler,
    argument: *mut c_void,
}

impl Handler {
    fn is_due(&self) -> bool {
        self.condition.holds(self.signal.load(), self.reference)
    }
}

thread_local! {
    /// True on the thread that calls handlers. The variable is per thread, not per device.
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: this library does not dereference the argument and only passes it to the function, which HSA requires to be
// callable from another thread.
unsafe impl Send for Handler {}

/// Registers a handler: a function, and a condition on a signal. A separate thread calls the function each time the
/// condition is true, until the function returns false.
fn on_condition(handler: Handler) -> Status {
    let signals = Signals::current();
    signals.handlers.lock().push(handler);
    let mut thread = signals.thread.lock();
    if thread.is_none() {
        signals.stop.store(false, Ordering::SeqCst);
        match Signals::spawn("device handlers", run_handlers) {
            Ok(handle) => *thread = Some(handle),
            Err(_) => return Status::OUT_OF_RESOURCES,
        }
    }
    events::notify();
    Status::SUCCESS
}

fn run_handlers() {
    let signals = Signals::current();
    let due = || {
        if signals.stop.load(Ordering::SeqCst) {
            return Some(None);
        }
        let mut handlers = signals.handlers.lock();
        let due = handlers.iter().position(Handler::is_due)?;
        signals.running.store(true, Ordering::SeqCst);
        Some(Some(handlers.remove(due)))
    };
    IN_HANDLER.set(true);
    while let Some(Some(handler)) = events::wait_until(None, due) {
        order::host_read_signal(handler.signal);
        if (handler.function)(handler.signal.load(), handler.argument) {
            signals.handlers.lock().push(handler);
        }
        signals.running.store(false, Ordering::SeqCst);
        events::notify();
    }
}

/// Maximum time by which a wait of the host is prolonged so that handlers can run.
pub(crate) const SETTLE: Duration = Duration::from_millis(100);

/// Before the host continues, waits until the handlers that are due have run, but at most for [`SETTLE`].
///
/// The handlers of the HIP runtime use objects that the runtime destroys at the end of the process. With a GPU,
/// handlers finish microseconds after the last wait of the host. On a loaded machine, the host program could end before
/// the handlers began, and about one process in several hundred crashed. The wait is limited because a handler may
/// itself wait for the host.
pub(crate) fn settle() {
    if !in_handler() {
        events::wait_until(Some(Instant::now() + SETTLE), || settled().then_some(()));
    }
}

/// Returns true if no handler is due or running.
pub(crate) fn settled() -> bool {
    let signals = Signals::current();
    let handlers = signals.handlers.lock();
    !signals.running.load(Ordering::SeqCst) && !handlers.iter().any(Handler::is_due)
}

/// Returns true on the thread that calls handlers.
pub(crate) fn in_handler() -> bool {
    IN_HANDLER.get()
}

/// Stops the thread that calls handlers and joins it, unless this is that thread.
pub(crate) fn shut_down() {
    let signals = Signals::current();
    signals.stop.store(true, Ordering::SeqCst);
    events::notify();
    let thread = signals.thread.lock().take();
    if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
        let _ = thread.join();
    }
    signals.handlers.lock().clear();
}

#[unsafe(no_mangle)]
extern "C" fn hsa_signal_create(
    value: i64,
    _consumers: u32,
    _agents: *const Agent,
    signal: Out<Signal>,
) -> Status {
    if signal.is_null() { Status::INVALID_ARGUMENT } else { signal.put(create(value)) }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_signal_create(
    value: i64,
    consumers: u32,
    agents: *const Agent,
    _attributes: u64,
    signal: Out<Signal>,
) -> Status {
    hsa_signal_create(value, consumers, agents, signal)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_signal_destroy(signal: Signal) -> Status {
    if destroy(signal) { Status::SUCCESS } else { Status::INVALID_SIGNAL }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_signal_value_pointer(signal: Signal, pointer: Out<*const i64>) -> Status {
    let Some(cell) = signal.cell() else { return Status::INVALID_SIGNAL };
    if cell.exposed.swap(1, Ordering::AcqRel) == 0 {
        Signals::current().exposed.lock().push((signal, events::SilentWriter::new()));
    }
    trace!("signal_value_pointer {:#x}", signal.0);
    pointer.put(cell.value.as_ptr().cast_const())
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_signal_async_handler(
    signal: Signal,
    condition: u32,
    reference: i64,
    function: Option<SignalHandler>,
    argument: *mut c_void,
) -> Status {
    match (signal.cell(), Condition::from_c(condition), function) {
        (None, ..) => Status::INVALID_SIGNAL,
        (Some(_), Some(condition), Some(function)) => {
            on_condition(Handler { signal, condition, reference, function, argument })
        }
        _ => Status::INVALID_ARGUMENT,
    }
}

fn times(signal: Signal, times: Out<Times>) -> Status {
    let Some(cell) = signal.cell() else { return Status::INVALID_SIGNAL };
    times.put(Times {
        start: cell.start.load(Ordering::Relaxed),
        end: cell.end.load(Ordering::Relaxed),
    })
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_profiling_get_dispatch_time(
    _agent: Agent,
    signal: Signal,
    answer: Out<Times>,
) -> Status {
    times(signal, answer)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_profiling_get_async_copy_time(signal: Signal, answer: Out<Times>) -> Status {
    times(signal, answer)
}

/// Returns the tick unchanged, because all times are recorded in ticks of the system clock.
#[unsafe(no_mangle)]
extern "C" fn hsa_amd_profiling_convert_tick_to_system_domain(
    _agent: Agent,
    agent_tick: u64,
    system_tick: Out<u64>,
) -> Status {
    system_tick.put(agent_tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_returns_the_matching_value() {
        let signal = create(1);
        let waiter = std::thread::spawn(move || wait(signal, Condition::Lt, 1, u64::MAX));
        signal.complete(clock::now());
        assert_eq!(waiter.join().unwrap(), 0);
        assert!(destroy(signal));
    }

    #[test]
    fn timeout_returns_the_current_value() {
        let signal = create(5);
        assert_eq!(wait(signal, Condition::Eq, 0, 1000), 5);
        assert!(destroy(signal));
        assert!(!destroy(signal), "a signal cannot be destroyed twice");
        assert!(!destroy(Signal::NONE));
    }

    #[test]
    fn completion_records_ordered_times() {
        let signal = create(1);
        let start = clock::now();
        signal.complete(start);
        let cell = signal.cell().unwrap();
        assert_eq!(cell.start.load(Ordering::Relaxed), start);
        assert!(cell.end.load(Ordering::Relaxed) > start);
    }

    #[test]
    fn handler_runs_until_it_returns_false() {
        static CALLS: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);
        extern "C" fn count(_value: i64, argument: *mut c_void) -> bool {
            let again = CALLS.fetch_add(1, Ordering::SeqCst) < 2;
            if !again {
                Signal(argument as u64).add(-1);
            }
            again
        }
        let (signal, done) = (create(0), create(1));
        let status = hsa_amd_signal_async_handler(signal, 0, 0, Some(count), done.0 as *mut c_void);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(wait(done, Condition::Eq, 0, u64::MAX), 0);
        assert_eq!(CALLS.load(Ordering::SeqCst), 3);
    }
}
