//! A trial's turn on the GPU, and who looks at the GPU after it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use report::Record;
use supervise::{Cancel, Limits};

use super::{After, Check, Checked, Gate, Health, Suspect, may_have_broken};
use crate::{
    Job, Session, card,
    events::EngineEvent,
    execute::run_here,
    machine::{self, A_MOMENT, Locks},
    slots::{self, Slot},
};

/// Longest time and silence of a health check: it needs a second.
const TOTAL: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(20);

/// Health checks of one GPU, as long as they say nothing while they pass on another.
const TIMES: u32 = 3;

/// Longest time of a command that is to mend the GPU.
const RECOVERY: Duration = Duration::from_secs(300);

static CHECK: LazyLock<Option<Check>> = LazyLock::new(Check::new);

/// A trial's turn on a GPU, which ends when this is dropped.
pub(crate) struct Turn<'s> {
    pub(crate) slot: &'s Slot,
    locks: Locks,
}

/// Whether a trial has its turn.
pub(crate) enum Gated<'s> {
    /// It may run.
    Open(Turn<'s>),
    /// The GPU is broken, or all are, and why that is thought.
    Closed(String),
}

/// What is to blame where the health check does not pass.
enum Blamed {
    /// The GPU, and why.
    Gpu(String),
    /// Another GPU is to be asked first.
    NotYet,
    Nobody,
}

impl Session {
    /// The locks of a slot. Cases from elsewhere may write to their own cache of kernels, and not here.
    fn locks(&self, slot: &Slot) -> Vec<PathBuf> {
        slot.locks.iter().map(|name| self.folders.cache.join(name)).collect()
    }

    /// What is known of the GPU that trials take there.
    fn health(&self, slot: &Slot) -> Health {
        let stack = self.stack.root.display().to_string();
        let file = self.folders.cache.join(format!("{}.json", slot.first_lock()));
        Health::new(file, machine::boot(), stack)
    }

    /// The turn of a trial on a GPU that is free and works, by itself where trials run one at a time or this one needs that. None
    /// where the run was cancelled; nobody waits for an emulated device, of which each trial has its own.
    ///
    /// # Errors
    /// A cache that cannot be written.
    pub(crate) fn turn(&self, alone: bool, cancel: &Cancel) -> io::Result<Option<Gated<'_>>> {
        if let [slot] = &self.gpus.slots[..] {
            return self.gate(slot, alone, Some(cancel), cancel);
        }
        while !cancel.is_cancelled() {
            let mut closed = Vec::new();
            for slot in &self.gpus.slots {
                match self.gate(slot, alone, None, cancel)? {
                    None => {}
                    Some(Gated::Closed(why)) => {
                        self.leave_out(slot, &why);
                        closed.push(why);
                    }
                    Some(open) => return Ok(Some(open)),
                }
            }
            if closed.len() == self.gpus.slots.len() {
                return Ok(Some(Gated::Closed(closed.join("; "))));
            }
            std::thread::sleep(A_MOMENT);
        }
        Ok(None)
    }

    /// Says once that trials go on without a GPU.
    fn leave_out(&self, slot: &Slot, why: &str) {
        let name = slot.card.as_ref().map_or("it", |card| &card.name).to_owned();
        let mut left_out = self.gpus.left_out.lock();
        if !left_out.contains(&name) {
            self.reporting.event(EngineEvent::GpuLeftOut { name: &name, why });
            left_out.insert(name);
        }
    }

    /// The turn on one GPU. None where somebody has it and nobody is to `wait`, or where the run was cancelled.
    fn gate<'s>(
        &'s self,
        slot: &'s Slot,
        alone: bool,
        wait: Option<&Cancel>,
        cancel: &Cancel,
    ) -> io::Result<Option<Gated<'s>>> {
        let health = self.health(slot);
        loop {
            let alone = alone || self.takes_turns() || health.is_due(SystemTime::now());
            let Some(locks) = machine::lock(&self.locks(slot), alone, wait)? else {
                return Ok(None);
            };
            let turn = Turn { slot, locks };
            // Another trial failed meanwhile.
            if !alone && health.is_due(SystemTime::now()) {
                continue;
            }
            let mut check = || self.check_up(slot, cancel);
            // Once: what it did not mend then, it does not mend before each trial.
            let mut recover = || self.is_mended_first(slot).then(|| self.recover(slot, cancel))?;
            let gate = health.before(SystemTime::now(), &mut check, &mut recover)?;
            match self.blamed(slot, &health, &gate)? {
                Blamed::Gpu(why) => return Ok(Some(Gated::Closed(why))),
                Blamed::NotYet => return Ok(None),
                Blamed::Nobody => {}
            }
            return Ok(Some(match gate {
                Gate::Open => Gated::Open(turn),
                Gate::Unwatched(why) => {
                    self.reporting.event(EngineEvent::HealthCheckFails { why: &why });
                    Gated::Open(turn)
                }
                Gate::Closed(why) => Gated::Closed(why),
            }));
        }
    }

    /// Whose doing it is that the health check does not pass on a GPU: the stack's, or its own. The others of the run tell; on a machine
    /// that is not known to run ROCm, a check that fails says nothing until another has passed.
    fn blamed(&self, slot: &Slot, health: &Health, gate: &Gate) -> io::Result<Blamed> {
        let mut checked = self.gpus.checked.lock();
        let times = checked.entry(slot.first_lock().to_owned()).or_default();
        *times += 1;
        let times = *times;
        let passes = health.passes();
        if passes == Some(true) || matches!(gate, Gate::Closed(_)) {
            return Ok(Blamed::Nobody);
        }
        let others = self.gpus.slots.iter().filter(|other| *other != slot);
        let others: Vec<_> = others.map(|other| (other, self.health(other).passes())).collect();
        let works = others.iter().find(|(_, passes)| *passes == Some(true));
        if let (Some(false), Some((other, _))) = (passes, works) {
            let other = other.card.as_ref().map_or("another", |card| &card.name);
            return health.is_the_gpu(SystemTime::now(), other).map(Blamed::Gpu);
        }
        let open = |(other, passes): &(&Slot, Option<bool>)| {
            passes.is_none() && !checked.contains_key(other.first_lock())
        };
        // Since another has passed, a check here may say more than it did.
        let again = passes.is_none() && works.is_some() && times < TIMES;
        Ok(if again || others.iter().any(open) { Blamed::NotYet } else { Blamed::Nobody })
    }

    /// Looks whether the GPU works after a trial that failed, and says so; nothing where that cannot be told. `tell` is called first.
    /// By then others know of the suspect: whoever is ended in between has this trial run again, and no other one on a GPU that it broke.
    pub(crate) fn look_at_the_gpu(
        &self,
        record: &Record,
        ended: String,
        tell: &dyn Fn(),
        Turn { slot, locks }: Turn<'_>,
        cancel: &Cancel,
    ) -> String {
        let stuck = self.processes.take_stuck(slot.first_lock());
        // Its environment may have hidden others.
        let own = slots::of_card(slot, &card::cards(Path::new("/")), &record.device.bdf);
        let health = self.health(&own);
        let suspect = Suspect::new(record.trial.clone(), self.run.clone(), ended);
        let look = || -> io::Result<Option<After>> {
            if !health.suspect(&suspect, stuck)? {
                return Ok(None);
            }
            tell();
            let _alone = match self.takes_turns() {
                true => locks,
                false => {
                    drop(locks);
                    let alone = machine::lock(&self.locks(slot), true, Some(cancel))?;
                    let Some(alone) = alone else { return Ok(None) };
                    alone
                }
            };
            let mut check = || self.check_up(&own, cancel);
            let mut recover = || {
                self.is_mended_first(&own);
                self.recover(&own, cancel)
            };
            health.after(SystemTime::now(), &mut check, &mut recover).map(Some)
        };
        match look() {
            Ok(None | Some(After::Unknown)) => String::new(),
            Ok(Some(After::Works)) => "it worked: the health check passed".to_owned(),
            Ok(Some(After::Recovered(said))) => {
                format!("it did not work: the health check passed only after {said}")
            }
            Ok(Some(After::Broken(why))) => why,
            Err(error) => format!("not known: {error}"),
        }
    }

    /// Leaves to the next command that an interrupted trial has a process which could not be killed.
    pub(crate) fn remember_stuck(&self, trial: &str, slot: &Slot) {
        let stuck = self.processes.take_stuck(slot.first_lock());
        if !stuck.is_empty() {
            let ended = "it was interrupted, and could not be killed".to_owned();
            let suspect = Suspect::new(trial.to_owned(), self.run.clone(), ended);
            // Where it cannot be written, nothing could be done about it either.
            let _ = self.health(slot).suspect(&suspect, stuck);
        }
    }

    /// Whether nobody has tried to mend this GPU in this run.
    fn is_mended_first(&self, slot: &Slot) -> bool {
        let mut mended = self.gpus.mended.lock();
        mended.insert(slot.first_lock().to_owned())
    }

    /// Runs the health check in a process of its own.
    fn check_up(&self, slot: &Slot, cancel: &Cancel) -> Checked {
        let Some(Check { case, trial, lowered }) = &*CHECK else { return Checked::NotRun };
        let job = Job { case, trial, lowered: lowered.clone(), run: 0, faults: Vec::new() };
        let Limits { total, quiet, .. } = self.limits;
        // Nobody is told where it stood, and to ask takes longer than the check itself.
        let limits = Limits {
            total: total.min(TOTAL),
            quiet: quiet.min(QUIET),
            stacks: false,
            ..self.limits
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

    /// Runs the command that somebody named for a GPU that no longer works, and says what came of it.
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
            supervise::Ended::Exited(code) => format!("ended with exit code {code}"),
            supervise::Ended::Signalled { signal, .. } => format!("was ended by signal {signal}"),
            supervise::Ended::SpawnFailed(error) => format!("did not start: {error}"),
            _ => format!("was ended after {} s", seen.wall.as_secs()),
        };
        let words = shell_words::join(&self.gpus.recovery);
        let stderr = seen.stderr.to_text();
        let event = EngineEvent::Recovered { command: &words, ended: &ended, stderr: &stderr };
        self.reporting.event(event);
        Some(format!("`{words}`, which {ended}"))
    }
}
