//! Plans the jobs for selected trials.

use device::FaultSpec;

use crate::{CaseLibrary, Job, Selected, Stop, lower_each};

/// Returns a job for the first run of each trial, with its injected faults.
///
/// # Errors
/// Those of [`lower_each`].
pub fn planned_jobs<'s, 'a: 's>(
    library: &CaseLibrary,
    planned: Vec<(&'s Selected<'a>, Vec<FaultSpec>)>,
) -> Result<Vec<Job<'s>>, Stop> {
    let lowered = lower_each(library, planned.iter().cloned())?;
    let jobs = planned.into_iter().zip(lowered).map(|((entry, faults), lowered)| Job {
        case: entry.case,
        trial: &entry.trial,
        lowered,
        run: 0,
        faults,
    });
    Ok(jobs.collect())
}

/// Returns a job for the first run of each trial, all with the same injected faults.
///
/// # Errors
/// Those of [`lower_each`].
pub fn jobs_with<'s, 'a: 's>(
    library: &CaseLibrary,
    selected: &'s [Selected<'a>],
    faults: &[FaultSpec],
) -> Result<Vec<Job<'s>>, Stop> {
    planned_jobs(library, selected.iter().map(|entry| (entry, faults.to_vec())).collect())
}
