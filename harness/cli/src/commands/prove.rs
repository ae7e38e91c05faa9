mod mutate;

use std::process::ExitCode;

use case::Lowered;
use device::{Config, Planted, Schedule};
use report::Record;
use rewrite::stated::concerns;
use supervise::Journal;

use crate::{
    CaseLibrary, DeviceChoice, Selected, Session, SessionOptions, Stop,
    args::Prove,
    batch::run_jobs,
    outputs, select,
    trial::{Job, lower_all, lower_each, with_declared_faults},
};

/// Runs every selected trial on the healthy device, and under each fault that its case declares for it.
pub(crate) fn prove(args: &Prove) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.from.chosen().as_ref())?;
    let selected = select(&library, &args.selection.cases)?;
    let mut options = SessionOptions::try_from(&args.on)?;
    if options.device == DeviceChoice::Gpu {
        return Err(Stop::usage(
            "error: faults are planted in the emulated device; use `--device emulated`",
        ));
    }
    options.expect_hangs();
    let planned = with_declared_faults(&selected);
    let lowered = lower_each(&library, planned.iter().cloned())?;
    let journal = outputs::journal(args.on.record.as_deref())?;
    options.cases_from = args.selection.from.chosen();
    let session = Session::open(options.clone())?;
    // What a case states may depend on the release; a fault of an answer is planted where this one has it.
    let concerned = |fault: &Option<Planted>, lowered: &Lowered| match (fault, &session.rocm) {
        (Some(planted), Some(version)) => concerns(&lowered.plan, planted.fault, version),
        _ => true,
    };
    let jobs = planned
        .into_iter()
        .zip(lowered)
        .filter(|((_, fault), lowered)| concerned(fault, lowered))
        .map(|((entry, fault), lowered)| Job {
            case: entry.case,
            trial: &entry.trial,
            lowered,
            faults: fault.into_iter().collect(),
        })
        .collect();
    let (records, mut trouble) = run_jobs(&session, jobs, journal)?;
    let mut orders = Vec::new();
    for schedule in schedules(args.schedules) {
        if trouble.is_some() {
            break;
        }
        let emulation = Config { schedule, ..options.emulation.clone() };
        let options = SessionOptions { emulation, ..options.clone() };
        let journal = outputs::journal(args.on.record.as_deref())?;
        let (records, stop) = run_healthy(&library, &selected, options, journal)?;
        orders.push((schedule, records));
        trouble = stop;
    }
    let signature = |record: &report::Record, fault| {
        let case = library.case(&record.case)?;
        case.faults.iter().find(|f| f.planted.fault == fault)?.signature.clone()
    };
    let mut proof = report::prove(&records, signature);
    if args.mutate && trouble.is_none() {
        let (mutation, stop) = mutate::mutate(&library, &selected, &session, &records)?;
        proof.mutation = Some(mutation);
        trouble = stop;
    }
    proof.racy = report::racy(&records, &orders);
    for racy in &mut proof.racy {
        // The sanitizer knows which accesses nothing orders, on any schedule. Its run explains a result and is none that was
        // asked for, so it is not recorded.
        let trial: Vec<_> = selected.iter().filter(|s| s.id() == racy.trial).cloned().collect();
        let config =
            Config { schedule: racy.schedule, sanitize: true, ..options.emulation.clone() };
        let mut watched = SessionOptions { emulation: config, ..options.clone() };
        watched.allow_for_the_sanitizer();
        let (records, stop) = run_healthy(&library, &trial, watched, None)?;
        racy.watched = records.first().map(report::result);
        trouble = trouble.or(stop);
    }
    outputs::print(&report::matrix(&proof))?;
    match trouble {
        Some(stop) => Err(stop),
        None => Ok(ExitCode::from(proof.exit_status())),
    }
}

/// Runs each of these trials without a fault.
fn run_healthy(
    library: &CaseLibrary,
    selected: &[Selected<'_>],
    options: SessionOptions,
    journal: Option<Journal>,
) -> Result<(Vec<Record>, Option<Stop>), Stop> {
    let session = Session::open(options)?;
    let lowered = lower_all(library, selected, None)?;
    let jobs = selected.iter().zip(lowered).map(|(entry, lowered)| Job {
        case: entry.case,
        trial: &entry.trial,
        lowered,
        faults: Vec::new(),
    });
    run_jobs(&session, jobs.collect(), journal)
}

/// The schedules besides the eager one that a proof tries.
fn schedules(number: u32) -> impl Iterator<Item = Schedule> {
    let seeded = (1..u64::from(number)).map(Schedule::Seeded);
    (number > 0).then_some(Schedule::Lazy).into_iter().chain(seeded)
}
