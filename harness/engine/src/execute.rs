//! Executes the plan of a trial in new processes, and judges the observations.

mod at_once;

use std::{collections::BTreeMap, path::Path};

use device::{FaultPlace, Sanitize};
use judge::{Context, Outcome, judge_everywhere};
use plan::{Event, Order, Phase, Plan};
use report::Record;
use supervise::{Cancel, Limits};

pub use self::at_once::at_once;
pub(crate) use self::at_once::run_at_once;
use crate::{
    DeviceChoice, Job, Session,
    hardware::HardwareState,
    hints::{HintFacts, with_hints},
    missing_libraries, no_device, probe,
    record::{judge_record, record},
    session::nonce,
    slots::Slot,
    spool::Spool,
    worker_process::{WorkerOrder, not_started, observe},
};

/// Runs and judges a trial, with the session's runner if there is one, and otherwise in a new process. Returns `None`
/// if the run was cancelled.
pub(crate) fn run_here(
    session: &Session,
    job: &Job<'_>,
    limits: &Limits,
    slot: Option<&Slot>,
    cancel: &Cancel,
) -> Option<Record> {
    match &session.runner {
        Some(runner) => runner.run(session, job, limits, slot, cancel),
        None => run_in_process(session, job, limits, slot, cancel),
    }
}

fn run_in_process(
    session: &Session,
    job: &Job<'_>,
    limits: &Limits,
    slot: Option<&Slot>,
    cancel: &Cancel,
) -> Option<Record> {
    let nonce = nonce();
    let before = (session.device == DeviceChoice::Gpu).then(HardwareState::read);
    let folder = session.folders.scratch.trial();
    let spool = folder.as_ref().map(|f| f.path().to_path_buf()).unwrap_or_default();
    let expected = job.lowered.body.expected();
    let wanted: Vec<_> =
        expected.iter().map(|e| (e.step, e.occurrence, e.digest.clone())).collect();
    let config = session.device_for(job.case, job.trial, job.faults_of(FaultPlace::Device));
    let order = Order {
        nonce: nonce.clone(),
        plan: job.lowered.plan.clone(),
        faults: job.faults_of(FaultPlace::Call),
        late: job.late(session.late),
        // The worker is started in this folder. Its absolute path may not be valid UTF-8.
        spool: ".".to_owned(),
        code_cache: session.cache_name().to_str().map(str::to_owned),
        confinement: session.confinement(&session.stack),
        wanted: wanted.clone(),
    };
    let worker_order = folder
        .as_ref()
        .map_err(|e| format!("cannot create a folder for the trial: {e}"))
        .and_then(|_| WorkerOrder::new(session, &order, &spool, config.as_ref(), slot));
    let kept = Spool::new(&spool, largest(&job.lowered.plan));
    let (observation, usage) = match &worker_order {
        Ok(worker_order) => observe(session, worker_order, limits, cancel)?,
        Err(error) => (not_started(error.clone()), None),
    };
    let nothing = BTreeMap::new();
    let mut context = Context {
        plan: &job.lowered.plan,
        nonce: &nonce,
        order: worker_order.as_ref().map_or("", |worker_order| &worker_order.digest),
        environment: worker_order
            .as_ref()
            .map_or(&nothing, |worker_order| &worker_order.environment),
        build: session.worker_build(),
        device_build: session.device_build(),
        hsa_build: session.hsa_build(),
        launched: session.is_launched(),
        late: order.late.is_some(),
        evidence: session.able(),
        limits: worker_order.as_ref().map_or(&nothing, |worker_order| &worker_order.limits),
        wanted: &wanted,
        spec: &session.stack.spec,
        adding: &|name| missing_libraries::advice(&session.stack.spec, name),
        rocm: session.rocm.clone(),
        expect_gfx: session.gfx(),
        emulated: config.as_ref(),
        stack_root: Some(&session.stack.root),
        spool: &|name| kept.read(name),
    };
    let (mut outcome, mut red) = judge_everywhere(&observation, &context);
    if outcome.signature == judge::NOT_STARTED {
        context.evidence = probe::able(session, cancel);
        (outcome, red) = judge_everywhere(&observation, &context);
    }
    if observation.events.iter().any(|e| matches!(e, Event::Phase { phase: Phase::Setup })) {
        session.has_started();
    }
    outcome = check_machine_trouble(session, outcome, &spool, context.environment);
    outcome = no_device::explain_missing_device(session, &job.lowered.plan.environment, outcome);
    let can_sanitize = config.as_ref().is_some_and(|config| config.sanitize == Sanitize::Off);
    outcome = with_hints(outcome, &HintFacts { can_sanitize, ..HintFacts::default() });
    if let Some(before) = &before {
        outcome = before.with_kernel_log(outcome, session, slot, &observation, &job.lowered.plan);
    }
    let mut record = record(session, job, &nonce, observation, usage, (outcome, red));
    if let Some(before) = before {
        before.describe(&mut record, session, slot);
        record.verdict = judge_record(session, job, &record);
    }
    Some(record)
}

/// Returns the outcome, but "no verdict" if a problem of this machine explains the failure. For example, a compiler
/// that cannot write its output or start a thread says nothing about ROCm.
pub(crate) fn check_machine_trouble(
    session: &Session,
    outcome: Outcome,
    spool: &Path,
    environment: &BTreeMap<String, String>,
) -> Outcome {
    let failed = outcome.kind.is_failure();
    match failed.then(|| session.trouble(spool, environment)).flatten() {
        Some(trouble) => outcome.attribute_to(trouble.signature, trouble.why),
        None => outcome,
    }
}

/// Returns the size of the plan's largest buffer in bytes, or the size of a buffer's two guard areas if that is larger.
fn largest(plan: &Plan) -> u64 {
    let buffers = plan.buffers.values().map(|buffer| buffer.bytes);
    buffers.max().unwrap_or_default().max(2 * plan::GUARD_BYTES)
}
