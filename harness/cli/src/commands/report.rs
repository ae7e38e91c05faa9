//! Options and events of a report of a failing trial.

use std::process::ExitCode;

use engine::{
    CaseLibrary, Session, SessionOptions, Stop,
    issue::{self, IssueEvent, IssueOptions},
    select,
};
use report::issue::Form;

use super::setup::setup;
use crate::{
    args::Report,
    interrupt,
    outputs::{self, note},
};

pub(crate) fn report(args: &Report) -> Result<ExitCode, Stop> {
    let form = args.form.as_deref().map(str::parse::<Form>).transpose();
    let form = form.map_err(|e| Stop::usage(format!("error: {e}")))?;
    let library = CaseLibrary::load(args.from.chosen().as_ref())?;
    let selected = select(&library, std::slice::from_ref(&args.case))?;
    let (session, faults) = setup(&args.on, None, &args.fault)?;
    let options = IssueOptions {
        session: SessionOptions { cases_from: args.from.chosen(), ..session },
        faults,
        repeat: args.repeat,
        form,
        out: args.out.clone(),
        open: args.open,
    };
    let session = Session::open_on_one(options.session.clone())?;
    let cancel = interrupt::cancel()?;
    let summary = issue::report(&session, &options, &library, selected, &cancel, &show)?;
    outputs::print(&summary)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(event: IssueEvent<'_>) {
    match event {
        IssueEvent::NoShortProgram(why) => note(format_args!("no short program: {why}")),
        IssueEvent::NotTriedOn { release, why } => {
            note(format_args!("not tried on {release}: {why}"));
        }
        IssueEvent::NotVerified(why) => note(format_args!("the program was not verified: {why}")),
        IssueEvent::NotExported(why) => note(why),
        IssueEvent::NotJudged { release, why } => {
            note(format_args!("not judged on ROCm {release}: {why}"));
        }
        _ => {}
    }
}
