use device::Fault;

use crate::{Kind, Outcome};

/// Returns true if a failure under an injected fault contradicts something that the case itself states: a check, a
/// status or a value at one of its lines, or that the program ends normally. Only such a failure shows that the case
/// detects the fault. The harness adds the guards around buffers, so a failed check of guards counts only for faults
/// that write outside of a buffer.
pub fn is_stated(fault: Fault, outcome: &Outcome) -> bool {
    match outcome.kind {
        Kind::WrongData | Kind::ApiError | Kind::Leak => {
            outcome.at.line.is_some() || is_about_guards(fault)
        }
        kind => kind.is_failure(),
    }
}

/// Returns true if the fault writes only outside of buffers. Then only a check of guards can detect it.
fn is_about_guards(fault: Fault) -> bool {
    fault == Fault::CopyOverrun
}

/// Returns the kinds of outcome with which a case may detect an injected fault. A failure of another kind does not
/// count: a case that crashes instead of reading wrong bytes is itself suspect.
pub fn expected_under(fault: Fault) -> &'static [Kind] {
    match fault {
        Fault::CopyZero
        | Fault::CopyDrop
        | Fault::CopyLostSmallSlot
        | Fault::CopyTorn
        | Fault::CopyMisplaced
        | Fault::CopyLate
        | Fault::CopyTwice
        | Fault::CopyOverrun
        | Fault::CacheStale
        | Fault::KernelWrongArgs
        | Fault::KernelTwice
        | Fault::KernelWrongUnit
        | Fault::SignalEarly
        | Fault::QueueBarrierIgnored
        | Fault::DeviceReset
        | Fault::AllocAlias
        | Fault::AllocFreedTwice
        | Fault::GraphNodeLost
        | Fault::HostFuncLost
        | Fault::ModuleZeroed
        | Fault::RngSkips
        | Fault::CallLeak
        | Fault::SdmaZero
        | Fault::KernelDrop
        | Fault::KernelStaleArgs
        | Fault::GraphOverwriteOutput
        | Fault::GraphLaunchLost
        | Fault::GraphLaunchTwice
        | Fault::GraphUpdateIgnored => &[Kind::WrongData],
        // If a call has no effect, a later call may be refused, or memory may not be released.
        Fault::CallIgnored => &[Kind::WrongData, Kind::ApiError, Kind::Leak],
        // A program case reports wrong data if a measured time is too long.
        Fault::CallSlow => &[Kind::ApiError, Kind::Hang, Kind::WrongData],
        // A launch that exceeds the trial's time limits is reported as a hang. If the delay is shorter, the measured
        // time shows it.
        Fault::LaunchSlow => &[Kind::ApiError, Kind::Hang],
        Fault::SignalStuck | Fault::HandleHang | Fault::CallHang => &[Kind::Hang],
        // The outcome after the loss of a device, an error status or a crash, depends on the release of the runtime.
        Fault::DeviceLost | Fault::QueueError => &[Kind::ApiError, Kind::Crash, Kind::LibraryExit],
        Fault::KernelPageFault | Fault::CopyPageFault => &[Kind::MemoryFault],
        Fault::AllocLeak | Fault::MemoryFreeWrong => &[Kind::Leak],
        Fault::RngCaptureError
        | Fault::GemmNotSupported
        | Fault::CallAccepted
        | Fault::CallDenied
        | Fault::CallRefused
        | Fault::CaptureRefused => &[Kind::ApiError],
        // A program case reports wrong data if it compares two reported values with each other.
        Fault::MemoryTotalWrong => &[Kind::ApiError, Kind::WrongData],
        Fault::ValueWrong => &[Kind::ApiError, Kind::Leak],
        Fault::CompileError => &[Kind::CompileError],
        Fault::HandleCrash | Fault::CallCrash => &[Kind::Crash],
        Fault::TeardownCrash => &[Kind::TeardownCrash],
        Fault::HandleExit => &[Kind::LibraryExit],
    }
}
