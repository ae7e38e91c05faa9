use std::process::ExitCode;

use crate::{CaseLibrary, Stop, args::List, outputs};

pub(crate) fn list(args: &List) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.from.chosen().as_ref())?;
    let selected = args.selection.select(&library)?;
    let mut text = String::new();
    if args.trials {
        for entry in &selected {
            text.push_str(&format!("{}\n", entry.id()));
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.issues {
        let shown = |id: &str| selected.iter().any(|s| s.case.id == id);
        for case in library.cases().filter(|case| shown(&case.id)) {
            for link in &case.upstream {
                let by = case.shown_by(link).join("; ");
                text.push_str(&format!("{link}\tshown\t{}\t{by}\n", case.id));
            }
            for link in &case.related {
                text.push_str(&format!("{link}\trelated\t{}\t\n", case.id));
            }
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.faults {
        for case in library.cases() {
            for declared in &case.faults {
                let mut trials = selected.iter().filter(|s| s.case.id == case.id);
                if let Some(entry) = trials.find(|s| declared.on.matches(&s.trial)) {
                    text.push_str(&format!("{}\t{}\n", entry.id(), declared.planted));
                }
            }
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = selected.iter().map(|s| s.case.id.len()).max().unwrap_or(0);
    for case in library.cases() {
        let trials = selected.iter().filter(|s| s.case.id == case.id).count();
        if trials > 0 {
            text.push_str(&format!("{:width$}  {trials:4}  {}\n", case.id, case.title));
        }
    }
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
