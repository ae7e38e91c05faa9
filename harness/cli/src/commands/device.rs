//! `rocrepro device`: looks into the emulated device.

mod audit;
mod code_objects;
mod compare;
mod table;

use std::process::ExitCode;

use crate::args::{Device, DeviceCommand};
use engine::Stop;

pub(crate) fn device(args: &Device) -> Result<ExitCode, Stop> {
    match &args.command {
        DeviceCommand::Audit(args) => audit::audit(args),
        DeviceCommand::AuditInside => audit::inside(),
        DeviceCommand::Compare(args) => compare::compare(args),
        DeviceCommand::ProbeInside(args) => compare::inside(args),
    }
}
