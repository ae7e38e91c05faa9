//! Executes `rocrepro report`: reads its options and shows the events of the report.

use std::{
    cell::Cell,
    process::ExitCode,
    time::{Duration, Instant},
};

use engine::{
    CaseLibrary, Session, SessionOptions, Stop,
    issue::{self, IssueEvent, IssueOptions, PROGRAM_REPEAT, REPEAT},
};
use report::{count, format_duration, issue::Form};

use super::{setup::setup, subject::CasesOrProgram};
use crate::{
    args::Report,
    interrupt,
    outputs::{self, note},
};

pub(crate) fn report(args: &Report) -> Result<ExitCode, Stop> {
    let form = args.form.as_deref().map(str::parse::<Form>).transpose();
    let form = form.map_err(|e| Stop::usage(format!("error: {e}")))?;
    let (session, faults) = setup(&args.on, Some(&args.emulation), &args.fault)?;
    let subject = CasesOrProgram::read(&args.own, &session, args.case.as_slice(), || {
        CaseLibrary::load(args.from.selected_source().as_ref())
    })?;
    let subjects = subject.subjects(faults)?;
    let usual = if subjects.command.is_some() { PROGRAM_REPEAT } else { REPEAT };
    let session = SessionOptions { cases_from: args.from.selected_source(), ..session };
    let options = IssueOptions {
        session: subject.session(session)?,
        repeat: args.repeat.unwrap_or(usual),
        budget: Duration::from_secs(args.budget_seconds.into()),
        also: args.also.clone(),
        anyway: args.anyway,
        form,
        out: args.out.clone(),
        open: args.open,
    };
    issue::check(&options, subjects.command)?;
    let (cancel, progress) = (interrupt::cancel()?, ReportProgress::default());
    let session = Session::open_on_one(options.session.clone())?;
    let summary =
        issue::report(&session, &options, subjects, &cancel, &|event| progress.show(event))?;
    outputs::print(&summary)?;
    Ok(ExitCode::SUCCESS)
}

/// Time between two progress lines about the search for a shorter program.
const PAUSE: Duration = Duration::from_secs(10);

/// Shows the events of a running report on standard error.
#[derive(Default)]
pub(super) struct ReportProgress {
    last: Cell<Option<Instant>>,
}

impl ReportProgress {
    pub(super) fn show(&self, event: IssueEvent<'_>) {
        match event {
            IssueEvent::Step(name) => note(format_args!("{name} ...")),
            IssueEvent::ShorterProgramTried { tries, left }
                if self.last.get().is_none_or(|last| last.elapsed() >= PAUSE) =>
            {
                self.last.set(Some(Instant::now()));
                let (tries, left) = (count(tries, "program"), format_duration(left.as_secs_f64()));
                note(format_args!("{tries} tried, at most {left} remaining"));
            }
            IssueEvent::NoShortProgram(why) => note(format_args!("no short program found: {why}")),
            IssueEvent::NotTriedOn { release, why } => {
                note(format_args!("not tried on {release}: {why}"));
            }
            IssueEvent::NotVerified(why) => {
                note(format_args!("the program was not verified: {why}"));
            }
            IssueEvent::NotExported(why) => note(why),
            IssueEvent::EvidenceNotUsed { file } => {
                note(format_args!(
                    "the report does not use `{file}`, which is about another case with this name, or about another \
                     version of the case"
                ));
            }
            IssueEvent::ShorterProgramNotUsed { why } => {
                note(format_args!("the report does not use the shortened program: {why}"));
            }
            IssueEvent::NotJudged { release, why } => {
                note(format_args!("no verdict on ROCm {release}: {why}"));
            }
            _ => {}
        }
    }
}
