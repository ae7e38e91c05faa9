//! Executes one kernel dispatch in the interpreter, and reports traps.

use std::{
    ops::{ControlFlow, Range},
    time::Duration,
};

use aql::{DispatchPacket, Refusal, report, report::trace};
use isa::{AddressSpace, Launch, Trap, TurnLength};

use crate::{
    address_map, configuration,
    in_use::InUse,
    kernel_name,
    outcome::{Outcome, exception},
    queue::Queue,
};

/// Device memory as a kernel sees it.
struct DeviceMemory<'a> {
    kernel: &'a str,
}

// SAFETY: the address map contains only memory that was mapped for the device because the runtime or the program
// requested it. If a program frees such memory while a kernel runs, the process may crash, as it may if a thread of the
// program accesses the freed memory.
unsafe impl AddressSpace for DeviceMemory<'_> {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        address_map::read().reach(address)
    }

    fn report_hang(&self, hang: &Trap) -> ControlFlow<()> {
        report::hang(self.kernel, hang);
        ControlFlow::Continue(())
    }
}

pub(crate) fn run(queue: &Queue, packet: &DispatchPacket, slot: u64) -> Result<(), Outcome> {
    let config = configuration::get();
    let _in_use = InUse::new();
    let name = kernel_name::find(packet.kernel_object);
    if let Some(refusal) = aql::rejection_reason(config.arch, packet) {
        report::fault(&name, refusal);
        return Err(Outcome::Error(match refusal {
            Refusal::NoDimensions => exception::DIMENSIONS_INVALID,
            Refusal::NoKernel => exception::CODE_INVALID,
            Refusal::TooMuchLds { .. } => exception::LDS_SIZE_INVALID,
            Refusal::LargeWorkgroup { .. } => exception::WORKGROUP_SIZE_INVALID,
        }));
    }
    trace!(
        "dispatch {name} grid {:?} workgroup {:?} kernarg {:#x}",
        packet.grid, packet.workgroup, packet.kernarg
    );
    let launch = Launch {
        kernel_name: &name,
        descriptor: packet.kernel_object,
        packet: slot,
        queue: queue.address,
        sync: Some(&queue.sync),
        kernarg: packet.kernarg,
        grid: packet.grid.map(|n| n.max(1)),
        workgroup: packet.workgroup.map(|n| u32::from(n.max(1))),
        group_segment_bytes: packet.group_bytes,
        private_segment_bytes: packet.private_bytes,
        arch: config.arch,
        step_limit: isa::DEFAULT_STEP_LIMIT,
        threads: config.threads,
        turns: TurnLength::default(),
        room: aql::room(config.arch, packet),
        patience: Duration::from_secs(config.patience.into()),
        late_results: false,
    };
    let result = queue.while_in_kernel(|| isa::launch(&launch, &DeviceMemory { kernel: &name }));
    match result {
        Ok(executed) => {
            trace!("dispatch {name} done: {executed:?}");
            Ok(())
        }
        // When a queue is destroyed, the driver kills its waves, and the host may unload their code at once.
        Err(Trap::PageFault { .. } | Trap::Unmapped { .. }) if queue.stopping() => {
            Err(Outcome::Stopped)
        }
        Err(trap) => Err(report_trap(&name, &trap)),
    }
}

fn report_trap(kernel: &str, trap: &Trap) -> Outcome {
    match trap {
        // The kernel needs something that the interpreter does not support or the host does not have, for example AVX2.
        Trap::Unimplemented { .. } | Trap::NoDisassembler { .. } | Trap::InvalidLaunch { .. } => {
            report::unsupported(kernel, trap);
            Outcome::Error(exception::ILLEGAL_INSTRUCTION)
        }
        Trap::PageFault { .. } | Trap::Unmapped { .. } => {
            report::fault(kernel, trap);
            Outcome::Error(exception::DEVICE_MEMORY_VIOLATION)
        }
        // The hang was reported when it was detected.
        Trap::Hang { .. } => Outcome::Stopped,
        Trap::StepLimit { .. } => {
            report::hang(kernel, trap);
            Outcome::Stopped
        }
        _ => {
            report::fault(kernel, trap);
            match trap {
                Trap::IllegalInstruction { .. } => Outcome::Error(exception::ILLEGAL_INSTRUCTION),
                _ => Outcome::Error(exception::WAVE_TRAP),
            }
        }
    }
}
