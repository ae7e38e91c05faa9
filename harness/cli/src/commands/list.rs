use std::process::ExitCode;

use crate::{CaseLibrary, Stop, args::List, select};

pub(crate) fn list(args: &List) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.cases_from.as_deref())?;
    let selected = select(&library, &args.selection.cases)?;
    if args.trials {
        for entry in &selected {
            anstream::println!("{}", entry.id());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let width = selected.iter().map(|s| s.case.id.len()).max().unwrap_or(0);
    for case in library.cases() {
        let trials = selected.iter().filter(|s| s.case.id == case.id).count();
        if trials > 0 {
            anstream::println!("{:width$}  {trials:4}  {}", case.id, case.title);
        }
    }
    Ok(ExitCode::SUCCESS)
}
