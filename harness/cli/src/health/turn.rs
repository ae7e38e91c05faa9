//! A trial's turn on the GPU, and who looks at the GPU after it.

use std::{
    io,
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use supervise::{Cancel, Limits};

use super::{After, Check, Checked, Gate, Health, Suspect};
use crate::{
    Session,
    machine::{self, Turn},
    on_gpu::may_have_broken,
    outputs,
    trial::{Job, nonce, run_here},
};

/// Longest time and silence of a health check: it needs a second.
const TOTAL: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(20);

/// Longest time of a command that is to mend the GPU.
const RECOVERY: Duration = Duration::from_secs(300);

/// Why none is made.
const STAYS: &str = "none was made, as the process of a trial could not be killed";

static CHECK: LazyLock<Option<Check>> = LazyLock::new(Check::new);

/// Whether a trial has its turn.
pub(crate) enum Gated {
    /// It may run.
    Open(Turn),
    /// The GPU is broken, and why that is thought.
    Closed(String),
}

impl Session {
    fn health(&self) -> Health {
        let stack = self.stack.root.display().to_string();
        Health::new(self.turns().with_extension("json"), machine::boot(), stack)
    }

    /// The turn of a trial on a GPU, by itself where trials run one at a time or this one needs that. None where the run was
    /// cancelled; nobody waits for an emulated device, of which each trial has its own.
    ///
    /// # Errors
    /// A cache that cannot be written.
    pub(crate) fn turn(&self, alone: bool, cancel: &Cancel) -> io::Result<Option<Gated>> {
        let health = self.health();
        loop {
            let alone = alone || self.takes_turns() || health.is_due(SystemTime::now());
            let Some(turn) = machine::turn(&self.turns(), alone, cancel)? else { return Ok(None) };
            // Another trial failed meanwhile.
            if !alone && health.is_due(SystemTime::now()) {
                continue;
            }
            let gate = health.before(SystemTime::now(), &mut || self.check_up(cancel))?;
            return Ok(Some(match gate {
                Gate::Open => Gated::Open(turn),
                Gate::Unwatched(why) => {
                    outputs::note(format!(
                        "warning: the health check does not pass on this stack ({why}), so a GPU that no longer works after a \
                         trial is not told from ROCm's own failures"
                    ));
                    Gated::Open(turn)
                }
                Gate::Closed(why) => Gated::Closed(why),
            }));
        }
    }

    /// Looks whether the GPU works after a trial that failed, and says so; nothing where that cannot be told. Nobody knows what a
    /// process that `stays` still does there, so a check would prove nothing.
    pub(crate) fn look_at_the_gpu(
        &self,
        trial: &str,
        ended: String,
        stays: bool,
        turn: Turn,
        cancel: &Cancel,
    ) -> String {
        let health = self.health();
        let suspect = Suspect::new(trial.to_owned(), self.run.clone(), ended);
        let look = || -> io::Result<Option<After>> {
            if !health.suspect(&suspect)? {
                return Ok(None);
            }
            let _alone = match self.takes_turns() {
                true => turn,
                false => {
                    drop(turn);
                    let Some(alone) = machine::turn(&self.turns(), true, cancel)? else {
                        return Ok(None);
                    };
                    alone
                }
            };
            let mut stays = stays.then(|| Checked::Failed(STAYS.to_owned()));
            let mut check = || stays.take().unwrap_or_else(|| self.check_up(cancel));
            let mut recover = || self.recover(cancel);
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

    /// Runs the health check in a process of its own.
    fn check_up(&self, cancel: &Cancel) -> Checked {
        let Some(Check { case, trial, lowered }) = &*CHECK else { return Checked::NotRun };
        let job = Job { case, trial, lowered: lowered.clone(), run: 0, faults: Vec::new() };
        let Limits { total, quiet, .. } = self.limits;
        let limits = Limits { total: total.min(TOTAL), quiet: quiet.min(QUIET), ..self.limits };
        let Some(record) = run_here(self, &job, &limits, nonce(), cancel) else {
            return Checked::NotRun;
        };
        match may_have_broken(&record) {
            Some(why) => Checked::Failed(why),
            None if record.outcome.kind == judge::Kind::Pass => Checked::Passed,
            None => Checked::NotRun,
        }
    }

    /// Runs the command that somebody named for a GPU that no longer works, and says what came of it.
    fn recover(&self, cancel: &Cancel) -> Option<String> {
        let (program, arguments) = self.recovery.split_first()?;
        let mut command = std::process::Command::new(program);
        command.args(arguments);
        let limits = Limits { total: RECOVERY, quiet: RECOVERY, ..Limits::default() };
        let seen = supervise::run(command, b"", &limits, cancel, &mut |_| {});
        let ended = match seen.ended {
            supervise::Ended::Exited(code) => format!("ended with exit code {code}"),
            supervise::Ended::Signalled { signal, .. } => format!("was ended by signal {signal}"),
            supervise::Ended::SpawnFailed(error) => format!("did not start: {error}"),
            _ => format!("was ended after {} s", seen.wall.as_secs()),
        };
        let words = shell_words::join(&self.recovery);
        let said = seen.stderr.to_text();
        outputs::note(format!("`{words}` {ended}\n{}", said.trim_end()).trim_end());
        Some(format!("`{words}`, which {ended}"))
    }
}
