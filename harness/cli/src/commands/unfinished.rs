//! Lists the trials in a record file that began and have no result, because the machine crashed or the process was
//! killed.

use std::{fs::File, process::ExitCode};

use report::TrialStart;

use crate::{args::Unfinished, outputs};
use engine::{
    Stop,
    record_file::{self, ProcessFate},
};

pub(crate) fn unfinished(args: &Unfinished) -> Result<ExitCode, Stop> {
    let file = File::open(&args.path)
        .map_err(|e| Stop::usage(format!("error: cannot read `{}`: {e}", args.path.display())))?;
    let found = report::unfinished(record_file::lines(file));
    let told: String =
        found.iter().map(|begun| describe(begun, ProcessFate::of(begun)) + "\n").collect();
    outputs::print(&told)?;
    Ok(ExitCode::from(if found.is_empty() { 0 } else { UNFINISHED }))
}

/// Exit code if a trial is unfinished, and therefore has no verdict.
const UNFINISHED: u8 = 3;

fn describe(begun: &TrialStart, fate: ProcessFate) -> String {
    let fate = match fate {
        ProcessFate::Restarted => {
            "the machine was restarted afterwards, or the run was on another machine".to_owned()
        }
        ProcessFate::Gone => format!("its process {} no longer exists", begun.pid),
        ProcessFate::Runs => {
            format!("process {} still exists, so the trial may be running", begun.pid)
        }
    };
    let TrialStart { trial, run, begun: when, again, .. } = begun;
    format!("{trial}\n    started {when} in run {run}, never finished: {fate}\n    Again: {again}")
}
