mod mutate;

use std::{collections::BTreeSet, process::ExitCode};

use case::{Body, Lowered};
use device::{Config, Fault, Place, Planted, Sanitize, Schedule};
use report::{Record, count};
use rewrite::statements::can_act;
use supervise::Journal;

use crate::{args::Prove, interrupt, outputs};
use engine::{
    CaseLibrary, DeviceChoice, Selected, Session, SessionOptions, Stop,
    batch::run_jobs,
    job::{Job, lower_all, lower_each, with_declared_faults},
    record_file,
};

/// Runs every selected trial on the healthy device, and under each fault that its case declares for it.
pub(crate) fn prove(args: &Prove) -> Result<ExitCode, Stop> {
    let library = args.selection.library()?;
    let selected = args.selection.select(&library)?;
    let mut options = SessionOptions::try_from(&args.on)?;
    if options.device == DeviceChoice::Gpu && (args.schedules > 0 || args.mutate) {
        return Err(Stop::usage(
            "error: `--schedules` and `--mutate` need the emulated device: a GPU has no order that could be chosen, and only faults at \
             calls can be planted there; use `--device emulated`",
        ));
    }
    options.hangs_on_purpose = true;
    let (planned, left_out) = plantable(with_declared_faults(&selected), &options.device);
    let lowered = lower_each(&library, planned.iter().cloned())?;
    let journal =
        record_file::open(args.on.record.as_deref(), &options.device, &options.reporting)?;
    options.cases_from = args.selection.from.chosen();
    let session = Session::open(options.clone())?;
    // What a case states may depend on the release; a fault of an answer is planted where this one has it.
    let concerned = |fault: &Option<Planted>, lowered: &Lowered| match (fault, &session.rocm) {
        (Some(planted), Some(version)) if matches!(lowered.body, Body::Calls(_)) => {
            can_act(&lowered.plan, planted.fault, version)
        }
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
            run: 0,
            faults: fault.into_iter().collect(),
        })
        .collect();
    let (records, mut trouble) = run_jobs(&session, jobs, journal, &interrupt::cancel()?);
    let mut orders = Vec::new();
    for schedule in schedules(args.schedules) {
        if trouble.is_some() {
            break;
        }
        let emulation = Config { schedule, ..options.emulation.clone() };
        let options = SessionOptions { emulation, ..options.clone() };
        let journal =
            record_file::open(args.on.record.as_deref(), &options.device, &options.reporting)?;
        let (records, stop) = run_healthy(&library, &selected, options, journal)?;
        orders.push((schedule, records));
        trouble = stop;
    }
    let signature = |record: &report::Record, fault| {
        let case = library.case(&record.case)?;
        case.faults.iter().find(|f| f.planted.fault == fault)?.signature.clone()
    };
    let mut proof = report::prove(&records, signature);
    proof.left_out = left_out;
    if args.mutate && trouble.is_none() {
        let programs: BTreeSet<_> =
            selected.iter().filter(|s| s.case.is_program()).map(|s| &s.case.id).collect();
        if !programs.is_empty() {
            outputs::note(format!(
                "--mutate leaves the checks of {} alone: `prove` has already required each to turn red",
                count(programs.len(), "program")
            ));
        }
        let (mutation, stop) = mutate::mutate(&library, &selected, &session, &records)?;
        proof.mutation = Some(mutation);
        trouble = stop;
    }
    proof.racy = report::racy(&records, &orders);
    for racy in &mut proof.racy {
        // The sanitizer knows which accesses nothing orders, on any schedule. Its run explains a result and is none that was
        // asked for, so it is not recorded.
        let trial: Vec<_> = selected.iter().filter(|s| s.id() == racy.trial).cloned().collect();
        let config = Config { schedule: racy.schedule, ..options.sanitized(Sanitize::On) };
        let watched = SessionOptions { emulation: config, ..options.clone() };
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

/// A trial with the fault that is planted in it.
type Planned<'s, 'a> = (&'s Selected<'a>, Option<Planted>);

/// What can be planted on the device, and the declared faults of cases that cannot: those below the HIP runtime are the emulated
/// device's.
fn plantable<'s, 'a>(
    planned: Vec<Planned<'s, 'a>>,
    device: &DeviceChoice,
) -> (Vec<Planned<'s, 'a>>, BTreeSet<(String, Fault)>) {
    let needs_emulation = |(_, fault): &Planned<'_, '_>| {
        let below = fault.as_ref().is_some_and(|p| p.fault.place() == Place::Device);
        below && *device == DeviceChoice::Gpu
    };
    let (left_out, planned): (Vec<_>, Vec<_>) = planned.into_iter().partition(needs_emulation);
    let left_out = left_out
        .into_iter()
        .filter_map(|(entry, fault)| Some((entry.case.id.clone(), fault?.fault)))
        .collect();
    (planned, left_out)
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
        run: 0,
        faults: Vec::new(),
    });
    Ok(run_jobs(&session, jobs.collect(), journal, &interrupt::cancel()?))
}

/// The schedules besides the eager one that a proof tries.
fn schedules(number: u32) -> impl Iterator<Item = Schedule> {
    let seeded = (1..u64::from(number)).map(Schedule::Seeded);
    (number > 0).then_some(Schedule::Lazy).into_iter().chain(seeded)
}

#[cfg(test)]
mod tests {
    use device::Arch;

    use super::*;

    #[test]
    fn a_gpu_gets_the_faults_at_calls() {
        let library = CaseLibrary::load(None).unwrap();
        let selected = engine::select(&library, &[]).unwrap();
        let all = with_declared_faults(&selected);
        let (planned, left_out) = plantable(all.clone(), &DeviceChoice::Gpu);
        let places = |planned: &[Planned<'_, '_>]| {
            let faults =
                planned.iter().filter_map(|(_, fault)| Some(fault.as_ref()?.fault.place()));
            faults.collect::<Vec<_>>()
        };
        assert!(places(&planned).len() > 100);
        assert!(places(&planned).iter().all(|place| *place == Place::Call));
        assert!(left_out.iter().all(|(_, fault)| fault.place() == Place::Device));
        // Every trial is run without a fault, and every declared fault is planted or told as left out.
        let healthy = planned.iter().filter(|(_, fault)| fault.is_none()).count();
        assert_eq!(healthy, selected.len());
        for (entry, fault) in all.iter().filter_map(|(e, f)| Some((e, f.as_ref()?.fault))) {
            let planted = |(e, f): &Planned<'_, '_>| {
                e.id() == entry.id() && f.as_ref().is_some_and(|f| f.fault == fault)
            };
            let told = left_out.contains(&(entry.case.id.clone(), fault));
            assert!(told != planned.iter().any(planted), "{} under {fault}", entry.id());
        }

        let (planned, left_out) = plantable(all.clone(), &DeviceChoice::Emulated(Arch::Gfx1151));
        assert_eq!((planned.len(), left_out.len()), (all.len(), 0));
    }
}
