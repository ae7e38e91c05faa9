//! Copy engines, which execute asynchronous copies. A copy waits for signals before it starts, and decrements a
//! completion signal when it ends.
//!
//! Each engine is a thread that executes its copies in the order of submission, like a hardware engine. While a copy
//! waits for a signal, the later copies on the same engine wait too.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, OnceLock},
};

use device::Fault;
use isa::Unordered;

use crate::{
    abi::{Agent, Dim3, Out, PitchedPtr, Signal, Status, array},
    clock, events, faults, findings,
    locks::{Condvar, Mutex},
    memory, order,
    part::DeviceComponent as _,
    report,
    report::trace,
    rest,
    row::Row,
    sanitizer, schedule, system_events,
    transfer::{self, CopyEffect, Direction},
};

struct Job {
    rows: Vec<Row>,
    direction: Direction,
    dependencies: Vec<Signal>,
    completion: Signal,
    submitted: Option<order::Submission>,
    _work: rest::Work,
}

struct State {
    jobs: VecDeque<Job>,
    stop: bool,
}

struct Engine {
    state: Mutex<State>,
    changed: Condvar,
}

/// Three engines: for copies from host to device, for copies from device to host, and for all other copies. An engine
/// that has not been used is `None`.
#[derive(Default)]
pub(crate) struct Engines(Mutex<[Option<Arc<Engine>>; 3]>);

impl Engine {
    fn start() -> Option<Arc<Engine>> {
        let state = Mutex::new(State { jobs: VecDeque::new(), stop: false });
        let engine = Arc::new(Engine { state, changed: Condvar::new() });
        if schedule::is_eager() {
            let own = Arc::clone(&engine);
            Engines::spawn("device copies", move || own.run()).ok()?;
        } else {
            schedule::start();
        }
        Some(engine)
    }

    fn stopped(&self) -> bool {
        self.state.lock().stop
    }

    fn next(&self) -> Option<Job> {
        let state = self.state.lock();
        let mut state =
            self.changed.wait_while(state, |state| state.jobs.is_empty() && !state.stop);
        if state.stop { None } else { state.jobs.pop_front() }
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            let ready = events::wait_until(None, || {
                let lowered = job.dependencies.iter().all(|signal| signal.load() == 0);
                if lowered { Some(true) } else { self.stopped().then_some(false) }
            });
            if ready == Some(true) {
                execute(&job);
            }
        }
    }
}

pub(crate) struct Ready(Arc<Engine>);

impl Ready {
    pub(crate) fn execute(self) {
        let job = self.0.state.lock().jobs.pop_front();
        if let Some(job) = job {
            execute(&job);
        }
    }
}

/// Returns the copy engines that have been used.
fn engines() -> Vec<Arc<Engine>> {
    Engines::current().0.lock().iter().flatten().cloned().collect()
}

/// Returns the signals for which the copy `job` still has to wait.
fn pending_dependencies(job: &Job) -> Vec<Signal> {
    job.dependencies.iter().copied().filter(|signal| signal.load() != 0).collect()
}

/// Returns the engines whose oldest copy may be executed now.
pub(crate) fn ready() -> Vec<Ready> {
    let is_ready = |engine: &Arc<Engine>| {
        let state = engine.state.lock();
        state.jobs.front().is_some_and(|job| pending_dependencies(job).is_empty())
    };
    engines().into_iter().filter(is_ready).map(Ready).collect()
}

/// Finds the engine of the copy that decrements this signal, and returns the state of its oldest copy. `Ok` contains
/// the engine if its oldest copy can be executed now. `Err` contains the signals for which its oldest copy waits.
/// Returns `None` if no copy decrements the signal.
pub(crate) fn copy_that_lowers(signal: Signal) -> Option<Result<Ready, Vec<Signal>>> {
    engines().into_iter().find_map(|engine| {
        let state = engine.state.lock();
        state.jobs.iter().find(|job| job.completion == signal)?;
        let unmet = pending_dependencies(state.jobs.front()?);
        drop(state);
        Some(if unmet.is_empty() { Ok(Ready(engine)) } else { Err(unmet) })
    })
}

fn execute(job: &Job) {
    let start = clock::now();
    let in_use = memory::InUse::new();
    let total = job.rows.iter().map(|row| row.len).sum();
    for row in &job.rows {
        let reached = check_access(row.from, row.len).and_then(|()| check_access(row.to, row.len));
        if let Err(address) = reached {
            report::fault(
                "copy engine",
                format_args!("page fault at {address:#x}{}", sanitizer::describe(address as u64)),
            );
            system_events::memory_fault(address as u64);
            return;
        }
    }
    if let Some(address) = transfer::page_fault(&job.rows) {
        return refuse_access(address);
    }
    let work = match order::begin_copy(job.submitted.as_ref(), &job.dependencies, &job.rows) {
        Ok(work) => work,
        Err(unordered) => return refuse(&unordered),
    };
    let copy_effect = copy_effect(total, job.direction);
    // SAFETY: every row is mapped, and `in_use` keeps it mapped.
    unsafe { transfer::execute(&job.rows, copy_effect) };
    drop(in_use);
    if !faults::is_active(Fault::SignalStuck) {
        order::end_copy(work.as_ref(), job.completion);
        job.completion.complete(start);
    }
}

/// Checks that the engine can access a whole range. Returns the first address that it cannot access as an error. With
/// the sanitizer, allocations are tracked to the byte. An access outside of an allocation but inside a mapped page is
/// then reported as a finding.
fn check_access(start: usize, len: usize) -> Result<(), usize> {
    let map = memory::map();
    let Err(outside) = map.check(start, len) else { return Ok(()) };
    let pages =
        map.pages_of_pool(outside).filter(|pages| sanitizer::is_on() && pages.contains(&start));
    if pages.is_none_or(|pages| start.checked_add(len).is_none_or(|end| end > pages.end)) {
        return Err(outside);
    }
    drop(map);
    let line = sanitizer::line(sanitizer::current_line());
    let known = sanitizer::describe(outside as u64);
    let what = format!("out of bounds: the copy of {line} reaches {outside:#x}{known}");
    match findings::report("copy engine", format!("outside {line}"), what) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(outside),
    }
}

fn refuse_access(address: u64) {
    report::fault("copy engine", format_args!("an injected page fault at {address:#x}"));
    system_events::memory_fault(address);
}

/// Reports a memory fault to the host for a copy that is not executed because of a finding of the sanitizer.
fn refuse(unordered: &Unordered) {
    system_events::memory_fault(unordered.address);
}

/// Decides which injected fault takes effect on a copy of `total` bytes. Faults of the copy engine take precedence over
/// faults that can also take effect on copies by a kernel.
fn copy_effect(total: usize, direction: Direction) -> CopyEffect {
    if enabled() && total > 0 && faults::is_active(Fault::SdmaZero) {
        CopyEffect::Zeroed
    } else {
        transfer::copy_effect(total, direction)
    }
}

/// Returns true if the copy engines are enabled. If `HSA_ENABLE_SDMA=0` is set, ROCr copies with kernels (ROCR-Runtime,
/// docs/api-reference/environment_variables.rst).
fn enabled() -> bool {
    // The environment variable is read once, because it applies to all devices of the process.
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| std::env::var_os("HSA_ENABLE_SDMA").is_none_or(|v| v != "0"))
}

fn submit(index: usize, job: Job) -> Status {
    let mut engines = Engines::current().0.lock();
    if engines[index].is_none() {
        engines[index] = Engine::start();
    }
    let Some(engine) = &engines[index] else { return Status::OUT_OF_RESOURCES };
    let engine = Arc::clone(engine);
    drop(engines);
    engine.state.lock().jobs.push_back(job);
    if schedule::is_eager() {
        engine.changed.notify_one();
    } else {
        schedule::host_called();
    }
    Status::SUCCESS
}

/// Stops the copy engines. Pending copies are dropped, as the driver does when it closes the queues of a process.
pub(crate) fn shut_down() {
    for engine in Engines::current().0.lock().iter_mut() {
        if let Some(engine) = engine.take() {
            engine.state.lock().stop = true;
            engine.changed.notify_all();
        }
    }
    events::notify();
}

fn engine_for(to: Agent, from: Agent) -> usize {
    match (to.is_gpu(), from.is_gpu()) {
        (true, false) => 0,
        (false, true) => 1,
        _ => 2,
    }
}

fn direction(to: Agent, from: Agent) -> Direction {
    if to.is_gpu() && !from.is_gpu() { Direction::HostToDevice } else { Direction::Other }
}

/// `hsa_amd_memory_async_copy`.
///
/// # Safety
/// As HSA requires, `dependencies` must point at `count` signals.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_memory_async_copy(
    to: usize,
    to_agent: Agent,
    from: usize,
    from_agent: Agent,
    len: usize,
    count: u32,
    dependencies: *const Signal,
    completion: Signal,
) -> Status {
    if len == 0 {
        return Status::SUCCESS;
    }
    if to == 0 || from == 0 {
        return Status::INVALID_ARGUMENT;
    }
    trace!(
        "copy {len} bytes from {from:#x} of agent {} to {to:#x} of agent {}, {count} dependencies",
        from_agent.0, to_agent.0,
    );
    // SAFETY: HSA requires the caller to pass `count` signals.
    let dependencies = unsafe { array(dependencies, count) }.to_vec();
    let direction = direction(to_agent, from_agent);
    let rows = vec![Row { to, from, len }];
    submit(
        engine_for(to_agent, from_agent),
        Job {
            rows,
            direction,
            dependencies,
            completion,
            submitted: order::submitted(),
            _work: rest::Work::begin(),
        },
    )
}

/// `hsa_amd_memory_async_copy_on_engine`. The direction of the copy selects the engine, and the engine that the caller
/// requests is ignored. HIP requests only engines that serve the direction.
///
/// # Safety
/// As HSA requires, `dependencies` must point at `count` signals.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_memory_async_copy_on_engine(
    to: usize,
    to_agent: Agent,
    from: usize,
    from_agent: Agent,
    len: usize,
    count: u32,
    dependencies: *const Signal,
    completion: Signal,
    _engine: u32,
    _force: bool,
) -> Status {
    // SAFETY: the arguments are passed on unchanged.
    unsafe {
        hsa_amd_memory_async_copy(
            to,
            to_agent,
            from,
            from_agent,
            len,
            count,
            dependencies,
            completion,
        )
    }
}

fn rect_rows(
    to: PitchedPtr,
    to_offset: Dim3,
    from: PitchedPtr,
    from_offset: Dim3,
    range: Dim3,
) -> Vec<Row> {
    let at = |place: PitchedPtr, offset: Dim3, y: u32, z: u32| {
        place.base as usize
            + (offset.z + z) as usize * place.slice
            + (offset.y + y) as usize * place.pitch
            + offset.x as usize
    };
    let lines = (0..range.z).flat_map(|z| (0..range.y).map(move |y| (y, z)));
    lines
        .map(|(y, z)| Row {
            to: at(to, to_offset, y, z),
            from: at(from, from_offset, y, z),
            len: range.x as usize,
        })
        .collect()
}

/// `hsa_amd_memory_async_copy_rect`.
///
/// # Safety
/// As HSA requires, the pointers to structs must be valid, and `dependencies` must point at `count` signals.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_memory_async_copy_rect(
    to: *const PitchedPtr,
    to_offset: *const Dim3,
    from: *const PitchedPtr,
    from_offset: *const Dim3,
    range: *const Dim3,
    _agent: Agent,
    copy_direction: u32,
    count: u32,
    dependencies: *const Signal,
    completion: Signal,
) -> Status {
    // SAFETY: each pointer is null, which is rejected, or points to a struct of the caller that lives during this call.
    let arguments = unsafe {
        (to.as_ref(), to_offset.as_ref(), from.as_ref(), from_offset.as_ref(), range.as_ref())
    };
    let (Some(to), Some(to_offset), Some(from), Some(from_offset), Some(range)) = arguments else {
        return Status::INVALID_ARGUMENT;
    };
    trace!("copy rect {range:?} in direction {copy_direction}");
    let rows = rect_rows(*to, *to_offset, *from, *from_offset, *range);
    // hsa_amd_copy_direction_t: host to device is 1, device to host 2.
    let (index, direction) = match copy_direction {
        1 => (0, Direction::HostToDevice),
        2 => (1, Direction::Other),
        _ => (2, Direction::Other),
    };
    // SAFETY: HSA requires the caller to pass `count` signals.
    let dependencies = unsafe { array(dependencies, count) }.to_vec();
    submit(
        index,
        Job {
            rows,
            direction,
            dependencies,
            completion,
            submitted: order::submitted(),
            _work: rest::Work::begin(),
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_memory_copy_engine_status(
    _to: Agent,
    _from: Agent,
    mask: Out<u32>,
) -> Status {
    mask.put(0b11)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_memory_get_preferred_copy_engine(
    to: Agent,
    from: Agent,
    mask: Out<u32>,
) -> Status {
    mask.put(if engine_for(to, from) == 1 { 0b10 } else { 0b01 })
}

/// `hsa_memory_copy`. The host waits for the copy, because the call has neither a queue nor a signal.
///
/// # Safety
/// As HSA requires, both ranges must be valid for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_memory_copy(to: usize, from: usize, len: usize) -> Status {
    if to == 0 || from == 0 {
        return Status::INVALID_ARGUMENT;
    }
    trace!("memory_copy {len} bytes from {from:#x} to {to:#x}");
    let owner =
        |address| memory::map().find(address).map_or(Agent::CPU, |(_, region)| region.owner);
    let rows = [Row { to, from, len }];
    if let Some(address) = transfer::page_fault(&rows) {
        refuse_access(address);
        return Status::ERROR;
    }
    let copy_effect = copy_effect(len, direction(owner(to), owner(from)));
    // SAFETY: the caller guarantees `len` bytes at both ends.
    unsafe { move_by_host(&rows, copy_effect) }
}

/// Copies rows of bytes while the host waits.
///
/// # Safety
/// See [`transfer::execute`].
pub(crate) unsafe fn move_by_host(rows: &[Row], copy_effect: CopyEffect) -> Status {
    if let Err(unordered) = order::host_copy(rows) {
        refuse(&unordered);
        return Status::ERROR;
    }
    // SAFETY: the caller guarantees the bytes at both ends.
    unsafe { transfer::execute(rows, copy_effect) };
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_profiling_async_copy_enable(_enable: bool) -> Status {
    // Times are always recorded, so the setting has no effect.
    Status::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{abi::Condition, address_map::Kind, signal};

    #[test]
    fn copy_waits_for_its_dependency_and_lowers_its_signal() {
        let from = memory::allocate(64, Agent::CPU, 0, Kind::Pool).unwrap();
        let to = memory::allocate(64, Agent::GPU, 0, Kind::Pool).unwrap();
        // SAFETY: both addresses are fresh allocations of at least 64 bytes.
        unsafe { std::ptr::write_bytes(from as *mut u8, 7, 64) };
        let (dependency, completion) = (signal::create(1), signal::create(1));
        // SAFETY: the count of dependencies is one.
        let status = unsafe {
            hsa_amd_memory_async_copy(
                to,
                Agent::GPU,
                from,
                Agent::CPU,
                64,
                1,
                &dependency,
                completion,
            )
        };
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(signal::wait(completion, Condition::Eq, 0, 1_000_000), 1);
        dependency.add(-1);
        assert_eq!(signal::wait(completion, Condition::Eq, 0, u64::MAX), 0);
        // SAFETY: the copy is complete, so nothing writes the 64 bytes.
        assert_eq!(unsafe { std::slice::from_raw_parts(to as *const u8, 64) }, [7; 64]);
        assert!(memory::free(from) && memory::free(to));
    }

    #[test]
    fn rectangle_has_one_row_per_line() {
        let place = |base: usize| PitchedPtr { base: base as *mut u8, pitch: 10, slice: 100 };
        let rows = rect_rows(
            place(1000),
            Dim3 { x: 1, y: 0, z: 0 },
            place(5000),
            Dim3 { x: 0, y: 2, z: 1 },
            Dim3 { x: 4, y: 2, z: 2 },
        );
        let expected = [(1001, 5120), (1011, 5130), (1101, 5220), (1111, 5230)];
        let expected = expected.map(|(to, from)| Row { to, from, len: 4 });
        assert_eq!(rows, expected);
    }
}
