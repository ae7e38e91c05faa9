use std::process::ExitCode;

use crate::{CaseLibrary, Stop, args::Selection, select, trial::lower_all};

/// Reads and lowers everything selected: no stack is needed to see that a case is well-formed.
pub(crate) fn check(args: &Selection) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.cases_from.as_deref())?;
    let selected = select(&library, &args.cases)?;
    let mut plans = 0;
    let cases: std::collections::BTreeSet<&str> =
        selected.iter().map(|s| s.case.id.as_str()).collect();
    for entry in selected.iter().map(|s| (s, None)).chain(selected.iter().flat_map(|s| {
        s.case.faults.iter().filter(|f| f.on.matches(&s.trial)).map(move |f| (s, Some(f.fault)))
    })) {
        lower_all(&library, std::slice::from_ref(entry.0), entry.1)?;
        plans += 1;
    }
    anstream::println!(
        "{} well-formed: {} trials, {plans} plans with their faults",
        if cases.len() == 1 {
            "1 case is".to_owned()
        } else {
            format!("{} cases are", cases.len())
        },
        selected.len(),
    );
    Ok(ExitCode::SUCCESS)
}
