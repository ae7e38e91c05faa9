//! The search for a release on which a failing trial passes. Every program that is derived from the trial must pass there too: a
//! program that fails everywhere is wrong itself and shows no bug.

use device::{Arch, Sanitize};
use judge::Kind;
use plan::Version;
use stacks::Stack;
use supervise::Cancel;
use thiserror::Error;

use crate::{
    DeviceChoice, FailedOperation, FailureClass, Job, Session, SessionOptions, Stop, run_trial,
};

/// Consecutive passes required of the release.
const PASSES: u32 = 3;

/// Architectures to try if a release does not support that of the failing trial, the most widely supported first.
const OTHERS: [Arch; 2] = [Arch::Gfx1100, Arch::Gfx90a];

/// The failure of a trial on the release that the user named.
#[derive(Debug, Error)]
#[error("{trial} does not pass on {release}, so it cannot say which programs are right: {outcome}")]
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

/// The configuration on which every program derived from a failing trial must pass.
pub enum Oracle {
    /// Unknown, so a wrong program cannot be distinguished from one that shows a bug.
    None,
    /// The device without the injected faults.
    Healthy,
    /// A release on which the trial passes.
    Release(Box<Session>),
}

/// The releases among which one is searched on which a trial passes.
#[derive(Clone)]
pub struct PassingReleaseSearch {
    /// Options of the session in which the trial fails.
    pub options: SessionOptions,
    /// The release that the user named; without one, all fetched and installed releases are tried.
    pub named: Option<String>,
}

impl PassingReleaseSearch {
    /// Returns the first release on which the trial passes every time, the nearest first.
    ///
    /// # Errors
    /// A named release on which the trial does not pass, or on which no session can be opened.
    pub fn find(
        &self,
        failing: &Session,
        job: &Job<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Session>, Stop> {
        let specs = match &self.named {
            Some(spec) => vec![spec.clone()],
            None => nearest(failing).into_iter().map(|stack| stack.spec).collect(),
        };
        self.first_of(specs, job, cancel)
    }

    /// Returns a second release on which the trial passes: the nearest one on the other side of the failing release. A program that
    /// passes on an older release because that refuses nothing may still be wrong. None if the user named a release.
    ///
    /// # Errors
    /// Does not fail for trouble of a release: such a release proves nothing.
    pub fn beyond(
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
        let others = nearest(failing).into_iter();
        let specs = others.filter(|stack| is_older(&stack.rocm) != is_older(&found.rocm));
        self.first_of(specs.map(|stack| stack.spec).collect(), job, cancel)
    }

    fn first_of(
        &self,
        specs: Vec<String>,
        job: &Job<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Session>, Stop> {
        let mut outcome = String::new();
        for spec in specs {
            for options in self.settings(&spec) {
                let session = match Session::open_on_one(options) {
                    Ok(session) => session,
                    // A broken release proves nothing about the trial, unless the user named it.
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

    /// Returns the oracle of a failing trial: the healthy device if faults are injected, or else a release.
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

    /// Opens a session on the same release and emulated device under the sanitizer; none on a GPU, or if it cannot be opened.
    pub fn watched(&self, like: &Session) -> Option<Session> {
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

    /// Returns the same device with another release, then other emulated architectures.
    pub(crate) fn settings(&self, spec: &str) -> Vec<SessionOptions> {
        let base =
            SessionOptions { rocm: spec.to_owned(), with: Vec::new(), ..self.options.clone() };
        let DeviceChoice::Emulated(own) = self.options.device else { return vec![base] };
        let others = OTHERS.into_iter().filter(|arch| *arch != own);
        [own].into_iter().chain(others).map(|arch| base.on(arch)).collect()
    }
}

/// Lists the other releases of this machine: older ones from the newest on, then newer ones from the oldest on.
fn nearest(failing: &Session) -> Vec<Stack> {
    let own = failing.rocm.clone();
    let (mut older, mut newer): (Vec<_>, Vec<_>) =
        failing.other_stacks().into_iter().partition(|stack| stack.rocm <= own);
    older.sort_by(|a, b| b.rocm.cmp(&a.rocm));
    newer.sort_by(|a, b| a.rocm.cmp(&b.rocm));
    older.into_iter().chain(newer).collect()
}

/// Returns the outcome of the first run that does not pass as an error.
fn passes(session: &Session, job: &Job<'_>, cancel: &Cancel) -> Result<(), String> {
    for _ in 0..PASSES {
        let record = run_trial(session, job, cancel).ok_or_else(|| "interrupted".to_owned())?;
        if record.outcome.kind != Kind::Pass {
            return Err(record.outcome.summary);
        }
    }
    Ok(())
}
