//! When packets and copies are carried out, where the configuration asks for more than "at once".
//!
//! On the eager schedule each queue and each copy engine has a thread of its own and this module has nothing to do. On the
//! others one thread, the *executor*, carries out one packet or copy at a time, and only when it has a reason:
//!
//! * a thread waits for a signal. `lazy` carries out what that signal needs and nothing else, a seeded schedule anything
//!   that may go next, by its seed, until the wait is over.
//! * `seeded` only: the host made a call. A few random steps are taken before the call returns.
//! * the process has come to rest: every other thread sleeps outside of this library, so that the work must be done for
//!   anything to happen at all (a host function, a condition variable that a handler signals);
//! * the process ends: a runtime in its destructors spins, without a call, until the last of its work is done.
//!
//! Whole packets are steps: kernels of different queues do not overlap. What may go next is decided by the rules of the
//! HSA Platform System Architecture Specification 1.2, 2.9: packets are launched in order, one with the barrier bit only
//! when all before it are complete, and a barrier packet holds up those behind it until it is complete.

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
    idle::Idle,
    locks::Mutex,
    part::Part as _,
    queue,
    report::trace,
    rest, signal,
};

/// Something that can be carried out now.
pub(crate) enum Step {
    Packet(queue::Ready),
    Copy(copy_engine::Ready),
}

impl Step {
    fn carry_out(self) {
        match self {
            Step::Packet(packet) => packet.carry_out(),
            Step::Copy(copy) => copy.carry_out(),
        }
    }
}

/// A wait of a thread of the process.
struct Wait {
    id: u64,
    signal: Signal,
    condition: Condition,
    reference: i64,
}

impl Wait {
    fn is_over(&self) -> bool {
        self.condition.holds(self.signal.load(), self.reference)
    }
}

/// Who decides what is carried out when.
pub(crate) struct Executor {
    /// Whether queues and engines have threads of their own.
    eager: bool,
    state: Mutex<State>,
    /// Calls of the host so far; what does not change is at rest.
    calls: AtomicU64,
    stop: AtomicBool,
    started: Once,
}

impl Executor {
    pub(crate) fn new(config: &Config) -> Executor {
        let at_once =
            matches!(config.schedule, Schedule::Eager | Schedule::Waves(_) | Schedule::LateResults);
        // A queue that ignores its barrier bits needs somebody who decides what overtakes what.
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
    waits: Vec<Wait>,
    next_wait: u64,
    /// Random steps that a call of the host waits for.
    steps: u32,
    /// Draws so far.
    draws: u64,
    /// Whether a step is being carried out.
    busy: bool,
    /// Looks at signals since the last step; a host that polls wants the work done.
    looks: u32,
    /// Whether the process has come to rest and work is carried out until something wakes.
    resting: bool,
}

impl State {
    /// Whether the device goes on though nobody waits.
    fn goes_on(&self) -> bool {
        self.resting || rest::process_ends()
    }
}

/// How long a call of the host waits for its random steps: a kernel may itself wait for the host.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at signals in a row that count as a wait.
const POLLS: u32 = 64;

fn state() -> MutexGuard<'static, State> {
    Executor::here().state.lock()
}

/// Whether queues and engines have threads of their own.
pub(crate) fn is_eager() -> bool {
    Executor::here().eager
}

/// Starts the executor, once.
pub(crate) fn start() {
    let executor = Executor::here();
    executor.stop.store(false, Ordering::SeqCst);
    executor.started.call_once(|| {
        if Executor::spawn("device order", execute).is_err() {
            crate::report::bad_configuration("no thread for the schedule can be had");
        }
    });
}

/// Nothing is carried out from here on.
pub(crate) fn shut_down() {
    Executor::here().stop.store(true, Ordering::SeqCst);
    events::notify();
}

/// The host handed over work or asked something: a place where a seeded schedule may let the device go on.
pub(crate) fn host_called() {
    if is_eager() {
        return;
    }
    Executor::here().calls.fetch_add(1, Ordering::SeqCst);
    state().resting = false;
    let Schedule::Seeded(seed) = config::get().schedule else {
        return events::notify();
    };
    if signal::in_handler() {
        return events::notify();
    }
    let mut state = state();
    let draw = draw(&mut state, seed);
    // None half of the time, one a quarter of the time, and so on.
    state.steps = draw.trailing_ones().min(6);
    let wanted = state.steps > 0;
    drop(state);
    events::notify();
    if wanted {
        let over = || {
            let state = self::state();
            let taken = state.steps == 0 && !state.busy;
            (taken || Executor::here().stop.load(Ordering::SeqCst)).then_some(())
        };
        if events::wait_until(Some(Instant::now() + PATIENCE), over).is_none() {
            self::state().steps = 0;
        }
        signal::settle();
    }
}

/// The host looked at a signal or an index without waiting for it.
pub(crate) fn host_looked() {
    let executor = Executor::here();
    if !executor.eager {
        executor.looked();
    }
}

impl Executor {
    /// Apart from [`host_looked`], as a host that polls an eager device pays for nothing of this.
    #[inline(never)]
    fn looked(&self) {
        if signal::in_handler() {
            return;
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        state.looks += 1;
        if state.looks > POLLS {
            state.resting = true;
            drop(state);
            events::notify();
        }
    }
}

/// How long a wait may last that the host limits to so many nanoseconds. The limit is a hint (HSA runtime programmer's
/// reference manual 1.2, `hsa_signal_wait_scacquire`), and whether the executor is quick enough must decide nothing.
pub(crate) fn patience(timeout: u64) -> u64 {
    if is_eager() { timeout } else { timeout.max(PATIENCE.as_nanos() as u64) }
}

/// Notes for as long as it lives that a thread waits for a signal.
pub(crate) struct Waiting(Option<u64>);

impl Waiting {
    pub(crate) fn new(signal: Signal, condition: Condition, reference: i64) -> Waiting {
        if is_eager() {
            return Waiting(None);
        }
        Executor::here().calls.fetch_add(1, Ordering::SeqCst);
        let mut state = state();
        let id = state.next_wait;
        state.next_wait += 1;
        state.resting = false;
        state.waits.push(Wait { id, signal, condition, reference });
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

/// The next number of the seed's sequence.
fn draw(state: &mut State, seed: u64) -> u64 {
    state.draws += 1;
    device::mix(device::mix(seed) ^ state.draws)
}

fn execute() {
    let executor = Executor::here();
    let mut idle = Idle::default();
    loop {
        let mut quiet = false;
        let step = events::wait_until(Some(Instant::now() + Idle::LOOK), || {
            if executor.stop.load(Ordering::SeqCst) {
                return None;
            }
            choose()
        });
        match step {
            Some(step) => {
                step.carry_out();
                let mut state = executor.state.lock();
                state.busy = false;
                state.looks = 0;
                // A handler that is due now may wake somebody who decides what comes next.
                state.resting &= signal::settled();
                drop(state);
                events::notify();
            }
            None => quiet = !executor.stop.load(Ordering::SeqCst) && has_work(),
        }
        if idle.has_lasted(quiet, executor.calls.load(Ordering::SeqCst)) {
            trace!("schedule: the process rests, so the device goes on");
            executor.state.lock().resting = true;
        }
    }
}

/// What may be carried out now, by queue and engine.
fn steps() -> Vec<Step> {
    let packets = queue::all().into_iter().flat_map(|queue| queue.startable().0);
    packets.map(Step::Packet).chain(copy_engine::ready().into_iter().map(Step::Copy)).collect()
}

fn has_work() -> bool {
    !steps().is_empty()
}

/// The next step, if there is a reason for one.
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
    if state.waits.is_empty() && state.steps == 0 && !state.goes_on() {
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
    // Nobody is known to lower what is waited for: a handler or a kernel may, and to get there takes any work. A
    // handler that is due comes first.
    let stuck = !state.waits.is_empty() && signal::settled();
    if stuck || state.goes_on() { steps().into_iter().next() } else { None }
}

/// The next step on the way to lowering that signal.
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
