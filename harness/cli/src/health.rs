//! Whether the GPU still works after a trial that may have broken it.
//!
//! After each failure a trial that passed on this stack before, the health check, runs in a process of its own. Where it does not pass, the trial before it is the suspect,
//! and no further one runs: it would wait for nothing, and its failure would be put down to ROCm. What is known stands in a file of the
//! cache beside the lock by which trials take turns, so that every process reads it, also those that `cargo nextest` starts for
//! each trial and one that was killed in between.

mod turn;

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use case::{Case, Kernels, Lowered, Trial};
use serde::{Deserialize, Serialize};

pub(crate) use self::turn::Gated;

/// The outcome of a trial that was not run because the GPU does not work.
pub(crate) const BROKEN: &str = "gpu-broken";

/// Its signature.
pub(crate) fn broken() -> String {
    format!("no-verdict:{BROKEN}")
}

/// How long a GPU that failed the health check is left alone before it is asked again.
const LEFT_ALONE: Duration = Duration::from_secs(600);

/// The trial that always passes, as a case.
pub(crate) struct Check {
    pub(crate) case: Case,
    pub(crate) trial: Trial,
    pub(crate) lowered: Lowered,
}

impl Check {
    /// None where the case cannot be read, which a test excludes.
    pub(crate) fn new() -> Option<Check> {
        let case = Case::parse("rocrepro/health-check", include_str!("health/check.yaml")).ok()?;
        let trial = case.trials().into_iter().next()?;
        let lowered = case::lower(&case, &trial, &Kernels::new(), &[]).ok()?;
        Some(Check { case, trial, lowered })
    }
}

/// What came of a health check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Checked {
    Passed,
    /// And why not.
    Failed(String),
    /// The run was cancelled, or the machine did not let it run.
    NotRun,
}

/// A trial after which the GPU may not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspect {
    pub(crate) trial: String,
    pub(crate) run: String,
    /// How it ended.
    pub(crate) ended: String,
    /// Of a health check that failed after it; none where none was made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failed {
    /// Seconds since 1970.
    at: u64,
    why: String,
}

impl Suspect {
    pub(crate) fn new(trial: String, run: String, ended: String) -> Suspect {
        Suspect { trial, run, ended, failed: None }
    }

    /// Why nothing runs, for people.
    fn broken(&self, why: &str) -> String {
        let Suspect { trial, run, ended, .. } = self;
        format!(
            "the GPU did not pass the health check ({why}); `{trial}` of run {run} is the suspect: {ended}"
        )
    }
}

/// What is known of the GPU since the machine was started.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Known {
    boot: String,
    /// For each stack, by its folder, why the health check did not pass on it at first; none where it passed.
    stacks: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suspect: Option<Suspect>,
}

/// Whether a trial may run.
#[derive(Debug, PartialEq)]
pub(crate) enum Gate {
    Open,
    /// For the first time since the machine was started the health check ran on this stack, and did not pass.
    Unwatched(String),
    Closed(String),
}

/// What a health check after a trial said.
#[derive(Debug, PartialEq)]
pub(crate) enum After {
    Works,
    /// The command that somebody named for this was run.
    Recovered(String),
    Broken(String),
    /// It has never passed on this stack, or could not run.
    Unknown,
}

/// The memory of it, of whoever has the turn on the GPU.
pub(crate) struct Health {
    file: PathBuf,
    /// The kernel's id of the time since the machine was started: with a new one, nothing is known.
    boot: String,
    stack: String,
}

impl Health {
    pub(crate) fn new(file: PathBuf, boot: String, stack: String) -> Health {
        Health { file, boot, stack }
    }

    fn known(&self) -> Known {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let known = serde_json::from_str(&text).unwrap_or_default();
        match known {
            Known { ref boot, .. } if *boot == self.boot => known,
            _ => Known { boot: self.boot.clone(), ..Known::default() },
        }
    }

    fn keep(&self, known: &Known) -> io::Result<()> {
        let beside = self.file.with_extension("new");
        fs::write(&beside, serde_json::to_vec(known)?)?;
        fs::rename(&beside, &self.file)
    }

    /// Whether a health check is due before the next trial, for which nobody else may use the GPU.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        let known = self.known();
        match &known.suspect {
            None => !known.stacks.contains_key(&self.stack),
            Some(suspect) => !suspect.is_left_alone(now),
        }
    }

    /// Asks before a trial. Whoever was killed between a failure and its health check has left that to the next.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn before(
        &self,
        now: SystemTime,
        check: &mut dyn FnMut() -> Checked,
    ) -> io::Result<Gate> {
        let mut known = self.known();
        let Some(suspect) = known.suspect.take() else {
            if known.stacks.contains_key(&self.stack) {
                return Ok(Gate::Open);
            }
            let failed = match check() {
                Checked::Passed => None,
                Checked::Failed(why) => Some(why),
                Checked::NotRun => return Ok(Gate::Open),
            };
            known.stacks.insert(self.stack.clone(), failed.clone());
            self.keep(&known)?;
            return Ok(failed.map_or(Gate::Open, Gate::Unwatched));
        };
        if let Some(failed) = suspect.failed.as_ref().filter(|_| suspect.is_left_alone(now)) {
            return Ok(Gate::Closed(suspect.broken(&failed.why)));
        }
        match check() {
            Checked::Passed => {
                known.stacks.insert(self.stack.clone(), None);
                self.keep(&known)?;
                Ok(Gate::Open)
            }
            Checked::Failed(why) => {
                let gate = Gate::Closed(suspect.broken(&why));
                let failed = Some(Failed { at: seconds(now), why });
                known.suspect = Some(Suspect { failed, ..suspect });
                self.keep(&known)?;
                Ok(gate)
            }
            Checked::NotRun => Ok(Gate::Open),
        }
    }

    /// Remembers, before all else, that a trial may have broken the GPU. Whether anybody will look: not on a stack on which the health
    /// check fails anyway.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn suspect(&self, suspect: &Suspect) -> io::Result<bool> {
        let mut known = self.known();
        if known.stacks.get(&self.stack) != Some(&None) {
            return Ok(false);
        }
        // The first of several is the one to blame.
        known.suspect.get_or_insert_with(|| suspect.clone());
        self.keep(&known)?;
        Ok(true)
    }

    /// Asks after a trial that [`Health::suspect`] was told of. `recover` runs the command that is to mend the GPU and says what
    /// came of it; none where nobody named one.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn after(
        &self,
        now: SystemTime,
        check: &mut dyn FnMut() -> Checked,
        recover: &mut dyn FnMut() -> Option<String>,
    ) -> io::Result<After> {
        let mut known = self.known();
        // Somebody else has looked meanwhile.
        let Some(suspect) = known.suspect.take() else { return Ok(After::Works) };
        let mut checked = check();
        let mut recovered = None;
        if matches!(checked, Checked::Failed(_)) {
            recovered = recover();
            if recovered.is_some() {
                checked = check();
            }
        }
        match checked {
            Checked::Passed => {
                self.keep(&known)?;
                Ok(recovered.map_or(After::Works, After::Recovered))
            }
            Checked::Failed(why) => {
                let why = match recovered {
                    Some(said) => format!("{why}, also after {said}"),
                    None => why,
                };
                let told = suspect.broken(&why);
                let failed = Some(Failed { at: seconds(now), why });
                known.suspect = Some(Suspect { failed, ..suspect });
                self.keep(&known)?;
                Ok(After::Broken(told))
            }
            Checked::NotRun => Ok(After::Unknown),
        }
    }
}

impl Suspect {
    /// Whether the health check failed so lately that another would only wait.
    fn is_left_alone(&self, now: SystemTime) -> bool {
        let since = |failed: &Failed| seconds(now).abs_diff(failed.at);
        self.failed.as_ref().is_some_and(|failed| since(failed) < LEFT_ALONE.as_secs())
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
