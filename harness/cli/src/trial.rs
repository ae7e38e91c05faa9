use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    path::Path,
};

use case::{Case, Lowered, Trial, lower};
use device::{Fault, Place, Planted};
use judge::{Context, End, Limit, Observation, Outcome, Verdict, judge, verdict};
use plan::{Event, Order};
use supervise::{Cancel, Ended, Observed, Reason, Usage};

use crate::{CaseLibrary, Selected, Session, Stop};

/// One trial to run once.
pub struct Job<'a> {
    /// Its case.
    pub case: &'a Case,
    /// The point of the matrix.
    pub trial: &'a Trial,
    /// Its calls and their right results.
    pub lowered: Lowered,
    /// Planted faults; those at a call are already part of the plan.
    pub faults: Vec<Planted>,
}

/// What one run of a trial gave.
pub struct Finished {
    /// The trial's id.
    pub id: String,
    /// What was seen.
    pub observation: Observation,
    /// What happened.
    pub outcome: Outcome,
    /// What it means.
    pub verdict: Verdict,
    /// What the process used.
    pub usage: Option<Usage>,
}

/// Lowers trials, all with the same planted fault or none.
///
/// # Errors
/// All mistakes of all cases, shown at their place.
pub fn lower_all<'a>(
    library: &CaseLibrary,
    selected: &[Selected<'a>],
    fault: Option<Fault>,
) -> Result<Vec<Lowered>, Stop> {
    let mut lowered = Vec::new();
    let mut mistakes = std::collections::BTreeMap::<&str, Vec<case::Diagnostic>>::new();
    for entry in selected {
        match lower(entry.case, &entry.trial, library.kernels(), fault) {
            Ok(plan) => lowered.push(plan),
            Err(found) => mistakes.entry(&entry.case.id).or_default().extend(found),
        }
    }
    if mistakes.is_empty() {
        return Ok(lowered);
    }
    let shown: Vec<_> = mistakes
        .into_iter()
        .map(|(id, mut found)| {
            found.sort();
            // The same mistake shows in many trials; the first one's help names its trial.
            found.dedup_by(|a, b| (a.at, &a.message) == (b.at, &b.message));
            library.show(id, &found)
        })
        .collect();
    Err(Stop::usage(shown.join("\n\n")))
}

/// Runs one trial in a fresh process and judges it.
pub fn run_trial(session: &Session, job: &Job<'_>, cancel: &Cancel) -> Finished {
    let id = job.case.trial_id(job.trial);
    let nonce = nonce();
    let folder = session.trial_folder();
    let spool = folder.as_ref().map(|f| f.path().to_path_buf()).unwrap_or_default();
    let wanted: Vec<_> = job
        .lowered
        .reference
        .expected
        .iter()
        .map(|e| (e.step, e.occurrence, e.digest.clone()))
        .collect();
    let (observation, usage) = match &folder {
        Ok(_) => observe(session, job, &nonce, &spool, &wanted, cancel),
        Err(error) => (not_started(format!("no folder for the trial: {error}")), None),
    };
    let rocm = session.rocm.clone();
    let context = Context {
        plan: &job.lowered.plan,
        nonce: &nonce,
        wanted: &wanted,
        spec: &session.stack.spec,
        rocm: rocm.clone(),
        expect_gfx: session.gfx(),
        expect_emulated: Some(session.gfx().is_some()),
        stack_root: Some(&session.stack.root),
        spool: &|name| std::fs::read(spool.join(name)).ok(),
    };
    let outcome = judge(&observation, &context);
    let gfx = gfx_of(&observation).or(session.gfx().map(str::to_owned)).unwrap_or_default();
    let known: Vec<_> = job
        .case
        .known
        .iter()
        .filter(|k| k.on.matches(job.trial))
        .map(|k| judge::Known {
            gfx: k.gfx.clone(),
            rocm: k.rocm.clone(),
            signature: k.signature.clone(),
            upstream: k.upstream.clone(),
        })
        .collect();
    let verdict = verdict(&outcome, &known, &gfx, rocm.as_ref());
    Finished { id, observation, outcome, verdict, usage }
}

/// The faults that the device is told of; the others are part of the plan.
fn device_faults(faults: &[Planted]) -> Vec<Planted> {
    faults.iter().filter(|p| p.fault.place() == Place::Device).cloned().collect()
}

fn observe(
    session: &Session,
    job: &Job<'_>,
    nonce: &str,
    spool: &Path,
    wanted: &[(u32, u32, String)],
    cancel: &Cancel,
) -> (Observation, Option<Usage>) {
    let order = Order {
        nonce: nonce.to_owned(),
        plan: job.lowered.plan.clone(),
        spool: spool.display().to_string(),
        code_cache: Some(session.code_cache.display().to_string()),
        wanted: wanted.to_vec(),
    };
    let input = match serde_json::to_vec(&order) {
        Ok(input) => input,
        Err(error) => return (not_started(format!("the plan cannot be sent: {error}")), None),
    };
    let mut command =
        session.worker_command(&job.lowered.plan.environment, &device_faults(&job.faults));
    command.current_dir(spool);
    let seen = supervise::run(command, &input, &session.limits, cancel, &mut |_| {});
    let usage = seen.usage;
    (observation(seen), usage)
}

fn observation(seen: Observed) -> Observation {
    let mut events = Vec::new();
    let mut noise = Vec::new();
    for line in &seen.lines {
        match serde_json::from_slice::<Event>(&line.text) {
            Ok(event) => events.push(event),
            Err(_) => noise.push(String::from_utf8_lossy(&line.text).into_owned()),
        }
    }
    let end = match seen.ended {
        Ended::Exited(code) => End::Exited(code),
        Ended::Signalled { signal, .. } => End::Signalled { signal },
        Ended::Stopped { reason: Reason::Total, .. } => End::TimedOut { limit: Limit::Total },
        Ended::Stopped { reason: Reason::Quiet, .. } => End::TimedOut { limit: Limit::Quiet },
        Ended::Stopped { reason: Reason::Cancelled, .. } => {
            End::Lost("the run was cancelled".into())
        }
        Ended::Stopped { .. } => End::Lost("the worker flooded its event pipe".into()),
        Ended::CouldNotBeKilled { .. } => End::CouldNotBeKilled,
        Ended::SpawnFailed(error) => End::NotStarted(error.to_string()),
        Ended::Lost(error) => End::Lost(error.to_string()),
        _ => End::Lost("the worker ended in an unknown way".into()),
    };
    Observation {
        events,
        noise,
        end,
        stderr: seen.stderr.to_text(),
        stderr_dropped: seen.stderr.dropped(),
        left_behind: seen.left_behind.len() as u32,
        wall: seen.wall,
    }
}

fn not_started(why: String) -> Observation {
    Observation {
        events: Vec::new(),
        noise: Vec::new(),
        end: End::NotStarted(why),
        stderr: String::new(),
        stderr_dropped: 0,
        left_behind: 0,
        wall: std::time::Duration::ZERO,
    }
}

fn gfx_of(observation: &Observation) -> Option<String> {
    observation.events.iter().find_map(|event| match event {
        Event::Device { gfx, .. } => Some(gfx.clone()),
        _ => None,
    })
}

/// Unguessable enough to prove that a worker of this run answered; the standard library seeds its
/// hasher from the system's random source.
fn nonce() -> String {
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}
