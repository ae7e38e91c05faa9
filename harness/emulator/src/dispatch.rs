//! One kernel dispatch: find the kernel, plant what is to be planted, execute, report traps.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use device::Fault;
use isa::{AddressSpace, Launch, Trap};

use crate::{
    abi::{Agent, DispatchPacket, Status},
    address_map::Kind,
    blit, config, events, faults, loader, memory, report,
    report::trace,
    system,
};

/// Why a queue stops at a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The queue's error callback is told.
    Queue(Status),
    /// Nobody is told by the queue: the kernel does not end, or the fault was a system event.
    Hang,
}

/// The address map as kernels see it.
struct DeviceMemory;

impl AddressSpace for DeviceMemory {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        let range = memory::map().reach(usize::try_from(address).ok()?)?;
        Some(range.start as u64..range.end as u64)
    }
}

/// `HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION`.
const APERTURE_VIOLATION: Status = Status(41);

/// Executes the dispatch to its end.
pub(crate) fn run(packet: &DispatchPacket, packet_address: u64, queue: u64) -> Result<(), Failure> {
    static LOST: AtomicBool = AtomicBool::new(false);
    if LOST.load(Ordering::SeqCst) || faults::takes(Fault::DeviceLost) {
        LOST.store(true, Ordering::SeqCst);
        return Err(Failure::Queue(Status::EXCEPTION));
    }
    // What the kernel may reach must stay mapped until it ends.
    let _in_use = memory::InUse::new();
    let Some(kernel) = loader::kernel(packet.kernel_object) else {
        report::fault(
            "unknown",
            format_args!("no kernel is loaded at {:#x}", packet.kernel_object),
        );
        system::memory_fault(packet.kernel_object);
        return Err(Failure::Hang);
    };
    trace!(
        "dispatch {} grid {:?} workgroup {:?} kernarg {:#x}",
        kernel.name, packet.grid, packet.workgroup, packet.kernarg
    );
    let execute = |kernarg| {
        let launch = Launch {
            kernel_name: &kernel.name,
            descriptor: packet.kernel_object,
            packet: packet_address,
            queue,
            kernarg,
            grid: packet.grid.map(|n| n.max(1)),
            workgroup: packet.workgroup.map(|n| u32::from(n.max(1))),
            group_segment_bytes: packet.group_bytes,
            private_segment_bytes: packet.private_bytes,
            arch: config::get().arch,
            step_limit: isa::DEFAULT_STEP_LIMIT,
        };
        // A kernel may write signals, which nobody announces.
        let _writer = events::SilentWriter::new();
        isa::launch(&launch, &DeviceMemory)
    };
    let result = if blit::is_of_the_runtime(&kernel.name) {
        blit::run(&kernel, packet.kernarg, || execute(packet.kernarg))
    } else if faults::takes(Fault::KernelDrop) {
        return Ok(());
    } else {
        let stale = stale_arguments(packet, kernel.kernarg_bytes as usize);
        let result = execute(stale.unwrap_or(packet.kernarg));
        if let Some(copy) = stale {
            memory::free(copy as usize);
        }
        result
    };
    match result {
        Ok(executed) => {
            trace!("dispatch {} done: {executed:?}", kernel.name);
            Ok(())
        }
        Err(trap) => Err(report_trap(&kernel.name, &trap)),
    }
}

fn report_trap(kernel: &str, trap: &Trap) -> Failure {
    match trap {
        // HIP hands over no launch that makes no sense; what cannot be launched is something that
        // the interpreter lacks, such as a rounding mode.
        Trap::Unimplemented { .. } | Trap::NoDisassembler { .. } | Trap::InvalidLaunch { .. } => {
            report::gap(kernel, trap);
            Failure::Queue(Status::ILLEGAL_INSTRUCTION)
        }
        Trap::PageFault { address, .. } => {
            report::fault(kernel, trap);
            system::memory_fault(*address);
            Failure::Hang
        }
        _ => {
            report::fault(kernel, trap);
            match trap {
                Trap::IllegalInstruction { .. } => Failure::Queue(Status::ILLEGAL_INSTRUCTION),
                Trap::LdsOutOfRange { .. } => Failure::Queue(APERTURE_VIOLATION),
                Trap::StepLimit { .. } => Failure::Hang,
                _ => Failure::Queue(Status::EXCEPTION),
            }
        }
    }
}

/// With `kernel.stale-args`, the address of a copy of the argument bytes of the dispatch of the
/// same kernel before this one.
fn stale_arguments(packet: &DispatchPacket, len: usize) -> Option<u64> {
    static LAST: Mutex<Option<HashMap<u64, Vec<u8>>>> = Mutex::new(None);
    let planted = config::get().faults.iter().any(|p| p.fault == Fault::KernelStaleArgs);
    let start = packet.kernarg as usize;
    if !planted || len == 0 || memory::map().check(start, len).is_err() {
        return None;
    }
    // SAFETY: the range is mapped, and the caller keeps it so while the dispatch runs.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, len) }.to_vec();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let before = last.get_or_insert_default().insert(packet.kernel_object, bytes)?;
    drop(last);
    if before.len() != len || !faults::takes(Fault::KernelStaleArgs) {
        return None;
    }
    let copy = memory::allocate(len, Agent::CPU, 0, Kind::Internal)?;
    // SAFETY: a fresh allocation of at least `len` bytes.
    unsafe { std::ptr::copy_nonoverlapping(before.as_ptr(), copy as *mut u8, len) };
    Some(copy as u64)
}
