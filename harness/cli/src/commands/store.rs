//! Adds runs to the results store, and lists and summarises stored runs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::ExitCode,
};

use report::{Column, History, PastRun, Record, RunConfiguration, RunSummary, count};
use store::{ResultsStoreError, Store, StoredRun};

use super::show;
use crate::{
    args::{self, StoreFile},
    outputs,
};
use engine::{Stop, record_file::RecordFile};

pub(crate) fn store(args: &args::Store) -> Result<ExitCode, Stop> {
    match args {
        args::Store::Add { paths, file: StoreFile { store } } => {
            let files = show::collect_results(paths.iter().map(|path| open_complete(path)))?;
            outputs::note(add(store, &files)?);
        }
        args::Store::List { file } => list(&open(&file.store)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds all runs in some record files to a store, and returns a summary.
pub(crate) fn add(path: &Path, files: &[RecordFile]) -> Result<String, Stop> {
    report_waits();
    let mut store = Store::open_or_make(path).map_err(stop)?;
    let mut adding = store.begin().map_err(stop)?;
    for file in files {
        for run in &file.index.runs {
            adding.run(&file.opened(run)?, file.records_with_io_errors(run)).map_err(stop)?;
        }
    }
    let added = adding.commit().map_err(stop)?;
    let mut told = format!(
        "{}: {} and {} added",
        path.display(),
        count(added.runs, "run"),
        count(added.trials, "trial")
    );
    if added.there > 0 {
        let verb = if added.there == 1 { "was" } else { "were" };
        told.push_str(&format!(", {} {verb} already there", count(added.there, "trial")));
    }
    if added.replaced > 0 {
        told.push_str(&format!(
            ", {} replaced, because the stored record passed and the new one did not",
            count(added.replaced, "trial")
        ));
    }
    for (run, merged) in &added.within {
        told.push_str(&format!(
            "\n{run} was added to the merged run {merged}, because it is one of its shards"
        ));
    }
    for (run, merged) in &added.merged {
        told.push_str(&format!("\n{merged} replaced {run} and contains all trials of it"));
    }
    Ok(told)
}

pub(crate) fn open(path: &Path) -> Result<Store, Stop> {
    report_waits();
    Store::open(path).map_err(stop)
}

fn report_waits() {
    ::store::set_wait_callback(|| {
        outputs::note("waiting for another process that is writing to the store")
    });
}

pub(crate) fn stop(trouble: ResultsStoreError) -> Stop {
    match trouble.is_usage() {
        true => Stop::usage(format!("error: {trouble}")),
        false => Stop::no_verdict(format!("error: {trouble}")),
    }
}

/// Opens a record file and checks that it contains runs. Reports incomplete lines and leaves them out. Returns an error
/// if the file has lines that rocrepro did not write.
pub(crate) fn open_complete(path: &Path) -> Result<RecordFile, Stop> {
    let file = RecordFile::open(path)?;
    file.incomplete_lines().iter().for_each(outputs::note);
    let foreign = file.foreign_lines();
    if !foreign.is_empty() {
        return Err(Stop::usage(foreign.join("\n")));
    }
    if file.index.runs.is_empty() {
        return Err(file.no_run().into());
    }
    if file.index.left_out > 0 {
        outputs::note(format!(
            "`{}`: {} left out: their run has no plan, or their trial already has a record",
            path.display(),
            count(file.index.left_out, "record")
        ));
    }
    Ok(file)
}

fn list(store: &Store) -> Result<(), Stop> {
    let mut text = String::new();
    for StoredRun { opened, ground, trials, .. } in store.runs().map_err(stop)? {
        let planned = opened.planned();
        let shard = opened.shard.map_or(String::new(), |shard| format!(" shard {shard}"));
        text.push_str(&format!(
            "{} {}{shard}: {trials} of {} finished on {}\n",
            opened.opened,
            opened.run,
            count(planned, "trial"),
            ground.map_or("an unknown device".to_owned(), |ground| ground.name),
        ));
    }
    outputs::print(&text)
}

pub(crate) fn history(args: &args::History) -> Result<ExitCode, Stop> {
    let store = open(&args.file.store)?;
    let case = args.case.split('[').next().unwrap_or_default();
    let mut of_case = store.case_records(case).map_err(stop)?;
    let runs = store.runs().map_err(stop)?;
    let mut on: Vec<(RunConfiguration, Vec<Record>)> = Vec::new();
    for run in runs {
        let (Some(ground), Some(records)) = (run.ground, of_case.remove(&run.opened.run)) else {
            continue;
        };
        let mut parts = report::group_by_configuration(records);
        // If no record of this case proves its configuration, the configuration that other trials of the run proved is
        // used.
        if let [(only, records)] = &mut parts[..]
            && !records.iter().any(|record| record.device.proven)
        {
            *only = ground;
        }
        on.extend(parts);
    }
    let history = History::from_runs(&args.case, &on);
    if history.trials == 0 {
        let cases = store.cases().map_err(stop)?;
        let help = engine::case_names::nearest(case, cases.iter().map(String::as_str))
            .filter(|name| *name != case)
            .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        return Err(Stop::nothing(format!(
            "error: the store has no record of `{}`{help}",
            args.case
        )));
    }
    match args.json {
        true => outputs::print_data(&(json(&history)? + "\n"))?,
        false => outputs::print(&history.text())?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Stop> {
    serde_json::to_string_pretty(value)
        .map_err(|e| Stop::no_verdict(format!("error: cannot write JSON: {e}")))
}

/// Summarises the run whose id is `name`, or all runs on the configuration that is called `name`. For a configuration,
/// each trial has the results of the last run that contains it.
pub(crate) fn side(store: &Store, name: &str) -> Result<RunSummary, Stop> {
    let runs = store.runs().map_err(stop)?;
    let is = |run: &&StoredRun| run.opened.run == name;
    if let Some(run) = runs.iter().find(is) {
        let mut side = RunSummary::default();
        store.for_each_record(run, &mut |record| side.add(record)).map_err(stop)?;
        return Ok(side);
    }
    let (mut last, mut grounds) = (Latest::default(), BTreeSet::new());
    let mut found = false;
    for run in runs.iter().rev() {
        for (ground, records) in by_configuration(store, run, name)? {
            match ground == name {
                true => {
                    last.add_earlier(records);
                    found = true;
                }
                false => _ = grounds.insert(ground),
            }
        }
    }
    if !found {
        let help = engine::case_names::nearest(name, grounds.iter().map(String::as_str))
            .map_or_else(
                || "run `rocrepro records store list` for all names".to_owned(),
                |name| format!("did you mean `{name}`?"),
            );
        return Err(Stop::usage(format!(
            "error: no run and no stack and device named `{name}` in the store; {help}"
        )));
    }
    Ok(last.records().iter().collect())
}

/// Returns the names of the configurations on which a run has records, each with these records. If the run has a single
/// configuration whose name is not `wanted`, its records are not read, and the list of records is empty.
fn by_configuration(
    store: &Store,
    run: &StoredRun,
    wanted: &str,
) -> Result<Vec<(String, Vec<Record>)>, Stop> {
    let Some(ground) = &run.ground else { return Ok(Vec::new()) };
    let several = ground.name.contains(store::SEPARATOR);
    if !several && ground.name != wanted {
        return Ok(vec![(ground.name.clone(), Vec::new())]);
    }
    let parts = store.by_configuration(run).map_err(stop)?;
    Ok(parts.into_iter().map(|(ground, records)| (ground.name, records)).collect())
}

/// Returns the stored results as columns of a page, one for each configuration. Each trial has the results of the last
/// run that contains it. Trials that are not `wanted` are left out.
pub(crate) fn columns(path: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Column>, Stop> {
    let store = open(path)?;
    // Indices of runs, by the name of their configuration.
    let mut grounds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let runs = store.runs().map_err(stop)?;
    for (index, run) in runs.iter().enumerate() {
        for (ground, _) in by_configuration(&store, run, "")? {
            grounds.entry(ground).or_default().push(index);
        }
    }
    let mut columns = Vec::new();
    for (name, indices) in grounds {
        let (mut latest, mut past) = (Latest::default(), Vec::new());
        let runs: Vec<&StoredRun> = indices.into_iter().map(|index| &runs[index]).collect();
        for run in runs.iter().rev() {
            let on = by_configuration(&store, run, &name)?;
            let own = on.into_iter().filter(|(ground, _)| *ground == name);
            let mut records: Vec<Record> = own.flat_map(|(_, records)| records).collect();
            records.retain(|record| wanted(&record.trial));
            // Results of an earlier version of the case do not belong to the history of the current one.
            past.push(PastRun::from_records(
                records.iter().filter(|record| latest.is_same_version(record)),
            ));
            latest.add_earlier(records);
        }
        past.reverse();
        past.retain(|past| !past.cases.is_empty());
        let planned = runs.iter().flat_map(|run| &run.opened.trials);
        let planned: BTreeSet<String> = planned.filter(|trial| wanted(trial)).cloned().collect();
        let missing = planned.into_iter().filter(|trial| !latest.has(trial)).collect();
        let name = name.strip_prefix("debian:").unwrap_or(&name).replacen('@', " ", 1);
        columns.push(Column { name, missing, past, records: latest.records() });
    }
    columns.retain(|column| !(column.records.is_empty() && column.missing.is_empty()));
    // Newer releases come first.
    columns.sort_by_cached_key(|column| {
        let rocm = column.records.first().and_then(|record| record.stack.rocm.clone());
        (Reverse(rocm), column.name.clone())
    });
    Ok(columns)
}

/// For each trial, its records from the last run that contains the trial.
#[derive(Default)]
pub(crate) struct Latest(BTreeMap<String, Vec<Record>>);

impl Latest {
    /// Adds the records of an earlier run for trials that have no records yet.
    pub(crate) fn add_earlier(&mut self, records: Vec<Record>) {
        let mut run = Latest::default();
        for record in records {
            run.0.entry(record.trial.clone()).or_default().push(record);
        }
        for (trial, records) in run.0 {
            self.0.entry(trial).or_insert(records);
        }
    }

    /// Returns false if `earlier` is known to be from another version of the case than the current records of the same
    /// trial. Such a record must not be shown as an earlier result of the current version.
    fn is_same_version(&self, earlier: &Record) -> bool {
        let there = self.0.get(&earlier.trial);
        there.is_none_or(|all| all.iter().any(|record| report::may_be_one_text(record, earlier)))
    }

    pub(crate) fn has(&self, trial: &str) -> bool {
        self.0.contains_key(trial)
    }

    pub(crate) fn records(self) -> Vec<Record> {
        self.0.into_values().flatten().collect()
    }
}
