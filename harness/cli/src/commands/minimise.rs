//! Executes `rocrepro minimise`: reads its options and shows the progress of the search.

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use engine::{
    SessionOptions, Stop,
    minimise::{MinimiseEvent, MinimiseOptions, Minimiser, ReducerChoice},
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::count;

use super::{setup::setup, subject::CasesOrProgram};
use crate::{
    args::{Minimise, Reducer},
    interrupt, outputs,
};

pub(crate) fn minimise(args: &Minimise) -> Result<ExitCode, Stop> {
    let (session, faults) = setup(&args.on, Some(&args.emulation), &args.fault)?;
    let subject = CasesOrProgram::read(&args.own, &session, &args.selection.cases, || {
        args.selection.library()
    })?;
    let mut subjects = subject.subjects(faults)?;
    if subjects.command.is_none() {
        subjects.selected = args.selection.select(subjects.library)?;
    }
    let session = SessionOptions { cases_from: args.selection.from.selected_source(), ..session };
    let options = MinimiseOptions {
        session: subject.session(session)?,
        budget_runs: args.budget_runs,
        budget: Duration::from_secs(args.budget_seconds.into()),
        passes_on: args.passes_on.clone(),
        reducer: args.reducer.into(),
        out: args.out.clone(),
        resume: args.resume,
    };
    let cancel = interrupt::cancel()?;
    let minimiser = Minimiser::prepare(&options, &subjects)?;
    let bar = bar();
    let result = minimiser.run(&cancel, &|event| show(&bar, event));
    bar.finish_and_clear();
    let result = result?;
    outputs::print(&result.text)?;
    Ok(ExitCode::from(u8::from(!result.complete)))
}

fn bar() -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{spinner} runs: {pos}, {elapsed} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(None, target).with_style(style)
}

/// Shows an event of the search in the bar, or as a line if standard error is not a terminal.
fn show(bar: &ProgressBar, event: MinimiseEvent<'_>) {
    match event {
        MinimiseEvent::TrialEnded => bar.inc(1),
        MinimiseEvent::FailureFound { signature } => {
            bar.set_message(format!("keeping {signature}"));
        }
        MinimiseEvent::Smaller { signature, calls, runs } => {
            let calls = count(calls, "call");
            bar.set_message(format!("{signature}: {calls} remaining"));
            if !std::io::stderr().is_terminal() {
                outputs::note(format!("{}: {calls} left", count(runs, "run")));
            }
        }
        MinimiseEvent::ShorterProgram { signature, lines, tries } => {
            let lines = count(lines, "line");
            bar.set_message(format!("{signature}: {lines} remaining"));
            if !std::io::stderr().is_terminal() {
                outputs::note(format!("{} tried: {lines} remaining", count(tries, "shorter text")));
            }
        }
        _ => {}
    }
}

impl From<Reducer> for ReducerChoice {
    fn from(reducer: Reducer) -> ReducerChoice {
        match reducer {
            Reducer::Auto => ReducerChoice::Auto,
            Reducer::Cvise => ReducerChoice::Cvise,
            Reducer::Shrinkray => ReducerChoice::Shrinkray,
            Reducer::None => ReducerChoice::None,
        }
    }
}
