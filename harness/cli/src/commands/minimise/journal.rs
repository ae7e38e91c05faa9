//! The runs of a search, each kept in a journal as soon as it is over.

use std::{
    collections::{HashMap, VecDeque},
    io::IsTerminal,
    time::Instant,
};

use device::Planted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use judge::{Kind, Outcome, may_be_same};
use plan::Call;
use report::{Record, count};
use serde::{Deserialize, Serialize};
use supervise::{Cancel, Durability, Journal};

use super::{
    super::oracle::Elsewhere, MinimiseOptions, identity::Identity, no_verdict, space::Candidate,
};
use engine::{Session, Stop, job::Job, trial::run_trial};

/// Name of the journal in the evidence folder.
pub(super) const FILE: &str = "minimise.jsonl";

/// What a search is about; runs of another one say nothing about it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    rocrepro: String,
    trial: String,
    /// Digest of the plan.
    plan: String,
    stack: String,
    gfx: Option<String>,
    faults: Vec<Planted>,
    /// The release on which every candidate must pass.
    #[serde(default)]
    oracle: Option<String>,
}

impl About {
    pub(super) fn of(session: &Session, job: &Job<'_>, oracle: Option<&Session>) -> About {
        About {
            rocrepro: env!("CARGO_PKG_VERSION").to_owned(),
            trial: job.id(),
            plan: plan::digest(format!("{:?}", job.lowered.plan).as_bytes()),
            stack: session.stack.spec.clone(),
            gfx: session.gfx().map(str::to_owned),
            faults: job.faults.clone(),
            oracle: oracle.map(|session| session.stack.spec.clone()),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first line.
    Search(About),
    /// One run.
    Run {
        /// Digest of the candidate.
        candidate: String,
        /// Added to the seeds of planted faults.
        seed: u64,
        outcome: Outcome,
    },
}

/// What every candidate must pass on, lest it be wrong itself.
pub(super) enum Oracle {
    /// There is none: nothing tells a program that is wrong from one that shows a bug.
    None,
    /// The device without the planted faults.
    Healthy,
    /// A release on which the trial passes.
    Release(Box<Session>),
}

impl Oracle {
    /// What it is called in the journal.
    fn name(&self) -> Option<String> {
        match self {
            Oracle::None => None,
            Oracle::Healthy => Some("healthy".to_owned()),
            Oracle::Release(session) => Some(format!("on {}", session.stack.spec)),
        }
    }
}

/// Starts runs, or answers from the journal where it has them: the same search asks the same questions.
pub(super) struct Runs<'s> {
    session: &'s Session,
    faults: &'s [Planted],
    cancel: &'s Cancel,
    journal: Option<Journal>,
    answers: HashMap<String, VecDeque<Outcome>>,
    /// Outcomes from before the signature was known.
    before: Vec<(String, Outcome)>,
    signature: Option<String>,
    /// What each candidate that fails is run on as well.
    pub(super) oracle: Oracle,
    /// Where the sanitizer finds nothing in the trial: it must find nothing in what kernels of the case's own are left in, either.
    pub(super) watch: Option<Session>,
    /// What was seen where candidates must pass, and under the sanitizer.
    verdicts: HashMap<String, Outcome>,
    /// The failure in question, beyond its signature.
    pub(super) identity: Option<Identity>,
    /// Runs in all, with those of the journal: the seed of the next one.
    next: u64,
    /// Processes started.
    pub(super) started: u32,
    most: u32,
    deadline: Instant,
    trouble: Option<Stop>,
    bar: ProgressBar,
    /// A run that failed in the way in question.
    pub(super) example: Option<Record>,
}

impl<'s> Runs<'s> {
    pub(super) fn open(
        session: &'s Session,
        faults: &'s [Planted],
        options: &MinimiseOptions,
        cancel: &'s Cancel,
        about: &About,
    ) -> Result<Runs<'s>, Stop> {
        let mut answers = HashMap::<String, VecDeque<Outcome>>::new();
        let mut next = 0;
        let mut journal = None;
        if let Some(path) = &options.journal {
            let mut resumed = false;
            if options.resume && path.exists() {
                let read = supervise::read::<Line>(path).map_err(|e| no_verdict(&e))?;
                for line in read.records {
                    match line {
                        Line::Search(other) if other == *about => resumed = true,
                        Line::Search(other) => {
                            return Err(Stop::usage(format!(
                                "error: `{}` is about {} on {}, with other faults or another version perhaps; \
                                 leave `--resume` out to begin anew",
                                path.display(),
                                other.trial,
                                other.stack
                            )));
                        }
                        Line::Run { candidate, outcome, .. } => {
                            next += 1;
                            answers.entry(candidate).or_default().push_back(outcome);
                        }
                    }
                }
            } else if path.exists() {
                std::fs::remove_file(path).map_err(|e| {
                    Stop::usage(format!("error: cannot remove `{}`: {e}", path.display()))
                })?;
            }
            let mut open = Journal::open(path, Durability::Process).map_err(|e| no_verdict(&e))?;
            if !resumed {
                open.write(&Line::Search(about.clone())).map_err(|e| no_verdict(&e))?;
            }
            journal = Some(open);
        }
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("{spinner} runs: {pos}, {elapsed} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Ok(Runs {
            session,
            faults,
            cancel,
            journal,
            answers,
            before: Vec::new(),
            signature: None,
            oracle: Oracle::None,
            watch: None,
            verdicts: HashMap::new(),
            identity: None,
            next,
            started: 0,
            most: options.budget_runs,
            deadline: Instant::now() + options.budget,
            trouble: None,
            bar: ProgressBar::with_draw_target(None, target).with_style(style),
            example: None,
        })
    }

    /// One run of a candidate; None where the budget is spent, or nothing more can be run.
    pub(super) fn outcome(&mut self, candidate: &Candidate, key: &str) -> Option<Outcome> {
        if let Some(outcome) = self.answers.get_mut(key).and_then(VecDeque::pop_front) {
            self.remember(key, &outcome);
            return Some(outcome);
        }
        if self.started >= self.most || Instant::now() >= self.deadline || self.trouble.is_some() {
            return None;
        }
        let record =
            self.start(candidate, key, self.faults.iter().map(|p| p.of_run(self.next)).collect())?;
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

    fn start(&mut self, candidate: &Candidate, key: &str, faults: Vec<Planted>) -> Option<Record> {
        let job = Job {
            case: candidate.case(),
            trial: candidate.trial(),
            lowered: candidate.lowered().clone(),
            run: u32::try_from(self.next).unwrap_or(u32::MAX),
            faults,
        };
        let record = run_trial(self.session, &job, self.cancel)?;
        self.note(key, &record);
        Some(record)
    }

    /// Counts a run and keeps it.
    fn note(&mut self, key: &str, record: &Record) {
        let seed = self.next;
        self.started += 1;
        self.next += 1;
        self.bar.inc(1);
        if let Some(journal) = &mut self.journal {
            let outcome = record.outcome.clone();
            let line = Line::Run { candidate: key.to_owned(), seed, outcome };
            if let Err(error) = journal.write(&line) {
                self.trouble = Some(no_verdict(&error));
            }
        }
    }

    /// The outcome of a candidate where it must pass, run once; the inner None where there is no such place. The outer None is
    /// that of [`Runs::outcome`].
    pub(super) fn elsewhere(
        &mut self,
        candidate: &Candidate,
        key: &str,
    ) -> Option<Option<Outcome>> {
        let Some(name) = self.oracle.name() else { return Some(None) };
        self.once(format!("{key} {name}"), |runs| runs.consult(candidate)).map(Some)
    }

    /// Looks for a place where the sanitizer finds nothing in the trial: where candidates must pass, or else on the failing release.
    pub(super) fn watch_for(
        &mut self,
        elsewhere: &Elsewhere,
        start: &Candidate,
        key: &str,
    ) -> Option<()> {
        let other = match &self.oracle {
            Oracle::Release(session) => elsewhere.watched(session),
            Oracle::None | Oracle::Healthy => None,
        };
        for session in [other, elsewhere.watched(self.session)].into_iter().flatten() {
            self.watch = Some(session);
            if self.is_clean(start, key)? {
                return Some(());
            }
            self.verdicts.clear();
        }
        self.watch = None;
        Some(())
    }

    /// Whether the sanitizer finds nothing in a candidate that it must find nothing in. The outer None is that of [`Runs::outcome`].
    pub(super) fn is_clean(&mut self, candidate: &Candidate, key: &str) -> Option<bool> {
        let launches_own = rewrite::launches_own(&candidate.lowered().plan);
        let Some(session) = self.watch.take_if(|_| launches_own) else { return Some(true) };
        let seen = self.once(format!("{key} watched"), |runs| runs.unplanted(&session, candidate));
        self.watch = Some(session);
        Some(seen?.kind != Kind::MemoryFault)
    }

    /// A run that is made once and then known.
    fn once(
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
                self.note(&noted, &record);
                record.outcome
            }
        };
        self.verdicts.insert(noted, outcome.clone());
        Some(outcome)
    }

    /// One run of a candidate where it must pass.
    pub(super) fn consult(&self, candidate: &Candidate) -> Option<Record> {
        let session = match &self.oracle {
            Oracle::None => return None,
            Oracle::Healthy => self.session,
            Oracle::Release(session) => session,
        };
        self.unplanted(session, candidate)
    }

    /// One run of a candidate without the planted faults.
    fn unplanted(&self, session: &Session, candidate: &Candidate) -> Option<Record> {
        let mut lowered = candidate.lowered().clone();
        let plan = &mut lowered.plan;
        for phase in [&mut plan.setup, &mut plan.body, &mut plan.teardown] {
            healthy(phase);
        }
        let (case, trial) = (candidate.case(), candidate.trial());
        run_trial(session, &Job { case, trial, lowered, run: 0, faults: Vec::new() }, self.cancel)
    }

    fn remember(&mut self, key: &str, outcome: &Outcome) {
        if self.signature.is_none() {
            self.before.push((key.to_owned(), outcome.clone()));
        }
    }

    /// Says which failure is in question. What was run before counts as runs of the search.
    pub(super) fn found(&mut self, signature: &str) {
        self.signature = Some(signature.to_owned());
        self.bar.set_message(format!("keeping {signature}"));
        for (key, outcome) in std::mem::take(&mut self.before).into_iter().rev() {
            self.answers.entry(key).or_default().push_front(outcome);
        }
    }

    /// The signature in question.
    pub(super) fn wanted(&self) -> &str {
        self.signature.as_deref().unwrap_or_default()
    }

    /// Whether a candidate failed in the way in question: with its signature, in the same call, after the same call.
    pub(super) fn is_wanted(&self, candidate: &Candidate, outcome: &Outcome) -> bool {
        self.signature.as_deref().is_some_and(|wanted| may_be_same(wanted, &outcome.signature))
            && self.identity.as_ref().is_none_or(|identity| identity.fits(candidate, outcome))
    }

    pub(super) fn progress(&mut self, calls: u32) {
        let signature = self.signature.as_deref().unwrap_or_default();
        let calls = count(calls, "call");
        self.bar.set_message(format!("keeping {signature}, {calls} left"));
        if !std::io::stderr().is_terminal() {
            crate::outputs::note(format!("{}: {calls} left", count(self.next, "run")));
        }
    }

    /// # Errors
    /// What kept the journal from being written.
    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        self.bar.finish_and_clear();
        self.trouble.take().map_or(Ok(()), Err)
    }
}

/// Leaves out what is planted at calls.
fn healthy(steps: &mut [plan::Step]) {
    for step in steps {
        step.planted.clear();
        if let Call::Repeat { body, .. } | Call::Thread { body } = &mut step.call {
            healthy(body);
        }
    }
}
