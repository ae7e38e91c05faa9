use std::{path::Path, process::ExitCode};

use report::{Changes, RunSummary};

use super::{diff_recordings, store};
use crate::{args::Diff, outputs};
use engine::{Stop, record_file::RecordFile};

pub(crate) fn diff(args: &Diff) -> Result<ExitCode, Stop> {
    if let Some(code) = diff_recordings::diff(args)? {
        return Ok(code);
    }
    let (old, new) = match &args.store {
        Some(path) => {
            let kept = store::open(path)?;
            Stop::both(store::side(&kept, &args.old), store::side(&kept, &args.new))?
        }
        None => Stop::both(side(&args.old), side(&args.new))?,
    };
    let changes = Changes::compare(&old, &new);
    match args.json {
        true => outputs::print_data(&(store::json(&changes)? + "\n"))?,
        false => outputs::print(&changes.text())?,
    }
    Ok(ExitCode::from(u8::from(changes.differ())))
}

fn side(path: &str) -> Result<RunSummary, Stop> {
    let file = RecordFile::open(Path::new(path))?;
    let mut side = RunSummary::default();
    for run in file.last_runs()? {
        for record in file.records(run) {
            side.add(&record?);
        }
    }
    Ok(side)
}
