//! Reads runs and records from a results store.

use std::collections::BTreeMap;

use report::{Record, RunPlan};
use rusqlite::{Connection, Params, Row, params};
use serde_json::{Map, Value};

use crate::{ResultsStoreError, SHARED_FIELDS, Store};

/// A run whose records are in a store.
#[derive(Clone, Debug)]
pub struct StoredRun {
    id: i64,
    /// Plan of the run.
    pub opened: RunPlan,
    /// Configuration of the run. If there are several, they are joined by [`SEPARATOR`](crate::SEPARATOR). `None` until
    /// the first trial has ended.
    pub ground: Option<RunConfiguration>,
    /// Number of the run's trials that have a record in the store.
    pub trials: usize,
}

pub use report::RunConfiguration;

const SELECT_RECORD: &str = "
    SELECT run.name, stack.text, device.text, environment.text, limits.text, trial.rest
    FROM trial JOIN run ON run.id = trial.run
    JOIN part AS stack ON stack.id = trial.stack JOIN part AS device ON device.id = trial.device
    JOIN part AS environment ON environment.id = trial.environment JOIN part AS limits ON limits.id = trial.limits";

impl Store {
    /// Returns all runs in the order in which they began. Runs that began in the same second are in the order in which
    /// they were added.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn runs(&self) -> Result<Vec<StoredRun>, ResultsStoreError> {
        let mut wanted = self.db.prepare(
            "SELECT run.id, run.opened, part.text, run.ground, run.words,
                 (SELECT count(*) FROM trial WHERE trial.run = run.id)
             FROM run JOIN part ON part.id = run.trials ORDER BY run.began, run.id",
        )?;
        let mut rows = wanted.query([])?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next()? {
            let (opened, trials): (String, String) = (row.get(1)?, row.get(2)?);
            let (name, words): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
            runs.push(StoredRun {
                id: row.get(0)?,
                opened: parse_plan(&opened, &trials)?,
                ground: name.zip(words).map(|(name, words)| RunConfiguration { name, words }),
                trials: usize::try_from(row.get::<_, i64>(5)?).unwrap_or(0),
            });
        }
        Ok(runs)
    }

    /// Returns the records of a run, in the order of their numbers.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn records(&self, run: &StoredRun) -> Result<Vec<Record>, ResultsStoreError> {
        records(&self.db, run.id)
    }

    /// Passes the records of a run to `take`, one at a time, in the order of their numbers.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn for_each_record(
        &self,
        run: &StoredRun,
        take: &mut dyn FnMut(&Record),
    ) -> Result<(), ResultsStoreError> {
        for_each_record(&self.db, run.id, &mut |record| {
            take(&record);
            Ok(())
        })
    }

    /// Returns the records of a run, grouped by configuration.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn by_configuration(
        &self,
        run: &StoredRun,
    ) -> Result<Vec<(RunConfiguration, Vec<Record>)>, ResultsStoreError> {
        Ok(report::group_by_configuration(self.records(run)?))
    }

    /// Returns the records of a case from all runs, grouped by the name of the run.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn case_records(
        &self,
        case: &str,
    ) -> Result<BTreeMap<String, Vec<Record>>, ResultsStoreError> {
        let mut runs: BTreeMap<String, Vec<Record>> = BTreeMap::new();
        let sql = format!("{SELECT_RECORD} WHERE of_case = ? ORDER BY date, trial.run, number");
        query_records(&self.db, &sql, params![case], &mut |run, record| {
            runs.entry(run).or_default().push(record);
            Ok(())
        })?;
        Ok(runs)
    }

    /// Returns the names of all cases that have records.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn cases(&self) -> Result<Vec<String>, ResultsStoreError> {
        let mut wanted = self.db.prepare("SELECT DISTINCT of_case FROM trial ORDER BY 1")?;
        let cases = wanted.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(cases)
    }
}

/// Reassembles the plan of a run from its two JSON strings.
pub(crate) fn parse_plan(opened: &str, trials: &str) -> Result<RunPlan, ResultsStoreError> {
    let mut opened: Map<String, Value> = serde_json::from_str(opened)?;
    opened.insert("trials".to_owned(), serde_json::from_str(trials)?);
    Ok(serde_json::from_value(Value::Object(opened))?)
}

pub(crate) fn records(db: &Connection, run: i64) -> Result<Vec<Record>, ResultsStoreError> {
    let mut records = Vec::new();
    for_each_record(db, run, &mut |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// Passes the records of the run with this id to `take`, one at a time, in the order of their numbers.
pub(crate) fn for_each_record(
    db: &Connection,
    run: i64,
    take: &mut dyn FnMut(Record) -> Result<(), ResultsStoreError>,
) -> Result<(), ResultsStoreError> {
    let sql = format!("{SELECT_RECORD} WHERE trial.run = ? ORDER BY number");
    query_records(db, &sql, params![run], &mut |_, record| take(record))
}

fn query_records(
    db: &Connection,
    sql: &str,
    of: impl Params,
    take: &mut dyn FnMut(String, Record) -> Result<(), ResultsStoreError>,
) -> Result<(), ResultsStoreError> {
    let mut wanted = db.prepare_cached(sql)?;
    let mut rows = wanted.query(of)?;
    while let Some(row) = rows.next()? {
        take(row.get(0)?, record(row)?)?;
    }
    Ok(())
}

/// Reassembles a record from a row of the table `trial` and the values that it shares with other records.
fn record(row: &Row<'_>) -> Result<Record, ResultsStoreError> {
    let mut all: Map<String, Value> = serde_json::from_str(&row.get::<_, String>(5)?)?;
    for (at, field) in SHARED_FIELDS.into_iter().enumerate() {
        let value: Value = serde_json::from_str(&row.get::<_, String>(at + 1)?)?;
        if !value.is_null() {
            all.insert(field.to_owned(), value);
        }
    }
    Ok(serde_json::from_value(Value::Object(all))?)
}
