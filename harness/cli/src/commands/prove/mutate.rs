//! Which statements of the cases could be taken away without any declared fault noticing.
//!
//! A statement is noticed where a declared fault, all of it or one of its acts alone, turns nothing else red: without the statement
//! the trial passes under the fault. That is first read from the places at which runs deviated, and then tried, with the
//! statement taken away. A copy that misbehaves at a check's own line is the one that the check brings with it, and shows nothing of
//! the case.

use crate::interrupt;
use case::Body;
use std::collections::{BTreeMap, BTreeSet};

use device::{Act, Acts, Fault, Planted};
use judge::{End, Kind, VerdictKind};
use report::{Mutation, Record, Unnoticed};
use rewrite::statements::{Statement, StatementKind, statements, without};

use engine::{
    CaseLibrary, Selected, Session, Stop,
    batch::run_jobs,
    job::{Job, lower_each},
};

/// Runs of one round for each statement that is not noticed yet, and rounds.
const AT_ONCE: usize = 6;
const ROUNDS: usize = 12;
/// Ways to notice a statement that are tried before it counts as not noticed.
const TRIES: usize = 4;

/// A statement of a case, in whichever trials have it.
type Key = (String, u32, StatementKind);

/// A fault in a trial, by the trial's number among the selected ones.
type Planting = (usize, Planted);

struct Target {
    /// The statement in each trial that has it, where it passes on the healthy device.
    at: BTreeMap<usize, Statement>,
    /// Plantings under which nothing else was red.
    hopes: Vec<Planting>,
    /// Those of them that were tried.
    tried: usize,
    noticed: bool,
}

/// Takes each statement away, one at a time.
///
/// `records` are the runs of the selected trials on the healthy device and under each declared fault.
pub(super) fn mutate(
    library: &CaseLibrary,
    selected: &[Selected<'_>],
    session: &Session,
    records: &[Record],
) -> Result<(Mutation, Option<Stop>), Stop> {
    let mut search = Search::new(library, selected, session, records)?;
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

/// Whether copies misbehave under it.
fn is_of_copies(fault: Fault) -> bool {
    fault.name().starts_with("copy.") || matches!(fault, Fault::SdmaZero | Fault::CacheStale)
}

struct Search<'s, 'a> {
    library: &'s CaseLibrary,
    selected: &'s [Selected<'a>],
    session: &'s Session,
    targets: BTreeMap<Key, Target>,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(
        library: &'s CaseLibrary,
        selected: &'s [Selected<'a>],
        session: &'s Session,
        records: &[Record],
    ) -> Result<Self, Stop> {
        let version = session.rocm.clone().ok_or_else(|| {
            Stop::usage("error: `--mutate` needs a stack whose ROCm version is known")
        })?;
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
                let none =
                    || Target { at: BTreeMap::new(), hopes: Vec::new(), tried: 0, noticed: false };
                targets.entry(key).or_insert_with(none).at.insert(trial, statement);
            }
        }
        Ok(Search { library, selected, session, targets })
    }

    fn number(&self, trial: &str) -> Option<usize> {
        self.selected.iter().position(|entry| entry.id() == trial)
    }

    /// Keeps what a run under a fault says of the statements of its trial.
    fn learn(&mut self, trial: usize, planted: &Planted, record: &Record) {
        let ended =
            record.exit == End::Exited(plan::WORKER_DONE) && record.outcome.kind.is_failure();
        let [red] = &record.red[..] else { return };
        if !ended {
            return;
        }
        for ((_, line, what), target) in &mut self.targets {
            let here = target.at.get(&trial).is_some_and(|s| Some(s.step) == red.step);
            let own = |acts: &Acts| {
                is_of_copies(acts.fault) && acts.first.iter().any(|act| act.line == *line)
            };
            if here && !(*what == StatementKind::Check && record.acts.iter().any(own)) {
                target.hopes.push((trial, planted.clone()));
            }
        }
    }

    /// Takes away the statements that there is hope for, under the fault that should notice it.
    fn confirm(&mut self) -> Result<Option<Stop>, Stop> {
        loop {
            let mut plantings = Vec::new();
            let mut keys = Vec::new();
            for (key, target) in &mut self.targets {
                let open = !target.noticed && target.tried < TRIES;
                if let Some(hope) = target.hopes.get(target.tried).filter(|_| open) {
                    target.tried += 1;
                    keys.push((key.clone(), target.at[&hope.0].clone()));
                    plantings.push(hope.clone());
                }
            }
            if plantings.is_empty() {
                return Ok(None);
            }
            let gone: Vec<Statement> = keys.iter().map(|(_, s)| s.clone()).collect();
            let (records, stop) = self.run(&plantings, Some(&gone))?;
            for ((key, _), record) in keys.iter().zip(&records) {
                if let Some(target) = self.targets.get_mut(key) {
                    target.noticed = record.outcome.kind == Kind::Pass;
                }
            }
            if stop.is_some() {
                return Ok(stop);
            }
        }
    }

    /// Acts of declared faults, each alone, that have not been run and may show a statement that is not noticed.
    fn next(&self, known: &BTreeMap<(usize, String), Record>) -> Vec<Planting> {
        let mut wanted = BTreeMap::new();
        let declared: Vec<(usize, Planted, Vec<Act>)> = known
            .iter()
            .filter_map(|((trial, _), record)| {
                let [planted] = &record.faults[..] else { return None };
                let acts = record.acts.iter().find(|acts| acts.fault == planted.fault)?;
                let whole = planted.only.is_none() && acts.times > 1;
                whole.then(|| (*trial, planted.clone(), acts.first.clone()))
            })
            .collect();
        for ((case, line, _), target) in &self.targets {
            if target.noticed {
                continue;
            }
            let mut candidates = Vec::new();
            for (trial, planted, acts) in &declared {
                if !target.at.contains_key(trial) {
                    continue;
                }
                // A copy that a check brings with it shows there alone.
                let of_a_check = |act: &&Act| {
                    let check = (case.clone(), act.line, StatementKind::Check);
                    is_of_copies(planted.fault) && self.targets.contains_key(&check)
                };
                for act in acts.iter().filter(|act| !of_a_check(act)) {
                    let alone = Planted { only: Some(act.opportunity), ..planted.clone() };
                    // What is near before the statement is likely to show there.
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

    /// Runs trials with a fault each, and without a statement each where such are given.
    fn run(
        &self,
        plantings: &[Planting],
        gone: Option<&[Statement]>,
    ) -> Result<(Vec<Record>, Option<Stop>), Stop> {
        let entries =
            plantings.iter().map(|(trial, fault)| (&self.selected[*trial], [fault.clone()]));
        let lowered = lower_each(self.library, entries)?;
        let jobs =
            plantings.iter().zip(lowered).enumerate().map(|(n, ((trial, fault), mut lowered))| {
                if let Some(gone) = gone {
                    lowered.plan = without(&lowered.plan, &gone[n]);
                    let left = &lowered.plan;
                    if let Body::Calls(reference) = &mut lowered.body {
                        reference.expected.retain(|e| left.step(e.step).is_some());
                    }
                }
                Job {
                    case: self.selected[*trial].case,
                    trial: &self.selected[*trial].trial,
                    lowered,
                    run: 0,
                    faults: vec![fault.clone()],
                }
            });
        Ok(run_jobs(self.session, jobs.collect(), None, &interrupt::cancel()?))
    }

    fn result(self) -> Mutation {
        let all = self.targets.len();
        let left = self.targets.into_iter().filter(|(_, target)| !target.noticed);
        let unnoticed = left.filter_map(|((case, line, _), target)| {
            let (trial, statement) = target.at.first_key_value()?;
            let trial = self.selected[*trial].id();
            Some(Unnoticed { case, line, statement: statement.of.clone(), trial })
        });
        Mutation { all, unnoticed: unnoticed.collect() }
    }
}
