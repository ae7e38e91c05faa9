use std::{process::ExitCode, time::Instant};

use device::{Fault, Place, Planted};
use report::Rows;

use crate::{
    CaseLibrary, Session, SessionOptions, Stop,
    args::Run,
    batch::run_jobs,
    outputs::{self, Junit},
    select::{meant, select},
    trial::{Job, lower_all},
};

pub(crate) fn run(args: &Run) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load(args.selection.cases_from.as_deref())?;
    let selected = select(&library, &args.selection.cases)?;
    let faults = faults(&args.fault)?;
    let call_fault = call_fault(&faults)?;
    let mut options = SessionOptions::try_from(&args.on)?;
    options.cases_from = args.selection.cases_from.clone();
    let lowered = lower_all(&library, &selected, call_fault)?;
    let journal = outputs::journal(args.on.record.as_deref())?;
    let junit = args.junit.as_deref().map(Junit::open).transpose()?;
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
    let (records, trouble) = run_jobs(&session, jobs, journal)?;

    let rows = if args.trials { Rows::Trials } else { Rows::Cases };
    let view = report::run_view(&records, rows, begun.elapsed());
    let shown = outputs::print(&view);
    if let Some(junit) = junit {
        junit.write(&records)?;
    }
    shown?;
    match trouble {
        Some(stop) => Err(stop),
        None => Ok(ExitCode::from(report::exit_status(&records))),
    }
}

/// The fault that is part of the plan.
pub(super) fn call_fault(faults: &[Planted]) -> Result<Option<Fault>, Stop> {
    let at_call: Vec<_> =
        faults.iter().map(|p| p.fault).filter(|f| f.place() == Place::Call).collect();
    match at_call.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => Err(Stop::usage("error: only one fault can be planted at calls")),
    }
}

/// Reads all `--fault` options.
pub(super) fn faults(texts: &[String]) -> Result<Vec<Planted>, Stop> {
    let mut faults: Vec<Planted> = Vec::new();
    let mut problems = Vec::new();
    for text in texts {
        match planted(text) {
            Ok(planted) if faults.iter().any(|other| other.fault == planted.fault) => {
                problems.push(format!("error: `{}` is planted twice", planted.fault));
            }
            Ok(planted) => faults.push(planted),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(faults) } else { Err(Stop::usage(problems.join("\n"))) }
}

/// Reads `copy.zero` or `copy.zero,probability=0.2,seed=7`.
fn planted(text: &str) -> Result<Planted, String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let fault: Fault = name.parse().map_err(|_| {
        let known = Fault::ALL.iter().map(|fault| fault.name());
        format!("error: no fault is called `{name}`; {}", meant(name, known))
    })?;
    let mut planted = Planted::from(fault);
    for part in parts {
        let bad = || {
            format!("error: `{part}` in `--fault {text}`: write probability=0.2 (0 to 1) or seed=7")
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
