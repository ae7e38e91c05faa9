//! Compares two recordings of `rocrepro record`.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use engine::{
    Stop,
    recording::{self, FirstDifference, RecordingDifference, ShownCall, ThreadDifference},
};
use report::count;

use crate::{args::Diff, outputs};

/// Prints how two recordings differ. Returns `None` if neither argument is a recording.
pub(super) fn diff(args: &Diff) -> Result<Option<ExitCode>, Stop> {
    let is_recording = |path: &str| recording::is_recording(Path::new(path));
    match (is_recording(&args.old), is_recording(&args.new)) {
        (false, false) => return Ok(None),
        (true, true) => {}
        (is_old, _) => {
            let (one, other) = match is_old {
                true => (&args.old, &args.new),
                false => (&args.new, &args.old),
            };
            return Err(Stop::usage(format!(
                "error: `{one}` is a recording, but `{other}` is not\nhint: name two folders that `rocrepro record` \
                 wrote, or two record files"
            )));
        }
    }
    if args.store.is_some() {
        return Err(Stop::usage(
            "error: `--store` selects runs, but recordings are named\nhint: leave out `--store`",
        ));
    }
    let read = |path: &str| recording::read_any(Path::new(path));
    let (old, new) = Stop::both(read(&args.old), read(&args.new))?;
    let found = recording::difference(&old, &new);
    match args.json {
        true => outputs::print_data(&(super::store::json(&found)? + "\n"))?,
        false => outputs::print(&text(&found, &args.old, &args.new))?,
    }
    Ok(Some(ExitCode::from(u8::from(!found.is_empty()))))
}

fn text(found: &RecordingDifference, old: &str, new: &str) -> String {
    let mut text = String::new();
    for thread in &found.threads {
        let ThreadDifference { process, thread: number, same, missing, additional, first } = thread;
        let Some(first) = first else { continue };
        let _ = writeln!(text, "process {process}, thread {number}: the first calls that differ");
        shown(&mut text, first, old, new);
        if found.threads.len() > 1 {
            let counts = counts(*same, *missing, *additional, old, new);
            let _ = writeln!(text, "  {counts}");
        }
    }
    text.push_str(&counts(found.same, found.missing, found.additional, old, new));
    text.push('\n');
    text
}

fn shown(text: &mut String, first: &FirstDifference, old: &str, new: &str) {
    for (path, call) in [(old, &first.old), (new, &first.new)] {
        let _ = match call {
            Some(ShownCall { number, text: call, status, .. }) => {
                writeln!(text, "  {path}: call {number}: {call}: {status}")
            }
            None => writeln!(text, "  {path}: no further call"),
        };
    }
    for part in &first.parts {
        let _ = writeln!(text, "  {}:", part.part);
        for (path, value) in [(old, &part.old), (new, &part.new)] {
            let _ = writeln!(text, "    {path}: {}", value.as_deref().unwrap_or("nothing"));
        }
    }
}

fn counts(same: usize, missing: usize, additional: usize, old: &str, new: &str) -> String {
    let are = |calls: usize| if calls == 1 { "is" } else { "are" };
    let mut text = format!("{} {} the same", count(same, "call"), are(same));
    for (calls, path) in [(missing, old), (additional, new)] {
        if calls > 0 {
            let _ = write!(text, ", {calls} {} only in {path}", are(calls));
        }
    }
    text
}
