//! Searches for a shorter program and for settings that help, unless the evidence folder already has results.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use report::evidence::{Evidence, MinimisedProgram, Mitigations};
use supervise::Cancel;

use super::{IssueEvent, IssueOptions, IssueReporter};
use crate::{
    Session, Stop, evidence,
    failing_trial::{FailingTrial, Subjects},
    minimise::{MinimiseEvent, MinimiseOptions, Minimiser, ReducerChoice},
    mitigate::{MitigateOptions, mitigate},
};

/// Number of times that the unchanged trial must fail before settings are tried.
const FAILURES: u32 = 5;

/// Maximum time for which settings are tried. If one run of the trial takes a second, this is about enough for all
/// settings.
const SETTINGS_LIMIT: Duration = Duration::from_secs(60);

/// Number of runs of the shorter program for which the search leaves time, before settings are tried.
const RUNS_OF_SHORTER: u32 = 8;

/// The searches of one report. They share the time limit of the report.
pub(super) struct Searches<'s> {
    pub(super) options: &'s IssueOptions,
    pub(super) folder: &'s Path,
    /// Time at which the last of the searches ends.
    pub(super) deadline: Instant,
    pub(super) cancel: &'s Cancel,
    pub(super) events: IssueReporter<'s>,
}

impl Searches<'_> {
    /// Shortens the program of a trial. `run` is the duration of one run. Returns `None` if the program cannot be
    /// shortened, or if no configuration is known on which it passes: a shorter program could then fail because of a
    /// mistake that the search introduced.
    ///
    /// # Errors
    /// Fails on a request to stop.
    pub(super) fn shorter_program(
        &self,
        subject: &FailingTrial<'_>,
        run: Duration,
    ) -> Result<Option<MinimisedProgram>, Stop> {
        // The settings need at most a minute of what is left, and the shorter program is run several times.
        let left = self.share(1);
        let budget = left.saturating_sub(SETTINGS_LIMIT + run * RUNS_OF_SHORTER).max(left / 3);
        if budget.is_zero() || self.has::<MinimisedProgram>() {
            return Ok(None);
        }
        (self.events)(IssueEvent::Step("shortening the program"));
        let options = MinimiseOptions {
            budget,
            reducer: ReducerChoice::None,
            out: Some(self.folder.to_owned()),
            ..MinimiseOptions::new(self.options.session.clone())
        };
        let end = Instant::now() + budget;
        let show = |event: MinimiseEvent<'_>| {
            if let MinimiseEvent::ShorterProgram { tries, .. } = event {
                let left = end.saturating_duration_since(Instant::now());
                (self.events)(IssueEvent::ShorterProgramTried { tries, left });
            }
        };
        let subjects = subjects(subject);
        let found = Minimiser::prepare(&options, &subjects)
            .and_then(|minimiser| minimiser.run(self.cancel, &show));
        match found {
            Err(stop) if self.cancel.is_cancelled() => Err(stop),
            Err(why) => {
                (self.events)(IssueEvent::NoShortProgram(&why));
                Ok(None)
            }
            Ok(_) => {
                let found = evidence::read::<MinimisedProgram>(self.folder)?;
                Ok(found.filter(|found| found.passes.is_some() && found.lines < found.lines_before))
            }
        }
    }

    /// Tries settings that may avoid the failure, for the remaining time but at most a minute. Returns `None` if no
    /// setting was tried.
    ///
    /// # Errors
    /// Fails on a request to stop.
    pub(super) fn mitigations(
        &self,
        subject: &FailingTrial<'_>,
        session: &Session,
    ) -> Result<Option<Mitigations>, Stop> {
        let budget = self.share(1).min(SETTINGS_LIMIT);
        if budget.is_zero() || self.has::<Mitigations>() {
            return Ok(None);
        }
        (self.events)(IssueEvent::Step("trying settings that may avoid the failure"));
        let options = MitigateOptions {
            failures: FAILURES,
            deadline: Some(Instant::now() + budget),
            out: Some(self.folder.to_owned()),
        };
        let found = mitigate(session, &options, subjects(subject), self.cancel, &|_| {});
        match found {
            Err(stop) if self.cancel.is_cancelled() => Err(stop),
            Err(_) => Ok(None),
            Ok(found) => Ok(Some(found)),
        }
    }

    /// Returns the time at which 1/`n` of the remaining time will have passed, but no time earlier than `least` from
    /// now.
    pub(super) fn end_of_share(&self, n: u32, least: Duration) -> Instant {
        Instant::now() + self.share(n).max(least)
    }

    /// Returns 1/`n` of the remaining time.
    fn share(&self, n: u32) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()) / n
    }

    /// Returns true if the evidence folder already contains a result of this kind, for whatever trial. A search would
    /// overwrite it.
    fn has<E: Evidence>(&self) -> bool {
        !matches!(evidence::read::<E>(self.folder), Ok(None))
    }
}

fn subjects<'a>(trial: &FailingTrial<'a>) -> Subjects<'a> {
    let FailingTrial { library, selected, faults, command } = trial.clone();
    Subjects { library, selected: vec![selected], faults, command }
}
