//! The shards of a run as one record file.

use std::{
    io::{BufWriter, IntoInnerError, Write as _},
    path::Path,
    process::ExitCode,
};

use atomic::NewFile;
use report::{Builds, Held, Line, Merged, Opened, Over, count};

use super::show;
use crate::{Stop, args::Merge, outputs};

/// Trials without a record whose names are printed.
const NAMED: usize = 10;

pub(crate) fn merge(args: &Merge) -> Result<ExitCode, Stop> {
    let (mut held, mut problems) = (Vec::<(String, Held)>::new(), Vec::new());
    for path in &args.paths {
        let name = path.display().to_string();
        match show::text(path) {
            Ok(text) => {
                problems.extend(show::odd(path, &text));
                match show::runs(path, &text) {
                    Ok(runs) => held.extend(runs.into_iter().map(|run| (name.clone(), run))),
                    Err(stop) => problems.push(stop.to_string()),
                }
            }
            Err(stop) => problems.push(stop.to_string()),
        }
    }
    if args.out.symlink_metadata().is_ok() {
        problems.push(format!("error: `{}` is there already", args.out.display()));
    }
    let merged = match problems.is_empty() {
        true => Merged::of(&held)
            .map_err(|all| problems.extend(all.iter().map(|problem| format!("error: {problem}")))),
        false => Err(()),
    };
    let Ok(merged) = merged else { return Err(Stop::usage(problems.join("\n"))) };
    write(&args.out, &merged)
        .map_err(|e| Stop::usage(format!("error: cannot write `{}`: {e}", args.out.display())))?;
    let builds: Builds = merged.records.iter().collect();
    builds.warning().iter().for_each(outputs::note);
    outputs::note(format!(
        "{}: {} of {}",
        args.out.display(),
        count(merged.records.len(), "trial"),
        count(held.len(), "shard")
    ));
    if merged.missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let named = merged.missing.iter().take(NAMED);
    let named: String = named.map(|(file, trial)| format!("\n    {trial} ({file})")).collect();
    let more = match merged.missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("\n    and {more} more"),
    };
    Err(Stop::no_verdict(format!(
        "error: no record of {}:{named}{more}",
        count(merged.missing.len(), "planned trial")
    )))
}

/// Writes the run, whole or not at all, over nothing that is there.
fn write(out: &Path, merged: &Merged) -> std::io::Result<()> {
    let mut file = BufWriter::new(NewFile::create(out)?);
    let Opened { run, .. } = &merged.opened;
    let dates = merged.records.iter().map(|record| record.date.as_str());
    let last = dates.max().unwrap_or(&merged.opened.opened).to_owned();
    let over = Over { format: report::FORMAT, over: last, run: run.clone() };
    let records = merged.records.iter().map(|record| Line::Trial(Box::new(record.clone())));
    let lines = [Line::Opened(merged.opened.clone())].into_iter().chain(records);
    for line in lines.chain([Line::Over(over)]) {
        serde_json::to_writer(&mut file, &line)?;
        file.write_all(b"\n")?;
    }
    file.into_inner().map_err(IntoInnerError::into_error)?.publish()
}
