//! Adds runs and their records to a results store.

use std::{
    collections::{BTreeMap, HashMap},
    io,
};

use judge::VerdictKind;
use report::{Record, RecordedRun, RunConfigurations, RunPlan};
use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};
use serde_json::{Map, Value};

use crate::{
    ResultsStoreError, SHARED_FIELDS, Store, WRITE_ATTEMPTS,
    read::{self, parse_plan},
    wait_for_retry,
};

/// Statistics of adding runs to a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddStatistics {
    /// Number of runs that the store did not have.
    pub runs: usize,
    /// Number of records that the store did not have.
    pub trials: usize,
    /// Number of records of passed trials that were replaced, because the trial also has a record that is not a pass.
    pub replaced: usize,
    /// Number of records that were ignored, because the store already has a record of the same trial.
    pub there: usize,
    /// Names of added shards whose merged run is already in the store, each with the name of the merged run. Their
    /// records were added to the merged run.
    pub within: BTreeMap<String, String>,
    /// Names of shards in the store that became part of an added merged run, each with the name of the merged run.
    pub merged: BTreeMap<String, String>,
}

/// Separator between the names of configurations, for a run that used several configurations.
pub const SEPARATOR: &str = " and ";

impl Store {
    /// Adds all runs, or none of them if one cannot be added. Records that are already in the store stay unchanged,
    /// except that a failure replaces a pass.
    ///
    /// # Errors
    /// The store has a run of the same name with another plan, or the file cannot be used.
    pub fn add(&mut self, runs: &[RecordedRun]) -> Result<AddStatistics, ResultsStoreError> {
        let mut adding = self.begin()?;
        for RecordedRun { opened, records, .. } in runs {
            adding.run(opened, records.values().cloned().map(Ok))?;
        }
        adding.commit()
    }

    /// Begins to add runs one by one. Nothing is stored before [`AddTransaction::commit`].
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn begin(&mut self) -> Result<AddTransaction<'_>, ResultsStoreError> {
        self.db.busy_handler(Some(|attempt| wait_for_retry(attempt, WRITE_ATTEMPTS)))?;
        let to = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        Ok(AddTransaction { to, parts: PartCache::default(), added: AddStatistics::default() })
    }
}

/// A transaction that adds runs. Only one record at a time is in memory.
pub struct AddTransaction<'s> {
    to: Transaction<'s>,
    parts: PartCache,
    added: AddStatistics,
}

impl AddTransaction<'_> {
    /// Adds a run, given its plan and its records in the order of their numbers.
    ///
    /// # Errors
    /// The store has a run of the same name with another plan, a record cannot be read, or the file cannot be used.
    pub fn run(
        &mut self,
        opened: &RunPlan,
        records: impl IntoIterator<Item = io::Result<Record>>,
    ) -> Result<(), ResultsStoreError> {
        add(&self.to, opened, records, &mut self.parts, &mut self.added)
    }

    /// Commits the transaction, and returns statistics of all added runs.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn commit(self) -> Result<AddStatistics, ResultsStoreError> {
        self.to.commit()?;
        Ok(self.added)
    }
}

/// Cache of the ids of rows in the table `part`, by the content of the rows. Most records have the same stack, device,
/// environment and limits as the record before.
#[derive(Default)]
struct PartCache {
    ids: HashMap<String, i64>,
    /// Total size of the cached rows, in bytes.
    bytes: usize,
}

impl PartCache {
    /// Maximum total size of the cached rows, in bytes.
    const MAX_BYTES: usize = 512 << 10;

    /// Returns the id of the row with this content in the table `part`. Inserts the row if it does not exist.
    fn id(&mut self, to: &Transaction<'_>, text: &str) -> Result<i64, ResultsStoreError> {
        if let Some(id) = self.ids.get(text) {
            return Ok(*id);
        }
        let id = part(to, text)?;
        self.bytes += text.len();
        if self.bytes > Self::MAX_BYTES {
            (self.ids, self.bytes) = (HashMap::new(), text.len());
        }
        self.ids.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// SQL query for the run that contains the run with a given name: that run itself, or the merged run of which it is a
/// shard.
const CONTAINING_RUN: &str = "
    SELECT run.id, run.name, run.opened, part.text
    FROM member JOIN run ON run.id = member.run JOIN part ON part.id = run.trials
    WHERE member.name = ?";

fn add(
    to: &Transaction<'_>,
    run: &RunPlan,
    records: impl IntoIterator<Item = io::Result<Record>>,
    parts: &mut PartCache,
    added: &mut AddStatistics,
) -> Result<(), ResultsStoreError> {
    let planned = run;
    let name = &planned.run;
    let holder = |name: &str| {
        to.query_row(CONTAINING_RUN, [name], |row| <(i64, String, String, String)>::try_from(row))
            .optional()
    };
    let (opened, trials) = plan(planned)?;
    let (mut run_name, mut first) = (name, 0);
    let holding = holder(name)?;
    let run = match &holding {
        // The added run is a shard of a merged run. More trials of the shard may have ended after the merge.
        Some((run, other, opened, trials)) if other != name => {
            first = first_number(planned, &parse_plan(opened, trials)?)?;
            added.within.insert(name.clone(), other.clone());
            run_name = other;
            *run
        }
        Some((_, _, there, its_trials)) if (there, its_trials) != (&opened, &trials) => {
            return Err(ResultsStoreError::OtherPlan(name.clone()));
        }
        Some((run, ..)) => *run,
        None => {
            added.runs += 1;
            to.execute(
                "INSERT INTO run (name, opened, trials, began) VALUES (?, ?, ?, ?)",
                params![name, opened, part(to, &trials)?, planned.opened],
            )?;
            let run = to.last_insert_rowid();
            // The merged run replaces its shards in the store. The records of the shards are kept, because more trials
            // may have ended after the merge.
            for shard in &planned.merged {
                match holder(shard)? {
                    Some((there, other, opened, trials)) if other == *shard => {
                        let first = first_number(&parse_plan(&opened, &trials)?, planned)?;
                        read::for_each_record(to, there, &mut |record| {
                            store_record(to, parts, run, &renumbered(record, name, first))
                                .map(|_| ())
                        })?;
                        to.execute("DELETE FROM run WHERE id = ?", [there])?;
                        added.merged.insert(shard.clone(), name.clone());
                    }
                    Some((_, other, ..)) => {
                        return Err(ResultsStoreError::Merged(name.clone(), other));
                    }
                    None => {}
                }
            }
            for member in [name].into_iter().chain(&planned.merged) {
                to.execute("INSERT INTO member VALUES (?, ?)", params![member, run])?;
            }
            run
        }
    };
    // If the run has no records yet, the new records determine its configuration.
    let mut grounds = is_empty(to, run)?.then(RunConfigurations::default);
    for record in records {
        let record = renumbered(record.map_err(ResultsStoreError::Records)?, run_name, first);
        if let Some(grounds) = &mut grounds {
            grounds.add(&record);
        }
        *match store_record(to, parts, run, &record)? {
            AddOutcome::New => &mut added.trials,
            AddOutcome::Replaced => &mut added.replaced,
            AddOutcome::There => &mut added.there,
        } += 1;
    }
    let grounds = match grounds {
        Some(grounds) => grounds,
        None => {
            let mut grounds = RunConfigurations::default();
            read::for_each_record(to, run, &mut |record| {
                grounds.add(&record);
                Ok(())
            })?;
            grounds
        }
    };
    // The configuration is known only after a trial has proven its device.
    let grounds = grounds.into_list();
    if !grounds.is_empty() {
        let joined = |of: fn(&report::RunConfiguration) -> &str| {
            grounds.iter().map(of).collect::<Vec<_>>().join(SEPARATOR)
        };
        to.execute(
            "UPDATE run SET ground = ?, words = ? WHERE id = ?",
            params![joined(|ground| &ground.name), joined(|ground| &ground.words), run],
        )?;
    }
    Ok(())
}

fn is_empty(to: &Transaction<'_>, run: i64) -> Result<bool, ResultsStoreError> {
    let any: Option<i64> = to
        .query_row("SELECT 1 FROM trial WHERE run = ? LIMIT 1", [run], |row| row.get(0))
        .optional()?;
    Ok(any.is_none())
}

/// Returns the number that the first trial of a shard has in the merged run.
///
/// # Errors
/// The merged run does not contain the trials of the shard.
fn first_number(shard: &RunPlan, merged: &RunPlan) -> Result<u64, ResultsStoreError> {
    let Some(first) = shard.trials.first() else { return Ok(0) };
    let at = merged.trials.iter().position(|trial| trial == first);
    let at = at.filter(|at| merged.trials[*at..].starts_with(&shard.trials));
    match at.filter(|_| (&shard.digest, shard.repeat) == (&merged.digest, merged.repeat)) {
        Some(at) => Ok(at as u64 * u64::from(merged.repeat)),
        None => Err(ResultsStoreError::NoPart(shard.run.clone(), merged.run.clone())),
    }
}

/// Moves a record to the run `run`. The number of the record is increased by `first`, the number that the first trial
/// of its own run has in `run`.
fn renumbered(record: Record, run: &str, first: u64) -> Record {
    Record { run: run.to_owned(), number: first.saturating_add(record.number), ..record }
}

/// Returns the plan of a run as two JSON strings: the plan without its list of trials, and that list, which other runs
/// may share.
fn plan(opened: &RunPlan) -> Result<(String, String), ResultsStoreError> {
    let mut opened = into_object(serde_json::to_value(opened)?);
    let trials = opened.remove("trials").unwrap_or_default();
    Ok((serde_json::to_string(&opened)?, serde_json::to_string(&trials)?))
}

enum AddOutcome {
    New,
    Replaced,
    There,
}

/// Adds a record. If the store already has a record of the same trial, a failure takes precedence over a pass, as in a
/// record file.
fn store_record(
    to: &Transaction<'_>,
    shared: &mut PartCache,
    run: i64,
    record: &Record,
) -> Result<AddOutcome, ResultsStoreError> {
    let there: Option<bool> = to
        .prepare_cached("SELECT passed FROM trial WHERE run = ? AND number = ?")?
        .query_row(params![run, signed(record.number)], |row| row.get(0))
        .optional()?;
    let passed = record.verdict.kind == VerdictKind::Pass;
    if there.is_some_and(|there| !there || passed) {
        return Ok(AddOutcome::There);
    }
    let mut rest = into_object(serde_json::to_value(record)?);
    let mut parts = [0; SHARED_FIELDS.len()];
    for (id, field) in parts.iter_mut().zip(SHARED_FIELDS) {
        let value = rest.remove(field).unwrap_or_default();
        *id = shared.id(to, &serde_json::to_string(&value)?)?;
    }
    let [stack, device, environment, limits] = parts;
    to.prepare_cached("INSERT OR REPLACE INTO trial VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?
        .execute(params![
            run,
            signed(record.number),
            record.case,
            record.date,
            passed,
            stack,
            device,
            environment,
            limits,
            serde_json::to_string(&rest)?
        ])?;
    Ok(if there.is_some() { AddOutcome::Replaced } else { AddOutcome::New })
}

/// Converts a number to the signed number with the same bits, because SQLite cannot store unsigned numbers.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}

fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Returns the id of the row with this content in the table `part` of the database. Inserts the row if it does not
/// exist.
fn part(to: &Transaction<'_>, text: &str) -> Result<i64, ResultsStoreError> {
    let there = to
        .prepare_cached("SELECT id FROM part WHERE text = ?")?
        .query_row([text], |row| row.get(0))
        .optional()?;
    if let Some(id) = there {
        return Ok(id);
    }
    to.prepare_cached("INSERT INTO part (text) VALUES (?)")?.execute([text])?;
    Ok(to.last_insert_rowid())
}
