//! The health check: detects a GPU that stopped working after a trial.
//!
//! The health check is a trial that has passed on this stack before. After each failure of another trial, it runs in a
//! process of its own. If it fails, the trial before it becomes the suspect, and no further trial runs on the GPU,
//! because the failure of such a trial would be blamed on ROCm. The state is kept in a file in the cache folder, next
//! to the locks of the GPU, because several processes may share the GPU and a run may be killed before its health
//! check.

mod gpu_turn;

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

pub(crate) use self::gpu_turn::GateResult;
use crate::{hardware::HARDWARE, processes::Stuck};

pub(crate) const BROKEN: &str = "gpu-broken";

/// Returns the signature for trials that are not run because the GPU is broken.
pub(crate) fn broken() -> String {
    format!("no-verdict:{BROKEN}")
}

/// Returns a summary of how the trial ended, if it may have broken the GPU.
pub(crate) fn may_have_broken(record: &Record) -> Option<String> {
    let by_itself = matches!(record.exit, End::Exited(_) | End::NotStarted(_));
    let lost = record.outcome.kind == Kind::NoVerdict && !by_itself;
    let hardware = record.outcome.signature == HARDWARE;
    (record.outcome.kind.is_failure() || lost || hardware).then(|| record.outcome.summary.clone())
}

/// Minimum time from a failed health check to the next one.
const RECHECK_AFTER: Duration = Duration::from_secs(600);

pub(crate) struct Check {
    pub(crate) case: Case,
    pub(crate) trial: Trial,
    pub(crate) lowered: Lowered,
}

impl Check {
    /// Returns the health check; `None` if the embedded YAML of the check cannot be parsed. A test checks that it can
    /// be parsed.
    pub(crate) fn new() -> Option<Check> {
        let case = Case::parse("rocrepro/health-check", include_str!("health/check.yaml")).ok()?;
        let trial = case.trials().into_iter().next()?;
        let lowered = case::lower(&case, &trial, &Kernels::new(), &[]).ok()?;
        Some(Check { case, trial, lowered })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Checked {
    Passed,
    Failed(String),
    /// The health check did not run: the run was cancelled, or a problem of the machine prevented it.
    NotRun,
}

/// A trial after which the GPU may no longer work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspect {
    pub(crate) trial: String,
    pub(crate) run: String,
    pub(crate) ended: String,
    /// The health check after the trial, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Failed>,
    /// True if the health check fails on this stack even on a working GPU. The check then proves nothing, and only a
    /// process that could not be killed makes the GPU unusable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unwatched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failed {
    /// Time of the health check, in seconds since 1970.
    at: u64,
    why: String,
}

impl Suspect {
    pub(crate) fn new(trial: String, run: String, ended: String) -> Suspect {
        Suspect { trial, run, ended, failed: None, unwatched: false }
    }

    fn broken(&self, why: &str) -> String {
        let Suspect { trial, run, ended, .. } = self;
        if trial.is_empty() {
            return format!("the GPU did not pass the health check ({why}), but {ended}");
        }
        format!(
            "the GPU did not pass the health check ({why}); the suspected cause is `{trial}` of run {run}: {ended}"
        )
    }
}

/// State of the GPU since the machine was started.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct GpuState {
    boot: String,
    /// Per stack folder, the result of the first health check: the reason why it failed, or `None` if it passed.
    stacks: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suspect: Option<Suspect>,
    /// Processes of trials that could not be killed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stuck: Vec<Stuck>,
}

impl GpuState {
    /// Runs the health check. As long as a process exists that could not be killed, the check counts as failed.
    fn checked(&mut self, check: &mut dyn FnMut() -> Checked) -> Checked {
        self.stuck.retain(Stuck::is_running);
        match self.stuck.first() {
            None => check(),
            Some(Stuck { pid, .. }) => Checked::Failed(format!(
                "no check was possible, because process {pid} of a trial could not be killed and still exists"
            )),
        }
    }
}

/// The decision whether a trial may run.
#[derive(Debug, PartialEq)]
pub(crate) enum Gate {
    Open,
    /// The trial may run, but the health check is of no use on this stack, because the first health check failed. The
    /// text is the reason why it failed.
    Unwatched(String),
    Closed(String),
}

#[derive(Debug, PartialEq)]
pub(crate) enum HealthResult {
    Works,
    /// The GPU works again after the recovery command. The text describes how the command ended.
    Recovered(String),
    Broken(String),
    /// No health check has passed on this stack yet, or none could be made.
    Unknown,
}

/// The stored state of one GPU. Callers must hold the GPU's locks.
pub(crate) struct Health {
    file: PathBuf,
    /// Boot id of the Linux kernel. A stored state with another boot id is not valid.
    boot: String,
    stack: String,
}

impl Health {
    pub(crate) fn new(file: PathBuf, boot: String, stack: String) -> Health {
        Health { file, boot, stack }
    }

    fn load_state(&self) -> GpuState {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let known = serde_json::from_str(&text).unwrap_or_default();
        match known {
            GpuState { ref boot, .. } if *boot == self.boot => known,
            _ => GpuState { boot: self.boot.clone(), ..GpuState::default() },
        }
    }

    fn save_state(&self, known: &GpuState) -> io::Result<()> {
        atomic::write(&self.file, serde_json::to_vec(known)?)
    }

    /// Returns true if a health check is due before the next trial.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        let known = self.load_state();
        match &known.suspect {
            None => !known.stacks.contains_key(&self.stack),
            Some(suspect) => !known.stuck.is_empty() || suspect.recent_failure(now).is_none(),
        }
    }

    /// Decides whether a trial may run. First makes the health check that an earlier, killed run did not make.
    pub(crate) fn check_before_trial(
        &self,
        now: SystemTime,
        check: &mut dyn FnMut() -> Checked,
        recover: &mut dyn FnMut() -> Option<String>,
    ) -> io::Result<Gate> {
        let mut known = self.load_state();
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
            self.save_state(&known)?;
            return Ok(failed.map_or(Gate::Open, Gate::Unwatched));
        };
        let mut recovered = None;
        if known.stuck.is_empty()
            && let Some((failed, left)) = suspect.recent_failure(now)
        {
            recovered = recover();
            if recovered.is_none() {
                let reason = suspect.broken(&failed.why);
                return Ok(Gate::Closed(format!(
                    "{reason}; the next health check is in {left} s; `--recover COMMAND` checks now"
                )));
            }
        }
        Ok(match self.run_check(now, known, suspect, recovered, check, recover)? {
            HealthResult::Broken(why) => Gate::Closed(why),
            HealthResult::Works | HealthResult::Recovered(_) | HealthResult::Unknown => Gate::Open,
        })
    }

    /// Runs a health check after the trial `suspect`. If the check fails, runs the recovery command once and checks
    /// again. If the command was run before this call, `recovered` describes how it ended.
    fn run_check(
        &self,
        now: SystemTime,
        mut known: GpuState,
        suspect: Suspect,
        mut recovered: Option<String>,
        check: &mut dyn FnMut() -> Checked,
        recover: &mut dyn FnMut() -> Option<String>,
    ) -> io::Result<HealthResult> {
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
                self.save_state(&known)?;
                Ok(recovered.map_or(HealthResult::Works, HealthResult::Recovered))
            }
            Checked::Failed(_) if known.stuck.is_empty() && suspect.unwatched => {
                self.save_state(&known)?;
                Ok(HealthResult::Unknown)
            }
            Checked::Failed(why) => {
                let why = match recovered {
                    Some(said) => format!("{why}, even after {said}"),
                    None => why,
                };
                let reason = suspect.broken(&why);
                let failed = Some(Failed { at: seconds(now), why });
                known.suspect = Some(Suspect { failed, ..suspect });
                self.save_state(&known)?;
                Ok(HealthResult::Broken(reason))
            }
            Checked::NotRun => Ok(HealthResult::Unknown),
        }
    }

    /// Stores a suspect and its processes that could not be killed. Returns true if a health check should follow.
    /// Returns false on a stack on which the health check always fails, unless a process could not be killed.
    pub(crate) fn suspect(&self, suspect: &Suspect, stuck: Vec<Stuck>) -> io::Result<bool> {
        let mut known = self.load_state();
        let unwatched = known.stacks.get(&self.stack) != Some(&None);
        if unwatched && stuck.is_empty() {
            return Ok(false);
        }
        // If several trials are suspects, the first is to blame.
        known.suspect.get_or_insert_with(|| Suspect { unwatched, ..suspect.clone() });
        known.stuck.extend(stuck);
        self.save_state(&known)?;
        Ok(true)
    }

    /// Returns true if the first health check on this stack passed, false if it failed, and `None` if it was not made.
    pub(crate) fn first_check_passed(&self) -> Option<bool> {
        Some(self.load_state().stacks.get(&self.stack)?.is_none())
    }

    /// Stores that the GPU is broken, because the health check fails on it but passes on the GPU `another` with the
    /// same stack. Returns the reason.
    pub(crate) fn mark_broken(&self, now: SystemTime, another: &str) -> io::Result<String> {
        let mut known = self.load_state();
        let why = known.stacks.remove(&self.stack).flatten().unwrap_or_default();
        let ended = format!("{another} passed it with the same stack");
        let failed = Some(Failed { at: seconds(now), why: why.clone() });
        let mut suspect = Suspect::new(String::new(), String::new(), ended);
        let reason = suspect.broken(&why);
        suspect.failed = failed;
        known.suspect = Some(suspect);
        self.save_state(&known)?;
        Ok(reason)
    }

    /// Runs the health check after a suspect was stored. `recover` runs the user's recovery command, if there is one,
    /// and describes how it ended.
    pub(crate) fn check_after_trial(
        &self,
        now: SystemTime,
        check: &mut dyn FnMut() -> Checked,
        recover: &mut dyn FnMut() -> Option<String>,
    ) -> io::Result<HealthResult> {
        let mut known = self.load_state();
        // Another process has run the health check meanwhile.
        let Some(suspect) = known.suspect.take() else { return Ok(HealthResult::Works) };
        self.run_check(now, known, suspect, None, check, recover)
    }
}

impl Suspect {
    /// Returns the last failed health check, with the seconds until it may be repeated. `None` if no check failed, or
    /// if the check may be repeated now.
    fn recent_failure(&self, now: SystemTime) -> Option<(&Failed, u64)> {
        let failed = self.failed.as_ref()?;
        let left = RECHECK_AFTER.as_secs().checked_sub(seconds(now).abs_diff(failed.at))?;
        (left > 0).then_some((failed, left))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
