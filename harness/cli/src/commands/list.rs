use std::{mem::ManuallyDrop, process::ExitCode};

use crate::{Stop, args::List, outputs};

pub(crate) fn list(args: &List) -> Result<ExitCode, Stop> {
    // The process ends next: to free ten thousands of cases one by one takes longer than to leave them.
    let library = ManuallyDrop::new(args.selection.library()?);
    let selected = ManuallyDrop::new(args.selection.select(&library)?);
    let mut text = String::new();
    if args.trials {
        for entry in selected.iter() {
            text.push_str(&format!("{}\n", entry.id()));
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    // They come in the order of the library, so those of a case stand together.
    let cases = || selected.chunk_by(|a, b| a.case.id == b.case.id);
    if args.issues {
        for case in cases().map(|trials| trials[0].case) {
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
        for trials in cases() {
            for declared in &trials[0].case.faults {
                if let Some(entry) = trials.iter().find(|s| declared.on.matches(&s.trial)) {
                    text.push_str(&format!("{}\t{}\n", entry.id(), declared.planted));
                }
            }
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = selected.iter().map(|s| s.case.id.len()).max().unwrap_or(0);
    for trials in cases() {
        let case = trials[0].case;
        text.push_str(&format!("{:width$}  {:4}  {}\n", case.id, trials.len(), case.title));
    }
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
