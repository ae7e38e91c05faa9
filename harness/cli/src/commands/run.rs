use std::{process::ExitCode, time::Instant};

use device::{Fault, Place, Planted};
use report::Rows;

use crate::{
    CaseLibrary, Session, SessionOptions, Stop,
    args::Run,
    batch::run_jobs,
    select,
    stop::chain,
    trial::{Job, lower_all},
};

pub(crate) fn run(args: &Run) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.cases_from.as_deref())?;
    let selected = select(&library, &args.selection.cases)?;
    let faults = args.fault.iter().map(|f| planted(f)).collect::<Result<Vec<_>, _>>()?;
    let at_call: Vec<_> =
        faults.iter().map(|p| p.fault).filter(|f| f.place() == Place::Call).collect();
    let call_fault = match at_call.as_slice() {
        [] => None,
        [one] => Some(*one),
        _ => return Err(Stop::usage("error: only one fault can be planted at calls")),
    };
    let options = SessionOptions::try_from(&args.on)?;
    let lowered = lower_all(&library, &selected, call_fault)?;
    let session = Session::open(options)?;
    let begun = Instant::now();
    let jobs = selected
        .iter()
        .zip(lowered)
        .flat_map(|(s, lowered)| {
            let job = Job { case: s.case, trial: &s.trial, lowered, faults: faults.clone() };
            std::iter::repeat_n(job, args.repeat as usize)
        })
        .collect();
    let (records, trouble) = run_jobs(&session, jobs, args.on.record.as_deref())?;

    let rows = if args.trials { Rows::Trials } else { Rows::Cases };
    let view = report::run_view(&records, rows, begun.elapsed());
    // A reader that closes the pipe has seen enough.
    let _ = report::print(&view);
    if let Some(path) = &args.junit {
        let xml = report::junit(&records)
            .map_err(|e| Stop::no_verdict(format!("error: cannot make the JUnit report: {e}")))?;
        std::fs::write(path, xml).map_err(|e| {
            Stop::no_verdict(format!("error: cannot write `{}`: {}", path.display(), chain(&e)))
        })?;
    }
    match trouble {
        Some(stop) => Err(stop),
        None => Ok(ExitCode::from(report::exit_status(&records))),
    }
}

/// Reads `copy.zero` or `copy.zero,probability=0.2,seed=7`.
fn planted(text: &str) -> Result<Planted, Stop> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let fault: Fault = name.parse().map_err(|e| Stop::usage(format!("error: {e}")))?;
    let mut planted = Planted::from(fault);
    for part in parts {
        let bad = || {
            Stop::usage(format!(
                "error: `{part}` in `--fault {text}`: write probability=0.2 or seed=7"
            ))
        };
        match part.split_once('=').ok_or_else(bad)? {
            ("probability", value) => {
                planted.probability =
                    value.parse().ok().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(bad)?;
            }
            ("seed", value) => planted.seed = value.parse().map_err(|_| bad())?,
            _ => return Err(bad()),
        }
    }
    Ok(planted)
}
