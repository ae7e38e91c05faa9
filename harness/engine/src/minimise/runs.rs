//! Executes the runs of a minimisation, and writes each run to a journal as soon as it has ended.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    time::{Duration, Instant},
};

use device::FaultSpec;
use judge::{Kind, Outcome, may_be_same};
use plan::Call;
use report::{Record, evidence::CASE_FILE};
use serde::{Deserialize, Serialize};
use supervise::{Cancel, Durability, Journal};

use super::{
    MinimiseEvent, MinimiseReporter, candidate::Candidate, error::MinimiseError,
    identity::FailureLocation,
};
use crate::{
    Job, Session, Stop,
    passing_release::{Oracle, PassingReleaseSearch},
    run_trial,
};

/// File name of the journal in the evidence folder.
pub(super) const FILE: &str = "minimise.jsonl";

/// The conditions of a search. A run can be reused only under the same conditions.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SearchConditions {
    rocrepro: String,
    trial: String,
    /// Digest of the trial's plan.
    plan: String,
    stack: String,
    gfx: Option<String>,
    faults: Vec<FaultSpec>,
    /// Name of the release on which every candidate must pass; `None` if no such release is known.
    #[serde(default)]
    oracle: Option<String>,
}

impl SearchConditions {
    pub(super) fn new(session: &Session, job: &Job<'_>, oracle: &Oracle) -> Self {
        SearchConditions {
            rocrepro: env!("CARGO_PKG_VERSION").to_owned(),
            trial: job.id(),
            plan: plan::digest(format!("{:?}", job.lowered.plan).as_bytes()),
            stack: session.stack.spec.clone(),
            gfx: session.gfx().map(str::to_owned),
            faults: job.faults.clone(),
            oracle: match oracle {
                Oracle::Release(session) => Some(session.stack.spec.clone()),
                Oracle::None | Oracle::Healthy => None,
            },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first line of a journal.
    Search(SearchConditions),
    /// One run of a candidate.
    Run {
        /// Digest of the candidate's plan.
        candidate: String,
        /// Number that was added to the seeds of injected faults.
        seed: u64,
        outcome: Outcome,
    },
}

/// The limits of a search, and its journal.
#[derive(Default)]
pub(super) struct RunLimits {
    /// Largest number of processes to start.
    pub(super) runs: u32,
    /// Time limit of the search.
    pub(super) time: Duration,
    /// Path of the journal from which an interrupted search can be resumed; `None` to keep no journal.
    pub(super) journal: Option<PathBuf>,
    /// True to reuse the runs in the journal, false to remove them.
    pub(super) resume: bool,
}

/// Executes runs, or takes their outcomes from the journal. The journal can be reused because a resumed search executes
/// the same runs in the same order.
pub(super) struct Runs<'s> {
    session: &'s Session,
    faults: &'s [FaultSpec],
    cancel: &'s Cancel,
    report: MinimiseReporter<'s>,
    journal: Option<Journal>,
    answers: HashMap<String, VecDeque<Outcome>>,
    /// Outcomes of runs that were made before the signature of the failure was known, each with the key of its
    /// candidate.
    before: Vec<(String, Outcome)>,
    signature: Option<String>,
    /// The configuration on which every candidate must pass. Each failing candidate is also run on it.
    pub(super) oracle: Oracle,
    /// A second release on which the trial passes. One of the two passing releases is older than the failing release,
    /// and the other is newer.
    pub(super) beyond: Option<Session>,
    /// A session with the sanitizer on, in which the sanitizer finds nothing in the original trial. A candidate that
    /// launches kernels defined in the case is rejected if the sanitizer finds a memory fault in it.
    pub(super) watch: Option<Session>,
    /// Outcomes of candidates on `oracle` and in `watch`, by candidate and configuration.
    verdicts: HashMap<String, Outcome>,
    /// Details of the failure that every candidate must show, in addition to its signature.
    pub(super) identity: Option<FailureLocation>,
    /// Number of runs so far, including those in the journal. This number is the seed of the next run.
    next: u64,
    /// Number of processes that were started.
    pub(super) started: u32,
    most: u32,
    deadline: Instant,
    trouble: Option<Stop>,
    /// A run that showed the failure.
    pub(super) example: Option<Record>,
    /// File of the smallest case so far, next to the journal; `None` without a journal.
    best: Option<PathBuf>,
}

impl<'s> Runs<'s> {
    pub(super) fn open(
        session: &'s Session,
        faults: &'s [FaultSpec],
        limits: &RunLimits,
        cancel: &'s Cancel,
        report: MinimiseReporter<'s>,
        conditions: &SearchConditions,
    ) -> Result<Runs<'s>, Stop> {
        let mut answers = HashMap::<String, VecDeque<Outcome>>::new();
        let mut next = 0;
        let mut journal = None;
        if let Some(path) = &limits.journal {
            let mut resumed = false;
            if limits.resume && path.exists() {
                let read = supervise::read::<Line>(path).map_err(MinimiseError::Journal)?;
                for line in read.records {
                    match line {
                        Line::Search(other) if other == *conditions => resumed = true,
                        Line::Search(SearchConditions { trial, stack, .. }) => {
                            let path = path.clone();
                            return Err(MinimiseError::OtherJournal { path, trial, stack }.into());
                        }
                        Line::Run { candidate, outcome, .. } => {
                            next += 1;
                            answers.entry(candidate).or_default().push_back(outcome);
                        }
                    }
                }
            } else if path.exists() {
                std::fs::remove_file(path)
                    .map_err(|error| MinimiseError::CannotRemove { path: path.clone(), error })?;
            }
            let mut open =
                Journal::open(path, Durability::Process).map_err(MinimiseError::Journal)?;
            if !resumed {
                open.write(&Line::Search(conditions.clone())).map_err(MinimiseError::Journal)?;
            }
            journal = Some(open);
        }
        Ok(Runs {
            session,
            faults,
            cancel,
            report,
            journal,
            answers,
            before: Vec::new(),
            signature: None,
            oracle: Oracle::None,
            beyond: None,
            watch: None,
            verdicts: HashMap::new(),
            identity: None,
            next,
            started: 0,
            most: limits.runs,
            deadline: Instant::now() + limits.time,
            trouble: None,
            example: None,
            best: limits.journal.as_ref().map(|journal| journal.with_file_name(CASE_FILE)),
        })
    }

    /// Runs a candidate once. `key` identifies the candidate in the journal. Returns `None` if the budget is spent, or
    /// if no further run is possible.
    pub(super) fn outcome(&mut self, candidate: &Candidate, key: &str) -> Option<Outcome> {
        if let Some(outcome) = self.answers.get_mut(key).and_then(VecDeque::pop_front) {
            self.remember(key, &outcome);
            return Some(outcome);
        }
        if self.started >= self.most || Instant::now() >= self.deadline || self.trouble.is_some() {
            return None;
        }
        let mut job = candidate.job(self.faults.iter().map(|p| p.for_run(self.next)).collect());
        job.run = u32::try_from(self.next).unwrap_or(u32::MAX);
        let record = run_trial(self.session, &job, self.cancel)?;
        self.record_run(key, &record);
        let outcome = record.outcome.clone();
        self.remember(key, &outcome);
        let wanted = match &self.signature {
            Some(signature) => may_be_same(signature, &outcome.signature),
            None => outcome.kind.is_failure(),
        };
        if wanted || self.example.is_none() {
            self.example = Some(record);
        }
        Some(outcome)
    }

    /// Counts a run and writes it to the journal.
    fn record_run(&mut self, key: &str, record: &Record) {
        let seed = self.next;
        self.started += 1;
        self.next += 1;
        (self.report)(MinimiseEvent::TrialEnded);
        if let Some(journal) = &mut self.journal {
            let outcome = record.outcome.clone();
            let line = Line::Run { candidate: key.to_owned(), seed, outcome };
            if let Err(error) = journal.write(&line) {
                self.trouble = Some(MinimiseError::Journal(error).into());
            }
        }
    }

    /// Runs a candidate once on the oracle, the configuration on which it must pass, and, if it passes there, once on
    /// the release `beyond`. Returns the outcome of the last run. The inner option is `None` without an oracle; the
    /// outer option is `None` in the cases in which [`Runs::outcome`] returns `None`.
    pub(super) fn elsewhere(
        &mut self,
        candidate: &Candidate,
        key: &str,
    ) -> Option<Option<Outcome>> {
        let name = match &self.oracle {
            Oracle::None => return Some(None),
            Oracle::Healthy => "healthy".to_owned(),
            Oracle::Release(session) => format!("on {}", session.stack.spec),
        };
        let seen =
            self.cached_outcome(format!("{key} {name}"), |runs| runs.run_oracle(candidate))?;
        let Some(beyond) = self.beyond.take_if(|_| seen.kind == Kind::Pass) else {
            return Some(Some(seen));
        };
        let name = format!("{key} on {}", beyond.stack.spec);
        let seen = self.cached_outcome(name, |runs| runs.run_without_faults(&beyond, candidate));
        self.beyond = Some(beyond);
        seen.map(Some)
    }

    /// Returns true if the passing trials that were reduced like the candidate still pass; `None` in the cases in which
    /// [`Runs::outcome`] returns `None`.
    pub(super) fn neighbours_pass(&mut self, candidate: &Candidate, key: &str) -> Option<bool> {
        for (what, neighbour) in candidate.neighbours() {
            let job = neighbour.job(self.faults.to_vec());
            let run = |runs: &Self| run_trial(runs.session, &job, runs.cancel);
            if self.cached_outcome(format!("{key} with {what}"), run)?.kind.is_failure() {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns true if a similar trial passes in each of `runs` runs; `None` in the cases in which [`Runs::outcome`]
    /// returns `None`.
    pub(super) fn passes(&mut self, neighbour: &Candidate, key: &str, runs: u32) -> Option<bool> {
        for n in 0..runs {
            let job = neighbour.job(self.faults.iter().map(|p| p.for_run(n.into())).collect());
            let run = |runs: &Self| run_trial(runs.session, &job, runs.cancel);
            if self.cached_outcome(format!("{key} as a neighbour, run {n}"), run)?.kind
                != Kind::Pass
            {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Searches for a session in which the sanitizer finds nothing in the trial: first on the oracle, then on the
    /// failing release. Stores it in `watch`, which remains `None` if none is found. Returns `None` in the cases in
    /// which [`Runs::outcome`] returns `None`.
    pub(super) fn watch_for(
        &mut self,
        releases: &PassingReleaseSearch,
        start: &Candidate,
        key: &str,
    ) -> Option<()> {
        let other = match &self.oracle {
            Oracle::Release(session) => releases.sanitized_session(session),
            Oracle::None | Oracle::Healthy => None,
        };
        for session in [other, releases.sanitized_session(self.session)].into_iter().flatten() {
            self.watch = Some(session);
            if self.is_clean(start, key)? {
                return Some(());
            }
            self.verdicts.clear();
        }
        self.watch = None;
        Some(())
    }

    /// Returns false if the candidate launches kernels defined in the case and the sanitizer finds a memory fault in
    /// it; `None` in the cases in which [`Runs::outcome`] returns `None`.
    pub(super) fn is_clean(&mut self, candidate: &Candidate, key: &str) -> Option<bool> {
        let launches_own = rewrite::launches_own(&candidate.lowered().plan);
        let Some(session) = self.watch.take_if(|_| launches_own) else { return Some(true) };
        let seen = self.cached_outcome(format!("{key} watched"), |runs| {
            runs.run_without_faults(&session, candidate)
        });
        self.watch = Some(session);
        Some(seen?.kind != Kind::MemoryFault)
    }

    /// Returns the outcome of the run with the key `noted`. Calls `run` only if neither an earlier call nor the journal
    /// provides the outcome.
    fn cached_outcome(
        &mut self,
        noted: String,
        run: impl FnOnce(&Self) -> Option<Record>,
    ) -> Option<Outcome> {
        if let Some(known) = self.verdicts.get(&noted) {
            return Some(known.clone());
        }
        let outcome = match self.answers.get_mut(&noted).and_then(VecDeque::pop_front) {
            Some(outcome) => outcome,
            None => {
                let record = run(self)?;
                self.record_run(&noted, &record);
                record.outcome
            }
        };
        self.verdicts.insert(noted, outcome.clone());
        Some(outcome)
    }

    /// Runs a candidate once on the oracle, the configuration on which it must pass. Returns `None` without an oracle,
    /// or if the run was cancelled.
    pub(super) fn run_oracle(&self, candidate: &Candidate) -> Option<Record> {
        let session = match &self.oracle {
            Oracle::None => return None,
            Oracle::Healthy => self.session,
            Oracle::Release(session) => session,
        };
        self.run_without_faults(session, candidate)
    }

    /// Runs a candidate once without the injected faults. Returns `None` if the run was cancelled.
    fn run_without_faults(&self, session: &Session, candidate: &Candidate) -> Option<Record> {
        let mut job = candidate.job(Vec::new());
        let plan = &mut job.lowered.plan;
        for phase in [&mut plan.setup, &mut plan.body, &mut plan.teardown] {
            healthy(phase);
        }
        run_trial(session, &job, self.cancel)
    }

    fn remember(&mut self, key: &str, outcome: &Outcome) {
        if self.signature.is_none() {
            self.before.push((key.to_owned(), outcome.clone()));
        }
    }

    /// Sets the failure that every candidate must show. The runs that were made before count as runs of the search.
    pub(super) fn set_signature(&mut self, signature: &str) {
        self.signature = Some(signature.to_owned());
        (self.report)(MinimiseEvent::FailureFound { signature });
        for (key, outcome) in std::mem::take(&mut self.before).into_iter().rev() {
            self.answers.entry(key).or_default().push_front(outcome);
        }
    }

    /// Returns the signature of the failure that every candidate must show.
    pub(super) fn wanted_signature(&self) -> &str {
        self.signature.as_deref().unwrap_or_default()
    }

    /// Returns true if a candidate failed in the same way as the trial: with the same signature, in the same call, and
    /// with the same call before it.
    pub(super) fn is_wanted(&self, candidate: &Candidate, outcome: &Outcome) -> bool {
        self.signature.as_deref().is_some_and(|wanted| may_be_same(wanted, &outcome.signature))
            && self.identity.as_ref().is_none_or(|identity| identity.matches(candidate, outcome))
    }

    /// Writes the smallest case so far, so that nothing is lost if the command is killed, and reports it.
    pub(super) fn keep(&mut self, candidate: &Candidate, calls: u32) {
        if let Some(best) = &self.best
            && let Err(error) = atomic::write(best, candidate.text())
        {
            let path = best.clone();
            self.trouble.get_or_insert(MinimiseError::CannotWrite { path, error }.into());
        }
        (self.report)(MinimiseEvent::Smaller {
            signature: self.wanted_signature(),
            calls,
            runs: self.next,
        });
    }

    /// Ends the search.
    ///
    /// # Errors
    /// The journal could not be written.
    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        self.trouble.take().map_or(Ok(()), Err)
    }
}

/// Removes the faults that are injected at the calls in `steps`.
fn healthy(steps: &mut [plan::Step]) {
    for step in steps {
        step.planted.clear();
        if let Call::Repeat { body, .. } | Call::Thread { body } = &mut step.call {
            healthy(body);
        }
    }
}
