use std::{collections::BTreeMap, process::ExitCode};

use case::Case;
use report::count;

use crate::{args::Selection, outputs};
use engine::{CaseLibrary, Stop, job::with_declared_faults, select};

/// Parses and analyses all selected cases, without a stack.
pub(crate) fn check(args: &Selection) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.from.selected_source().as_ref())?;
    let selected = select(&library, &args.cases)?;
    let cases: BTreeMap<&str, &Case> =
        selected.iter().map(|s| (s.case.id.as_str(), s.case)).collect();
    let checked = library.check(cases.values().copied());
    Stop::both(checked, library.parse_python(cases.values().copied()))?;
    let plans = with_declared_faults(&selected).len();
    outputs::print(&format!(
        "{} well-formed: {}, {} with the declared faults\n",
        match cases.len() {
            1 => "1 case is".to_owned(),
            n => format!("{n} cases are"),
        },
        count(selected.len(), "trial"),
        count(plans, "plan"),
    ))?;
    Ok(ExitCode::SUCCESS)
}
