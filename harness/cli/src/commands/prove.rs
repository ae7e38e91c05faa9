use std::{process::ExitCode, time::Duration};

use device::Planted;

use crate::{
    CaseLibrary, DeviceChoice, Session, SessionOptions, Stop,
    args::Prove,
    batch::run_jobs,
    outputs, select,
    trial::{Job, lower_each, with_declared_faults},
};

/// Silence that counts as a hang while a fault is planted: a proof has many hangs on purpose, and a trial
/// on the emulated device is never silent for a second.
const QUIET_UNDER_FAULT: Duration = Duration::from_secs(8);

/// Runs every selected trial on the healthy device, and under each fault that its case declares for it.
pub(crate) fn prove(args: &Prove) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.cases_from.as_deref())?;
    let selected = select(&library, &args.selection.cases)?;
    let mut options = SessionOptions::try_from(&args.on)?;
    if options.device == DeviceChoice::Gpu {
        return Err(Stop::usage(
            "error: faults are planted in the emulated device; use `--device emulated`",
        ));
    }
    options.limits.quiet = options.limits.quiet.min(QUIET_UNDER_FAULT);
    let planned = with_declared_faults(&selected);
    let lowered = lower_each(&library, planned.iter().copied())?;
    let jobs = planned
        .into_iter()
        .zip(lowered)
        .map(|((entry, fault), lowered)| Job {
            case: entry.case,
            trial: &entry.trial,
            lowered,
            faults: fault.map(Planted::from).into_iter().collect(),
        })
        .collect();
    options.cases_from = args.selection.cases_from.clone();
    let journal = outputs::journal(args.on.record.as_deref())?;
    let session = Session::open(options)?;
    let (records, trouble) = run_jobs(&session, jobs, journal)?;
    let signature = |record: &report::Record, fault| {
        let case = library.case(&record.case)?;
        case.faults.iter().find(|f| f.fault == fault)?.signature.clone()
    };
    let proof = report::prove(&records, signature);
    outputs::print(&report::matrix(&proof))?;
    match trouble {
        Some(stop) => Err(stop),
        None => Ok(ExitCode::from(proof.exit_status())),
    }
}
