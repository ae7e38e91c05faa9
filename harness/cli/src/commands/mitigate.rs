//! Executes `rocrepro mitigate`: reads the options of the search and prints its result.

use std::process::ExitCode;

use engine::{
    CaseLibrary, Session, SessionOptions, Stop,
    mitigate::{self, MitigateOptions},
};
use report::evidence::Evidence;

use super::{setup::setup, subject::CasesOrProgram};
use crate::{args::Mitigate, interrupt, outputs};

pub(crate) fn mitigate(args: &Mitigate) -> Result<ExitCode, Stop> {
    let (session, faults) = setup(&args.on, Some(&args.emulation), &args.fault)?;
    let subject = CasesOrProgram::read(&args.own, &session, args.case.as_slice(), || {
        let named: Vec<&str> = args.case.iter().map(String::as_str).collect();
        CaseLibrary::load_named(args.from.chosen().as_ref(), &named)
    })?;
    let subjects = subject.subjects(faults)?;
    let session = SessionOptions { cases_from: args.from.chosen(), ..session };
    let session = Session::open_on_one(subject.session(session)?)?;
    let options = MitigateOptions { failures: args.failures, out: args.out.clone() };
    let cancel = interrupt::cancel()?;
    let result = mitigate::mitigate(&session, &options, subjects, &cancel)?;
    if args.json {
        outputs::data(&result.to_json().map_err(Stop::no_verdict)?)?;
    } else {
        outputs::print(&report::mitigations(&result))?;
    }
    Ok(ExitCode::SUCCESS)
}
