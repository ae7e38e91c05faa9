mod compare;
mod identity;
mod journal;
mod program;
mod reducer;
mod show;
mod space;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use case::{FaultEntry, Header, Kernels};
use device::Planted;
use judge::{Kind, Outcome};
use plan::Call;
use report::{
    count,
    evidence::{CASE_FILE, Instead, Minimised, Needed, OtherFailure, Passes, Rate, Setting},
};
use search::reduce::{
    Counts, InvalidReason, ReduceSettings, Reduced, Rejection, Runner, Seen, reduce,
};
use supervise::Cancel;

pub use self::compare::{Comparison, Simulated, compare};
pub(crate) use self::reducer::{ASK_ARGUMENT, ask};
use self::{
    identity::Identity,
    journal::{About, Oracle, Runs},
    space::{Candidate, Plans, calls, every},
};
use super::{oracle::Elsewhere, setup::setup, subject::states_an_answer};
use crate::{args::Minimise, interrupt, outputs};
use engine::{
    CaseLibrary, Selected, Session, Stop, evidence,
    job::{Job, lower_all},
    rerun::{Rerun, What, again},
    stop::chain,
    trial::run_trial,
};

/// Runs after which something that never failed is taken to be well.
const TRIES: u32 = 30;
/// Rounds over all trials in which one that fails is looked for.
const ROUNDS: u32 = 5;

/// How a minimisation is made.
pub(crate) struct MinimiseOptions {
    /// Most processes to start.
    pub(crate) budget_runs: u32,
    /// Longest time.
    pub(crate) budget: Duration,
    /// The journal, by which a search that was stopped is resumed; none for a search that is not.
    pub(crate) journal: Option<PathBuf>,
    /// Whether to go on with what the journal holds, instead of starting it anew.
    pub(crate) resume: bool,
    /// Where to look for a release on which the trial passes; none to look nowhere.
    pub(crate) elsewhere: Option<Elsewhere>,
}

impl Default for MinimiseOptions {
    fn default() -> Self {
        MinimiseOptions {
            budget_runs: 5000,
            budget: Duration::from_secs(1800),
            journal: None,
            resume: false,
            elsewhere: None,
        }
    }
}

/// What a minimisation found.
pub(crate) struct Minimisation {
    /// For the evidence folder.
    pub(crate) found: Minimised,
    /// Whether every element that is left was shown to be needed; else the budget was spent.
    pub(crate) complete: bool,
    /// The first case that showed each other failure, by signature.
    pub(crate) others: BTreeMap<String, String>,
}

pub(crate) fn minimise(args: &Minimise) -> Result<ExitCode, Stop> {
    let library = args.selection.library()?;
    let mut selected = args.selection.select(&library)?;
    if selected.iter().any(|entry| entry.case.is_program()) {
        return program::minimise(args, &library, selected);
    }
    let (mut options, faults) = setup(&args.on, None, &args.fault)?;
    options.cases_from = args.selection.from.chosen();
    options.hangs_on_purpose = true;
    let lowered = lower_all(&library, &selected, faults.iter().cloned())?;
    let mut jobs: Vec<_> = selected.drain(..).zip(lowered).collect();
    // The matrix is reduced first: the simplest trial that fails is as good as any.
    jobs.sort_by_key(|(_, lowered)| simplicity(lowered));
    let elsewhere = Elsewhere { options: options.clone(), named: args.passes_on.clone() };
    let session = Session::open_on_one(options)?;
    let cancel = interrupt::cancel()?;
    let begun = Instant::now();
    let name = &jobs.first().ok_or_else(|| Stop::nothing("error: no trial"))?.0.case.id;
    let folder = evidence::folder(args.out.as_deref(), name)?;
    let search = MinimiseOptions {
        budget_runs: args.budget_runs,
        budget: Duration::from_secs(args.budget_seconds.into()),
        journal: Some(folder.join(journal::FILE)),
        resume: args.resume,
        elsewhere: Some(elsewhere),
    };
    evidence::make(&folder)?;
    let jobs: Vec<Job<'_>> = jobs
        .iter()
        .map(|(Selected { case, trial }, lowered)| Job {
            case,
            trial,
            lowered: lowered.clone(),
            run: 0,
            faults: faults.clone(),
        })
        .collect();
    let job = failing(&session, &jobs, &cancel)?;
    let result = minimise_job(&session, &library, job, &search, &cancel)?;
    evidence::write_text(&folder, CASE_FILE, &result.found.yaml)?;
    evidence::write(&folder, &result.found)?;
    for (n, yaml) in result.others.values().enumerate() {
        evidence::write_text(&folder, &format!("other-{}.yaml", n + 1), yaml)?;
    }
    let (what, faults) = (folder.join(CASE_FILE), faults.as_slice());
    let rerun = Rerun { command: "run", what: What::File(&what), late: session.late, faults };
    outputs::print(&show::result(&result, begun.elapsed(), &rerun.of(&session)))?;
    Ok(ExitCode::from(u8::from(!result.complete)))
}

fn simplicity(lowered: &case::Lowered) -> (u32, u64) {
    let bytes = lowered.plan.buffers.values().map(|b| b.bytes).sum();
    (calls(&lowered.plan), bytes)
}

/// The first trial of several that fails.
fn failing<'j, 'a>(
    session: &Session,
    jobs: &'j [Job<'a>],
    cancel: &Cancel,
) -> Result<&'j Job<'a>, Stop> {
    let [_, _, ..] = jobs else {
        return jobs.first().ok_or_else(|| Stop::nothing("error: no trial"));
    };
    for round in 0..ROUNDS {
        for job in jobs {
            let job = &job.of_run(round);
            let record = run_trial(session, job, cancel).ok_or_else(interrupted)?;
            if record.outcome.kind.is_failure()
                && let Some(job) = jobs.iter().find(|j| j.id() == record.trial)
            {
                return Ok(job);
            }
        }
    }
    Err(nothing_fails(&format!("none of {} trials fails", jobs.len())))
}

fn nothing_fails(what: &str) -> Stop {
    Stop::nothing(format!(
        "nothing to minimise: {what}; choose another stack by --rocm, or plant a fault by --fault"
    ))
}

fn interrupted() -> Stop {
    Stop::no_verdict("interrupted before anything failed")
}

fn no_verdict(error: &dyn std::error::Error) -> Stop {
    Stop::no_verdict(format!("error: {}", chain(error)))
}

/// What a search starts from.
struct Prepared<'s> {
    space: Plans,
    start: Candidate,
    runs: Runs<'s>,
    /// The failure that is kept.
    first: Outcome,
    settings: ReduceSettings,
}

/// Finds the failure of a trial and what it takes to reduce it.
fn prepare<'s>(
    session: &'s Session,
    library: &CaseLibrary,
    job: &'s Job<'_>,
    options: &MinimiseOptions,
    cancel: &'s Cancel,
) -> Result<Prepared<'s>, Stop> {
    // A case that somebody gets has the kernels of the project, and no others.
    let kernels: Kernels = library
        .kernels()
        .iter()
        .filter(|(name, _)| plan::kernel(name).is_some())
        .map(|(name, source)| (name.clone(), source.clone()))
        .collect();
    let mut header = Header::of(job.case, job.trial);
    let planted: Vec<_> = job
        .faults
        .iter()
        .map(|p| FaultEntry {
            // Proving the case shows that it can fail: every time, that is.
            planted: Planted { with: p.with.clone(), ..Planted::from(p.fault) },
            on: Default::default(),
            signature: None,
            shows: Vec::new(),
        })
        .collect();
    if !planted.is_empty() {
        header.faults = planted;
    }
    let mut space = Plans {
        id: job.case.id.clone(),
        kernels,
        header,
        faults: job.faults.clone(),
        signature: None,
        failing: None,
        kept: BTreeSet::new(),
    };
    let start = space.candidate(&job.lowered.plan).map_err(|why| {
        Stop::no_verdict(format!("error: the trial cannot be written as a case: {why}"))
    })?;
    let release = match &options.elsewhere {
        Some(elsewhere) if job.faults.is_empty() => elsewhere.find(session, job, cancel)?,
        _ => None,
    };
    let about = About::of(session, job, release.as_ref());
    let mut runs = Runs::open(session, &job.faults, options, cancel, &about)?;
    let first = first_failure(&mut runs, &space, &start, job)?;
    space.header.title = report::must_hold(&first);
    space.header.about = Some(format!(
        "Reduced from `{}`, which failed with the signature `{}`.",
        job.id(),
        first.signature
    ));
    space.failing = start.edited_id(first.at.step);
    space.signature = Some(first.signature.clone());
    // Whoever runs what is left wants to see it fail, and no window that excuses it.
    space.header.known.clear();
    runs.oracle = match release {
        Some(release) => Oracle::Release(Box::new(release)),
        None if !job.faults.is_empty() => Oracle::Healthy,
        None => Oracle::None,
    };
    // A trial that fails without the fault too has nothing healthy to be compared with.
    let passes = runs.elsewhere(&start, &space.run_key(&start)).flatten();
    if passes.is_some_and(|outcome| outcome.kind != Kind::Pass) {
        runs.oracle = Oracle::None;
    }
    if rewrite::launches_own(&start.lowered().plan)
        && let Some(elsewhere) = &options.elsewhere
    {
        let key = space.run_key(&start);
        runs.watch_for(elsewhere, &start, &key).ok_or_else(interrupted)?;
    }
    if matches!(runs.oracle, Oracle::None) && space.expecting(&job.lowered.plan, &first).is_some() {
        // Nothing tells a wrong expectation from the failure.
        space.kept = before(&job.lowered.plan.body, space.failing);
    }
    runs.identity = Some(Identity::of(&start, &first));
    runs.found(&first.signature);
    // A planted fault is no promise that the trial fails each time: what it does is up to the runtime and the device.
    let settings = ReduceSettings::default();
    // The header has changed, and with it the text.
    let start = space.candidate(&job.lowered.plan).map_err(Stop::no_verdict)?;
    Ok(Prepared { space, start, runs, first, settings })
}

/// Reduces a failing trial while its signature stays the same.
///
/// The signature is that of the first failure among some runs. Whatever is found has been written as a case, read again,
/// and has failed in this way.
///
/// # Errors
/// Nothing that fails (exit code 4), or a machine that does not let us find out (3).
pub(crate) fn minimise_job(
    session: &Session,
    library: &CaseLibrary,
    job: &Job<'_>,
    options: &MinimiseOptions,
    cancel: &Cancel,
) -> Result<Minimisation, Stop> {
    let Prepared { space, start, mut runs, first, settings } =
        prepare(session, library, job, options, cancel)?;
    let result = reduce(&space, start, settings, &mut runs);
    runs.finish()?;
    let passes = passes(&runs, &result.candidate);
    let setting = setting(session, job, &result.candidate, &runs, cancel)?;
    Ok(Minimisation {
        complete: result.complete,
        others: result
            .others
            .iter()
            .map(|(signature, (_, candidate))| (signature.clone(), candidate.text().to_owned()))
            .collect(),
        found: Minimised { passes, ..minimised(job, &first, &result, setting, runs.started) },
    })
}

/// The calls before a step that are more than checks and host work.
fn before(body: &[plan::Step], failing: Option<u32>) -> BTreeSet<u32> {
    let steps = every(body);
    let earlier = steps.iter().take_while(|s| Some(s.id) != failing);
    let harmless = |call: &Call| {
        let block = matches!(call, Call::Repeat { .. } | Call::Thread { .. });
        let check = matches!(call, Call::Check { .. } | Call::Equal { .. } | Call::Differ { .. });
        block || check || matches!(call, Call::Fill { .. } | Call::Sleep { .. })
    };
    earlier.filter(|s| !harmless(&s.call)).map(|s| s.id).collect()
}

/// Runs the trial until it fails.
fn first_failure(
    runs: &mut Runs<'_>,
    space: &Plans,
    start: &Candidate,
    job: &Job<'_>,
) -> Result<Outcome, Stop> {
    let mut last = None;
    for _ in 0..TRIES {
        let outcome = runs.outcome(start, &space.run_key(start)).ok_or_else(interrupted)?;
        if outcome.kind.is_failure() {
            return Ok(outcome);
        }
        last = Some(outcome);
    }
    match last {
        Some(outcome) if outcome.kind == Kind::NoVerdict => {
            Err(Stop::no_verdict(format!("error: {}", outcome.summary)))
        }
        Some(outcome) if outcome.kind == Kind::Skip => Err(nothing_fails(&outcome.summary)),
        _ => Err(nothing_fails(&format!("{} passed {}", job.id(), count(TRIES, "time")))),
    }
}

/// On what it was found. A search that was answered from its journal to the end makes one run for it.
fn setting(
    session: &Session,
    job: &Job<'_>,
    candidate: &Candidate,
    runs: &Runs<'_>,
    cancel: &Cancel,
) -> Result<Setting, Stop> {
    let record = match &runs.example {
        Some(record) => record.clone(),
        None => {
            let job = Job {
                case: candidate.case(),
                trial: candidate.trial(),
                lowered: candidate.lowered().clone(),
                run: 0,
                faults: job.faults.clone(),
            };
            run_trial(session, &job, cancel).ok_or_else(interrupted)?
        }
    };
    Ok(Setting { again: again(session, job), ..Setting::of(&record) })
}

fn wrong(why: InvalidReason) -> report::evidence::Wrong {
    match why {
        InvalidReason::Elsewhere => report::evidence::Wrong::Elsewhere,
        InvalidReason::Answer => report::evidence::Wrong::Answer,
        InvalidReason::Kernel => report::evidence::Wrong::Kernel,
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
) -> Minimised {
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
            let instead = instead.iter().map(|met| Instead {
                signature: met.signature.clone(),
                count: met.count,
                own: met.invalid.map(wrong),
            });
            let (line, instead) = (candidate.line(&ids), instead.collect());
            Needed { what, line, with, without, instead, impossible }
        })
        .collect();
    let planted: Vec<_> = job.faults.iter().map(ToString::to_string).collect();
    Minimised {
        trial: job.id(),
        signature: first.signature.clone(),
        fault: (!planted.is_empty()).then(|| planted.join(" ")),
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

/// Runs of the minimal case where it must pass.
const PASSES: u32 = 3;

/// What the minimal case does where it must pass; none where there is no such place.
fn passes(runs: &Runs<'_>, candidate: &Candidate) -> Option<Passes> {
    let mut rate = Rate::default();
    let mut on = None;
    for _ in 0..PASSES {
        let Some(record) = runs.consult(candidate) else { break };
        rate.runs += 1;
        rate.failed += u32::from(record.outcome.kind != Kind::Pass);
        on = Some(Setting::of(&record));
    }
    on.map(|on| Passes { on, rate, otherwise: Vec::new() })
}

impl Runner<Candidate> for Runs<'_> {
    fn run(&mut self, candidate: &Candidate, key: &str) -> Option<Seen> {
        let outcome = self.outcome(candidate, key)?;
        let wanted = match outcome.kind {
            Kind::Pass => return Some(Seen::Pass),
            Kind::Skip | Kind::NoVerdict => return Some(Seen::NoVerdict),
            _ => self.is_wanted(candidate, &outcome),
        };
        // What an answer must be rests on the calls before, and some of them may be gone.
        let rests = !wanted && states_an_answer(&candidate.lowered().plan, &outcome);
        // The same signature at another place is another failure.
        let elsewhere = !wanted && outcome.signature == self.wanted();
        let signature = outcome.signature + if elsewhere { " in another place" } else { "" };
        if rests {
            return Some(Seen::Invalid(signature, InvalidReason::Answer));
        }
        Some(match self.elsewhere(candidate, key)? {
            // It fails where it must pass, so it is itself wrong.
            Some(other) if other.kind.is_failure() => {
                Seen::Invalid(signature, InvalidReason::Elsewhere)
            }
            // Nothing is known of it.
            Some(other) if other.kind != Kind::Pass => Seen::Pass,
            // So it is where its own kernels touch what they may not.
            _ if !self.is_clean(candidate, key)? => Seen::Invalid(signature, InvalidReason::Kernel),
            _ if wanted => Seen::Same,
            _ => Seen::Other(signature),
        })
    }

    fn accepted(&mut self, candidate: &Candidate) {
        self.progress(calls(&candidate.lowered().plan));
    }
}
