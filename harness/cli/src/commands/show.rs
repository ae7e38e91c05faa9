//! What record files hold, as the run itself would have shown it.

use std::{fs, path::Path, process::ExitCode};

use report::{Held, Record, Rows, count};

use crate::{
    Stop,
    args::Show,
    outputs::{self, Junit},
};

/// Trials without a record whose names are printed.
const NAMED: usize = 10;

pub(crate) fn show(args: &Show) -> Result<ExitCode, Stop> {
    let held = args.paths.iter().map(|path| Ok((path.display().to_string(), held(path)?)));
    let held = all(held)?;
    report::shards(&held).map_err(|e| Stop::usage(format!("error: {e}")))?;
    let junit = args.junit.as_deref().map(Junit::open).transpose()?;

    let wall = held.iter().map(|(_, held)| held.took()).sum();
    let mut records: Vec<Record> =
        held.iter().flat_map(|(_, held)| held.records.values().cloned()).collect();
    let missing: Vec<&str> =
        held.iter().flat_map(|(_, held)| held.missing().map(|(_, trial)| trial)).collect();
    let rows = if args.trials { Rows::Trials } else { Rows::Cases };
    let shown = outputs::print(&report::run_view(&records, rows, wall));
    if let Some(junit) = junit {
        records.extend(held.iter().flat_map(|(_, held)| held.not_run()));
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
        "error: {} planned and without a record:{}{more}",
        count(missing.len(), "trial"),
        named.collect::<String>()
    )))
}

/// All mistakes at once.
fn all<T>(results: impl Iterator<Item = Result<T, Stop>>) -> Result<Vec<T>, Stop> {
    let (good, bad): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    let told: Vec<_> = bad.into_iter().filter_map(|r| r.err().map(|e| e.to_string())).collect();
    if told.is_empty() {
        Ok(good.into_iter().flatten().collect())
    } else {
        Err(Stop::usage(told.join("\n")))
    }
}

/// The last run of a file.
pub(crate) fn held(path: &Path) -> Result<Held, Stop> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|e| Stop::usage(format!("error: cannot read `{name}`: {e}")))?;
    Held::last(&text).ok_or_else(|| {
        Stop::usage(format!(
            "error: `{name}` has no run that says what it was to do; `rocrepro run --record {name}` writes such a file"
        ))
    })
}
