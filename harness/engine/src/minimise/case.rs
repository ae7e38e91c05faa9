//! Minimises a case with steps: its plan is reduced as long as it fails in the same way.

use std::{collections::BTreeSet, time::Instant};

use ::case::{Case, FaultEntry, Header, Kernels, Lowered, forbidden_parts, lower};
use device::FaultSpec;
use judge::{Kind, Outcome};
use plan::{Call, Plan};
use report::{
    count,
    evidence::{
        CASE_FILE, InvalidVariant, MinimiseEvidence, NeededElement, OtherFailure, PassingRuns,
        Rate, ReplacementFailure, Setting,
    },
};
use rewrite::premise::Premises;
use search::reduce::{
    CandidateOutcome, Counts, InvalidReason, ReduceSettings, Reduced, Rejection, Runner, reduce,
};
use supervise::Cancel;

use super::{
    MinimiseReporter, MinimiseResult, Minimiser,
    candidate::{Candidate, Neighbour, PlanSpace, all_steps, calls, is_block},
    error::MinimiseError,
    identity::FailureLocation,
    runs::{self, RunLimits, Runs, SearchConditions},
};
use crate::{
    CaseLibrary, Job, Session, Stop, evidence,
    failing_trial::{nearest_trials, states_an_answer},
    passing_release::{Oracle, PassingReleaseSearch},
    rerun::{Rerun, RerunSubject, rerun_command},
    run_trial,
};

/// Number of runs without a failure after which a trial counts as passing.
const TRIES: u32 = 30;

/// Number of times that all trials are run in search of one that fails.
const ROUNDS: u32 = 5;

/// Largest number of similar trials, with another value of one axis, that are tried.
const NEIGHBOURS: usize = 4;

/// Number of passing similar trials that are reduced together with the failing trial and must still pass.
const REPORTED: usize = 2;

/// Number of runs of the minimal case on the oracle, the configuration on which every candidate must pass.
const PASSES: u32 = 3;

/// Reduces the simplest trial that fails, and writes the evidence folder.
pub(super) fn minimise(
    minimiser: &Minimiser<'_>,
    mut jobs: Vec<Job<'_>>,
    cancel: &Cancel,
    report: MinimiseReporter<'_>,
) -> Result<MinimiseResult, Stop> {
    let Minimiser { options, subjects, session, releases, .. } = minimiser;
    let library = subjects.library;
    let begun = Instant::now();
    // Choosing the simplest failing trial already reduces the matrix. Any trial that fails is suitable.
    jobs.sort_by_key(|job| simplicity(&job.lowered));
    let name = &jobs.first().ok_or(MinimiseError::NoTrial)?.case.id;
    let folder = evidence::folder(options.out.as_deref(), name)?;
    evidence::make(&folder)?;
    let search = Search {
        session,
        library,
        releases: Some(releases),
        limits: RunLimits {
            runs: options.budget_runs,
            time: options.budget,
            journal: Some(folder.join(runs::FILE)),
            resume: options.resume,
        },
        cancel,
        report,
    };
    let job = failing(session, &jobs, cancel)?;
    let Prepared { space, start, mut runs, first, settings } = search.prepare(job)?;
    let result = reduce(&space, start, settings, &mut runs);
    runs.finish()?;
    let passes = passes(&runs, &result.candidate);
    let on = setting(session, job, &result.candidate, &runs, cancel)?;
    let found = MinimiseEvidence { passes, ..minimised(job, &first, &result, on, runs.started) };
    evidence::write_text(&folder, CASE_FILE, &found.yaml)?;
    for (name, file) in &result.candidate.lowered().plan.files {
        evidence::write_bytes(&folder, name, file.bytes())?;
    }
    evidence::write(&folder, &found)?;
    for (n, (_, candidate)) in result.others.values().enumerate() {
        evidence::write_text(&folder, &format!("other-{}.yaml", n + 1), candidate.text())?;
    }
    if cancel.is_cancelled() {
        return Err(MinimiseError::InterruptedSearch { path: folder.join(CASE_FILE) }.into());
    }
    let (what, faults) = (folder.join(CASE_FILE), subjects.faults.as_slice());
    let needs_trust =
        Case::parse(name, &found.yaml).is_ok_and(|case| !forbidden_parts(&case).is_empty());
    let what = RerunSubject::File(&what, needs_trust);
    let rerun = Rerun { command: "run", what, late: session.late, faults };
    let text =
        report::minimised(&found, result.complete, begun.elapsed(), &rerun.command_line(session));
    Ok(MinimiseResult { text, complete: result.complete })
}

fn simplicity(lowered: &Lowered) -> (u32, u64) {
    let bytes = lowered.plan.buffers.values().map(|b| b.bytes).sum();
    (calls(&lowered.plan), bytes)
}

/// Returns the first trial that fails. If there is only one trial, returns it without a run.
fn failing<'j, 'a>(
    session: &Session,
    jobs: &'j [Job<'a>],
    cancel: &Cancel,
) -> Result<&'j Job<'a>, MinimiseError> {
    let [_, _, ..] = jobs else {
        return jobs.first().ok_or(MinimiseError::NoTrial);
    };
    for round in 0..ROUNDS {
        for job in jobs {
            let record = run_trial(session, &job.for_run(round), cancel)
                .ok_or(MinimiseError::Interrupted)?;
            if record.outcome.kind.is_failure() {
                return Ok(job);
            }
        }
    }
    Err(MinimiseError::NothingFails(format!("none of {} trials failed", jobs.len())))
}

/// Everything that a minimisation needs apart from the job.
pub(super) struct Search<'s> {
    pub(super) session: &'s Session,
    pub(super) library: &'s CaseLibrary,
    /// The search for a release on which every candidate must pass; `None` to reduce without one.
    pub(super) releases: Option<&'s PassingReleaseSearch>,
    pub(super) limits: RunLimits,
    pub(super) cancel: &'s Cancel,
    pub(super) report: MinimiseReporter<'s>,
}

/// A search that is ready to begin.
pub(super) struct Prepared<'s> {
    pub(super) space: PlanSpace,
    pub(super) start: Candidate,
    pub(super) runs: Runs<'s>,
    /// The failure that every candidate must show.
    pub(super) first: Outcome,
    pub(super) settings: ReduceSettings,
}

impl<'s> Search<'s> {
    /// Prepares the search: runs the trial until it fails, which defines the failure that every candidate must show,
    /// and chooses the oracle, the configuration on which every candidate must pass.
    ///
    /// # Errors
    /// A trial that does not fail, or trouble of this machine.
    pub(super) fn prepare(&self, job: &'s Job<'_>) -> Result<Prepared<'s>, Stop> {
        let Search { session, releases, cancel, .. } = *self;
        // Only rocrepro's own GPU kernels are available to every reader of the case.
        let mut kernels: Kernels = self
            .library
            .kernels()
            .iter()
            .filter(|(name, _)| plan::kernel(name).is_some())
            .map(|(name, source)| (name.clone(), source.clone()))
            .collect();
        kernels.files = job.lowered.plan.files.clone();
        let mut header = Header::for_trial(job.case, job.trial);
        let faults: Vec<_> = job
            .faults
            .iter()
            .map(|p| FaultEntry {
                // `prove` expects that a declared fault takes effect in every run, so its probability is left out.
                planted: FaultSpec { with: p.with.clone(), ..FaultSpec::from(p.fault) },
                on: Default::default(),
                signature: None,
                shows: Vec::new(),
            })
            .collect();
        if !faults.is_empty() {
            header.faults = faults;
        }
        let mut space = PlanSpace {
            id: job.case.id.clone(),
            kernels,
            header,
            faults: job.faults.clone(),
            signature: None,
            failing: None,
            kept: BTreeSet::new(),
            premises: Premises::default(),
            leaves_capture_open: plan::leaves_capture_open(&job.lowered.plan),
            must_succeed: None,
            neighbours: Vec::new(),
        };
        let start =
            space.candidate(&job.lowered.plan, Vec::new()).map_err(MinimiseError::NotACase)?;
        let oracle = match releases {
            Some(releases) => releases.oracle(session, job, cancel)?,
            None if !job.faults.is_empty() => Oracle::Healthy,
            None => Oracle::None,
        };
        let conditions = SearchConditions::new(session, job, &oracle);
        let mut runs =
            Runs::open(session, &job.faults, &self.limits, cancel, self.report, &conditions)?;
        let first = first_failure(&mut runs, &space, &start, job)?;
        space.header.title = report::expected_behaviour(&first);
        space.header.about = Some(format!(
            "Reduced from `{}`, which failed with the signature `{}`.",
            job.id(),
            first.signature
        ));
        space.failing = start.edited_id(first.at.step);
        space.signature = Some(first.signature.clone());
        // The reader of the reduced case wants to see a failure, not an expected failure.
        space.header.known.clear();
        if let (Oracle::Release(found), Some(releases)) = (&oracle, releases) {
            runs.beyond = releases.second_release(session, found, job, cancel)?;
        }
        runs.oracle = oracle;
        // If the trial also fails without the fault, the healthy device cannot be the oracle.
        let passes = runs.elsewhere(&start, &space.run_key(&start)).flatten();
        if passes.is_some_and(|outcome| outcome.kind != Kind::Pass) {
            runs.oracle = Oracle::None;
        }
        if rewrite::launches_own(&start.lowered().plan)
            && let Some(releases) = releases
        {
            let key = space.run_key(&start);
            runs.watch_for(releases, &start, &key).ok_or(MinimiseError::Interrupted)?;
        }
        if matches!(runs.oracle, Oracle::None)
            && space.expecting_step(&job.lowered.plan, &first).is_some()
        {
            // Without an oracle, a failure cannot be distinguished from a wrong expectation, so the calls before the
            // failing one are kept.
            space.kept = before(&job.lowered.plan.body, space.failing);
        }
        space.must_succeed = space.failing.filter(|_| first.kind == Kind::ApiError);
        space.premises = Premises::for_plan(&job.lowered.plan, space.must_succeed);
        runs.identity = Some(FailureLocation::new(&start, &first));
        if releases.is_some() {
            space.neighbours = self.neighbours(&mut runs, &space, &start, job)?;
        }
        runs.set_signature(&first.signature);
        // Even with an injected fault, some runs may pass: its effect depends on the HIP runtime and the device.
        let settings = ReduceSettings::default();
        // Because the head of the case has changed, the start has to be written again.
        let start =
            space.candidate(&job.lowered.plan, Vec::new()).map_err(MinimiseError::NotACase)?;
        Ok(Prepared { space, start, runs, first, settings })
    }

    /// Returns trials that differ in one axis value, and that pass where this trial fails in every run. If this trial
    /// fails only in some runs, the result is empty, because passes of other trials would prove nothing.
    fn neighbours(
        &self,
        runs: &mut Runs<'_>,
        space: &PlanSpace,
        start: &Candidate,
        job: &Job<'_>,
    ) -> Result<Vec<Neighbour>, Stop> {
        let mut found = Vec::new();
        for _ in 1..PASSES {
            let key = space.run_key(start);
            let again = runs.outcome(start, &key).ok_or(MinimiseError::Interrupted)?;
            if !again.kind.is_failure() {
                return Ok(found);
            }
        }
        let trials = nearest_trials(job.case, job.trial).into_iter();
        for near in trials.take_while(|near| near.values == 1).take(NEIGHBOURS) {
            // If the case can be lowered with one axis value only, no other trial exists for a comparison.
            let kernels = self.library.kernels();
            let Ok(lowered) = lower(job.case, &near.trial, kernels, &job.faults) else { continue };
            if !have_same_steps(&lowered.plan, &job.lowered.plan) {
                continue;
            }
            let neighbour = Neighbour { what: near.what, plan: lowered.plan };
            let Some(candidate) = space.reduce_neighbour(&neighbour, start) else { continue };
            let passes = runs.passes(&candidate, &space.run_key(&candidate), PASSES);
            if passes.ok_or(MinimiseError::Interrupted)? {
                found.push(neighbour);
            }
            if found.len() == REPORTED {
                break;
            }
        }
        Ok(found)
    }
}

/// Returns true if two plans have the same steps, apart from the values in them.
fn have_same_steps(one: &Plan, other: &Plan) -> bool {
    let steps = |plan: &Plan| {
        let all = all_steps(&plan.body).into_iter();
        all.map(|step| (step.id, std::mem::discriminant(&step.call))).collect::<Vec<_>>()
    };
    steps(one) == steps(other)
}

/// Returns the ids of the calls before the failing step, except checks and work of the host.
fn before(body: &[plan::Step], failing: Option<u32>) -> BTreeSet<u32> {
    let steps = all_steps(body);
    let earlier = steps.iter().take_while(|s| Some(s.id) != failing);
    let harmless = |call: &Call| {
        is_block(call) || call.is_check() || matches!(call, Call::Fill { .. } | Call::Sleep { .. })
    };
    earlier.filter(|s| !harmless(&s.call)).map(|s| s.id).collect()
}

/// Runs the trial until it fails.
fn first_failure(
    runs: &mut Runs<'_>,
    space: &PlanSpace,
    start: &Candidate,
    job: &Job<'_>,
) -> Result<Outcome, MinimiseError> {
    let mut last = None;
    for _ in 0..TRIES {
        let outcome =
            runs.outcome(start, &space.run_key(start)).ok_or(MinimiseError::Interrupted)?;
        if outcome.kind.is_failure() {
            return Ok(outcome);
        }
        last = Some(outcome);
    }
    Err(match last {
        Some(outcome) if outcome.kind == Kind::NoVerdict => {
            MinimiseError::NoVerdict(outcome.summary)
        }
        Some(outcome) if outcome.kind == Kind::Skip => MinimiseError::NothingFails(outcome.summary),
        _ => {
            let passed = format!("{} passed {}", job.id(), count(TRIES, "time"));
            MinimiseError::NothingFails(passed)
        }
    })
}

/// Returns the stack, device and settings of a failing run. If all outcomes of the search came from its journal, the
/// trial is run once more for them.
fn setting(
    session: &Session,
    job: &Job<'_>,
    candidate: &Candidate,
    runs: &Runs<'_>,
    cancel: &Cancel,
) -> Result<Setting, Stop> {
    let record = match &runs.example {
        Some(record) => record.clone(),
        None => run_trial(session, &candidate.job(job.faults.clone()), cancel)
            .ok_or(MinimiseError::Interrupted)?,
    };
    Ok(Setting { again: rerun_command(session, job), ..Setting::from_record(&record) })
}

fn wrong(why: InvalidReason) -> InvalidVariant {
    match why {
        InvalidReason::Elsewhere => InvalidVariant::Elsewhere,
        InvalidReason::Answer => InvalidVariant::Answer,
        InvalidReason::Kernel => InvalidVariant::Kernel,
    }
}

fn rate(counts: Counts) -> Rate {
    Rate { failed: counts.same, runs: counts.runs() }
}

fn minimised(
    job: &Job<'_>,
    first: &Outcome,
    result: &Reduced<Candidate, rewrite::reduce::Edit>,
    on: Setting,
    runs: u32,
) -> MinimiseEvidence {
    let candidate = &result.candidate;
    let with = rate(result.with);
    let elements = result
        .needed
        .iter()
        .map(|needed| {
            let (what, ids) = rewrite::reduce::describe(candidate.plan(), &needed.edit);
            let (without, instead, impossible) = match &needed.without {
                Rejection::Runs(counts, instead) => (rate(*counts), instead.as_slice(), None),
                Rejection::IllFormed(why) => (Rate::default(), [].as_slice(), Some(why.clone())),
            };
            let instead = instead.iter().map(|met| ReplacementFailure {
                signature: met.signature.clone(),
                count: met.count,
                own: met.invalid.map(wrong),
            });
            let (line, instead) = (candidate.line(&ids), instead.collect());
            NeededElement { what, line, with, without, instead, impossible }
        })
        .collect();
    let faults: Vec<_> = job.faults.iter().map(ToString::to_string).collect();
    MinimiseEvidence {
        trial: job.id(),
        digest: job.sha256(),
        signature: first.signature.clone(),
        fault: (!faults.is_empty()).then(|| faults.join(" ")),
        on,
        calls_before: calls(&job.lowered.plan),
        calls_after: calls(&candidate.lowered().plan),
        runs,
        rate: with,
        elements,
        others: result
            .others
            .iter()
            .map(|(signature, (count, _))| OtherFailure {
                signature: signature.clone(),
                count: *count,
            })
            .collect(),
        yaml: candidate.text().to_owned(),
        passes: None,
    }
}

/// Runs the minimal case on the oracle; `None` without an oracle.
fn passes(runs: &Runs<'_>, candidate: &Candidate) -> Option<PassingRuns> {
    let mut rate = Rate::default();
    let mut on = None;
    for _ in 0..PASSES {
        let Some(record) = runs.run_oracle(candidate) else { break };
        rate.runs += 1;
        rate.failed += u32::from(record.outcome.kind != Kind::Pass);
        on = Some(Setting::from_record(&record));
    }
    on.map(|on| PassingRuns { on, rate, otherwise: Vec::new() })
}

impl Runner<Candidate> for Runs<'_> {
    fn run(&mut self, candidate: &Candidate, key: &str) -> Option<CandidateOutcome> {
        let outcome = self.outcome(candidate, key)?;
        let wanted = match outcome.kind {
            Kind::Pass => return Some(CandidateOutcome::Pass),
            Kind::Skip | Kind::NoVerdict => return Some(CandidateOutcome::NoVerdict),
            _ => self.is_wanted(candidate, &outcome),
        };
        // The right result of a call depends on earlier calls, some of which may have been left out.
        let rests = !wanted && states_an_answer(&candidate.lowered().plan, &outcome);
        // The signature is the same, but another call failed, so this is another failure.
        let elsewhere = !wanted && outcome.signature == self.wanted_signature();
        let signature = outcome.signature + if elsewhere { " in another place" } else { "" };
        if rests {
            return Some(CandidateOutcome::Invalid(signature, InvalidReason::Answer));
        }
        Some(match self.elsewhere(candidate, key)? {
            // The candidate fails on the oracle, where it must pass, so the candidate itself is wrong.
            Some(other) if other.kind.is_failure() => {
                CandidateOutcome::Invalid(signature, InvalidReason::Elsewhere)
            }
            // A run without a verdict proves nothing.
            Some(other) if other.kind != Kind::Pass => CandidateOutcome::Pass,
            // The candidate is also wrong if its GPU kernels access memory out of bounds.
            _ if !self.is_clean(candidate, key)? => {
                CandidateOutcome::Invalid(signature, InvalidReason::Kernel)
            }
            _ if wanted && !self.neighbours_pass(candidate, key)? => {
                CandidateOutcome::Invalid(signature, InvalidReason::Elsewhere)
            }
            _ if wanted => CandidateOutcome::Same,
            _ => CandidateOutcome::Other(signature),
        })
    }

    fn accepted(&mut self, candidate: &Candidate) {
        self.keep(candidate, calls(&candidate.lowered().plan));
    }
}
