//! Executes `rocrepro mitigate`: reads the options of the search and prints its result.

use std::process::ExitCode;

use engine::{
    CaseLibrary, Session, SessionOptions, Stop,
    mitigate::{self, MitigateEvent, MitigateOptions},
};
use report::{
    count,
    evidence::{Evidence, FactorVerdict},
    format_duration,
};

use super::{setup::setup, subject::CasesOrProgram};
use crate::{
    args::Mitigate,
    interrupt,
    outputs::{self, note},
};

pub(crate) fn mitigate(args: &Mitigate) -> Result<ExitCode, Stop> {
    let (session, faults) = setup(&args.on, Some(&args.emulation), &args.fault)?;
    let subject = CasesOrProgram::read(&args.own, &session, args.case.as_slice(), || {
        let named: Vec<&str> = args.case.iter().map(String::as_str).collect();
        CaseLibrary::load_named(args.from.selected_source().as_ref(), &named)
    })?;
    let subjects = subject.subjects(faults)?;
    let session = SessionOptions { cases_from: args.from.selected_source(), ..session };
    let cancel = interrupt::cancel()?;
    let session = Session::open_on_one(subject.session(session)?)?;
    let options =
        MitigateOptions { failures: args.failures, out: args.out.clone(), deadline: None };
    let result = mitigate::mitigate(&session, &options, subjects, &cancel, &show)?;
    if args.json {
        outputs::print_data(&result.to_json().map_err(Stop::no_verdict)?)?;
    } else {
        outputs::print(&report::mitigations(&result))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the progress of a search on standard error.
fn show(event: MitigateEvent<'_>) {
    match event {
        MitigateEvent::FailureFound { signature, base, changes } => note(format_args!(
            "{signature} in {} of {}; {} to try",
            base.failed,
            count(base.runs as usize, "run"),
            count(changes, "change")
        )),
        MitigateEvent::ChangeTried { factor, tried, changes, left } => {
            let value = if factor.value.is_empty() { "" } else { "=" };
            let found = match factor.verdict {
                FactorVerdict::Helped => format!("; {}{value}{} helps", factor.name, factor.value),
                _ => String::new(),
            };
            let left = format_duration(left.as_secs_f64());
            note(format_args!(
                "{tried} of {} tried, about {left} left{found}",
                count(changes, "change")
            ));
        }
        _ => {}
    }
}
