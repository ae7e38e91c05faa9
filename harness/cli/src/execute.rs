//! Executes the plan of a trial in fresh processes, and judges it.

mod at_once;

use std::{collections::BTreeMap, path::Path};

use device::Place;
use judge::{Context, Outcome, judge_everywhere};
use plan::{Event, Order, Phase, Plan};
use report::Record;
use supervise::{Cancel, Limits};

pub(crate) use self::at_once::{at_once, run_at_once};
use crate::{
    DeviceChoice, Job, Session,
    hardware::Before,
    lacks, probe,
    record::{judged, record},
    session::nonce,
    slots::Slot,
    spool::Spool,
    told::{Told, not_started, observe},
};

/// Runs a trial in a fresh process and judges it; on a GPU, in its slot. None where the run was cancelled before the trial was over.
pub(crate) fn run_here(
    session: &Session,
    job: &Job<'_>,
    limits: &Limits,
    slot: Option<&Slot>,
    cancel: &Cancel,
) -> Option<Record> {
    let nonce = nonce();
    let before = (session.device == DeviceChoice::Gpu).then(Before::now);
    let folder = session.scratch.trial();
    let spool = folder.as_ref().map(|f| f.path().to_path_buf()).unwrap_or_default();
    let expected = job.lowered.body.expected();
    let wanted: Vec<_> =
        expected.iter().map(|e| (e.step, e.occurrence, e.digest.clone())).collect();
    let config = session.device_for(job.case, job.trial, job.faults_of(Place::Device));
    let order = Order {
        nonce: nonce.clone(),
        plan: job.lowered.plan.clone(),
        faults: job.faults_of(Place::Call),
        late: job.late(session),
        // The folder that it starts in: a path need not be text.
        spool: ".".to_owned(),
        code_cache: session.cache_name().to_str().map(str::to_owned),
        confinement: session.confinement(&session.stack),
        wanted: wanted.clone(),
    };
    let told = folder
        .as_ref()
        .map_err(|e| format!("no folder for the trial: {e}"))
        .and_then(|_| Told::new(session, &order, &spool, config.as_ref(), slot));
    let kept = Spool::new(&spool, largest(&job.lowered.plan));
    let (observation, usage) = match &told {
        Ok(told) => observe(session, told, limits, cancel)?,
        Err(error) => (not_started(error.clone()), None),
    };
    let nothing = BTreeMap::new();
    let mut context = Context {
        plan: &job.lowered.plan,
        nonce: &nonce,
        order: told.as_ref().map_or("", |told| &told.digest),
        environment: told.as_ref().map_or(&nothing, |told| &told.environment),
        build: session.worker_build(),
        device_build: session.device_build(),
        launched: session.is_launched(),
        late: order.late.is_some(),
        able: session.able(),
        limits: told.as_ref().map_or(&nothing, |told| &told.limits),
        wanted: &wanted,
        spec: &session.stack.spec,
        adding: &|name| lacks::adding(&session.stack.spec, name),
        rocm: session.rocm.clone(),
        expect_gfx: session.gfx(),
        emulated: config.as_ref(),
        stack_root: Some(&session.stack.root),
        spool: &|name| kept.read(name),
    };
    let (mut outcome, mut red) = judge_everywhere(&observation, &context);
    if outcome.signature == judge::NOT_STARTED {
        context.able = probe::able(session, cancel);
        (outcome, red) = judge_everywhere(&observation, &context);
    }
    if observation.events.iter().any(|e| matches!(e, Event::Phase { phase: Phase::Setup })) {
        session.has_started();
    }
    outcome = unless_troubled(session, outcome, &spool, context.environment);
    if let Some(before) = &before {
        outcome = before.with_kernel_log(outcome, session, slot, &observation, &job.lowered.plan);
    }
    let mut record = record(session, job, &nonce, observation, usage, (outcome, red));
    if let Some(before) = before {
        before.describe(&mut record, session, slot);
        record.verdict = judged(session, job, &record);
    }
    Some(record)
}

/// The outcome, unless this machine is at fault: a compiler or runtime that cannot write or start a thread crashes or exits, which is
/// no news of ROCm.
pub(crate) fn unless_troubled(
    session: &Session,
    outcome: Outcome,
    spool: &Path,
    environment: &BTreeMap<String, String>,
) -> Outcome {
    let failed = outcome.kind.is_failure();
    match failed.then(|| session.trouble(spool, environment)).flatten() {
        Some(trouble) => outcome.put_down_to(trouble.signature, trouble.why),
        None => outcome,
    }
}

/// The most bytes that a check of a plan looks at: a buffer, or the guards around one.
fn largest(plan: &Plan) -> u64 {
    let buffers = plan.buffers.values().map(|buffer| buffer.bytes);
    buffers.max().unwrap_or_default().max(2 * plan::GUARD_BYTES)
}
