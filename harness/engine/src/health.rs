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
use judge::{End, Kind};
use report::Record;
use serde::{Deserialize, Serialize};

pub(crate) use self::turn::Gated;
use crate::{hardware::HARDWARE, processes::Stuck};

/// The outcome of a trial that was not run because the GPU does not work.
pub(crate) const BROKEN: &str = "gpu-broken";

/// Its signature.
pub(crate) fn broken() -> String {
    format!("no-verdict:{BROKEN}")
}

/// How a trial ended after which the GPU may not work any more.
pub(crate) fn may_have_broken(record: &Record) -> Option<String> {
    let by_itself = matches!(record.exit, End::Exited(_) | End::NotStarted(_));
    let lost = record.outcome.kind == Kind::NoVerdict && !by_itself;
    let hardware = record.outcome.signature == HARDWARE;
    (record.outcome.kind.is_failure() || lost || hardware).then(|| record.outcome.summary.clone())
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
    /// Whether it is one for a process that stays alone: on its stack the health check does not pass anyway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unwatched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failed {
    /// Seconds since 1970.
    at: u64,
    why: String,
}

impl Suspect {
    pub(crate) fn new(trial: String, run: String, ended: String) -> Suspect {
        Suspect { trial, run, ended, failed: None, unwatched: false }
    }

    /// Why nothing runs, for people.
    fn broken(&self, why: &str) -> String {
        let Suspect { trial, run, ended, .. } = self;
        if trial.is_empty() {
            return format!("the GPU did not pass the health check ({why}), and {ended}");
        }
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
    /// Processes of trials that could not be killed. Nobody knows what they still do on the GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stuck: Vec<Stuck>,
}

impl Known {
    /// Makes a health check, but not beside a process that stays: it would prove nothing, nor would one after a command that was to
    /// mend the GPU.
    fn checked(&mut self, check: &mut dyn FnMut() -> Checked) -> Checked {
        self.stuck.retain(Stuck::is_there);
        match self.stuck.first() {
            None => check(),
            Some(Stuck { pid, .. }) => Checked::Failed(format!(
                "none was made, as process {pid} of a trial could not be killed and is still there"
            )),
        }
    }
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
        atomic::write(&self.file, serde_json::to_vec(known)?)
    }

    /// Whether a health check is due before the next trial, for which nobody else may use the GPU.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        let known = self.known();
        match &known.suspect {
            None => !known.stacks.contains_key(&self.stack),
            Some(suspect) => !known.stuck.is_empty() || suspect.left_alone(now).is_none(),
        }
    }

    /// Asks before a trial. Whoever was killed between a failure and its health check has left that to the next. `recover` runs the
    /// command that is to mend the GPU, as in [`Health::after`].
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn before(
        &self,
        now: SystemTime,
        check: &mut dyn FnMut() -> Checked,
        recover: &mut dyn FnMut() -> Option<String>,
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
        let mut recovered = None;
        if known.stuck.is_empty()
            && let Some((failed, left)) = suspect.left_alone(now)
        {
            recovered = recover();
            if recovered.is_none() {
                let told = suspect.broken(&failed.why);
                return Ok(Gate::Closed(format!(
                    "{told}; the next health check is in {left} s, and `--recover COMMAND` makes one at once"
                )));
            }
        }
        Ok(match self.look(now, known, suspect, recovered, check, recover)? {
            After::Broken(why) => Gate::Closed(why),
            After::Works | After::Recovered(_) | After::Unknown => Gate::Open,
        })
    }

    /// Makes a health check after `suspect`, and another where it did not pass and somebody named a command for that, which may have
    /// `recovered` the GPU before.
    fn look(
        &self,
        now: SystemTime,
        mut known: Known,
        suspect: Suspect,
        mut recovered: Option<String>,
        check: &mut dyn FnMut() -> Checked,
        recover: &mut dyn FnMut() -> Option<String>,
    ) -> io::Result<After> {
        let mut checked = known.checked(check);
        if recovered.is_none() && matches!(checked, Checked::Failed(_)) {
            recovered = recover();
            if recovered.is_some() {
                checked = known.checked(check);
            }
        }
        match checked {
            Checked::Passed => {
                known.stacks.insert(self.stack.clone(), None);
                self.keep(&known)?;
                Ok(recovered.map_or(After::Works, After::Recovered))
            }
            Checked::Failed(_) if known.stuck.is_empty() && suspect.unwatched => {
                self.keep(&known)?;
                Ok(After::Unknown)
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

    /// Remembers, before all else, that a trial may have broken the GPU, and its processes that could not be killed. Whether anybody
    /// will look: not on a stack on which the health check fails anyway.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn suspect(&self, suspect: &Suspect, stuck: Vec<Stuck>) -> io::Result<bool> {
        let mut known = self.known();
        let unwatched = known.stacks.get(&self.stack) != Some(&None);
        if unwatched && stuck.is_empty() {
            return Ok(false);
        }
        // The first of several is the one to blame.
        known.suspect.get_or_insert_with(|| Suspect { unwatched, ..suspect.clone() });
        known.stuck.extend(stuck);
        self.keep(&known)?;
        Ok(true)
    }

    /// Whether the health check passes on this stack; none where nobody knows.
    pub(crate) fn passes(&self) -> Option<bool> {
        Some(self.known().stacks.get(&self.stack)?.is_none())
    }

    /// Remembers that the health check, which does not pass on this GPU, does on `another` with the same stack, and says so.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn is_the_gpu(&self, now: SystemTime, another: &str) -> io::Result<String> {
        let mut known = self.known();
        let why = known.stacks.remove(&self.stack).flatten().unwrap_or_default();
        let ended = format!("with the same stack {another} did");
        let failed = Some(Failed { at: seconds(now), why: why.clone() });
        let mut suspect = Suspect::new(String::new(), String::new(), ended);
        let told = suspect.broken(&why);
        suspect.failed = failed;
        known.suspect = Some(suspect);
        self.keep(&known)?;
        Ok(told)
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
        self.look(now, known, suspect, None, check, recover)
    }
}

impl Suspect {
    /// A health check that failed so lately that another would only wait, and in how many seconds one is due.
    fn left_alone(&self, now: SystemTime) -> Option<(&Failed, u64)> {
        let failed = self.failed.as_ref()?;
        let left = LEFT_ALONE.as_secs().checked_sub(seconds(now).abs_diff(failed.at))?;
        (left > 0).then_some((failed, left))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
