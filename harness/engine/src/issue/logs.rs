//! Collects logs of the HIP runtime and of the libraries, from one more run of the failing trial.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use ::export::LoggedCall;
use judge::{Kind, api, may_be_same};
use plan::{Library, Plan};
use report::{
    Record,
    issue::{Identity, Log, redact},
};

use supervise::Cancel;

use crate::{
    Session, Stop,
    exported::program_folder,
    failing_trial::{FailingTrial, is_same_after_edit},
};

/// Variables for a log of a program's HIP calls (mask 1) and kernels (128). Lower levels write no ids of processes and
/// threads, so that calls of several threads cannot be separated.
pub const LEVEL: [(&str, &str); 2] = [("AMD_LOG_LEVEL", "4"), ("AMD_LOG_MASK", "129")];
/// Number of lines of the runtime's log that are reported, from the failing call on.
const LINES: usize = 40;
/// Number of log lines before the failing call that are reported, because earlier calls often lead to the failure.
const BEFORE: usize = 16;

/// Returns the end of the program's log, or, without a log, the logs of one more run of the trial.
pub(super) fn logs(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    of_program: Option<&str>,
    who: &Identity,
    cancel: &Cancel,
) -> Result<Vec<Log>, Stop> {
    let plan = subject.job()?.lowered.plan;
    if let Some(text) = of_program {
        let (call, text) = last_call(&plain(text), failing_function(&plan, failed));
        let title = format!("AMD_LOG_LEVEL=4 of the program: {call}");
        return Ok(vec![Log { title, text: redact(&text, who) }]);
    }
    let folder = program_folder(session)?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let mut variables = vec![
        ("AMD_LOG_LEVEL".to_owned(), "4".to_owned()),
        // The HIP runtime appends the process id to the name of the log file.
        ("AMD_LOG_LEVEL_FILE".to_owned(), file("hip")),
    ];
    if plan.libraries.contains(&Library::Hipblaslt) {
        // Bit 5 prints the command line of hipblaslt-bench that repeats a call (hipBLASLt, "Logging and heuristics").
        variables.push(("HIPBLASLT_LOG_MASK".to_owned(), "32".to_owned()));
        variables.push(("HIPBLASLT_LOG_FILE".to_owned(), file("blaslt")));
    }
    if plan.libraries.contains(&Library::Rocblas) {
        // Bit 1 prints the command line of rocblas-bench that repeats a call (rocBLAS, "Logging").
        variables.push(("ROCBLAS_LAYER".to_owned(), "2".to_owned()));
        variables.push(("ROCBLAS_LOG_BENCH_PATH".to_owned(), file("rocblas")));
    }
    let records = subject.run(session, 1, 0, &variables, cancel)?;
    let same = records.iter().any(|r| may_be_same(&r.outcome.signature, &failed.outcome.signature));
    let mut logs = Vec::new();
    for (library, prefix) in [("hipblaslt-bench", "blaslt"), ("rocblas-bench", "rocblas")] {
        let text = read(folder.path(), prefix);
        let lines: Vec<_> = text.lines().filter(|line| line.contains(library)).collect();
        if !lines.is_empty() {
            let title = format!("Replay command printed by {library}");
            logs.push(Log { title, text: redact(&unique(&lines).join("\n"), who) });
        }
    }
    let text = read(folder.path(), "hip");
    if !text.is_empty() {
        let (call, text) = from_failing_call(&plain(&text), &plan, failed);
        let note = if same { "" } else { ", from a run that did not fail in the same way" };
        let title = format!("AMD_LOG_LEVEL=4: {call}{note}");
        logs.push(Log { title, text: redact(&text, who) });
    }
    Ok(logs)
}

/// The log of HIP calls from one more run of a program.
#[derive(Default)]
pub(super) struct ProgramLog {
    pub(super) logs: Vec<Log>,
    /// The HIP call that had not returned when the program ended; `None` if all had returned, or if the log is not
    /// used.
    pub(super) open_call: Option<String>,
    /// The last HIP call that returned an error; `None` if no call did, or if the log is not used.
    pub(super) refused_call: Option<String>,
    /// Text of the complete log.
    pub(super) text: String,
}

/// Runs a program again with a log of its HIP calls. The result is empty if the failure has nothing to do with calls,
/// for example if a kernel does not compile, and if the program does not fail in the same way again.
pub(super) fn of_program(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    who: &Identity,
    cancel: &Cancel,
) -> Result<ProgramLog, Stop> {
    const LOGGED: [Kind; 6] = [
        Kind::ApiError,
        Kind::Crash,
        Kind::Hang,
        Kind::LibraryExit,
        Kind::TeardownCrash,
        Kind::WrongData,
    ];
    if !LOGGED.contains(&failed.outcome.kind) {
        return Ok(ProgramLog::default());
    }
    let folder = program_folder(session)?;
    let file = folder.path().join("hip").display().to_string();
    let level = LEVEL.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let variables: Vec<_> = level.chain([("AMD_LOG_LEVEL_FILE".to_owned(), file)]).collect();
    let records = subject.run(session, 1, 0, &variables, cancel)?;
    let text = plain(&read(folder.path(), "hip"));
    if text.is_empty() || !records.iter().any(|r| is_same_after_edit(&r.outcome, &failed.outcome)) {
        return Ok(ProgramLog::default());
    }
    let lines: Vec<&str> = text.lines().collect();
    let open_call = ::export::parse_trace(&text, true).open;
    let entered = |call: &String| {
        let entry = format!("{call} (");
        lines.iter().rposition(|line| line.contains(&entry))
    };
    let (title, from) = match open_call.as_ref().and_then(entered).zip(open_call.as_ref()) {
        Some((at, call)) => {
            (format!("calls before {call}, which did not return, and everything from there on"), at)
        }
        None => (AT_THE_END.to_owned(), lines.len().saturating_sub(LINES)),
    };
    let log = Log {
        title: format!("AMD_LOG_LEVEL=4 of one more run: {title}"),
        text: redact(&shown(&lines, from), who),
    };
    let refused_call = ::export::logged_calls(&text).iter().rev().find_map(format_refused_call);
    let refused_call = refused_call.map(|call| redact(&call, who));
    Ok(ProgramLog { logs: vec![log], open_call, refused_call, text })
}

/// Formats a call that returned an error; `None` for other calls. The status of a query whose work is not done yet is
/// not an error.
fn format_refused_call(call: &LoggedCall) -> Option<String> {
    const NO_ERRORS: [&str; 2] = ["hipSuccess", "hipErrorNotReady"];
    let status = call.status.as_deref().filter(|status| !NO_ERRORS.contains(status))?;
    status
        .starts_with("hipError")
        .then(|| format!("{}({}) -> {status}", call.name, call.arguments.join(", ")))
}

/// Returns the text of all files in `folder` whose names begin with `prefix`.
fn read(folder: &Path, prefix: &str) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|e| e.file_name().to_string_lossy().starts_with(prefix));
    files
        .filter_map(|entry| {
            Some(String::from_utf8_lossy(&end_of(&entry.path()).ok()?).into_owned())
        })
        .collect()
}

/// Number of bytes that are read from the end of a log. PyTorch's log of a graph of 30 000 kernels has 50 MB.
const LONGEST: u64 = 128 << 20;

/// Reads the last [`LONGEST`] bytes of a file.
fn end_of(file: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(LONGEST)))?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unique<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let mut seen = Vec::new();
    for line in lines {
        if !seen.contains(line) {
            seen.push(*line);
        }
    }
    seen
}

/// Removes the escape sequences for colours from a log.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// Returns the title and the text of the end of a program's log, from the last call of `function` on.
fn last_call(text: &str, function: Option<&str>) -> (String, String) {
    let lines: Vec<&str> = text.lines().collect();
    let function = function.unwrap_or_default();
    let entered = |line: &&str| !function.is_empty() && line.contains(&format!("{function} ("));
    let (title, from) = match lines.iter().rposition(entered) {
        Some(at) => (everything_from(function), at),
        None => (AT_THE_END.to_owned(), lines.len().saturating_sub(LINES)),
    };
    (title, shown(&lines, from))
}

const AT_THE_END: &str = "calls, and everything at its end";

fn everything_from(function: &str) -> String {
    format!("calls before {function}, and everything from there on")
}

/// Returns the lines to show: the last calls before the index `from`, and the first lines from there on.
fn shown(lines: &[&str], from: usize) -> String {
    let calls: Vec<&str> = lines[..from].iter().copied().filter(|line| is_call(line)).collect();
    let calls = similar_runs(&calls);
    let early = calls.len().saturating_sub(BEFORE);
    let mut kept = Vec::new();
    if early > 0 {
        let lines: usize = calls[..early].iter().map(|run| run.len()).sum();
        kept.push(format!("[{lines} lines of earlier calls]"));
    }
    kept.extend(calls[early..].iter().copied().flat_map(shortened));
    let after = similar_runs(&lines[from..]);
    kept.extend(after.iter().copied().take(LINES).flat_map(shortened));
    let more: usize = after.iter().skip(LINES).map(|run| run.len()).sum();
    if more > 0 {
        kept.push(format!("[{more} more lines]"));
    }
    kept.join("\n")
}

/// Divides lines into runs of consecutive lines that differ only in numbers.
fn similar_runs<'r, 't>(lines: &'r [&'t str]) -> Vec<&'r [&'t str]> {
    lines.chunk_by(|a, b| without_numbers(a) == without_numbers(b)).collect()
}

/// Returns all lines of a run of one or two lines. For a longer run, returns its first line and the number of the other
/// lines.
fn shortened(run: &[&str]) -> Vec<String> {
    match run {
        [first, _, _, ..] => {
            vec![(*first).to_owned(), format!("[{} more lines like this one]", run.len() - 1)]
        }
        few => few.iter().map(|&line| line.to_owned()).collect(),
    }
}

/// Replaces each decimal or hexadecimal number of a line by `0`.
fn without_numbers(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    for word in line.split_inclusive(|c| !is_part(c)) {
        let number = word.trim_end_matches(|c| !is_part(c));
        let digits = number.strip_prefix("0x").unwrap_or(number);
        let is_number = !digits.is_empty()
            && (digits.len() < number.len() && digits.chars().all(|c| c.is_ascii_hexdigit())
                || digits.chars().all(|c| c.is_ascii_digit()));
        out.push_str(if is_number { "0" } else { number });
        out.push_str(&word[number.len()..]);
    }
    out
}

/// Returns true if a line of the HIP runtime's log is about the entry to, or the return from, an API function.
fn is_call(line: &str) -> bool {
    let entered = line.split_once(" (").is_some_and(|(before, _)| {
        let name = before.rsplit(' ').next().unwrap_or_default();
        name.starts_with("hip") && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    entered || line.contains(": Returned hip")
}

/// Returns the title and the text of the log from the trial's failing call on.
fn from_failing_call(text: &str, plan: &Plan, failed: &Record) -> (String, String) {
    let lines: Vec<&str> = text.lines().collect();
    let function = failing_function(plan, failed);
    let entered = |line: &&str| function.is_some_and(|f| line.contains(&format!("{f} (")));
    let calls: Vec<usize> =
        lines.iter().enumerate().filter(|(_, line)| entered(line)).map(|(n, _)| n).collect();
    let before = plan.setup.iter().filter(|s| Some(api(&s.call, plan)) == function).count();
    let wanted = before + failed.outcome.at.occurrence.unwrap_or(0) as usize;
    let (title, from) = match (function, calls.get(wanted).or(calls.last())) {
        (Some(function), Some(line)) => (everything_from(function), *line),
        _ => (AT_THE_END.to_owned(), lines.len().saturating_sub(LINES)),
    };
    (title, shown(&lines, from))
}

/// Returns the function whose call failed. If the host read wrong bytes, returns the function of the last earlier call
/// that can have written them. `None` if the failing call is unknown.
fn failing_function(plan: &Plan, failed: &Record) -> Option<&'static str> {
    let at = failed.outcome.at.step?;
    let steps = plan.steps();
    let position = steps.iter().position(|step| step.id == at)?;
    let calls = steps[..=position].iter().rev().map(|step| api(&step.call, plan));
    let writes = |name: &&str| {
        [
            "hipMemcpy",
            "hipMemset",
            "hipModuleLaunch",
            "hipGraphLaunch",
            "hiprandGenerate",
            "hipblasLtMatmul",
            "rocblas_gemm",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    };
    match api(&steps[position].call, plan) {
        "host read" => calls.into_iter().find(writes),
        name => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_colours() {
        assert_eq!(plain("a\u{1b}[32m hipMalloc (\u{1b}[0m b"), "a hipMalloc ( b");
        assert_eq!(plain("plain"), "plain");
    }

    #[test]
    fn calls_before_the_failing_one_are_kept() {
        let lines = [
            ":3:hip_stream.cpp :10: 5 us: [pid:1 tid: 0x7f]  hipStreamCreate ( 0x1 ) ",
            ":4:command.cpp    :11: 5 us: [pid:1 tid: 0x7f] Command (Marker) enqueued",
            ":3:hip_stream.cpp :12: 6 us: [pid:1 tid: 0x7f] hipStreamCreate: Returned hipSuccess : ",
            ":3:hip_memory.cpp :13: 7 us: [pid:1 tid: 0x7f]  hipMemcpy ( 0x1 ) ",
            ":4:rocdevice.cpp  :14: 8 us: [pid:1 tid: 0x7f] Free hsa memory 0x7f",
        ];
        let (title, text) = last_call(&lines.join("\n"), Some("hipMemcpy"));
        assert_eq!(title, "calls before hipMemcpy, and everything from there on");
        assert_eq!(text, [lines[0], lines[2], lines[3], lines[4]].join("\n"));
    }

    #[test]
    fn repeated_lines_are_listed_once() {
        assert_eq!(unique(&["a", "b", "a"]), ["a", "b"]);
    }
}
