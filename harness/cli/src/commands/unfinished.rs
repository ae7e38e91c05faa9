//! Which trials of a record file began and never ended: one took the machine down, or the process that ran them.

use std::{fs, path::Path, process::ExitCode};

use report::{Begun, count};

use crate::{Stop, args::Unfinished, machine, outputs};

pub(crate) fn unfinished(args: &Unfinished) -> Result<ExitCode, Stop> {
    let text = fs::read_to_string(&args.path)
        .map_err(|e| Stop::usage(format!("error: cannot read `{}`: {e}", args.path.display())))?;
    let found = report::unfinished(text.lines());
    let told: String = found.iter().map(|begun| told(begun, fate(begun)) + "\n").collect();
    outputs::print(&told)?;
    Ok(ExitCode::from(if found.is_empty() { 0 } else { UNFINISHED }))
}

/// No verdict: nobody was left to find one.
const UNFINISHED: u8 = 3;

/// What became of the process that ran a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Restarted,
    Gone,
    Runs,
}

fn fate(begun: &Begun) -> Fate {
    if begun.boot != machine::boot() {
        Fate::Restarted
    } else if Path::new("/proc").join(begun.pid.to_string()).exists() {
        Fate::Runs
    } else {
        Fate::Gone
    }
}

fn told(begun: &Begun, fate: Fate) -> String {
    let fate = match fate {
        Fate::Restarted => {
            "this machine was started after that, or the run was on another one".to_owned()
        }
        Fate::Gone => format!("its process {} is gone", begun.pid),
        Fate::Runs => format!("process {} is there, so it may be running", begun.pid),
    };
    let Begun { trial, run, begun: when, again, .. } = begun;
    format!("{trial}\n    began {when} in run {run} and has no end: {fate}\n    Again: {again}")
}

/// What to say before lines are added to a record file in which trials never ended.
pub(crate) fn warning(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let found = report::unfinished(text.lines());
    let lost: Vec<_> = found.iter().filter(|begun| fate(begun) != Fate::Runs).collect();
    let last = lost.last()?;
    let path = path.display();
    Some(format!(
        "warning: `{path}`: {} began in an earlier run and never ended, the last one {}; `rocrepro unfinished {path}` \
         tells more",
        count(lost.len(), "trial"),
        last.trial
    ))
}
