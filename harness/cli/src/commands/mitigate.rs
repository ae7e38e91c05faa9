//! Options of a search for mitigations.

use std::process::ExitCode;

use engine::{
    CaseLibrary, Session, SessionOptions, Stop,
    mitigate::{self, MitigateOptions},
    select,
};
use report::evidence::Evidence;

use super::setup::setup;
use crate::{args::Mitigate, interrupt, outputs};

pub(crate) fn mitigate(args: &Mitigate) -> Result<ExitCode, Stop> {
    let library = CaseLibrary::load_named(args.from.chosen().as_ref(), &[&args.case])?;
    let selected = select(&library, std::slice::from_ref(&args.case))?;
    let (session, faults) = setup(&args.on, None, &args.fault)?;
    let session = SessionOptions { cases_from: args.from.chosen(), ..session };
    let session = Session::open_on_one(session)?;
    let options = MitigateOptions { faults, failures: args.failures, out: args.out.clone() };
    let cancel = interrupt::cancel()?;
    let result = mitigate::mitigate(&session, &options, &library, selected, &cancel)?;
    if args.json {
        outputs::data(&result.to_json().map_err(Stop::no_verdict)?)?;
    } else {
        outputs::print(&report::mitigations(&result))?;
    }
    Ok(ExitCode::SUCCESS)
}
