//! Judges trials. The outcome describes what happened in a trial; the verdict says whether the case expects that
//! outcome.
//!
//! [`judge`] turns the observation of one worker into an [`Outcome`]. [`verdict`] compares an outcome with the expected
//! failures of its case. An outcome is a fact about one run. A verdict can change later, when an expected failure is
//! added to the case.
//!
//! This crate is pure: it starts no process, reads no file, prints nothing, and does not know YAML.

mod attribution;
mod bytes;
mod data;
mod ending;
mod expect;
mod fault;
mod identity;
mod index;
mod kernel_log;
mod left;
mod log;
mod observation;
mod outcome;
mod phrases;
mod places;
mod program;
mod proof;
mod rate;
mod trail;
mod usage;
mod verdict;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_any_events;
#[cfg(test)]
mod tests_bytes;
#[cfg(test)]
mod tests_details;
#[cfg(test)]
mod tests_program;
#[cfg(test)]
mod tests_proof;

pub use fault::{expected_under, is_stated};
pub use identity::{
    FailureComparison, FailureIdentity, LastCall, SourcePlace, last_words, likeness, may_be_same,
    traceback, without_numbers,
};
pub use observation::{Context, End, LeftProcess, Limit, Observation, RocmEvidence};
pub use outcome::{Kind, Location, Outcome};
pub use phrases::{AT_LEAST, EXPECTED, SAME_BYTES, UNEQUAL, signal};
use places::AddressPrecision;
pub use places::BufferRanges;
pub use plan::api;
pub use program::{
    CheckSubject, Crash, CrashedCall, CrashedThread, FailedCheck, NO_CHECK, ProgramContext,
    ProgramMessage, ProgramObservation, RaisedAt, device_events, judge_program, other_hip,
};
pub use proof::NOT_STARTED;
pub use rate::Rate;
pub use usage::{PhaseUse, body_ns, phases};
pub use verdict::{Known, RunProperties, Verdict, VerdictKind, signature_fits, verdict};

/// Returns the outcome of one trial.
///
/// The rules are applied in this order:
/// 1. The run must prove which worker reported, and that it used the requested stack and device. Otherwise the outcome
///    is `no-verdict`, whatever else the run reports. An exit status of 0 is not a proof.
/// 2. If the program used something that the emulated device does not support, the outcome is `no-verdict`, even if the
///    runtime reported it as an error.
/// 3. If a library or function is missing, the trial is skipped. If a library is present and cannot be loaded, the
///    trial fails. If the runtime does not start, the trial fails, provided that the machine is known to be able to run
///    ROCm.
/// 4. Otherwise the first deviation in time decides: a status, a value, wrong bytes, or at last the end of the process.
pub fn judge(observation: &Observation, context: &Context<'_>) -> Outcome {
    judge_everywhere(observation, context).0
}

/// Returns the outcome of [`judge`], and the locations of all steps whose results deviated from the plan, in order of
/// time. If a failed call stopped the trial, that call is the last location. If the run proves nothing, the list is
/// empty.
pub fn judge_everywhere(
    observation: &Observation,
    context: &Context<'_>,
) -> (Outcome, Vec<Location>) {
    let version = match proof::proof(observation, context) {
        Ok(version) => version,
        Err(outcome) => return (*outcome, Vec::new()),
    };
    let index = index::Index::new(context.plan);
    let trail = trail::walk(observation, context, &index, &version);
    let ended = ending::ending(observation, context.launched, &trail, &index);
    let mut outcome = match (trail.deviation, ended) {
        (Some(mut first), Some(end)) if first.kind.is_failure() => {
            first.details.push(format!("Afterwards: {}", end.summary));
            first
        }
        (Some(first), _) => first,
        (None, Some(end)) => end,
        (None, None) => match data::missing_reads(context, &index, &trail.read) {
            Some(unread) => unread,
            None => Outcome::pass(),
        },
    };
    if outcome.kind == Kind::Leak
        && outcome.at.api.as_deref() == Some("hipMemGetInfo")
        && let Some(moved) = moved_at_rest(observation)
    {
        return (Outcome::no_verdict("memory", moved).with([outcome.summary]), Vec::new());
    }
    outcome.details.extend(trail.notes);
    let mut outcome = log::attribute_fault(outcome, observation, trail.refused);
    if let Some(line) = log::fault_line(&observation.stderr) {
        let tells = if context.emulated.is_some() {
            AddressPrecision::Address
        } else {
            AddressPrecision::Page
        };
        outcome.details.extend(
            BufferRanges::from_events(&observation.events, context.plan)
                .describe_in_line(line, tells),
        );
    }
    (outcome, trail.deviating_steps)
}

/// Returns a description if the amount of free GPU memory changed before the body, while the worker was idle; otherwise
/// `None`. Such a change means that another process uses the GPU, so the worker's measurements of free memory prove
/// nothing.
fn moved_at_rest(observation: &Observation) -> Option<String> {
    let bytes = observation.events.iter().find_map(|event| match event {
        plan::Event::FreeAtRest { bytes } => Some(bytes),
        _ => None,
    })?;
    let (least, most) = (bytes.iter().min()?, bytes.iter().max()?);
    (least < most).then(|| {
        format!(
            "something else uses the GPU: its free memory varied between {least} and {most} bytes while this trial \
             did nothing"
        )
    })
}
