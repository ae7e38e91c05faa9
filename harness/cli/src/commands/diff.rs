use std::process::ExitCode;

use report::Record;

use super::show;
use crate::{Stop, args::Diff, outputs};

pub(crate) fn diff(args: &Diff) -> Result<ExitCode, Stop> {
    let records = |path| -> Result<Vec<Record>, Stop> {
        let held = show::held(path)?;
        Ok(held.into_iter().flat_map(|held| held.records.into_values()).collect())
    };
    let (old, new) = Stop::both(records(&args.old), records(&args.new))?;
    let (text, differs) = report::changed(&old, &new);
    outputs::print(&text)?;
    Ok(ExitCode::from(u8::from(differs)))
}
