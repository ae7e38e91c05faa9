//! What record files hold, as the run itself would have shown it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use report::{Builds, Held, OddLine, Record, Rows, count};

use crate::{
    Stop,
    args::Show,
    baseline,
    outputs::{self, Junit},
};

/// Trials without a record whose names are printed.
const NAMED: usize = 10;

pub(crate) fn show(args: &Show) -> Result<ExitCode, Stop> {
    let named = |path: &PathBuf| {
        let name = path.display().to_string();
        Ok(held(path)?.into_iter().map(move |held| (name.clone(), held)))
    };
    let held: Vec<_> = all(args.paths.iter().map(named))?.into_iter().flatten().collect();
    report::shards(&held).map_err(|e| Stop::usage(format!("error: {e}")))?;
    let records: Vec<&Path> = args.paths.iter().map(PathBuf::as_path).collect();
    let junit = args.junit.as_deref().map(|path| Junit::open(path, &records)).transpose()?;

    let mut records: Vec<Record> =
        held.iter().flat_map(|(_, held)| held.records.values().cloned()).collect();
    let builds: Builds = records.iter().collect();
    builds.warning().iter().for_each(outputs::note);
    if let Some(path) = &args.write_baseline {
        outputs::new_file(path, &baseline::written(&records))?;
    }
    let missing: Vec<&str> =
        held.iter().flat_map(|(_, held)| held.missing().map(|(_, trial)| trial)).collect();
    let rows = if args.trials { Rows::Trials } else { Rows::Cases };
    let shown = outputs::print(&report::run_view(&records, rows, None));
    if let Some(junit) = junit {
        let like = records.first().cloned().ok_or_else(|| {
            Stop::no_verdict("error: no trial is over, so there is nothing for a JUnit report")
        })?;
        records.extend(held.iter().flat_map(|(_, held)| held.not_run(&like)));
        junit.write(&records)?;
    }
    shown?;
    if missing.is_empty() {
        return Ok(ExitCode::from(report::exit_status(&records)));
    }
    let named = missing.iter().take(NAMED).map(|trial| format!("\n    {trial}"));
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("\n    and {more} more"),
    };
    Err(Stop::no_verdict(format!(
        "error: no record of {}:{}{more}",
        count(missing.len(), "planned trial"),
        named.collect::<String>()
    )))
}

/// All mistakes at once.
pub(crate) fn all<T>(results: impl Iterator<Item = Result<T, Stop>>) -> Result<Vec<T>, Stop> {
    let (good, bad): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    let told: Vec<_> = bad.into_iter().filter_map(|r| r.err().map(|e| e.to_string())).collect();
    if told.is_empty() {
        Ok(good.into_iter().flatten().collect())
    } else {
        Err(Stop::usage(told.join("\n")))
    }
}

/// The text of a record file. A letter that was torn with its line spoils no other line.
pub(crate) fn text(path: &Path) -> Result<String, Stop> {
    let name = path.display();
    let read = |e: std::io::Error| Stop::usage(format!("error: cannot read `{name}`: {e}"));
    if !fs::metadata(path).map_err(read)?.is_file() {
        return Err(Stop::usage(format!(
            "error: `{name}` is not a plain file, and records need one"
        )));
    }
    let bytes = fs::read(path).map_err(read)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last run of a file, with all its shards that are there.
pub(crate) fn held(path: &Path) -> Result<Vec<Held>, Stop> {
    runs(path, &text(path)?)
}

/// The same of the text of a file.
pub(crate) fn runs(path: &Path, text: &str) -> Result<Vec<Held>, Stop> {
    let held = Held::last(text);
    if held.is_empty() { Err(no_run(path)) } else { Ok(held) }
}

/// There is nothing in a file to show.
pub(crate) fn no_run(path: &Path) -> Stop {
    let name = path.display();
    Stop::usage(format!(
        "error: `{name}` has no run with a plan; `rocrepro run --record FILE` writes one"
    ))
}

/// What is wrong with the lines of a record file that were not written by rocrepro. Those that were torn are told.
pub(crate) fn odd(path: &Path, text: &str) -> Vec<String> {
    let name = path.display();
    let (torn, foreign): (Vec<_>, Vec<_>) =
        report::odd_lines(text).into_iter().partition(|odd| odd.torn);
    for OddLine { line, .. } in torn {
        outputs::note(format!("{name}:{line}: this line is incomplete and is ignored"));
    }
    let foreign = foreign.into_iter();
    foreign.map(|OddLine { line, what, .. }| format!("error: {name}:{line}: {what}")).collect()
}
