//! Probes a stack: runs a worker with an empty plan to see whether the HIP runtime starts, and which release it is.

use std::time::{Duration, Instant};

use judge::{Context, Kind, Outcome, RocmEvidence};
use plan::{Event, Order, Plan, Version};
use stacks::Stack;
use supervise::{Cancel, Limits};

use crate::{
    Session, events, machine, missing_libraries,
    session::{SessionError, nonce},
    worker_process::{WorkerOrder, observe},
};

/// Maximum time for probing all other stacks after a trial did not start. The cause, such as a preloaded library, may
/// also keep the probes from starting, and each of them would then last as long as the trial.
const OTHERS: Duration = Duration::from_secs(10);

struct Probe {
    outcome: Outcome,
    /// Version that hipRuntimeGetVersion returned; `None` if the worker did not call it.
    runtime: Option<Version>,
}

/// Returns the evidence that the HIP runtime can start on this machine: on this stack, or only on another one. If
/// nothing is known yet, first probes the other stacks until the HIP runtime starts on one of them.
pub(crate) fn able(session: &Session, cancel: &Cancel) -> RocmEvidence {
    let mut others = session.other_stacks();
    let begun = Instant::now();
    while session.able() == RocmEvidence::Unknown
        && let Some(stack) = others.pop()
    {
        let limits = share(&session.limits, begun.elapsed(), others.len() + 1);
        let Some(probe) = run_empty_plan(session, &stack, &limits, cancel) else { break };
        if probe.outcome.kind == Kind::Pass {
            machine::has_started(&stack.root, &session.device);
        }
    }
    session.able()
}

/// Returns the time limits of the next probe. `probes` probes share the time that is left after the earlier ones took
/// the time `spent`. No limit exceeds the total limit in `of_trial`, the limits of the trial.
fn share(of_trial: &Limits, spent: Duration, probes: usize) -> Limits {
    let left = OTHERS.saturating_sub(spent) / probes.max(1) as u32;
    Limits { total: of_trial.total.min(left), looker: Vec::new(), ..of_trial.clone() }
}

/// Sets the session's release to the version that the HIP runtime reports, if the files of the stack do not name a
/// release.
pub(crate) fn find_release(session: &mut Session) -> Result<(), SessionError> {
    let Some(doubt) = &session.stack.doubt else { return Ok(()) };
    if let Some(version) = &session.rocm {
        session.reporting.event(events::EngineEvent::ReleaseByName { doubt, version });
        return Ok(());
    }
    let cancel = Cancel::new().map_err(SessionError::NoDescriptor)?;
    let probe = run_empty_plan(session, &session.stack, &session.limits, &cancel);
    if probe.as_ref().is_some_and(|probe| probe.outcome.kind == Kind::Pass) {
        session.has_started();
    }
    match probe.as_ref().and_then(|probe| probe.runtime.as_ref()) {
        Some(version) => {
            session.reporting.event(events::EngineEvent::ReleaseByRuntime { doubt, version });
            session.rocm = Some(version.clone());
        }
        None => {
            let why = probe.as_ref().map(|probe| probe.outcome.summary.as_str());
            session.reporting.event(events::EngineEvent::ReleaseUnknown {
                doubt,
                why,
                assumed: latest_version(),
            });
        }
    }
    Ok(())
}

/// Returns the release for which programs are exported: that of the stack, or the latest one if it is unknown.
pub fn release_of_programs(session: &Session) -> Version {
    session.rocm.clone().unwrap_or_else(latest_version)
}

/// Runs a worker with an empty plan. Returns `None` if no worker could be started, or if the run was cancelled.
fn run_empty_plan(
    session: &Session,
    stack: &Stack,
    limits: &Limits,
    cancel: &Cancel,
) -> Option<Probe> {
    let nonce = nonce();
    let folder = session.folders.scratch.trial().ok()?;
    let config = session.device_config(Vec::new());
    let order = Order {
        nonce: nonce.clone(),
        plan: Plan::empty(),
        faults: Vec::new(),
        late: None,
        spool: ".".to_owned(),
        code_cache: None,
        confinement: session.confinement(stack),
        wanted: Vec::new(),
    };
    let text = config.as_ref().map(serde_json::to_string).transpose().unwrap_or_default();
    let start = session.worker(stack, &order, folder.path(), text.as_deref());
    let worker_order = WorkerOrder::from_start(start.ok()?, &order).ok()?;
    let (seen, _) = observe(session, &worker_order, limits, cancel)?;
    let context = Context {
        plan: &order.plan,
        nonce: &nonce,
        order: &worker_order.digest,
        environment: &worker_order.environment,
        build: session.worker_build(),
        device_build: session.device_build(),
        hsa_build: session.hsa_build(),
        launched: session.is_launched(),
        late: false,
        limits: &worker_order.limits,
        evidence: RocmEvidence::Unknown,
        wanted: &[],
        spec: &stack.spec,
        adding: &|name| missing_libraries::advice(&stack.spec, name),
        rocm: None,
        expect_gfx: session.gfx(),
        emulated: config.as_ref(),
        stack_root: Some(&stack.root),
        spool: &|_| None,
    };
    let outcome = judge::judge(&seen, &context);
    let runtime = seen.events.iter().find_map(|event| match event {
        Event::Device { hip_runtime, .. } => Version::from_hip_version(*hip_runtime),
        _ => None,
    });
    Some(Probe { outcome, runtime })
}

fn latest_version() -> Version {
    stacks::Release::latest().version()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_share_a_limit_that_the_trial_does_not_have() {
        let trial = |seconds| Limits { total: Duration::from_secs(seconds), ..Limits::default() };
        let check = |of_trial, spent, probes, expected| {
            let limits = share(&trial(of_trial), Duration::from_secs(spent), probes);
            assert_eq!(limits.total, Duration::from_secs(expected), "{of_trial} {spent} {probes}");
        };
        check(600, 0, 1, 10);
        check(600, 0, 2, 5);
        check(600, 5, 1, 5);
        check(600, 11, 1, 0);
        check(3, 0, 2, 3);
    }
}
