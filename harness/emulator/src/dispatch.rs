//! Executes one kernel dispatch: finds the kernel, applies injected faults, executes the kernel and reports traps.

use std::{
    collections::HashMap,
    ops::{ControlFlow, Range},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use aql::Refusal;
use device::{Fault, FaultSpec, Schedule};
use isa::{
    AccessKind, AddressSpace, Executed, Finding, Launch, Trap, TurnLength, Unordered, WaveSync,
    Written,
};

use crate::{
    abi::{Agent, DispatchPacket, Status},
    address_map::Kind,
    blit, config, events,
    faults::{self, FaultSelector},
    findings, loader,
    locks::Mutex,
    memory::{self, Memory},
    model, order,
    part::DeviceComponent as _,
    report,
    report::trace,
    sanitizer::{self, Sanitizer},
    system_events, transfer,
};

/// Reason why a dispatch stops its queue, and how the host learns of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The error callback of the queue must be called with this status.
    Queue(Status),
    /// The error callback of the queue must not be called, because the kernel never ends, or because the fault has been
    /// reported as a system event.
    Hang,
}

/// Properties of the queue from which a dispatch packet comes.
pub(crate) struct QueueContext<'q> {
    pub(crate) id: u64,
    /// Address of the queue, which kernels may read.
    pub(crate) address: u64,
    /// State of global wave sync, with which waves of different workgroups wait for each other; `None` if the queue
    /// does not support it.
    pub(crate) sync: Option<&'q WaveSync>,
    pub(crate) stop: &'q AtomicBool,
}

impl QueueContext<'_> {
    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// State of a device that dispatches share.
#[derive(Default)]
pub(crate) struct Dispatches {
    /// True after the fault `device.lost` has taken effect. Every dispatch then fails.
    lost: AtomicBool,
    /// Number of dispatches of kernels that belong to the program, not to the HIP runtime.
    count: AtomicU64,
    /// Argument bytes of the last dispatch of each kernel. They are recorded only if an injected fault uses them.
    arguments: Mutex<HashMap<u64, Vec<u8>>>,
}

/// Device memory as a kernel sees it. The interpreter accesses this value often, and from threads that do not belong to
/// a device. Therefore the value contains references to all required parts of the device.
struct DeviceMemory<'a> {
    kernel: &'a str,
    /// True for kernels of the HIP runtime, which may access guard areas because they copy and fill any memory.
    for_the_runtime: bool,
    memory: &'static Memory,
    sanitizer: &'static Sanitizer,
    faults: &'static FaultSelector,
    units: u64,
}

impl<'a> DeviceMemory<'a> {
    fn new(kernel: &'a str, for_the_runtime: bool) -> DeviceMemory<'a> {
        DeviceMemory {
            kernel,
            for_the_runtime,
            memory: Memory::current(),
            sanitizer: Sanitizer::current(),
            faults: FaultSelector::current(),
            units: model::for_arch(config::get().arch).compute_units.into(),
        }
    }
}

// SAFETY: the address map contains only memory that was mapped for the device at the request of the runtime or the
// program, and no objects of this library. If a program frees such memory while a kernel runs, or locks pages that it
// may not write, the process may crash, as it may if a thread of the program makes these accesses.
unsafe impl AddressSpace for DeviceMemory<'_> {
    fn is_watched(&self) -> bool {
        self.sanitizer.is_on()
    }

    fn found(&self, finding: &Finding) -> ControlFlow<()> {
        // With the sanitizer, all waves run on the thread that executes the dispatch.
        let describe = |address| self.sanitizer.describe(address);
        let known = finding.address().map_or_else(String::new, describe);
        findings::report(self.kernel, finding.mistake(), format_args!("{finding}{known}"))
    }

    fn report_hang(&self, hang: &Trap) -> ControlFlow<()> {
        let known = match hang {
            Trap::Hang { address: Some(address), .. } => self.sanitizer.describe(*address),
            _ => String::new(),
        };
        report::hang(self.kernel, format_args!("{hang}{known}"));
        ControlFlow::Continue(())
    }

    fn pages(&self, address: u64) -> Option<Range<u64>> {
        let pages = self.memory.map().pages_of_pool(usize::try_from(address).ok()?)?;
        Some(pages.start as u64..pages.end as u64)
    }

    fn written(&self, address: u64) -> Option<Arc<Written>> {
        self.sanitizer.written(address)
    }

    fn reports_never_written(&self) -> bool {
        !self.for_the_runtime
    }

    fn touch(&self, kind: AccessKind, range: Range<u64>) -> Result<(), Unordered> {
        order::touch(kind, range)
    }

    fn range(&self, address: u64) -> Option<Range<u64>> {
        let address = usize::try_from(address).ok()?;
        let mapped = self.memory.map().reach(address)?;
        let range = if self.for_the_runtime {
            mapped
        } else {
            self.sanitizer.unguarded(address, mapped)?
        };
        Some(range.start as u64..range.end as u64)
    }

    fn breaks(&self, workgroup: u64) -> bool {
        let fault = Fault::KernelWrongUnit;
        let Some(planted) = self.faults.injected(fault) else { return false };
        // The dispatcher assigns workgroups to compute units in turn.
        workgroup % self.units == planted.amount("unit") % self.units
            && self.faults.active_fault(fault, self.sanitizer).is_some()
    }
}

pub(crate) fn run(
    packet: &DispatchPacket,
    packet_address: u64,
    queue: &QueueContext<'_>,
) -> Result<(), Failure> {
    let lost = &Dispatches::current().lost;
    if lost.load(Ordering::SeqCst) || faults::is_active(Fault::DeviceLost) {
        lost.store(true, Ordering::SeqCst);
        return Err(Failure::Queue(Status::EXCEPTION));
    }
    // Memory that the kernel may access must stay mapped until the kernel ends.
    let _in_use = memory::InUse::new();
    let kernel = loader::kernel(packet.kernel_object);
    if let Some((status, what)) = rejection(packet) {
        report::fault(kernel.as_ref().map_or("unknown", |kernel| &kernel.name), what);
        return Err(Failure::Queue(status));
    }
    let Some(kernel) = kernel else {
        report::fault(
            "unknown",
            format_args!("no kernel is loaded at {:#x}", packet.kernel_object),
        );
        system_events::memory_fault(packet.kernel_object);
        return Err(Failure::Hang);
    };
    trace!(
        "dispatch {} grid {:?} workgroup {:?} kernarg {:#x}",
        kernel.name, packet.grid, packet.workgroup, packet.kernarg
    );
    order::launches(&kernel.name);
    let for_the_runtime = blit::is_runtime_kernel(&kernel.name);
    let execute = |kernarg| {
        let launch = Launch {
            kernel_name: &kernel.name,
            descriptor: packet.kernel_object,
            packet: packet_address,
            queue: queue.address,
            sync: queue.sync,
            kernarg,
            grid: packet.grid.map(|n| n.max(1)),
            workgroup: packet.workgroup.map(|n| u32::from(n.max(1))),
            group_segment_bytes: packet.group_bytes,
            private_segment_bytes: packet.private_bytes,
            arch: config::get().arch,
            step_limit: isa::DEFAULT_STEP_LIMIT,
            threads: config::get().threads,
            turns: match config::get().schedule {
                Schedule::Waves(turn) => TurnLength::Fixed(turn.get()),
                Schedule::Seeded(seed) => TurnLength::Seeded(seed),
                Schedule::Eager | Schedule::Lazy | Schedule::LateResults => TurnLength::default(),
            },
            room: aql::room(config::get().arch, packet),
            patience: Duration::from_secs(config::get().patience.into()),
            late_results: config::get().schedule == Schedule::LateResults,
        };
        // A kernel may write to a signal without a call to this library.
        let _writer = events::SilentWriter::new();
        isa::launch(&launch, &DeviceMemory::new(&kernel.name, for_the_runtime))
    };
    let result = if for_the_runtime {
        blit::run(&kernel, packet.kernarg, || execute(packet.kernarg))
    } else {
        execute_with_faults(&kernel, packet, execute)?
    };
    match result {
        Ok(executed) => {
            trace!("dispatch {} done: {executed:?}", kernel.name);
            Ok(())
        }
        // When a queue is destroyed, the driver kills its waves, and the host may unload their code at once.
        Err(Trap::PageFault { .. } | Trap::Unmapped { .. }) if queue.stopping() => {
            Err(Failure::Hang)
        }
        Err(trap) => Err(report_trap(&kernel.name, &trap)),
    }
}

/// Returns the status that ROCr reports for a packet that the packet processor rejects
/// (`AqlQueue::DynamicQueueEventsHandler`), and the reason for the rejection. Returns `None` if the packet is valid.
fn rejection(packet: &DispatchPacket) -> Option<(Status, Refusal)> {
    let refusal = aql::rejection_reason(config::get().arch, packet)?;
    let status = match refusal {
        Refusal::NoDimensions => Status::INCOMPATIBLE_ARGUMENTS,
        Refusal::NoKernel => Status::INVALID_CODE_OBJECT,
        Refusal::TooMuchLds { .. } => Status::INVALID_ALLOCATION,
        Refusal::LargeWorkgroup { .. } => Status::INVALID_ARGUMENT,
    };
    Some((status, refusal))
}

/// Executes a kernel of the program under test, by calling `execute` with the address of the kernel arguments. An
/// injected fault may modify the execution.
fn execute_with_faults(
    kernel: &loader::Kernel,
    packet: &DispatchPacket,
    execute: impl Fn(u64) -> Result<Executed, Trap>,
) -> Result<Result<Executed, Trap>, Failure> {
    let number = Dispatches::current().count.fetch_add(1, Ordering::Relaxed) + 1;
    let is_the_one = |fault| {
        faults::injected(fault).is_some_and(|planted| planted.amount("dispatch") == number)
            && faults::is_active(fault)
    };
    if is_the_one(Fault::QueueError) {
        return Err(Failure::Queue(Status::EXCEPTION));
    }
    if faults::is_active(Fault::KernelPageFault) {
        report::fault(&kernel.name, "an injected access to memory that is not mapped");
        system_events::memory_fault(0);
        return Err(Failure::Hang);
    }
    if faults::is_active(Fault::KernelDrop) {
        return Ok(Ok(Executed::default()));
    }
    let begun = Instant::now();
    let wrong = wrong_arguments(packet, kernel.kernarg_bytes as usize);
    let kernarg = wrong.unwrap_or(packet.kernarg);
    let mut result = transfer::with_stale_lines(|| execute(kernarg));
    if result.is_ok() && faults::is_active(Fault::KernelTwice) {
        result = execute(kernarg);
    }
    if let Some(copy) = wrong {
        memory::free(copy as usize);
    }
    let slows = |slow: &FaultSpec| number >= slow.amount("from");
    if faults::injected(Fault::LaunchSlow).is_some_and(slows)
        && let Some(slow) = faults::active_fault(Fault::LaunchSlow)
    {
        let factor = u32::try_from(slow.amount("factor")).unwrap_or(u32::MAX);
        let more = begun.elapsed().saturating_mul(factor.saturating_sub(1));
        std::thread::sleep(more.saturating_add(Duration::from_millis(slow.amount("ms"))));
    }
    if is_the_one(Fault::DeviceReset) {
        memory::forget();
    }
    Ok(result)
}

fn report_trap(kernel: &str, trap: &Trap) -> Failure {
    match trap {
        // HIP validates its launches. If a launch fails here, the kernel needs something that the interpreter does not
        // support or the host does not have, for example AVX2.
        Trap::Unimplemented { .. } | Trap::NoDisassembler { .. } | Trap::InvalidLaunch { .. } => {
            report::unsupported(kernel, trap);
            Failure::Queue(Status::ILLEGAL_INSTRUCTION)
        }
        Trap::PageFault { address, .. } | Trap::Unmapped { address, .. } => {
            report::fault(kernel, format_args!("{trap}{}", sanitizer::describe(*address)));
            system_events::memory_fault(*address);
            Failure::Hang
        }
        // The finding was reported when it was detected.
        Trap::Found(_) => Failure::Queue(Status::EXCEPTION),
        // The hang was reported when it was detected.
        Trap::Hang { .. } => Failure::Hang,
        Trap::StepLimit { .. } => {
            report::hang(kernel, trap);
            Failure::Hang
        }
        _ => {
            report::fault(kernel, trap);
            match trap {
                Trap::IllegalInstruction { .. } => Failure::Queue(Status::ILLEGAL_INSTRUCTION),
                _ => Failure::Queue(Status::EXCEPTION),
            }
        }
    }
}

/// If the fault `kernel.stale-args` or `kernel.wrong-args` takes effect, returns the address of wrong argument bytes
/// for the kernel. Otherwise returns `None`. `len` is the size of the arguments in bytes.
fn wrong_arguments(packet: &DispatchPacket, len: usize) -> Option<u64> {
    let planted = |fault| faults::injected(fault).is_some();
    let start = packet.kernarg as usize;
    if !(planted(Fault::KernelStaleArgs) || planted(Fault::KernelWrongArgs))
        || len == 0
        || memory::map().check(start, len).is_err()
    {
        return None;
    }
    // SAFETY: the range is mapped, and the caller keeps it mapped while the dispatch runs.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, len) }.to_vec();
    let bytes = stale(packet.kernel_object, &bytes).or_else(|| flipped(bytes))?;
    let copy = memory::allocate(len, Agent::CPU, 0, Kind::Internal)?;
    // SAFETY: the target is a fresh allocation of at least `len` bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy as *mut u8, len) };
    Some(copy as u64)
}

/// Stores the argument bytes of a dispatch if the fault `kernel.stale-args` is injected. If the fault takes effect,
/// returns the argument bytes of the previous dispatch of the same kernel, else `None`.
fn stale(kernel: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    faults::injected(Fault::KernelStaleArgs)?;
    let mut last = Dispatches::current().arguments.lock();
    let before = last.insert(kernel, bytes.to_vec())?;
    (before.len() == bytes.len() && faults::is_active(Fault::KernelStaleArgs)).then_some(before)
}

fn flipped(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let planted = faults::active_fault(Fault::KernelWrongArgs)?;
    let byte = planted.amount("byte") as usize % bytes.len().max(1);
    *bytes.get_mut(byte)? ^= 1;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut DispatchPacket), expected: Option<Status>) {
        // SAFETY: all fields are plain integers.
        let mut packet: DispatchPacket = unsafe { std::mem::zeroed() };
        (packet.setup, packet.workgroup, packet.kernel_object) = (3, [64, 1, 1], 4096);
        change(&mut packet);
        assert_eq!(rejection(&packet).map(|(status, _)| status), expected);
    }

    #[test]
    fn rejects_invalid_packets_with_their_status() {
        check(|_| {}, None);
        check(|packet| packet.setup = 4, Some(Status::INCOMPATIBLE_ARGUMENTS));
        check(|packet| packet.kernel_object = 0, Some(Status::INVALID_CODE_OBJECT));
        check(|packet| packet.group_bytes = 64 << 10, None);
        check(|packet| packet.group_bytes = u32::MAX, Some(Status::INVALID_ALLOCATION));
        check(|packet| packet.workgroup = [32, 32, 1], None);
        check(|packet| packet.workgroup = [32, 32, 2], Some(Status::INVALID_ARGUMENT));
    }
}
