//! Shows the runs in record files in the form that `rocrepro run` uses.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use report::{Builds, Record, count};

use crate::{args::Show, outputs};
use engine::{
    Stop, baseline,
    output_files::{self, ReportFiles, ReportFormat},
    record_file::RecordFile,
};

const NAMED: usize = 10;

pub(crate) fn show(args: &Show) -> Result<ExitCode, Stop> {
    let files = collect_results(args.paths.iter().map(|path| {
        let file = RecordFile::open(path)?;
        file.last_runs()?;
        Ok(file)
    }))?;
    let runs = collect_results(files.iter().map(|file| {
        let named = |run| (file, run);
        Ok(file.last_runs()?.into_iter().map(named).collect::<Vec<_>>())
    }))?;
    let runs: Vec<_> = runs.into_iter().flatten().collect();
    let identities: Vec<_> =
        runs.iter().map(|(file, run)| (file.name.clone(), run.identity.clone())).collect();
    report::check_shards(&identities).map_err(|e| Stop::usage(format!("error: {e}")))?;
    let records: Vec<&Path> = args.paths.iter().map(PathBuf::as_path).collect();
    let reports = [
        (&args.junit, ReportFormat::Junit),
        (&args.tap, ReportFormat::Tap),
        (&args.annotations, ReportFormat::Annotations),
    ];
    let reports =
        ReportFiles::open(reports.map(|(path, format)| (path.as_deref(), format)), &records)?;

    // The first record is kept complete, because trials that were not run are shown with its stack and device.
    let first = runs.iter().find_map(|(file, run)| file.records(run).next()).transpose()?;
    let mut builds = Builds::default();
    // The vector is allocated once, because growing it would need twice the memory.
    let mut records: Vec<Record> =
        Vec::with_capacity(runs.iter().map(|(_, run)| run.trials()).sum());
    let (mut missing, mut all_missing) = (Vec::new(), 0_u64);
    for (file, run) in &runs {
        for record in file.records(run) {
            let mut record = record?;
            builds.add(&record);
            record.trim();
            records.push(record);
        }
        let opened = file.opened(run)?;
        let left = opened.missing(run.numbers());
        missing.extend(left.listed);
        all_missing = all_missing.saturating_add(left.count);
    }
    builds.warning().iter().for_each(outputs::note);
    let not_run = match (reports.is_empty(), &first) {
        (false, Some(like)) => {
            let missing = missing.iter().map(|(number, trial)| (*number, trial.as_str()));
            report::not_run_records(missing, &records, like)
        }
        _ => Vec::new(),
    };
    if let Some(path) = &args.write_baseline {
        output_files::new_file(path, &baseline::format_baseline(&records))?;
    }
    let view = report::run_view(&records, args.details.view(args.trials), None);
    let shown = outputs::print(&view);
    let status = report::exit_status(&records);
    if !reports.is_empty() {
        if first.is_none() {
            return Err(Stop::no_verdict("error: cannot write a report: no trial has finished"));
        }
        if all_missing > not_run.len() as u64 {
            outputs::note(format!(
                "the report names {} of {all_missing} trials that were not run",
                not_run.len()
            ));
        }
        records.extend(not_run);
        reports.write(&records)?;
    }
    shown?;
    if all_missing == 0 {
        return Ok(ExitCode::from(status));
    }
    let named = missing.iter().take(NAMED).map(|(_, trial)| format!("\n    {trial}"));
    let more = match all_missing.saturating_sub(NAMED as u64) {
        0 => String::new(),
        more => format!("\n    and {more} more"),
    };
    Err(Stop::no_verdict(format!(
        "error: no record of {}:{}{more}",
        count(all_missing, "planned trial"),
        named.collect::<String>()
    )))
}

/// Returns all values, or one error with the messages of all errors.
pub(crate) fn collect_results<T>(
    results: impl Iterator<Item = Result<T, Stop>>,
) -> Result<Vec<T>, Stop> {
    let (good, bad): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    let told: Vec<_> = bad.into_iter().filter_map(|r| r.err().map(|e| e.to_string())).collect();
    if told.is_empty() {
        Ok(good.into_iter().flatten().collect())
    } else {
        Err(Stop::usage(told.join("\n")))
    }
}
