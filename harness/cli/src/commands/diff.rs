use std::{path::Path, process::ExitCode};

use report::{Changes, Record};

use super::{show, store};
use crate::{Stop, args::Diff, outputs};

pub(crate) fn diff(args: &Diff) -> Result<ExitCode, Stop> {
    let (old, new) = match &args.store {
        Some(path) => {
            let kept = store::open(path)?;
            Stop::both(store::named(&kept, &args.old), store::named(&kept, &args.new))?
        }
        None => Stop::both(records(&args.old), records(&args.new))?,
    };
    let changes = Changes::of(&old, &new);
    match args.json {
        true => outputs::data(&(store::json(&changes)? + "\n"))?,
        false => outputs::print(&changes.text())?,
    }
    Ok(ExitCode::from(u8::from(changes.differ())))
}

/// Those of the last run of a file.
fn records(path: &str) -> Result<Vec<Record>, Stop> {
    let held = show::held(Path::new(path))?;
    Ok(held.into_iter().flat_map(|held| held.records.into_values()).collect())
}
