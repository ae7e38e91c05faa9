//! Searches for a release on which a failing trial passes. Every program that is derived from the trial must pass there
//! too, because a program that fails on every release is itself wrong and shows no bug.

use device::{Arch, Sanitize};
use judge::Kind;
use plan::Version;
use stacks::Stack;
use supervise::Cancel;
use thiserror::Error;

use crate::{
    DeviceChoice, FailedOperation, FailureClass, Job, Session, SessionOptions, Stop, run_trial,
};

/// Number of consecutive passes that a release must show.
const PASSES: u32 = 3;

/// Architectures to try on a release that does not support the architecture of the failing trial, the most widely
/// supported first.
const OTHERS: [Arch; 2] = [Arch::Gfx1100, Arch::Gfx90a];

/// The trial fails on the release that the user named, so this release cannot show that a shorter program is right.
#[derive(Debug, Error)]
#[error(
    "{trial} does not pass on {release}, so this release cannot confirm that a shortened case is right: {outcome}"
)]
pub struct NamedReleaseFails {
    trial: String,
    release: String,
    outcome: String,
}

impl FailedOperation for NamedReleaseFails {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// The oracle: the configuration on which every program derived from a failing trial must pass.
pub enum Oracle {
    /// No such configuration exists, so a wrong program cannot be distinguished from one that shows a bug.
    None,
    /// The emulated device without the injected faults.
    Healthy,
    /// A release on which the trial passes.
    Release(Box<Session>),
}

/// The search for a release on which a failing trial passes.
#[derive(Clone)]
pub struct PassingReleaseSearch {
    /// Options of the session in which the trial fails.
    pub options: SessionOptions,
    /// The release that the user named. If `None`, all fetched and installed releases are tried.
    pub named: Option<String>,
}

impl PassingReleaseSearch {
    /// Returns the nearest release on which every run of the trial passes; `None` if it passes on no release.
    ///
    /// # Errors
    /// A named release on which the trial does not pass, or on which no session can be opened; a request to stop.
    pub fn find(
        &self,
        failing: &Session,
        job: &Job<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Session>, Stop> {
        let specs = match &self.named {
            Some(spec) => vec![spec.clone()],
            None => other_releases(failing).into_iter().map(|stack| stack.spec).collect(),
        };
        self.first_passing(specs, job, cancel)
    }

    /// Returns a second release on which the trial passes, on the other side of the failing release: if `found` is
    /// older, the nearest newer one, and vice versa. One release is not enough, because a wrong program may pass on an
    /// older release that checks less. Returns `None` if the user named a release.
    ///
    /// # Errors
    /// Returns an error after a request to stop. A release that cannot be used is skipped, because it proves nothing.
    pub fn second_release(
        &self,
        failing: &Session,
        found: &Session,
        job: &Job<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Session>, Stop> {
        if self.named.is_some() {
            return Ok(None);
        }
        let is_older = |rocm: &Option<Version>| *rocm <= failing.rocm;
        let others = other_releases(failing).into_iter();
        let specs = others.filter(|stack| is_older(&stack.rocm) != is_older(&found.rocm));
        self.first_passing(specs.map(|stack| stack.spec).collect(), job, cancel)
    }

    fn first_passing(
        &self,
        specs: Vec<String>,
        job: &Job<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Session>, Stop> {
        let mut outcome = String::new();
        for spec in specs {
            for options in self.settings(&spec) {
                if cancel.is_cancelled() {
                    return Err(Stop::no_verdict("interrupted"));
                }
                let session = match Session::open_on_one(options) {
                    Ok(session) => session,
                    // A release that cannot be used proves nothing about the trial, but if the user named it, the
                    // problem is reported.
                    Err(stop) if self.named.is_some() => return Err(stop),
                    Err(_) => continue,
                };
                match passes(&session, job, cancel) {
                    Ok(()) => return Ok(Some(session)),
                    Err(why) => outcome = why,
                }
            }
        }
        match &self.named {
            Some(release) => {
                let (trial, release) = (job.id(), release.clone());
                Err(NamedReleaseFails { trial, release, outcome }.into())
            }
            None => Ok(None),
        }
    }

    /// Returns the oracle of a failing trial: the healthy device if faults are injected, and otherwise a release on
    /// which the trial passes.
    ///
    /// # Errors
    /// Those of [`PassingReleaseSearch::find`].
    pub fn oracle(
        &self,
        failing: &Session,
        job: &Job<'_>,
        cancel: &Cancel,
    ) -> Result<Oracle, Stop> {
        if !job.faults.is_empty() {
            return Ok(Oracle::Healthy);
        }
        let release = self.find(failing, job, cancel)?;
        Ok(release.map_or(Oracle::None, |session| Oracle::Release(Box::new(session))))
    }

    /// Opens a session like `like` on which the emulated device's sanitizer is on. Returns `None` on a GPU, or if the
    /// session cannot be opened.
    pub fn sanitized_session(&self, like: &Session) -> Option<Session> {
        if like.device == DeviceChoice::Gpu {
            return None;
        }
        let options = SessionOptions {
            rocm: like.stack.spec.clone(),
            with: Vec::new(),
            device: like.device.clone(),
            emulation: self.options.sanitized(Sanitize::On),
            ..self.options.clone()
        };
        Session::open_on_one(options).ok()
    }

    /// Returns the options for sessions on the release `spec`: first with the device of the failing trial, then with
    /// other emulated architectures.
    pub(crate) fn settings(&self, spec: &str) -> Vec<SessionOptions> {
        let base =
            SessionOptions { rocm: spec.to_owned(), with: Vec::new(), ..self.options.clone() };
        let DeviceChoice::Emulated(own) = self.options.device else { return vec![base] };
        let others = OTHERS.into_iter().filter(|arch| *arch != own);
        [own].into_iter().chain(others).map(|arch| base.for_arch(arch)).collect()
    }
}

/// Lists the other releases of this machine: first the older ones, the newest first, then the newer ones, the oldest
/// first.
fn other_releases(failing: &Session) -> Vec<Stack> {
    let own = failing.rocm.clone();
    let (mut older, mut newer): (Vec<_>, Vec<_>) =
        failing.other_stacks().into_iter().partition(|stack| stack.rocm <= own);
    older.sort_by(|a, b| b.rocm.cmp(&a.rocm));
    newer.sort_by(|a, b| a.rocm.cmp(&b.rocm));
    older.into_iter().chain(newer).collect()
}

/// Runs a trial several times on one release. Returns an error with the outcome of the first run that does not pass.
fn passes(session: &Session, job: &Job<'_>, cancel: &Cancel) -> Result<(), String> {
    for _ in 0..PASSES {
        let record = run_trial(session, job, cancel).ok_or_else(|| "interrupted".to_owned())?;
        if record.outcome.kind != Kind::Pass {
            return Err(record.outcome.summary);
        }
    }
    Ok(())
}
