//! What goes into a store.

use std::collections::BTreeMap;

use judge::VerdictKind;
use report::{Held, Opened, Record};
use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};
use serde_json::{Map, Value};

use crate::{
    SHARED, Store, Trouble, WRITER,
    read::{self, whole},
    wait,
};

/// What came of adding runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Runs that were not there.
    pub runs: usize,
    /// Trials that were not there.
    pub trials: usize,
    /// Trials that were there as passed and are no pass in what was added, which took their place.
    pub replaced: usize,
    /// Trials that were there.
    pub there: usize,
    /// Runs that went into a merged one of which they are parts, by its name.
    pub within: BTreeMap<String, String>,
    /// Runs that were there and went into a merged one that was added, by its name.
    pub merged: BTreeMap<String, String>,
}

/// Between the grounds of a run that stood on several.
pub const SEVERAL: &str = " and ";

impl Store {
    /// Adds runs, all or, where one cannot be added, none. What is there already stays as it is.
    ///
    /// # Errors
    /// A run that is there with another plan; trouble with the file.
    pub fn add(&mut self, runs: &[Held]) -> Result<Added, Trouble> {
        self.db.busy_handler(Some(|attempt| wait(attempt, WRITER)))?;
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut added = Added::default();
        for held in runs {
            add(&transaction, held, &mut added)?;
        }
        transaction.commit()?;
        Ok(added)
    }
}

/// The run that holds one of a name.
const HOLDER: &str = "
    SELECT run.id, run.name, run.opened, part.text
    FROM member JOIN run ON run.id = member.run JOIN part ON part.id = run.trials
    WHERE member.name = ?";

fn add(to: &Transaction<'_>, held: &Held, added: &mut Added) -> Result<(), Trouble> {
    let name = &held.opened.run;
    let holder = |name: &str| {
        to.query_row(HOLDER, [name], |row| <(i64, String, String, String)>::try_from(row))
            .optional()
    };
    let (opened, trials) = plan(held)?;
    let (mut run_name, mut first) = (name, 0);
    let holding = holder(name)?;
    let run = match &holding {
        // A part of a merged run, which may have been made before this part was whole.
        Some((run, other, opened, trials)) if other != name => {
            first = place(&held.opened, &whole(opened, trials)?)?;
            added.within.insert(name.clone(), other.clone());
            run_name = other;
            *run
        }
        Some((_, _, there, its_trials)) if (there, its_trials) != (&opened, &trials) => {
            return Err(Trouble::OtherPlan(name.clone()));
        }
        Some((run, ..)) => *run,
        None => {
            added.runs += 1;
            to.execute(
                "INSERT INTO run (name, opened, trials, began) VALUES (?, ?, ?, ?)",
                params![name, opened, part(to, &trials)?, held.opened.opened],
            )?;
            let run = to.last_insert_rowid();
            // It takes the place of its shards with all that they hold, which may be more than was merged.
            for shard in &held.opened.merged {
                match holder(shard)? {
                    Some((there, other, opened, trials)) if other == *shard => {
                        let first = place(&whole(&opened, &trials)?, &held.opened)?;
                        for record in read::records(to, there)? {
                            keep(to, run, &moved(&record, name, first))?;
                        }
                        to.execute("DELETE FROM run WHERE id = ?", [there])?;
                        added.merged.insert(shard.clone(), name.clone());
                    }
                    Some((_, other, ..)) => return Err(Trouble::Merged(name.clone(), other)),
                    None => {}
                }
            }
            for member in [name].into_iter().chain(&held.opened.merged) {
                to.execute("INSERT INTO member VALUES (?, ?)", params![member, run])?;
            }
            run
        }
    };
    for record in held.records.values() {
        *match keep(to, run, &moved(record, run_name, first))? {
            Came::New => &mut added.trials,
            Came::Replaced => &mut added.replaced,
            Came::There => &mut added.there,
        } += 1;
    }
    // What it stood on is known once a trial has proven it.
    let grounds = report::by_ground(read::records(to, run)?);
    if !grounds.is_empty() {
        let joined = |of: fn(&report::Ground) -> &str| {
            grounds.iter().map(|(ground, _)| of(ground)).collect::<Vec<_>>().join(SEVERAL)
        };
        to.execute(
            "UPDATE run SET ground = ?, words = ? WHERE id = ?",
            params![joined(|ground| &ground.name), joined(|ground| &ground.words), run],
        )?;
    }
    Ok(())
}

/// The number that the first trial of a shard has in the merged run that it is a part of.
fn place(shard: &Opened, merged: &Opened) -> Result<u64, Trouble> {
    let Some(first) = shard.trials.first() else { return Ok(0) };
    let at = merged.trials.iter().position(|trial| trial == first);
    let at = at.filter(|at| merged.trials[*at..].starts_with(&shard.trials));
    match at.filter(|_| (&shard.digest, shard.repeat) == (&merged.digest, merged.repeat)) {
        Some(at) => Ok(at as u64 * u64::from(merged.repeat)),
        None => Err(Trouble::NoPart(shard.run.clone(), merged.run.clone())),
    }
}

/// A record as a run has it whose number `first` is the record's number 0.
fn moved(record: &Record, run: &str, first: u64) -> Record {
    Record { run: run.to_owned(), number: first + record.number, ..record.clone() }
}

/// What a run was to do, as JSON, and its trials, which other runs may share.
fn plan(held: &Held) -> Result<(String, String), Trouble> {
    let mut opened = object(serde_json::to_value(&held.opened)?);
    let trials = opened.remove("trials").unwrap_or_default();
    Ok((serde_json::to_string(&opened)?, serde_json::to_string(&trials)?))
}

/// What came of a record.
enum Came {
    New,
    Replaced,
    There,
}

/// Of two ends of one trial that which is no pass counts, as in a record file.
fn keep(to: &Transaction<'_>, run: i64, record: &Record) -> Result<Came, Trouble> {
    let there: Option<bool> = to
        .prepare_cached("SELECT passed FROM trial WHERE run = ? AND number = ?")?
        .query_row(params![run, signed(record.number)], |row| row.get(0))
        .optional()?;
    let passed = record.verdict.kind == VerdictKind::Pass;
    if there.is_some_and(|there| !there || passed) {
        return Ok(Came::There);
    }
    let mut rest = object(serde_json::to_value(record)?);
    let mut parts = [0; SHARED.len()];
    for (id, field) in parts.iter_mut().zip(SHARED) {
        let value = rest.remove(field).unwrap_or_default();
        *id = part(to, &serde_json::to_string(&value)?)?;
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
    Ok(if there.is_some() { Came::Replaced } else { Came::New })
}

/// SQLite has no unsigned numbers; the bits stay what they are.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The id of a part, which is put in where it is new.
fn part(to: &Transaction<'_>, text: &str) -> Result<i64, Trouble> {
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
