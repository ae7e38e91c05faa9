//! A release on which a failing trial passes. Whatever is made of the trial must pass there too: a program that fails
//! everywhere is wrong itself and shows no bug.

use device::{Arch, Sanitize};
use judge::Kind;
use supervise::Cancel;

use crate::{DeviceChoice, Session, SessionOptions, Stop, job::Job, trial::run_trial};

/// Passes in a row that make a release an oracle.
const PASSES: u32 = 3;

/// Architectures that are tried where a release does not know that of the failing trial, the widest known first.
const OTHERS: [Arch; 2] = [Arch::Gfx1100, Arch::Gfx90a];

/// Where to look for a release on which a trial passes.
#[derive(Clone)]
pub(crate) struct Elsewhere {
    /// How the failing session was set up.
    pub(crate) options: SessionOptions,
    /// The release that the user named; without one, what is fetched or installed is tried.
    pub(crate) named: Option<String>,
}

impl Elsewhere {
    /// The first release on which the trial passes every time, the nearest first; none where there is none.
    ///
    /// # Errors
    /// A named release on which it does not pass, or a machine that does not let us find out.
    pub(crate) fn find(
        &self,
        failing: &Session,
        job: &Job<'_>,
        cancel: &Cancel,
    ) -> Result<Option<Session>, Stop> {
        let specs = match &self.named {
            Some(spec) => vec![spec.clone()],
            None => nearest(failing),
        };
        let mut shown = String::new();
        for spec in specs {
            for options in self.settings(&spec) {
                let session = match Session::open_on_one(options) {
                    Ok(session) => session,
                    // What is broken here says nothing of the trial, unless somebody asked for it.
                    Err(stop) if self.named.is_some() => return Err(stop),
                    Err(_) => continue,
                };
                match passes(&session, job, cancel) {
                    Ok(()) => return Ok(Some(session)),
                    Err(why) => shown = why,
                }
            }
        }
        match &self.named {
            Some(spec) => Err(Stop::usage(format!(
                "error: {} does not pass on {spec}, so it cannot say which programs are right: {shown}",
                job.id()
            ))),
            None => Ok(None),
        }
    }

    /// The same release and emulated device under the sanitizer; none on a GPU, or where it cannot be had.
    pub(crate) fn watched(&self, like: &Session) -> Option<Session> {
        if like.device == DeviceChoice::Gpu {
            return None;
        }
        let emulation = self.options.sanitized(Sanitize::On);
        let options = SessionOptions {
            rocm: like.stack.spec.clone(),
            with: Vec::new(),
            device: like.device.clone(),
            emulation,
            ..self.options.clone()
        };
        Session::open_on_one(options).ok()
    }

    /// The same device with another release, then other emulated architectures.
    fn settings(&self, spec: &str) -> Vec<SessionOptions> {
        let base =
            SessionOptions { rocm: spec.to_owned(), with: Vec::new(), ..self.options.clone() };
        let DeviceChoice::Emulated(own) = self.options.device else { return vec![base] };
        let others = OTHERS.into_iter().filter(|arch| *arch != own);
        [own].into_iter().chain(others).map(|arch| base.on(arch)).collect()
    }
}

/// What is here besides the failing stack: older releases from the newest on, then newer ones from the oldest on.
fn nearest(failing: &Session) -> Vec<String> {
    let Ok(store) = stacks::StackCache::from_environment() else { return Vec::new() };
    let listing = stacks::list_stacks(&store);
    let fetched = listing.debian.into_iter().filter_map(|release| release.stack);
    let own = failing.rocm.clone();
    let (mut older, mut newer): (Vec<_>, Vec<_>) = listing
        .system
        .into_iter()
        .chain(fetched)
        .filter(|stack| stack.root != failing.stack.root)
        .partition(|stack| stack.rocm <= own);
    older.sort_by(|a, b| b.rocm.cmp(&a.rocm));
    newer.sort_by(|a, b| a.rocm.cmp(&b.rocm));
    older.into_iter().chain(newer).map(|stack| stack.spec).collect()
}

/// Whether the trial passes each time; else what it did.
fn passes(session: &Session, job: &Job<'_>, cancel: &Cancel) -> Result<(), String> {
    for _ in 0..PASSES {
        let record = run_trial(session, job, cancel).ok_or_else(|| "interrupted".to_owned())?;
        if record.outcome.kind != Kind::Pass {
            return Err(record.outcome.summary);
        }
    }
    Ok(())
}
