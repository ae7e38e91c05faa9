//! Searches for statements of cases that are not needed to detect any declared fault.
//!
//! A statement is needed if the trial would pass without it under some declared fault, or under such a fault that takes
//! effect only once. The statements that failed in earlier runs show which ones may be needed, and a run without the
//! statement confirms it. Faults in the copy that a check itself makes are not used: only the check can fail, which
//! proves nothing about the case.

use case::Body;
use std::collections::{BTreeMap, BTreeSet};

use device::{Fault, FaultActivation, FaultActivations, FaultSpec};
use judge::{End, Kind, VerdictKind};
use report::{Mutation, Record, UnneededStatement};
use rewrite::statements::{Statement, StatementKind, statements, without};

use supervise::Cancel;

use super::ProveError;
use crate::{CaseLibrary, Selected, Session, Stop, batch::run_jobs, job::lower_each, planned_jobs};

/// Largest number of runs per round for each statement that may not be needed.
const AT_ONCE: usize = 6;
/// Largest number of rounds.
const ROUNDS: usize = 12;
/// Number of faults that are tried for a statement before it counts as not needed.
const TRIES: usize = 4;

/// Identifies a statement across all trials of its case: id of the case, line, and kind of the statement.
type Key = (String, u32, StatementKind);

/// Index of a trial in the selection, and the fault that is injected into it.
type Injection = (usize, FaultSpec);

/// Results about one statement from all runs so far.
struct Target {
    /// The statement as it occurs in the trials that pass on the healthy device, by the index of the trial.
    at: BTreeMap<usize, Statement>,
    /// Faults under which this statement failed and no other statement did.
    candidates: Vec<Injection>,
    /// Number of candidates that were tried.
    tried: usize,
    needed: bool,
}

/// Runs the trials with each statement left out in turn. `records` are the runs of the trials on the healthy device and
/// under each declared fault. Returns the result, and the reason why some runs were not made, if any.
///
/// # Errors
/// A stack of unknown release, or cases that are not valid.
pub(super) fn mutate(
    library: &CaseLibrary,
    selected: &[Selected<'_>],
    session: &Session,
    records: &[Record],
    cancel: &Cancel,
) -> Result<(Mutation, Option<Stop>), Stop> {
    let mut search = Search::new(library, selected, session, records, cancel)?;
    let mut known: BTreeMap<(usize, String), Record> = BTreeMap::new();
    for record in records {
        if let ([planted], Some(trial)) = (&record.faults[..], search.number(&record.trial)) {
            search.learn(trial, planted, record);
            known.insert((trial, planted.to_string()), record.clone());
        }
    }
    let mut trouble = search.confirm()?;
    for _ in 0..ROUNDS {
        let next = search.next(&known);
        if trouble.is_some() || next.is_empty() {
            break;
        }
        let (records, stop) = search.run(&next, None)?;
        for ((trial, planted), record) in next.iter().zip(&records) {
            search.learn(*trial, planted, record);
            known.insert((*trial, planted.to_string()), record.clone());
        }
        trouble = match stop {
            Some(stop) => Some(stop),
            None => search.confirm()?,
        };
    }
    Ok((search.result(), trouble))
}

/// Returns true if the fault affects the data that copies transfer.
fn is_of_copies(fault: Fault) -> bool {
    fault.name().starts_with("copy.") || matches!(fault, Fault::SdmaZero | Fault::CacheStale)
}

struct Search<'s, 'a> {
    library: &'s CaseLibrary,
    selected: &'s [Selected<'a>],
    session: &'s Session,
    cancel: &'s Cancel,
    targets: BTreeMap<Key, Target>,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(
        library: &'s CaseLibrary,
        selected: &'s [Selected<'a>],
        session: &'s Session,
        records: &[Record],
        cancel: &'s Cancel,
    ) -> Result<Self, Stop> {
        let version = session.rocm.clone().ok_or(ProveError::UnknownRelease)?;
        let passes: BTreeSet<&str> = records
            .iter()
            .filter(|r| r.faults.is_empty() && r.verdict.kind == VerdictKind::Pass)
            .map(|r| r.trial.as_str())
            .collect();
        let lowered = lower_each(library, selected.iter().map(|entry| (entry, None)))?;
        let mut targets: BTreeMap<Key, Target> = BTreeMap::new();
        for (trial, (entry, lowered)) in selected.iter().zip(lowered).enumerate() {
            if !passes.contains(entry.id().as_str()) {
                continue;
            }
            for statement in statements(&lowered.plan, &version) {
                let key = (entry.case.id.clone(), statement.line, statement.what);
                let none = || Target {
                    at: BTreeMap::new(),
                    candidates: Vec::new(),
                    tried: 0,
                    needed: false,
                };
                targets.entry(key).or_insert_with(none).at.insert(trial, statement);
            }
        }
        Ok(Search { library, selected, session, cancel, targets })
    }

    fn number(&self, trial: &str) -> Option<usize> {
        self.selected.iter().position(|entry| entry.id() == trial)
    }

    /// Adds a fault to the candidates of a statement, if the statement is the only one that failed under the fault.
    fn learn(&mut self, trial: usize, planted: &FaultSpec, record: &Record) {
        let ended =
            record.exit == End::Exited(plan::WORKER_DONE) && record.outcome.kind.is_failure();
        let [red] = &record.red[..] else { return };
        if !ended {
            return;
        }
        for ((_, line, what), target) in &mut self.targets {
            let here = target.at.get(&trial).is_some_and(|s| Some(s.step) == red.step);
            let own = |acts: &FaultActivations| {
                is_of_copies(acts.fault) && acts.first.iter().any(|act| act.line == *line)
            };
            if here && !(*what == StatementKind::Check && record.acts.iter().any(own)) {
                target.candidates.push((trial, planted.clone()));
            }
        }
    }

    /// Takes the next untried candidate fault of each statement, and runs the trial under this fault without the
    /// statement. Repeats this until no candidate is left. Returns the reason if it had to stop before.
    fn confirm(&mut self) -> Result<Option<Stop>, Stop> {
        loop {
            let mut injections = Vec::new();
            let mut keys = Vec::new();
            for (key, target) in &mut self.targets {
                let open = !target.needed && target.tried < TRIES;
                let candidate = target.candidates.get(target.tried).filter(|_| open);
                if let Some(candidate) = candidate {
                    target.tried += 1;
                    keys.push((key.clone(), target.at[&candidate.0].clone()));
                    injections.push(candidate.clone());
                }
            }
            if injections.is_empty() {
                return Ok(None);
            }
            let gone: Vec<Statement> = keys.iter().map(|(_, s)| s.clone()).collect();
            let (records, stop) = self.run(&injections, Some(&gone))?;
            for ((key, _), record) in keys.iter().zip(&records) {
                if let Some(target) = self.targets.get_mut(key) {
                    target.needed = record.outcome.kind == Kind::Pass;
                }
            }
            if stop.is_some() {
                return Ok(stop);
            }
        }
    }

    /// Returns the faults to run next. Each is a declared fault that takes effect only once, was not run before, and
    /// may show that a statement is needed.
    fn next(&self, known: &BTreeMap<(usize, String), Record>) -> Vec<Injection> {
        let mut wanted = BTreeMap::new();
        let declared: Vec<(usize, FaultSpec, Vec<FaultActivation>)> = known
            .iter()
            .filter_map(|((trial, _), record)| {
                let [planted] = &record.faults[..] else { return None };
                let acts = record.acts.iter().find(|acts| acts.fault == planted.fault)?;
                let whole = planted.only.is_none() && acts.times > 1;
                whole.then(|| (*trial, planted.clone(), acts.first.clone()))
            })
            .collect();
        for ((case, line, _), target) in &self.targets {
            if target.needed {
                continue;
            }
            let mut candidates = Vec::new();
            for (trial, planted, acts) in &declared {
                if !target.at.contains_key(trial) {
                    continue;
                }
                // The copy that a check makes affects only this check.
                let of_a_check = |act: &&FaultActivation| {
                    let check = (case.clone(), act.line, StatementKind::Check);
                    is_of_copies(planted.fault) && self.targets.contains_key(&check)
                };
                for act in acts.iter().filter(|act| !of_a_check(act)) {
                    let alone = FaultSpec { only: Some(act.opportunity), ..planted.clone() };
                    // A fault that takes effect shortly before the statement is likely to be detected by the statement.
                    let far = line.checked_sub(act.line).unwrap_or(u32::MAX);
                    candidates.push((far, act.opportunity, *trial, alone));
                }
            }
            candidates.sort_by_key(|(far, opportunity, trial, _)| (*far, *trial, *opportunity));
            let new = candidates.into_iter().filter(|(.., trial, alone)| {
                let name = (*trial, alone.to_string());
                !known.contains_key(&name) && !wanted.contains_key(&name)
            });
            let new: Vec<_> = new.take(AT_ONCE).collect();
            for (.., trial, alone) in new {
                wanted.insert((trial, alone.to_string()), alone);
            }
        }
        wanted.into_iter().map(|((trial, _), planted)| (trial, planted)).collect()
    }

    /// Runs each trial with its fault. If `gone` is given, each trial runs without the statement at the same index in
    /// `gone`. Returns the records, and the reason why some trials did not run, if any.
    fn run(
        &self,
        injections: &[Injection],
        gone: Option<&[Statement]>,
    ) -> Result<(Vec<Record>, Option<Stop>), Stop> {
        let planned = injections.iter();
        let planned = planned.map(|(trial, fault)| (&self.selected[*trial], vec![fault.clone()]));
        let mut jobs = planned_jobs(self.library, planned.collect())?;
        for (job, gone) in jobs.iter_mut().zip(gone.unwrap_or_default()) {
            job.lowered.plan = without(&job.lowered.plan, gone);
            let left = &job.lowered.plan;
            if let Body::Calls(reference) = &mut job.lowered.body {
                reference.expected.retain(|e| left.step(e.step).is_some());
            }
        }
        Ok(run_jobs(self.session, jobs, None, self.cancel))
    }

    fn result(self) -> Mutation {
        let all = self.targets.len();
        let left = self.targets.into_iter().filter(|(_, target)| !target.needed);
        let unnoticed = left.filter_map(|((case, line, _), target)| {
            let (trial, statement) = target.at.first_key_value()?;
            let trial = self.selected[*trial].id();
            Some(UnneededStatement { case, line, statement: statement.subject.clone(), trial })
        });
        Mutation { all, unnoticed: unnoticed.collect() }
    }
}
