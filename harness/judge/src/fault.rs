use device::Fault;

use crate::Kind;

/// The kinds of outcome by which a case notices a planted fault. Another failure under the fault
/// does not count as noticing it: a test that crashes where it should see wrong bytes is itself suspect.
pub fn expected_under(fault: Fault) -> &'static [Kind] {
    match fault {
        Fault::CopyZero
        | Fault::CopyDrop
        | Fault::CopyLostSmallSlot
        | Fault::CopyTorn
        | Fault::SdmaZero
        | Fault::KernelDrop
        | Fault::KernelStaleArgs
        | Fault::GraphOverwriteOutput
        | Fault::GraphLaunchLost
        | Fault::GraphLaunchTwice => &[Kind::WrongData],
        Fault::SignalStuck | Fault::HandleHang => &[Kind::Hang],
        // How a runtime tells of a lost device differs between releases.
        Fault::DeviceLost => &[Kind::ApiError, Kind::Crash, Kind::LibraryExit],
        Fault::AllocLeak => &[Kind::Leak],
        Fault::RngCaptureError | Fault::GemmNotSupported => &[Kind::ApiError],
        Fault::HandleCrash => &[Kind::Crash],
        Fault::HandleExit => &[Kind::LibraryExit],
    }
}
