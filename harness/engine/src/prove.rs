//! Proves that cases can fail: runs their trials on the healthy device and under each declared fault. On request, runs
//! them also with other schedules, and with each of their statements left out in turn.

mod mutation;

use std::{collections::BTreeSet, path::PathBuf};

use case::Body;
use device::{Config, Fault, FaultPlace, FaultSpec, Sanitize, Schedule};
use report::{Proof, Record};
use rewrite::statements::can_act;
use supervise::{Cancel, Journal};
use thiserror::Error;

use crate::{
    CaseLibrary, DeviceChoice, FailedOperation, FailureClass, Job, Selected, Session,
    SessionOptions, Stop, batch::run_jobs, job::with_declared_faults, jobs_with, planned_jobs,
    record_file,
};

/// An error that prevents the proof.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The options need the emulated device, but the session uses a GPU.
    #[error(
        "`--schedules` and `--mutate` need the emulated device, because on a GPU the order of work cannot be chosen \
         and only faults at calls can be injected"
    )]
    NeedsEmulatedDevice,
    /// The release of the stack is unknown, and the expected results depend on it.
    #[error("`--mutate` needs a stack whose ROCm version is known")]
    UnknownRelease,
}

impl FailedOperation for ProveError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn hint(&self) -> Option<String> {
        let device = matches!(self, ProveError::NeedsEmulatedDevice);
        device.then(|| "use `--device emulated`".to_owned())
    }
}

/// Options of a proof.
#[derive(Clone, Debug)]
pub struct ProveOptions {
    /// The stack and device of the trials.
    pub session: SessionOptions,
    /// Number of schedules to try in addition to the eager one.
    pub schedules: u32,
    /// True to run the trials also with each of their statements left out in turn.
    pub mutate: bool,
    /// Path of the record file, if records are written.
    pub record: Option<PathBuf>,
}

/// The result of a proof, which may have been interrupted.
pub struct ProveResult {
    /// The proof.
    pub proof: Proof,
    /// Number of selected program cases, whose checks `--mutate` does not leave out; 0 without `--mutate`.
    pub unmutated_programs: usize,
    /// The reason why some trials did not run, if any.
    pub trouble: Option<Stop>,
}

/// Everything that is needed to run the experiments of `rocrepro prove`.
pub struct Prover<'a> {
    options: SessionOptions,
    wanted: &'a ProveOptions,
    library: &'a CaseLibrary,
    selected: &'a [Selected<'a>],
    session: Session,
    jobs: Vec<Job<'a>>,
    left_out: BTreeSet<(String, Fault)>,
    journal: Option<Journal>,
}

impl<'a> Prover<'a> {
    /// Prepares the proof for the selected trials.
    ///
    /// # Errors
    /// Returns a usage error for options or cases that are not valid, or an error if the session cannot be opened.
    pub fn prepare(
        wanted: &'a ProveOptions,
        library: &'a CaseLibrary,
        selected: &'a [Selected<'a>],
    ) -> Result<Prover<'a>, Stop> {
        let options = SessionOptions { hangs_on_purpose: true, ..wanted.session.clone() };
        if options.device == DeviceChoice::Gpu && (wanted.schedules > 0 || wanted.mutate) {
            return Err(ProveError::NeedsEmulatedDevice.into());
        }
        let (planned, left_out) = injectable(with_declared_faults(selected), &options.device);
        let jobs = planned_jobs(library, planned)?;
        let journal =
            record_file::open(wanted.record.as_deref(), &options.device, &options.reporting)?;
        let session = Session::open(options.clone())?;
        // Expected results can depend on the release. A fault that changes a result is injected only if the case
        // expects that result on this release.
        let concerned = |job: &Job<'_>| match (&job.faults[..], &session.rocm) {
            ([fault], Some(version)) if matches!(job.lowered.body, Body::Calls(_)) => {
                can_act(&job.lowered.plan, fault.fault, version)
            }
            _ => true,
        };
        let jobs = jobs.into_iter().filter(concerned).collect();
        Ok(Prover { options, wanted, library, selected, session, jobs, left_out, journal })
    }

    /// Runs the trials of the proof.
    ///
    /// # Errors
    /// A session that cannot be opened, or cases that are not valid. Any other problem becomes part of the result.
    pub fn run(self, cancel: &Cancel) -> Result<ProveResult, Stop> {
        let Prover { options, wanted, library, selected, session, jobs, left_out, journal } = self;
        let (records, mut trouble) = run_jobs(&session, jobs, journal, cancel);
        let mut orders = Vec::new();
        for schedule in schedules(wanted.schedules) {
            if trouble.is_some() {
                break;
            }
            let emulation = Config { schedule, ..options.emulation.clone() };
            let options = SessionOptions { emulation, ..options.clone() };
            let journal =
                record_file::open(wanted.record.as_deref(), &options.device, &options.reporting)?;
            let (records, stop) = run_healthy(library, selected, options, journal, cancel)?;
            orders.push((schedule, records));
            trouble = stop;
        }
        let signature = |record: &Record, fault| {
            let case = library.case(&record.case)?;
            case.faults.iter().find(|f| f.planted.fault == fault)?.signature.clone()
        };
        let mut proof = report::prove(&records, signature);
        proof.left_out = left_out;
        let mut unmutated_programs = 0;
        if wanted.mutate && trouble.is_none() {
            let programs = selected.iter().filter(|s| s.case.is_program()).map(|s| &s.case.id);
            unmutated_programs = programs.collect::<BTreeSet<_>>().len();
            let (mutation, stop) = mutation::mutate(library, selected, &session, &records, cancel)?;
            proof.mutation = Some(mutation);
            trouble = stop;
        }
        proof.racy = report::find_racy_trials(&records, &orders);
        for racy in &mut proof.racy {
            // The sanitizer finds unordered accesses on every schedule. This run explains a result, but is not part of
            // the proof, so it is not recorded.
            let trial: Vec<_> = selected.iter().filter(|s| s.id() == racy.trial).cloned().collect();
            let config = Config { schedule: racy.schedule, ..options.sanitized(Sanitize::On) };
            let watched = SessionOptions { emulation: config, ..options.clone() };
            let (records, stop) = run_healthy(library, &trial, watched, None, cancel)?;
            racy.watched = records.first().map(report::describe_result);
            trouble = trouble.or(stop);
        }
        Ok(ProveResult { proof, unmutated_programs, trouble })
    }
}

/// A trial with its injected fault.
type Planned<'s, 'a> = (&'s Selected<'a>, Vec<FaultSpec>);

/// Returns the trials with those declared faults that can be injected on the session's device, and the list of the
/// other declared faults. Faults below the HIP runtime can be injected only into the emulated device.
fn injectable<'s, 'a>(
    planned: Vec<(&'s Selected<'a>, Option<FaultSpec>)>,
    device: &DeviceChoice,
) -> (Vec<Planned<'s, 'a>>, BTreeSet<(String, Fault)>) {
    let (mut injected, mut left_out) = (Vec::new(), BTreeSet::new());
    for (entry, fault) in planned {
        match fault.as_ref().map(|planted| planted.fault) {
            Some(below) if *device == DeviceChoice::Gpu && below.place() == FaultPlace::Device => {
                left_out.insert((entry.case.id.clone(), below));
            }
            _ => injected.push((entry, fault.into_iter().collect())),
        }
    }
    (injected, left_out)
}

/// Runs each trial once without a fault.
fn run_healthy(
    library: &CaseLibrary,
    selected: &[Selected<'_>],
    options: SessionOptions,
    journal: Option<Journal>,
    cancel: &Cancel,
) -> Result<(Vec<Record>, Option<Stop>), Stop> {
    let session = Session::open(options)?;
    Ok(run_jobs(&session, jobs_with(library, selected, &[])?, journal, cancel))
}

/// Returns the schedules of a proof other than the eager one.
fn schedules(number: u32) -> impl Iterator<Item = Schedule> {
    let seeded = (1..u64::from(number)).map(Schedule::Seeded);
    (number > 0).then_some(Schedule::Lazy).into_iter().chain(seeded)
}

#[cfg(test)]
mod tests {
    use device::Arch;

    use super::*;

    #[test]
    fn gpus_get_the_faults_at_calls() {
        let library = CaseLibrary::load(None).unwrap();
        let selected = crate::select(&library, &[]).unwrap();
        let all = with_declared_faults(&selected);
        let (planned, left_out) = injectable(all.clone(), &DeviceChoice::Gpu);
        let places = |planned: &[Planned<'_, '_>]| {
            planned
                .iter()
                .flat_map(|(_, faults)| faults)
                .map(|f| f.fault.place())
                .collect::<Vec<_>>()
        };
        assert!(places(&planned).len() > 100);
        assert!(places(&planned).iter().all(|place| *place == FaultPlace::Call));
        assert!(left_out.iter().all(|(_, fault)| fault.place() == FaultPlace::Device));
        // Every trial must run once without a fault, and every declared fault must be either injected or listed as left
        // out.
        let healthy = planned.iter().filter(|(_, faults)| faults.is_empty()).count();
        assert_eq!(healthy, selected.len());
        for (entry, fault) in all.iter().filter_map(|(e, f)| Some((e, f.as_ref()?.fault))) {
            let planted = |(e, f): &Planned<'_, '_>| {
                e.id() == entry.id() && f.iter().any(|f| f.fault == fault)
            };
            let omitted = left_out.contains(&(entry.case.id.clone(), fault));
            assert!(omitted != planned.iter().any(planted), "{} under {fault}", entry.id());
        }

        let (planned, left_out) = injectable(all.clone(), &DeviceChoice::Emulated(Arch::Gfx1151));
        assert_eq!((planned.len(), left_out.len()), (all.len(), 0));
    }
}
