//! The file that a run writes its records to, and what earlier runs began there and never ended.

use std::{fs, path::Path};

use report::{Begun, count};
use supervise::{Durability, Journal};

use crate::{DeviceChoice, Stop, machine, outputs, stop::chain};

/// Opens the journal of records to append to. What an earlier run began there and never ended is said. What runs on a GPU may take
/// the machine down.
pub(crate) fn open(path: Option<&Path>, device: &DeviceChoice) -> Result<Option<Journal>, Stop> {
    // A device or a pipe has no end.
    if let Some(warning) = path.filter(|path| path.is_file()).and_then(warning) {
        outputs::note(warning);
    }
    path.map_or(Ok(()), |path| outputs::ours(path, outputs::RECORDS))?;
    let durability = match device {
        DeviceChoice::Gpu => Durability::Machine,
        DeviceChoice::Emulated(_) => Durability::Process,
    };
    path.map(|path| Journal::open(path, durability))
        .transpose()
        .map_err(|e| Stop::usage(format!("error: {}", chain(&e))))
}

/// What to say before lines are added to a record file in which trials never ended.
fn warning(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let found = report::unfinished(text.lines());
    let lost: Vec<_> = found.iter().filter(|begun| Fate::of(begun) != Fate::Runs).collect();
    let last = lost.last()?;
    let path = path.display();
    Some(format!(
        "warning: `{path}`: {} began in an earlier run and never ended, the last one {}; `rocrepro unfinished {path}` \
         tells more",
        count(lost.len(), "trial"),
        last.trial
    ))
}

/// What became of the process that ran a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Restarted,
    Gone,
    Runs,
}

impl Fate {
    /// What this machine knows of it.
    pub(crate) fn of(begun: &Begun) -> Fate {
        if begun.boot != machine::boot() {
            Fate::Restarted
        } else if Path::new("/proc").join(begun.pid.to_string()).exists() {
            Fate::Runs
        } else {
            Fate::Gone
        }
    }
}
