//! Executes the commands about the emulated device, and the processes that these commands start with the stack's
//! libraries.

mod compare;

use std::process::ExitCode;

use device::Arch;
use engine::{
    Stop,
    audit::{self, AuditAnswer, AuditSubject},
    stack_source,
};

use crate::{
    args::{Audit, Device, DeviceCommand},
    console, interrupt, outputs,
};

pub(crate) fn device(args: &Device) -> Result<ExitCode, Stop> {
    match &args.command {
        DeviceCommand::Audit(args) => audit(args),
        DeviceCommand::AuditInside => {
            outputs::print_data(&audit::answer_request(std::io::stdin())?)?;
            Ok(ExitCode::SUCCESS)
        }
        DeviceCommand::Compare(args) => compare::compare(args),
        DeviceCommand::ProbeInside(args) => compare::run_inside(args),
    }
}

fn audit(args: &Audit) -> Result<ExitCode, Stop> {
    let mut problems = Vec::new();
    let mut arches = Vec::new();
    for name in &args.gfx {
        match name.parse::<Arch>() {
            Ok(arch) => arches.push(arch),
            Err(error) => problems.push(format!("error: {error}")),
        }
    }
    if arches.is_empty() {
        arches.extend_from_slice(Arch::ALL);
    }
    problems.extend(audit::check_names(&args.lib).iter().map(|error| format!("error: {error}")));
    if !problems.is_empty() {
        return Err(Stop::usage(problems.join("\n")));
    }
    let names = arches.iter().map(|arch| arch.name().to_owned()).collect();
    let stack = stack_source::find_or_fetch(
        &args.rocm,
        &args.with,
        names,
        args.mirrors.mirror.clone(),
        &interrupt::flag_for(&args.rocm),
        &console::reporting(),
    )?;
    let subject = if args.barriers { AuditSubject::Barriers } else { AuditSubject::Opcodes };
    let sample = args.sample.map(Into::into);
    let answer = audit::audit(&stack, arches, &args.lib, sample, subject)?;
    answer.unreadable.iter().for_each(outputs::note);
    answer.require_code()?;
    let AuditAnswer { findings, barriers, unreadable } = &answer;
    if args.json && args.barriers {
        let json = serde_json::json!({ "rocm": stack.spec, "barriers": barriers });
        outputs::print_data(&format!("{json:#}\n"))?;
    } else if args.barriers {
        outputs::print(&report::barriers(barriers))?;
    } else if args.json {
        let json = serde_json::json!({ "rocm": stack.spec, "findings": findings });
        outputs::print_data(&format!("{json:#}\n"))?;
    } else {
        outputs::print(&report::audit(findings))?;
    }
    if !unreadable.is_empty() {
        return Ok(ExitCode::from(3));
    }
    let complete = findings.iter().all(|finding| finding.missing.is_empty())
        && barriers.iter().all(|finding| finding.lost.is_empty());
    Ok(ExitCode::from(u8::from(!complete)))
}
