//! The runs in which a shortened program must not fail: on the oracle, the configuration on which it must pass, or as
//! another trial of the case that passes.

use std::rc::Rc;

use ::case::Body;
use device::Schedule;
use judge::{End, Kind, NO_CHECK, Outcome};
use report::Record;

use crate::{
    DeviceChoice, Job, Selected, Session, Stop,
    failing_trial::{FailingTrial, nearest_trials, run_all},
    passing_release::{Oracle, PassingReleaseSearch},
};

/// Number of runs of another trial, all of which must pass.
const PASSES: u32 = 3;

/// Largest number of other trials that are run.
const TRIED: usize = 4;

/// Texts by which programs that define kernels of their own are recognised.
const KERNELS: [&str; 3] = ["__global__", "@triton.jit", "RawKernel"];

/// A configuration in which a shortened program must not fail.
#[derive(Clone)]
pub(super) struct Control<'s> {
    /// Session in which the control runs; `None` for the session in which the program fails.
    pub(super) session: Option<Rc<Session>>,
    /// Another trial that passes, as the control. `None` if the control is the failing trial itself on another
    /// configuration.
    pub(super) neighbour: Option<Rc<Job<'s>>>,
    /// The result that the control must have.
    wanted: ExpectedResult,
}

#[derive(Clone, Copy)]
enum ExpectedResult {
    Pass,
    /// The sanitizer must not find a memory fault in a kernel of the program.
    NoMemoryFault,
}

impl Control<'_> {
    /// Returns true if a run meets the requirement of this control. For a program without checks it suffices that the
    /// run ends with exit status 0, either in the phase in which the failing program crashes or after the helper's last
    /// call.
    pub(super) fn accepts(&self, run: &Record, crash: &Outcome, has_checks: bool) -> bool {
        let outcome = &run.outcome;
        match self.wanted {
            ExpectedResult::Pass if outcome.kind == Kind::Pass => true,
            ExpectedResult::Pass => {
                !has_checks && run.exit == End::Exited(0) && reached_end(outcome, crash)
            }
            ExpectedResult::NoMemoryFault => outcome.kind != Kind::MemoryFault,
        }
    }
}

/// Returns true if a run without checks reached its end: its signature says so, or it ended in the phase of the crash.
fn reached_end(outcome: &Outcome, crash: &Outcome) -> bool {
    fn phase(outcome: &Outcome) -> Option<&str> {
        outcome.signature.split(':').nth(1)
    }
    outcome.signature == NO_CHECK
        || outcome.kind == Kind::LibraryExit && phase(outcome) == phase(crash)
}

/// Returns the controls on an oracle, or with the passing trial `neighbour`; empty if neither exists. The first control
/// is a plain run, which decides whether the others can be used. In the others, the device does its work as late as
/// possible, which shows a missing wait, or the sanitizer is on. They are left out if they are not possible.
pub(super) fn oracle_controls<'s>(
    oracle: Oracle,
    neighbour: Option<Job<'s>>,
    text: &str,
    failing: &Session,
    releases: &PassingReleaseSearch,
) -> Vec<Control<'s>> {
    let session = match oracle {
        Oracle::Release(session) => Some(Rc::from(session)),
        Oracle::None if neighbour.is_none() => return Vec::new(),
        Oracle::None | Oracle::Healthy => None,
    };
    let plain =
        Control { session, neighbour: neighbour.map(Rc::new), wanted: ExpectedResult::Pass };
    let like = plain.session.as_deref().unwrap_or(failing);
    let is_own = plain.session.is_none();
    let other = |session: Option<Session>, wanted| {
        session.map(|session| Control { session: Some(Rc::new(session)), wanted, ..plain.clone() })
    };
    let lazy = lazy_session(releases, like, is_own);
    let has_kernels = KERNELS.iter().any(|word| text.contains(word));
    let watched = has_kernels.then(|| releases.sanitized_session(failing)).flatten();
    let further =
        [other(lazy, ExpectedResult::Pass), other(watched, ExpectedResult::NoMemoryFault)];
    std::iter::once(plain.clone()).chain(further.into_iter().flatten()).collect()
}

/// Opens a session like `like`, but with an emulated device that does its work as late as possible. `is_own` is true if
/// `like` is the session in which the program fails. Returns `None` on a GPU, or if the session cannot be opened.
fn lazy_session(releases: &PassingReleaseSearch, like: &Session, is_own: bool) -> Option<Session> {
    let DeviceChoice::Emulated(arch) = like.device else { return None };
    let mut options = releases.options.for_arch(arch);
    options.emulation.schedule = Schedule::Lazy;
    options.rocm.clone_from(&like.stack.spec);
    if !is_own {
        options.with.clear();
    }
    Session::open_on_one(options).ok()
}

/// Returns a passing trial of the same program with as few different axis values as possible, and these values as text,
/// for example `with level=O0 instead of level=O1`. Returns `None` if no trial with the same source passes in each of
/// several runs.
///
/// # Errors
/// Fails if the case has mistakes, or on a request to stop.
pub(super) fn passing_neighbour<'a>(
    trial: &FailingTrial<'a>,
    session: &Session,
    cancel: &supervise::Cancel,
) -> Result<Option<(String, FailingTrial<'a>)>, Stop> {
    let own = trial.job()?;
    let Body::Program(program) = &own.lowered.body else { return Ok(None) };
    let case = trial.selected.case;
    let mut tried = 0;
    for near in nearest_trials(case, &trial.selected.trial) {
        let other = trial.with_trial(Selected { case, trial: near.trial }, trial.faults.clone());
        let Ok(job) = other.job() else { continue };
        let Body::Program(mut same) = job.lowered.body.clone() else { continue };
        same.parameters.clone_from(&program.parameters);
        if same.without_places() != program.without_places() || tried == TRIED {
            continue;
        }
        tried += 1;
        let records = run_all(session, (0..PASSES).map(|n| job.for_run(n)).collect(), cancel)?;
        if records.iter().all(|record| record.outcome.kind == Kind::Pass) {
            return Ok(Some((format!("with {}", near.what), other)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use judge::Location;

    use super::*;

    #[test]
    fn run_without_checks_reaches_the_phase_of_the_crash() {
        let outcome = |kind, signature: &str| Outcome {
            kind,
            signature: signature.to_owned(),
            at: Location::default(),
            summary: String::new(),
            details: Vec::new(),
        };
        let crash = outcome(Kind::Crash, "crash:launch:SIGSEGV");
        assert!(reached_end(&outcome(Kind::NoVerdict, NO_CHECK), &crash));
        assert!(reached_end(&outcome(Kind::LibraryExit, "library-exit:launch"), &crash));
        assert!(!reached_end(&outcome(Kind::LibraryExit, "library-exit:program"), &crash));
        assert!(!reached_end(&outcome(Kind::NoVerdict, "no-verdict:device"), &crash));
        assert!(!reached_end(&crash, &crash));
    }
}
