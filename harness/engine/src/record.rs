//! Builds the record of a trial from the observations, the configuration and the verdict.

use std::time::SystemTime;

use device::FaultActivations;
use judge::{Location, Observation, Outcome, RunProperties, Verdict, VerdictKind, verdict};
use plan::Event;
use report::{Device, Record, RequestedOptions, TrialStart};
use supervise::Usage;

use crate::{Job, Session, hints, rerun::rerun_command, worker_process::not_started};

/// Description of the sandbox in the record of a trusted case, which runs without confinement.
const TRUSTED: &str = "trusted (`--trust`), so nothing confined the worker";

/// Returns the record of a trial that was observed. `outcome` is the judged outcome, and `red` lists the steps at which
/// the trial deviated from its plan.
pub fn record(
    session: &Session,
    job: &Job<'_>,
    nonce: &str,
    observation: Observation,
    usage: Option<Usage>,
    (outcome, red): (Outcome, Vec<Location>),
) -> Record {
    let device = Device::from_events(
        &observation.events,
        session.gfx().unwrap_or_default(),
        session.gfx().is_some(),
    );
    let rocm = session.rocm.clone();
    let asked = RequestedOptions {
        unnamed: job.unnamed(),
        ..RequestedOptions::new(session.given(), job.text())
    };
    let phases = judge::phases(&observation.events);
    let (environment, limits) = report::reported_environment(&observation.events);
    let mut record = Record {
        format: report::FORMAT,
        run: session.run.clone(),
        number: 0,
        date: report::date(SystemTime::now()),
        rocrepro: env!("CARGO_PKG_VERSION").to_owned(),
        build: session.build().to_owned(),
        case: job.case.id.clone(),
        trial: job.id(),
        title: job.case.title.clone(),
        upstream: job.case.upstream.clone(),
        faults: job.faults.clone(),
        asked: Some(asked),
        red,
        program: None,
        acts: acts(&observation.events),
        late: injected_delays(job, session, &observation.events),
        verdict: Verdict { kind: VerdictKind::NoVerdict, known: None },
        outcome,
        stack: report::Stack::from_events(
            &session.stack.spec,
            &session.stack.root.display().to_string(),
            rocm,
            &observation.events,
        ),
        calls: phases.iter().map(|p| p.calls).sum(),
        phases,
        wall_ns: observation.wall.as_nanos() as u64,
        cpu_ns: usage.map(|u| (u.user_cpu + u.system_cpu).as_nanos() as u64),
        environment,
        limits,
        max_rss_bytes: usage.map(|u| u.max_rss_bytes),
        stderr_tail: report::output_tail(&observation.stderr),
        stdout_tail: String::new(),
        stacks: observation.stacks,
        exit: observation.end,
        nonce: nonce.to_owned(),
        confined: match session.trusts_given_cases() {
            true => TRUSTED.to_owned(),
            false => report::describe_confinement(&observation.events),
        },
        again: rerun_command(session, job),
        gpu_after: String::new(),
        device,
    };
    record.verdict = judge_record(session, job, &record);
    let call = record.outcome.at.line.and_then(|line| job.case.recorded.get(&line));
    if let Some(case::RecordedStep { number, function }) =
        call.filter(|_| record.outcome.kind.is_failure())
    {
        record.outcome.add_hint(&format!(
            "the first unexpected result is that of call {number} of the recording, {function}; `rocrepro case new` \
             writes the case whose lines are named here"
        ));
    }
    if record.verdict.kind == VerdictKind::NewsFail {
        let known = job.case.known.iter();
        let known: Vec<_> =
            known.map(|it| (it.on.matches(job.trial), convert_expected_failure(it))).collect();
        let signature = &record.outcome.signature;
        if let Some(hint) = hints::of_expected_failures(&known, signature, &ground(&record)) {
            record.outcome.add_hint(&hint);
        }
    }
    // Some texts come from the worker and its libraries, and may contain control characters.
    record.escape_names();
    record
}

pub(crate) fn judge_record(session: &Session, job: &Job<'_>, record: &Record) -> Verdict {
    let here = job.case.known.iter().filter(|known| known.on.matches(job.trial));
    let differences = job.case.differences(job.trial).map(difference);
    let known: Vec<_> = differences.chain(here.map(convert_expected_failure)).collect();
    let asked = record.asked.as_ref().is_some_and(RequestedOptions::may_avoid_failures);
    let otherwise = asked || !job.faults.is_empty() || job.late(session.late).is_some();
    verdict(&record.outcome, &known, &ground(record), otherwise)
}

/// Returns the properties of a run on which expected failures can depend.
pub(crate) fn ground(record: &Record) -> RunProperties<'_> {
    let device = &record.device;
    RunProperties {
        gfx: &device.gfx,
        rocm: record.stack.rocm.as_ref(),
        card: device.card.as_ref().map(|card| card.name.as_str()),
        driver: Some(device.driver.as_str()).filter(|driver| !driver.is_empty()),
    }
}

/// Converts an expected failure of a case to the form that the crate `judge` uses.
pub fn convert_expected_failure(known: &case::Known) -> judge::Known {
    let case::Known { gfx, rocm, card, driver, on: _, signature, upstream, about, calls: _ } =
        known.clone();
    // A YAML text may contain line breaks.
    let about = about.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    judge::Known { gfx, rocm, card, driver, signature, upstream, about, difference: None }
}

/// Converts an expected difference of a case to the form that the crate `judge` uses. A difference applies to all
/// releases.
fn difference(entry: &case::Expectation) -> judge::Known {
    judge::Known {
        gfx: Vec::new(),
        rocm: plan::VersionRange::ALL,
        card: None,
        driver: None,
        // The case parser requires a signature for each difference.
        signature: entry.signature.clone().unwrap_or_default(),
        upstream: None,
        about: None,
        difference: Some(entry.source.clone()),
    }
}

fn injected_delays(
    job: &Job<'_>,
    session: &Session,
    events: &[Event],
) -> Option<report::InjectedDelays> {
    let asked = job.late(session.late)?.to_string();
    let times = events.iter().find_map(|event| match event {
        Event::Delayed { times } => Some(*times),
        _ => None,
    });
    Some(report::InjectedDelays { asked, times })
}

fn acts(events: &[Event]) -> Vec<FaultActivations> {
    let said = events.iter().find_map(|event| match event {
        Event::Acted { acts } => Some(acts.clone()),
        _ => None,
    });
    said.unwrap_or_default()
}

/// Returns the record of a trial that was planned and did not finish.
pub(crate) fn not_run(session: &Session, job: &Job<'_>) -> Record {
    record_without_result(
        session,
        job,
        "not-run",
        "the run ended before this trial finished".to_owned(),
    )
}

/// Returns the record of a trial during which the machine was restarted.
pub fn lost_record(session: &Session, job: &Job<'_>, begun: &TrialStart) -> Record {
    let TrialStart { begun: when, run, .. } = begun;
    let why = format!(
        "it started in run {run} at {when} and never finished: the machine was restarted afterwards, or the run was \
         on another machine; `--resume` does not run it again"
    );
    record_without_result(session, job, "machine-restarted", why)
}

pub(crate) fn record_without_result(
    session: &Session,
    job: &Job<'_>,
    word: &str,
    why: String,
) -> Record {
    let outcome = Outcome {
        kind: judge::Kind::NoVerdict,
        signature: format!("no-verdict:{word}"),
        at: judge::Location::default(),
        summary: why.clone(),
        details: Vec::new(),
    };
    record(session, job, "", not_started(why), None, (outcome, Vec::new()))
}

pub(crate) fn skipped(why: String) -> Outcome {
    Outcome {
        kind: judge::Kind::Skip,
        signature: "skip:needs".to_owned(),
        at: judge::Location::default(),
        summary: why,
        details: Vec::new(),
    }
}
