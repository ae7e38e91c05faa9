use device::Fault;

use crate::{Kind, Outcome};

/// Whether what happened under a planted fault is against something that the case states, so that the case is what noticed it: a
/// check, a status or a value at one of its lines, or that the program ends well. The guards around buffers are the harness's own;
/// they count for faults that are about them.
pub fn is_stated(fault: Fault, outcome: &Outcome) -> bool {
    match outcome.kind {
        Kind::WrongData | Kind::ApiError | Kind::Leak => {
            outcome.at.line.is_some() || is_about_guards(fault)
        }
        kind => kind.is_failure(),
    }
}

/// Whether it writes where nobody looks but a guard.
fn is_about_guards(fault: Fault) -> bool {
    fault == Fault::CopyOverrun
}

/// The kinds of outcome by which a case notices a planted fault. Another failure under the fault
/// does not count as noticing it: a test that crashes where it should see wrong bytes is itself suspect.
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
        | Fault::CallIgnored
        | Fault::CallLeak
        | Fault::SdmaZero
        | Fault::KernelDrop
        | Fault::KernelStaleArgs
        | Fault::GraphOverwriteOutput
        | Fault::GraphLaunchLost
        | Fault::GraphLaunchTwice
        | Fault::GraphUpdateIgnored => &[Kind::WrongData],
        // A launch that is too slow for the limits on a trial hangs for whoever watches it; another one shows by its time.
        Fault::LaunchSlow => &[Kind::ApiError, Kind::Hang],
        Fault::SignalStuck | Fault::HandleHang | Fault::CallHang => &[Kind::Hang],
        // How a runtime tells of a lost device differs between releases.
        Fault::DeviceLost | Fault::QueueError => &[Kind::ApiError, Kind::Crash, Kind::LibraryExit],
        Fault::KernelPageFault | Fault::CopyPageFault => &[Kind::MemoryFault],
        Fault::AllocLeak | Fault::MemoryFreeWrong => &[Kind::Leak],
        Fault::RngCaptureError
        | Fault::GemmNotSupported
        | Fault::CallAccepted
        | Fault::CallDenied
        | Fault::CallRefused
        | Fault::CaptureRefused => &[Kind::ApiError],
        // A program that compares answers with each other finds wrong values.
        Fault::MemoryTotalWrong => &[Kind::ApiError, Kind::WrongData],
        Fault::ValueWrong => &[Kind::ApiError, Kind::Leak],
        Fault::CompileError => &[Kind::CompileError],
        Fault::HandleCrash | Fault::CallCrash => &[Kind::Crash],
        Fault::TeardownCrash => &[Kind::TeardownCrash],
        Fault::HandleExit => &[Kind::LibraryExit],
    }
}
