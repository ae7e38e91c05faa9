use std::{
    fmt::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
};

use engine::{
    Stop, record_calls,
    recording::{self, RecordingSummary},
};

use super::exec::{ReadyProgram, check_program, prepare_program};
use crate::{args::Record, interrupt, outputs};

/// Maximum number of lines of each kind that the summary shows.
const MAX_LINES: usize = 8;

/// Runs a program of the user, records its HIP calls, and prints what it recorded.
pub(crate) fn record(args: &Record) -> Result<ExitCode, Stop> {
    let launch = &args.launch;
    let folder = args.out.clone().unwrap_or_else(|| default_folder(&args.launch.program));
    let (checked, ()) = Stop::both(check_program(launch), record_calls::create_folder(&folder))?;
    // A signal of the terminal reaches the program too. This process waits for the program and reports its calls.
    let _cancel = interrupt::cancel()?;
    let ReadyProgram { session, mut start } = prepare_program(launch, checked)?;
    record_calls::record(&mut start, &session, &folder)?;
    let _uses = session.folders.temporary.inheritable_lock();
    let _program = session.own_program();
    let ended = session.command(&start).status().map_err(|error| {
        Stop::no_verdict(format!(
            "error: cannot start `{}`: {error}",
            args.launch.program.display()
        ))
    })?;
    let summary = recording::summary(&folder)?;
    outputs::note(text(&summary, ended, &folder));
    Ok(code(ended))
}

fn default_folder(program: &Path) -> PathBuf {
    let name = program.file_stem().unwrap_or_default().display().to_string();
    PathBuf::from(format!("rocrepro-{name}.trace"))
}

/// Returns the exit code of the program, or 128 plus the number of the signal that ended it, as shells do.
fn code(ended: ExitStatus) -> ExitCode {
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(3))
}

fn text(summary: &RecordingSummary, ended: ExitStatus, folder: &Path) -> String {
    let RecordingSummary { processes, calls, .. } = *summary;
    let failed: usize = summary.failed.values().sum();
    let plural = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let mut text = format!(
        "rocrepro: {} made {} of HIP, of which {failed} failed; the program ended with {}",
        plural(processes, "process", "processes"),
        plural(calls, "call", "calls"),
        match (ended.code(), ended.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => ended.to_string(),
        },
    );
    let failures = summary.failed.iter().map(|((function, status), count)| {
        let times = if *count == 1 { String::new() } else { format!(" ({count} times)") };
        format!("{function} returned {status}{times}")
    });
    lines(&mut text, "failed", failures);
    lines(&mut text, "did not return", summary.open.iter().cloned());
    let lacks = summary.undecoded.iter();
    lines(
        &mut text,
        "not recorded",
        lacks.map(|(lack, count)| {
            let times = if *count == 1 { String::new() } else { format!(" ({count} calls)") };
            format!("{lack}{times}")
        }),
    );
    lines(&mut text, "note", summary.notes.iter().cloned());
    if calls == 0 && summary.has_hip {
        lines(
            &mut text,
            "note",
            ["the program loaded libamdhip64, but no call was seen: it may be built with \
            -fno-plt, or find functions in another way than by symbols"
                .to_owned()]
            .into_iter(),
        );
    } else if calls == 0 {
        lines(&mut text, "note", ["the program did not load libamdhip64".to_owned()].into_iter());
    }
    let shown = shell::quote(&folder.display().to_string());
    let _ = write!(text, "\n  calls: {shown}");
    if calls > 0 {
        let _ = write!(text, "\n  as a case: rocrepro case new {shown}");
    }
    text
}

fn lines(text: &mut String, word: &str, all: impl Iterator<Item = String>) {
    let all: Vec<_> = all.collect();
    for line in all.iter().take(MAX_LINES) {
        let _ = write!(text, "\n  {word}: {line}");
    }
    if all.len() > MAX_LINES {
        let _ = write!(text, "\n  {word}: {} more", all.len() - MAX_LINES);
    }
}
