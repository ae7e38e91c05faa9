//! Gives a trial access to a GPU, and runs the health check after the trial.

use std::{
    io,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use report::Record;
use supervise::{Cancel, Limits};

use super::{Check, Checked, Gate, Health, HealthResult, Suspect, may_have_broken};
use crate::{
    Job, Session, card,
    events::EngineEvent,
    execute::run_here,
    machine::{self, LOCK_POLL_INTERVAL, Locks},
    slots::{self, Slot},
};

/// Time limits of a health check, which usually takes about 1 s.
const TOTAL: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(20);

/// Largest number of inconclusive health checks of one GPU in a session.
const TIMES: u32 = 3;

const RECOVERY: Duration = Duration::from_secs(300);

static CHECK: LazyLock<Option<Check>> = LazyLock::new(Check::new);

pub(crate) struct GpuTurn<'s> {
    pub(crate) slot: &'s Slot,
    locks: Locks,
}

/// The result of waiting until a trial may use a GPU.
pub(crate) enum GateResult<'s> {
    Open(GpuTurn<'s>),
    /// Every GPU is broken. The text gives the reasons.
    Closed(String),
}

enum FailureCause {
    Gpu(String),
    /// The health check must first run on another GPU before the stack or this GPU can be blamed.
    NotYet,
    Nobody,
}

impl Session {
    /// Returns the paths of a slot's lock files. Untrusted cases cannot write to them.
    fn locks(&self, slot: &Slot) -> Vec<PathBuf> {
        slot.locks.iter().map(|name| self.folders.cache.join(name)).collect()
    }

    fn health(&self, slot: &Slot) -> Health {
        let stack = self.stack.root.display().to_string();
        let file = self.folders.cache.join(format!("{}.json", slot.first_lock()));
        Health::new(file, machine::boot(), stack)
    }

    /// Waits until a GPU that works is free. The use is exclusive if trials run one at a time, or if `alone` is true.
    /// Returns `None` if the run was cancelled.
    pub(crate) fn turn(&self, alone: bool, cancel: &Cancel) -> io::Result<Option<GateResult<'_>>> {
        if let [slot] = &self.gpus.slots[..] {
            return self.gate(slot, alone, Some(cancel), cancel);
        }
        while !cancel.is_cancelled() {
            let mut closed = Vec::new();
            for slot in &self.gpus.slots {
                match self.gate(slot, alone, None, cancel)? {
                    None => {}
                    Some(GateResult::Closed(why)) => {
                        self.leave_out(slot, &why);
                        closed.push(why);
                    }
                    Some(open) => return Ok(Some(open)),
                }
            }
            if closed.len() == self.gpus.slots.len() {
                return Ok(Some(GateResult::Closed(closed.join("; "))));
            }
            std::thread::sleep(LOCK_POLL_INTERVAL);
        }
        Ok(None)
    }

    fn leave_out(&self, slot: &Slot, why: &str) {
        let name = slot.card.as_ref().map_or("it", |card| &card.name).to_owned();
        let mut left_out = self.gpus.left_out.lock();
        if !left_out.contains(&name) {
            self.reporting.event(EngineEvent::GpuLeftOut { name: &name, why });
            left_out.insert(name);
        }
    }

    /// Takes one GPU for a trial. Returns `None` if the GPU is in use and `wait` is `None`, or if the run was
    /// cancelled.
    fn gate<'s>(
        &'s self,
        slot: &'s Slot,
        alone: bool,
        wait: Option<&Cancel>,
        cancel: &Cancel,
    ) -> io::Result<Option<GateResult<'s>>> {
        let health = self.health(slot);
        loop {
            let alone = alone || self.has_exclusive_gpu() || health.is_due(SystemTime::now());
            let Some(locks) = machine::lock(&self.locks(slot), alone, wait)? else {
                return Ok(None);
            };
            let turn = GpuTurn { slot, locks };
            // Another trial failed on this GPU while this trial waited for the GPU.
            if !alone && health.is_due(SystemTime::now()) {
                continue;
            }
            let mut check = || self.run_health_check(slot, cancel);
            // Each run of rocrepro calls the recovery command at most once per GPU.
            let mut recover = || self.claim_recovery(slot).then(|| self.recover(slot, cancel))?;
            let gate = health.check_before_trial(SystemTime::now(), &mut check, &mut recover)?;
            match self.blame(slot, &health, &gate)? {
                FailureCause::Gpu(why) => return Ok(Some(GateResult::Closed(why))),
                FailureCause::NotYet => return Ok(None),
                FailureCause::Nobody => {}
            }
            return Ok(Some(match gate {
                Gate::Open => GateResult::Open(turn),
                Gate::Unwatched(why) => {
                    self.reporting.event(EngineEvent::HealthCheckFails { why: &why });
                    GateResult::Open(turn)
                }
                Gate::Closed(why) => GateResult::Closed(why),
            }));
        }
    }

    /// Decides whether the GPU is to blame because its health check did not pass. The GPU is to blame if the check
    /// passes on another GPU with the same stack. If another GPU has not run the check yet, the check must run there
    /// first.
    fn blame(&self, slot: &Slot, health: &Health, gate: &Gate) -> io::Result<FailureCause> {
        let mut checked = self.gpus.checked.lock();
        let times = checked.entry(slot.first_lock().to_owned()).or_default();
        *times += 1;
        let times = *times;
        let passes = health.first_check_passed();
        if passes == Some(true) || matches!(gate, Gate::Closed(_)) {
            return Ok(FailureCause::Nobody);
        }
        let others = self.gpus.slots.iter().filter(|other| *other != slot);
        let others: Vec<_> =
            others.map(|other| (other, self.health(other).first_check_passed())).collect();
        let works = others.iter().find(|(_, passes)| *passes == Some(true));
        if let (Some(false), Some((other, _))) = (passes, works) {
            let other = other.card.as_ref().map_or("another", |card| &card.name);
            return health.mark_broken(SystemTime::now(), other).map(FailureCause::Gpu);
        }
        let open = |(other, passes): &(&Slot, Option<bool>)| {
            passes.is_none() && !checked.contains_key(other.first_lock())
        };
        // Another GPU has passed the check since the last time, so a repeated check may be conclusive.
        let again = passes.is_none() && works.is_some() && times < TIMES;
        Ok(if again || others.iter().any(open) {
            FailureCause::NotYet
        } else {
            FailureCause::Nobody
        })
    }

    /// Runs the health check after a failed trial and describes its result; empty if no check was made or its result is
    /// unknown. `tell` is called after the suspect is stored: from then on, if this program is killed, the next run
    /// makes the check.
    pub(crate) fn check_gpu_after_failure(
        &self,
        record: &Record,
        ended: String,
        tell: &dyn Fn(),
        GpuTurn { slot, locks }: GpuTurn<'_>,
        cancel: &Cancel,
    ) -> String {
        let stuck = self.processes.take_stuck(slot.first_lock());
        // Because of the trial's environment variables, the GPU that it used may not be the first one of the slot.
        let own = slots::slot_of_card(slot, &card::cards(Path::new("/")), &record.device.bdf);
        let health = self.health(&own);
        let suspect = Suspect::new(record.trial.clone(), self.run.clone(), ended);
        let look = || -> io::Result<Option<HealthResult>> {
            if !health.suspect(&suspect, stuck)? {
                return Ok(None);
            }
            tell();
            let _alone = match self.has_exclusive_gpu() {
                true => locks,
                false => {
                    drop(locks);
                    let alone = machine::lock(&self.locks(slot), true, Some(cancel))?;
                    let Some(alone) = alone else { return Ok(None) };
                    alone
                }
            };
            let mut check = || self.run_health_check(&own, cancel);
            let mut recover = || {
                self.claim_recovery(&own);
                self.recover(&own, cancel)
            };
            health.check_after_trial(SystemTime::now(), &mut check, &mut recover).map(Some)
        };
        match look() {
            Ok(None | Some(HealthResult::Unknown)) => String::new(),
            Ok(Some(HealthResult::Works)) => "it worked: the health check passed".to_owned(),
            Ok(Some(HealthResult::Recovered(said))) => {
                format!("it did not work: the health check passed only after {said}")
            }
            Ok(Some(HealthResult::Broken(why))) => why,
            Err(error) => format!("unknown: {error}"),
        }
    }

    pub(crate) fn remember_stuck(&self, trial: &str, slot: &Slot) {
        let stuck = self.processes.take_stuck(slot.first_lock());
        if !stuck.is_empty() {
            let ended = "it was interrupted and could not be killed".to_owned();
            let suspect = Suspect::new(trial.to_owned(), self.run.clone(), ended);
            // If the file cannot be written, nothing can be done about it.
            let _ = self.health(slot).suspect(&suspect, stuck);
        }
    }

    /// Returns true on the first call for a GPU, so that the recovery command runs at most once.
    fn claim_recovery(&self, slot: &Slot) -> bool {
        let mut mended = self.gpus.mended.lock();
        mended.insert(slot.first_lock().to_owned())
    }

    fn run_health_check(&self, slot: &Slot, cancel: &Cancel) -> Checked {
        let Some(Check { case, trial, lowered }) = &*CHECK else { return Checked::NotRun };
        let job = Job { case, trial, lowered: lowered.clone(), run: 0, faults: Vec::new() };
        let Limits { total, quiet, .. } = self.limits;
        // Reading call stacks takes longer than the health check, and nothing uses them here.
        let limits = Limits {
            total: total.min(TOTAL),
            quiet: quiet.min(QUIET),
            looker: Vec::new(),
            ..self.limits.clone()
        };
        let Some(record) = run_here(self, &job, &limits, Some(slot), cancel) else {
            return Checked::NotRun;
        };
        match may_have_broken(&record) {
            Some(why) => Checked::Failed(why),
            None if record.outcome.kind == judge::Kind::Pass => Checked::Passed,
            None => Checked::NotRun,
        }
    }

    /// Runs the user's recovery command, and describes how it ended. Returns `None` if the user gave no command.
    fn recover(&self, slot: &Slot, cancel: &Cancel) -> Option<String> {
        let (program, arguments) = self.gpus.recovery.split_first()?;
        let mut command = std::process::Command::new(program);
        command.args(arguments);
        if let Some(card) = &slot.card {
            command.env("ROCREPRO_CARD", &card.bdf);
        }
        let limits = Limits { total: RECOVERY, quiet: RECOVERY, ..Limits::default() };
        let seen = supervise::run(command, b"", &limits, cancel, &mut |_| {});
        let ended = match seen.ended {
            supervise::ChildEnd::Exited(code) => format!("ended with exit code {code}"),
            supervise::ChildEnd::Signalled { signal, .. } => {
                format!("was ended by signal {signal}")
            }
            supervise::ChildEnd::SpawnFailed(error) => format!("did not start: {error}"),
            _ => format!("was ended after {} s", seen.wall.as_secs()),
        };
        let words = shell::join(&self.gpus.recovery);
        let stderr = seen.stderr.to_text();
        let event = EngineEvent::Recovered { command: &words, ended: &ended, stderr: &stderr };
        self.reporting.event(event);
        Some(format!("`{words}`, which {ended}"))
    }
}
