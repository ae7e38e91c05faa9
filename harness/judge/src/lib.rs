//! What happened, and what it means.
//!
//! [`judge`] turns what was observed of one worker into an [`Outcome`]; [`verdict`] compares an outcome with the known
//! windows of its case. They are two steps and two types: an outcome is a fact about one run, a verdict changes when
//! somebody files a bug.
//!
//! This crate is pure: it starts nothing, reads no file and knows no terminal. It knows nothing of YAML either.

mod attribution;
mod bytes;
mod data;
mod ending;
mod expect;
mod fault;
mod identity;
mod index;
mod kernel_log;
mod log;
mod observation;
mod outcome;
mod places;
mod program;
mod proof;
mod rate;
mod trail;
mod usage;
mod verdict;
mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_bytes;
#[cfg(test)]
mod tests_program;
#[cfg(test)]
mod tests_proof;
#[cfg(test)]
mod tests_told;

pub use fault::{expected_under, is_stated};
pub use identity::{
    FailureIdentity, LastCall, Likeness, SourcePlace, last_words, likeness, may_be_same,
};
pub use observation::{Able, Context, End, Limit, Observation};
pub use outcome::{Kind, Location, Outcome};
pub use places::Places;
use places::Tells;
pub use plan::api;
pub use program::{
    About, NO_CHECK, ProgramContext, ProgramSeen, RaisedAt, Said, Wrong, brought, judge_program,
    told_of_device,
};
pub use proof::NOT_STARTED;
pub use rate::Rate;
pub use usage::{PhaseUse, body_ns, phases};
pub use verdict::{Ground, Known, Verdict, VerdictKind, signature_fits, verdict};
pub use words::signal;

/// What happened in one trial.
///
/// The rules, in order:
/// 1. A run that does not prove who answered, from which stack and on which device, has no verdict, whatever else
///    it says; an exit status of 0 proves nothing.
/// 2. A gap of the emulated device has no verdict, even where the runtime turned it into an error.
/// 3. A missing library or function skips the trial; one that is there and cannot be loaded fails it. So does a runtime that does
///    not start, on a machine that is known to be able to run ROCm.
/// 4. Else the first deviation in time decides: a status, a value, bytes, and last the way in which the process ended.
pub fn judge(observation: &Observation, context: &Context<'_>) -> Outcome {
    judge_everywhere(observation, context).0
}

/// The outcome, and every place of the plan at which the trial deviated, the first one first, each step once. A trial that
/// stopped at a call that failed shows none behind it, and one that proves nothing shows none at all.
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
        (None, None) => match data::unread(context, &index, &trail.read) {
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
        let tells = if context.emulated.is_some() { Tells::Address } else { Tells::Page };
        outcome
            .details
            .extend(Places::told(&observation.events, context.plan).of_line(line, tells));
    }
    (outcome, trail.red)
}

/// What free memory did before the body, where it moved while the worker did nothing: then its counts say nothing of the runtime.
fn moved_at_rest(observation: &Observation) -> Option<String> {
    let bytes = observation.events.iter().find_map(|event| match event {
        plan::Event::FreeAtRest { bytes } => Some(bytes),
        _ => None,
    })?;
    let (least, most) = (bytes.iter().min()?, bytes.iter().max()?);
    (least < most).then(|| {
        format!(
            "something else uses the GPU: between {least} and {most} bytes of its memory were free while this trial did nothing"
        )
    })
}
