//! Starts a worker process, sends the order to it, and converts its output to events for the judge.

mod kept_events;

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use device::Config;
use judge::{End, LeftProcess, Limit, Observation};
use plan::{Event, Order};
use supervise::{Cancel, ChildEnd, Limits, Observed, Start, StopReason, Usage};

use self::kept_events::{DroppedEvents, KeptEvents};
use crate::{
    Session,
    slots::{self, Slot},
};

/// Everything that a worker needs: its start, and the order (plan and settings) that it reads from its standard input.
/// The worker must report the digest of the order.
pub(crate) struct WorkerOrder {
    start: Start,
    order: Vec<u8>,
    lock: Option<String>,
    pub(crate) digest: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) limits: BTreeMap<String, String>,
}

impl WorkerOrder {
    pub(crate) fn new(
        session: &Session,
        order: &Order,
        folder: &Path,
        config: Option<&Config>,
        slot: Option<&Slot>,
    ) -> Result<WorkerOrder, String> {
        let cannot = |error| format!("cannot send the plan to the worker: {error}");
        let config = config.map(serde_json::to_string).transpose().map_err(cannot)?;
        let mut start = session.worker(&session.stack, order, folder, config.as_deref())?;
        if let Some(card) = slot.and_then(|slot| slot.card.as_ref()) {
            start.environment.insert(slots::VISIBLE.into(), card.visible.clone().into());
        }
        let lock = slot.map(|slot| slot.first_lock().to_owned());
        Ok(WorkerOrder { lock, ..WorkerOrder::from_start(start, order)? })
    }

    pub(crate) fn from_start(start: Start, order: &Order) -> Result<WorkerOrder, String> {
        let order = serde_json::to_vec(order)
            .map_err(|error| format!("cannot send the plan to the worker: {error}"))?;
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        Ok(WorkerOrder {
            lock: None,
            digest: plan::digest(&order),
            environment: start.environment.iter().map(|(k, v)| (text(k), text(v))).collect(),
            limits: start.limits.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            start,
            order,
        })
    }
}

/// Runs a worker. Returns its observation, and its resource usage if known; `None` if the run was cancelled.
pub(crate) fn observe(
    session: &Session,
    order: &WorkerOrder,
    limits: &Limits,
    cancel: &Cancel,
) -> Option<(Observation, Option<Usage>)> {
    let command = session.command(&order.start);
    let seen = supervise::run(command, &order.order, limits, cancel, &mut |_| {});
    session.processes.add(&seen, order.lock.as_deref());
    if matches!(seen.ended, ChildEnd::Stopped { reason: StopReason::Cancelled, .. }) {
        return None;
    }
    let usage = seen.usage;
    Some((observation(seen, session.is_launched()), usage))
}

pub(crate) fn observation(seen: Observed, launched: bool) -> Observation {
    let KeptEvents { mut events, noise, mut garbage, left_out } = KeptEvents::parse(seen.lines);
    let end = match seen.ended {
        ChildEnd::Exited(code) => End::Exited(code),
        ChildEnd::Signalled { signal, .. } => End::Signalled { signal },
        ChildEnd::Stopped { reason: StopReason::Total, .. } => {
            End::TimedOut { limit: Limit::Total }
        }
        ChildEnd::Stopped { reason: StopReason::Quiet, .. } => {
            End::TimedOut { limit: Limit::Quiet }
        }
        // A process that a cgroup v1 has frozen survives SIGKILL.
        ChildEnd::Stopped { reason: StopReason::Suspended(cause), .. }
        | ChildEnd::CouldNotBeKilled { reason: StopReason::Suspended(cause) } => {
            End::Lost(format!("the process was suspended and did not resume in time: {cause}"))
        }
        ChildEnd::Stopped { .. } => {
            End::Lost("the worker wrote too many events to its pipe".into())
        }
        ChildEnd::CouldNotBeKilled { .. } => End::CouldNotBeKilled,
        ChildEnd::SpawnFailed(error) => End::NotStarted(error.to_string()),
        ChildEnd::Lost(error) => End::Lost(error.to_string()),
        _ => End::Lost("the worker ended in an unknown way".into()),
    };
    // If events were dropped, nothing is concluded from the events that were kept.
    let end =
        if left_out == DroppedEvents::default() { end } else { End::Lost(left_out.to_string()) };
    let end = if launched { end_below_a_launcher(&mut events, end) } else { end };
    // A process that ended normally has completed its last event, so an incomplete line is not an event.
    if end == End::Exited(plan::WORKER_DONE) && !seen.torn.is_empty() {
        garbage.push(String::from_utf8_lossy(&seen.torn).into_owned());
    }
    let left_behind = seen.left_behind.into_iter();
    let left_behind =
        left_behind.map(|process| LeftProcess { name: process.name, command: process.command });
    Observation {
        events,
        noise,
        garbage,
        end,
        stderr: seen.stderr.to_text(),
        stacks: seen.stacks,
        stderr_dropped: seen.stderr.dropped(),
        left_behind: left_behind.collect(),
        wall: seen.wall,
    }
}

/// Returns how the worker ended according to its starter, because the observed exit status is that of the launcher.
fn end_below_a_launcher(events: &mut Vec<Event>, seen: End) -> End {
    let by_itself = matches!(seen, End::Exited(_) | End::Signalled { .. });
    match events.last() {
        Some(Event::Ended { exited: Some(code), .. }) if by_itself => {
            let end = End::Exited(*code);
            events.pop();
            end
        }
        Some(Event::Ended { signal: Some(signal), .. }) if by_itself => {
            let end = End::Signalled { signal: *signal };
            events.pop();
            end
        }
        Some(_) if by_itself => End::Lost(
            "the launcher ended without reporting the exit status of the worker".to_owned(),
        ),
        _ => seen,
    }
}

pub(crate) fn not_started(why: String) -> Observation {
    Observation {
        events: Vec::new(),
        noise: Vec::new(),
        garbage: Vec::new(),
        end: End::NotStarted(why),
        stderr: String::new(),
        stacks: Vec::new(),
        stderr_dropped: 0,
        left_behind: Vec::new(),
        wall: std::time::Duration::ZERO,
    }
}
