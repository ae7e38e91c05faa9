use std::process::ExitCode;

use device::{Fault, Place, Planted};

use crate::{
    CaseLibrary, Session, SessionOptions, Stop,
    args::Run,
    select,
    trial::{Job, lower_all, run_trial},
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
    let lowered = lower_all(&library, &selected, call_fault)?;
    let session = Session::open(SessionOptions::try_from(&args.on)?)?;
    let cancel = supervise::Cancel::new().map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
    cancel.on_signals().map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
    let jobs: Vec<_> = selected
        .iter()
        .zip(lowered)
        .map(|(s, lowered)| Job { case: s.case, trial: &s.trial, lowered, faults: faults.clone() })
        .collect();
    supervise::for_each(
        jobs,
        session.jobs,
        &cancel,
        |_, job| run_trial(&session, &job, &cancel),
        supervise::in_order(|_, finished: crate::trial::Finished| {
            println!("{:?} {} {}", finished.verdict.kind, finished.id, finished.outcome.signature);
            if finished.outcome.kind != judge::Kind::Pass {
                println!("    {}", finished.outcome.summary);
                for line in &finished.outcome.details {
                    println!("    {line}");
                }
            }
        }),
    );
    Ok(ExitCode::SUCCESS)
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
