//! Merges the shards of a run into one record file.

use std::{
    io::{self, BufWriter, IntoInnerError, Write as _},
    process::ExitCode,
};

use atomic::NewFile;
use report::{Builds, Line, RunEnd, RunIndex, ShardMerger, ShardPlan, count};

use crate::{args::Merge, outputs};
use engine::{Stop, record_file::RecordFile};

/// Maximum number of trials without a record that are printed by name.
const NAMED: usize = 10;

pub(crate) fn merge(args: &Merge) -> Result<ExitCode, Stop> {
    let mut problems = Vec::new();
    let files: Vec<RecordFile> = args
        .paths
        .iter()
        .filter_map(|path| {
            RecordFile::open(path)
                .map_err(|error| problems.push(Stop::from(error).to_string()))
                .ok()
        })
        .collect();
    let mut runs: Vec<(&RecordFile, &RunIndex)> = Vec::new();
    for file in &files {
        file.incomplete_lines().iter().for_each(outputs::note);
        problems.extend(file.foreign_lines());
        match file.last_runs() {
            Ok(last) => runs.extend(last.into_iter().map(|run| (file, run))),
            Err(error) => problems.push(Stop::from(error).to_string()),
        }
    }
    if args.out.symlink_metadata().is_ok() {
        problems.push(format!(
            "error: `{}` already exists; choose another file name",
            args.out.display()
        ));
    }
    if !problems.is_empty() {
        return Err(Stop::usage(problems.join("\n")));
    }
    let part = |(file, run): &(&RecordFile, &RunIndex)| {
        let numbers = run.numbers().collect();
        Ok(ShardPlan { file: file.name.clone(), opened: file.opened(run)?, numbers })
    };
    let parts = runs.iter().map(part).collect::<Result<Vec<_>, Stop>>()?;
    let cannot =
        |e: io::Error| Stop::usage(format!("error: cannot write `{}`: {e}", args.out.display()));
    let mut out = BufWriter::new(NewFile::create(&args.out).map_err(cannot)?);
    let mut write = |line: &Line| {
        let written = serde_json::to_writer(&mut out, line).map_err(io::Error::from);
        written.and_then(|()| out.write_all(b"\n")).map_err(cannot)
    };
    let mut merging = ShardMerger::new(parts);
    if let Some(opened) = merging.opened() {
        write(&Line::Opened(opened.clone()))?;
    }
    let (mut builds, mut last, mut trials) = (Builds::default(), None, 0);
    for at in merging.order().to_vec() {
        let (file, run) = runs[at];
        for record in file.records(run) {
            let record = merging.add_record(at, record?);
            builds.add(&record);
            trials += 1;
            last = last.max(Some(record.date.clone()));
            write(&Line::Trial(Box::new(record)))?;
        }
    }
    let (opened, missing) = merging.end().map_err(|all| {
        let all: Vec<_> = all.iter().map(|problem| format!("error: {problem}")).collect();
        Stop::usage(all.join("\n"))
    })?;
    let over = last.unwrap_or(opened.opened);
    write(&Line::Over(RunEnd { format: report::FORMAT, over, run: opened.run }))?;
    let out = out.into_inner().map_err(|e| cannot(IntoInnerError::into_error(e)))?;
    out.publish().map_err(cannot)?;
    builds.warning().iter().for_each(outputs::note);
    outputs::note(format!(
        "{}: {} of {}",
        args.out.display(),
        count(trials, "trial"),
        count(runs.len(), "shard")
    ));
    if missing.count == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let named = missing.listed.iter().take(NAMED);
    let named: String = named.map(|(file, trial)| format!("\n    {trial} ({file})")).collect();
    let more = match missing.count.saturating_sub(NAMED as u64) {
        0 => String::new(),
        more => format!("\n    and {more} more"),
    };
    Err(Stop::no_verdict(format!(
        "error: no record of {}:{named}{more}",
        count(missing.count, "planned trial")
    )))
}
