//! Decides when and in which order packets and copies are executed, for schedules other than eager.
//!
//! With the eager schedule, each queue and each copy engine has a thread of its own, and this module does nothing. With
//! the other schedules, a single thread, the *executor*, executes one packet or copy at a time, and only for one of
//! these reasons:
//!
//! * A thread waits for a signal. The schedule `lazy` executes only the work on which that signal depends. A seeded
//!   schedule executes any startable work, chosen by its seed, until the wait has ended.
//! * The host made a call (`seeded` only). A few random steps are executed before the call returns.
//! * The process is idle: every other thread sleeps outside of this library. Such a process may wait for a host
//!   function, or for a condition variable that a handler signals, and continues only if work is executed.
//! * The process is ending. A runtime spins in its destructors, without calls, until its last work is done.
//!
//! A step is a whole packet or copy, so kernels of different queues do not overlap. The HSA Platform System
//! Architecture Specification 1.2, 2.9 decides which work may start. Packets start in order. A packet with the barrier
//! bit starts only when all earlier packets are complete. A barrier packet delays later packets until it is complete.

use std::{
    sync::{
        MutexGuard, Once,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use device::{Config, Fault, Schedule};

use crate::{
    abi::{Condition, Signal},
    config, copy_engine, events,
    idle::IdleDetector,
    locks::Mutex,
    part::DeviceComponent as _,
    queue,
    report::trace,
    rest, signal,
};

pub(crate) enum Step {
    Packet(queue::Ready),
    Copy(copy_engine::Ready),
}

impl Step {
    fn execute(self) {
        match self {
            Step::Packet(packet) => packet.execute(),
            Step::Copy(copy) => copy.execute(),
        }
    }
}

struct RegisteredWait {
    id: u64,
    signal: Signal,
    condition: Condition,
    reference: i64,
}

impl RegisteredWait {
    fn is_over(&self) -> bool {
        self.condition.holds(self.signal.load(), self.reference)
    }
}

pub(crate) struct Executor {
    /// True if queues and copy engines have threads of their own.
    eager: bool,
    state: Mutex<State>,
    /// Number of calls by the host. As long as the number does not change, the process may be idle.
    calls: AtomicU64,
    stop: AtomicBool,
    started: Once,
}

impl Executor {
    pub(crate) fn new(config: &Config) -> Executor {
        let at_once =
            matches!(config.schedule, Schedule::Eager | Schedule::Waves(_) | Schedule::LateResults);
        // If this fault is injected, the executor decides which packet overtakes which other packet.
        let overtakes =
            config.faults.iter().any(|planted| planted.fault == Fault::QueueBarrierIgnored);
        Executor {
            eager: at_once && !overtakes,
            state: Mutex::default(),
            calls: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            started: Once::new(),
        }
    }
}

#[derive(Default)]
struct State {
    waits: Vec<RegisteredWait>,
    next_wait: u64,
    /// Number of random steps that must still be executed before the current call by the host returns.
    steps: u32,
    draws: u64,
    busy: bool,
    /// Number of times that the host has read a signal since the executor's last step. Many such reads mean that the
    /// host is polling until the device has done its work.
    polls: u32,
    /// True while the process is idle. During that time, work is executed until a thread wakes up.
    resting: bool,
}

impl State {
    /// Returns true if the device must execute work although no thread waits for it.
    fn runs_without_waits(&self) -> bool {
        self.resting || rest::process_ends()
    }
}

/// Maximum time for which a call by the host waits until the device has executed the randomly drawn number of steps.
/// The time is limited because a kernel may itself wait for the host.
const MAX_STEP_WAIT: Duration = Duration::from_secs(2);

/// Maximum number of signal reads by the host without a step of the executor in between. After more reads, the host is
/// treated as waiting.
const MAX_POLLS: u32 = 64;

fn state() -> MutexGuard<'static, State> {
    Executor::current().state.lock()
}

/// Returns true if queues and copy engines have threads of their own.
pub(crate) fn is_eager() -> bool {
    Executor::current().eager
}

/// Starts the executor, unless it has already been started.
pub(crate) fn start() {
    let executor = Executor::current();
    executor.stop.store(false, Ordering::SeqCst);
    executor.started.call_once(|| {
        if Executor::spawn("device order", execute).is_err() {
            crate::report::bad_configuration("cannot start the thread that executes queued work");
        }
    });
}

/// Stops the executor. No packet or copy is executed afterwards.
pub(crate) fn shut_down() {
    Executor::current().stop.store(true, Ordering::SeqCst);
    events::notify();
}

/// Records that the host submits or queries work. A seeded schedule may execute steps before this function returns.
pub(crate) fn host_called() {
    if is_eager() {
        return;
    }
    Executor::current().calls.fetch_add(1, Ordering::SeqCst);
    state().resting = false;
    let Schedule::Seeded(seed) = config::get().schedule else {
        return events::notify();
    };
    if signal::in_handler() {
        return events::notify();
    }
    let mut state = state();
    let draw = draw(&mut state, seed);
    // The number of steps is 0 with probability 1/2, 1 with probability 1/4, and so on.
    state.steps = draw.trailing_ones().min(6);
    let wanted = state.steps > 0;
    drop(state);
    events::notify();
    if wanted {
        let over = || {
            let state = self::state();
            let taken = state.steps == 0 && !state.busy;
            (taken || Executor::current().stop.load(Ordering::SeqCst)).then_some(())
        };
        if events::wait_until(Some(Instant::now() + MAX_STEP_WAIT), over).is_none() {
            self::state().steps = 0;
        }
        signal::settle();
    }
}

/// Records that the host reads a signal or an index without waiting.
pub(crate) fn host_polled() {
    let executor = Executor::current();
    if !executor.eager {
        executor.count_poll();
    }
}

impl Executor {
    /// Counts a read by the host. After more than [`MAX_POLLS`] reads without a step in between, lets the executor
    /// execute work. This function is separate from [`host_polled`], so that a host that polls an eager device does not
    /// execute this code.
    #[inline(never)]
    fn count_poll(&self) {
        if signal::in_handler() {
            return;
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        state.polls += 1;
        if state.polls > MAX_POLLS {
            state.resting = true;
            drop(state);
            events::notify();
        }
    }
}

/// Returns the timeout for a wait by the host, in nanoseconds. The timeout that the host passes is only a hint (HSA
/// runtime programmer's reference manual 1.2, `hsa_signal_wait_scacquire`). A short timeout is extended, so that the
/// speed of the executor does not affect the result.
pub(crate) fn patience(timeout: u64) -> u64 {
    if is_eager() { timeout } else { timeout.max(MAX_STEP_WAIT.as_nanos() as u64) }
}

/// Guard that registers a thread as waiting for as long as the guard lives.
pub(crate) struct Waiting(Option<u64>);

impl Waiting {
    pub(crate) fn new(signal: Signal, condition: Condition, reference: i64) -> Waiting {
        if is_eager() {
            return Waiting(None);
        }
        Executor::current().calls.fetch_add(1, Ordering::SeqCst);
        let mut state = state();
        let id = state.next_wait;
        state.next_wait += 1;
        state.resting = false;
        state.waits.push(RegisteredWait { id, signal, condition, reference });
        drop(state);
        events::notify();
        Waiting(Some(id))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            state().waits.retain(|wait| wait.id != id);
        }
    }
}

/// Returns the next pseudo-random number for this seed, and counts it in `state`.
fn draw(state: &mut State, seed: u64) -> u64 {
    state.draws += 1;
    device::mix(device::mix(seed) ^ state.draws)
}

fn execute() {
    let executor = Executor::current();
    let mut idle = IdleDetector::default();
    loop {
        let mut quiet = false;
        let step = events::wait_until(Some(Instant::now() + IdleDetector::CHECK_INTERVAL), || {
            if executor.stop.load(Ordering::SeqCst) {
                return None;
            }
            choose()
        });
        match step {
            Some(step) => {
                step.execute();
                let mut state = executor.state.lock();
                state.busy = false;
                state.polls = 0;
                // A due handler may wake a thread. That thread then decides which work is needed.
                state.resting &= signal::settled();
                drop(state);
                events::notify();
            }
            None => quiet = !executor.stop.load(Ordering::SeqCst) && has_work(),
        }
        if idle.check_idle(quiet, executor.calls.load(Ordering::SeqCst)) {
            trace!("schedule: the process is idle, so the device continues");
            executor.state.lock().resting = true;
        }
    }
}

/// Returns all steps (packets and copies) that may be executed now.
fn steps() -> Vec<Step> {
    let packets = queue::all().into_iter().flat_map(|queue| queue.startable().0);
    packets.map(Step::Packet).chain(copy_engine::ready().into_iter().map(Step::Copy)).collect()
}

fn has_work() -> bool {
    !steps().is_empty()
}

/// Returns the next step to execute; `None` if no step should be executed now.
fn choose() -> Option<Step> {
    let mut state = state();
    state.waits.retain(|wait| !wait.is_over());
    let chosen = match config::get().schedule {
        Schedule::Seeded(seed) => choose_by_seed(&mut state, seed),
        _ => choose_needed(&state),
    };
    if chosen.is_none() && state.steps > 0 {
        state.steps = 0;
        drop(state);
        events::notify();
        return None;
    }
    state.busy = chosen.is_some();
    chosen
}

fn choose_by_seed(state: &mut State, seed: u64) -> Option<Step> {
    if state.waits.is_empty() && state.steps == 0 && !state.runs_without_waits() {
        return None;
    }
    let mut steps = steps();
    if steps.is_empty() {
        return None;
    }
    state.steps = state.steps.saturating_sub(1);
    let index = draw(state, seed) % steps.len() as u64;
    Some(steps.swap_remove(index as usize))
}

fn choose_needed(state: &State) -> Option<Step> {
    let mut seen = Vec::new();
    let needed = state.waits.iter().find_map(|wait| need(wait.signal, &mut seen));
    if needed.is_some() {
        return needed;
    }
    // No queued work decrements a signal for which a thread waits. A handler or a kernel may change the signal, and any
    // work may start such a handler. Handlers that are due run first.
    let stuck = !state.waits.is_empty() && signal::settled();
    if stuck || state.runs_without_waits() { steps().into_iter().next() } else { None }
}

/// Returns the step to execute next so that the work that decrements this signal is eventually executed. Returns `None`
/// if no queued work decrements the signal. `seen` contains the signals that the search has already visited.
fn need(signal: Signal, seen: &mut Vec<Signal>) -> Option<Step> {
    if signal == Signal::NONE || seen.contains(&signal) {
        return None;
    }
    seen.push(signal);
    for queue in queue::all() {
        let Some(target) = queue.packet_that_lowers(signal) else { continue };
        let (mut startable, held_up_by) = queue.startable();
        if let Some(found) = startable.iter().position(|packet| packet.index == target) {
            return Some(Step::Packet(startable.swap_remove(found)));
        }
        if held_up_by.is_empty() {
            return startable.into_iter().next().map(Step::Packet);
        }
        return held_up_by.into_iter().find_map(|signal| need(signal, seen));
    }
    match copy_engine::copy_that_lowers(signal)? {
        Ok(copy) => Some(Step::Copy(copy)),
        Err(signals) => signals.into_iter().find_map(|signal| need(signal, seen)),
    }
}
