use std::{collections::BTreeSet, process::ExitCode};

use crate::{
    CaseLibrary, Stop,
    args::Selection,
    outputs, select,
    trial::{lower_each, with_declared_faults},
};

/// Reads and lowers everything selected: no stack is needed to see that a case is well-formed.
pub(crate) fn check(args: &Selection) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.cases_from.as_deref())?;
    let selected = select(&library, &args.cases)?;
    let cases: BTreeSet<&str> = selected.iter().map(|s| s.case.id.as_str()).collect();
    let plans = lower_each(&library, with_declared_faults(&selected))?.len();
    outputs::print(&format!(
        "{} well-formed: {} trials, {plans} plans with their faults\n",
        if cases.len() == 1 {
            "1 case is".to_owned()
        } else {
            format!("{} cases are", cases.len())
        },
        selected.len(),
    ))?;
    Ok(ExitCode::SUCCESS)
}
