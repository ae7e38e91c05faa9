//! Reads, summarises, converts and compares recordings of HIP calls.

mod arguments;
mod convert;
mod difference;
mod generic;

use std::{collections::BTreeMap, fs, path::Path};

use case::{Case, Kernels, RecordedStep};
use recorder::trace::{self, ArgumentValue, LOADED, ProcessTrace, TraceCall};

pub use convert::{ConvertedCase, convert};
pub use difference::{
    FirstDifference, PartDifference, RecordingDifference, ShownCall, ThreadDifference, difference,
};
pub use recorder::trace::is_recording;

use crate::Stop;

/// Prefix of functions whose calls a compiler inserts to prepare kernel launches. These calls have no effect on the
/// device.
const COMPILER_PREFIX: &str = "__hip";

/// The calls of a recording, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordingSummary {
    /// Number of processes that made a call.
    pub processes: usize,
    /// Number of calls of the program. Calls of functions that a compiler inserts are not counted.
    pub calls: usize,
    /// Number of calls with a status other than hipSuccess, by function and name of the status.
    pub failed: BTreeMap<(String, String), usize>,
    /// Functions whose last call did not return.
    pub open: Vec<String>,
    /// Parts of calls that the recorder could not decode, each with the number of calls in which the part is missing.
    pub undecoded: BTreeMap<String, usize>,
    /// Notes about the recording as a whole.
    pub notes: Vec<String>,
    /// True if a process loaded libamdhip64.
    pub has_hip: bool,
}

/// Reads and counts the calls in a folder.
///
/// # Errors
/// Returns an error if the recording cannot be read.
pub fn summary(folder: &Path) -> Result<RecordingSummary, Stop> {
    let traces = read(folder)?;
    let mut summary = RecordingSummary {
        processes: traces.len(),
        has_hip: !traces.is_empty() || folder.join(LOADED).exists(),
        ..RecordingSummary::default()
    };
    for trace in &traces {
        summary.add(trace);
    }
    Ok(summary)
}

/// Converts the recording in a folder, or that of one process, to a case, and checks the case. `library` contains the
/// kernels of rocrepro.
///
/// # Errors
/// Returns an error if the recording cannot be read, has several processes, or has calls that a case cannot express.
pub fn case_of(folder: &Path, library: &Kernels) -> Result<ConvertedCase, Stop> {
    let shown = folder.display();
    let traces = read_any(folder)?;
    if traces.is_empty() {
        return Err(Stop::usage(format!(
            "error: `{shown}` has no recorded call\nhint: record a program that uses HIP with `rocrepro record`"
        )));
    }
    let [trace] = traces.as_slice() else {
        let folders = traces.iter().map(|trace| format!("\n  {}", trace.folder.display()));
        return Err(Stop::usage(format!(
            "error: `{shown}` has the calls of {} processes, but a case has those of one\nhint: name the folder of one \
             process{}",
            traces.len(),
            folders.collect::<String>()
        )));
    };
    let name = case_name(folder);
    let title = format!(
        "The recorded calls of {} give the recorded statuses",
        name.trim_start_matches("rocrepro-")
    );
    let mut kernels = library.clone();
    let problems = match convert(trace, library, &title) {
        Ok(converted) => {
            kernels.files = converted.files.clone();
            let found = case::mistakes("recorded/calls", &converted.yaml, &kernels);
            if found.is_empty() {
                return Ok(converted);
            }
            found.into_iter().map(|mistake| mistake.message).collect()
        }
        Err(problems) => problems,
    };
    let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    Err(Stop::usage(format!("error: the calls in `{shown}` cannot be steps of a case:{lines}")))
}

/// Returns the name of the case of a recording: the name of its folder without the extension.
pub fn case_name(folder: &Path) -> String {
    // The path may be `.`, which has no name.
    let whole = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let named = if folder.file_stem().is_some() { folder } else { &whole };
    named.file_stem().unwrap_or_default().display().to_string()
}

/// Returns, for the line of each step in the case file, the recorded call from which the step was made.
///
/// # Errors
/// Returns the mistakes in the case.
pub(crate) fn calls_by_line(
    case: &Case,
    kernels: &Kernels,
    converted: &ConvertedCase,
) -> Result<BTreeMap<u32, RecordedStep>, Vec<case::Diagnostic>> {
    let mut found = BTreeMap::new();
    for trial in case.trials() {
        // The case that the converter writes has the same steps in the same order.
        let plan = case::lower(case, &trial, kernels, &[])?.plan;
        for (step, call) in plan.body.iter().zip(&converted.calls) {
            found.extend(call.clone().map(|call| (step.line, call)));
        }
    }
    Ok(found)
}

fn unreadable(error: trace::TraceError) -> Stop {
    Stop::no_verdict(format!("error: {error}"))
}

/// Reads the recordings of all processes in a folder.
///
/// # Errors
/// Returns an error if a file cannot be read, or is not a trace of this version.
pub fn read(folder: &Path) -> Result<Vec<ProcessTrace>, Stop> {
    trace::read(folder).map_err(unreadable)
}

/// Reads the recordings of all processes in a folder. If the folder is that of one process, reads only its recording.
///
/// # Errors
/// Returns an error if a file cannot be read, or is not a trace of this version.
pub fn read_any(folder: &Path) -> Result<Vec<ProcessTrace>, Stop> {
    match folder.join(trace::CALLS).is_file() {
        true => Ok(vec![trace::read_process(folder).map_err(unreadable)?]),
        false => read(folder),
    }
}

impl RecordingSummary {
    fn add(&mut self, trace: &ProcessTrace) {
        self.notes.extend(trace.notes.iter().cloned());
        for (call, end) in &trace.calls {
            if call.function.starts_with(COMPILER_PREFIX) {
                continue;
            }
            self.calls += 1;
            match end {
                None => self.open.push(call.function.clone()),
                Some(end) if end.status != 0 && can_fail_with(&call.function, end.status) => {
                    let key = (call.function.clone(), status_name(&call.function, end.status));
                    *self.failed.entry(key).or_default() += 1;
                }
                Some(_) => {}
            }
            for lack in undecoded(call) {
                *self.undecoded.entry(lack).or_default() += 1;
            }
        }
    }
}

/// `hipErrorNotReady`, which a query returns while work is running.
const NOT_READY: i32 = 600;

/// Returns true if the status means that this call of the function failed. Some functions return the status of an
/// earlier call.
fn can_fail_with(function: &str, status: i32) -> bool {
    let of_earlier_call = ["hipExtGetLastError", "hipGetLastError", "hipPeekAtLastError"];
    has_status(function) && !of_earlier_call.contains(&function) && status != NOT_READY
}

/// Returns true if the function returns a status.
fn has_status(function: &str) -> bool {
    let known = device::library_function(function);
    known.is_some_and(|known| ["hipError_t", "hiprtcResult"].contains(&known.returns))
}

/// Names that `hipGetErrorName` never returns, because it returns another name of the same status.
const OTHER_NAMES: [&str; 4] = [
    "hipErrorInitializationError",
    "hipErrorInvalidResourceHandle",
    "hipErrorMapBufferObjectFailed",
    "hipErrorMemoryAllocation",
];

/// Returns the name of a status, or its number if it has none.
pub fn status_name(function: &str, status: i32) -> String {
    let mut names = device::hip_statuses().iter().filter(|(name, _)| !OTHER_NAMES.contains(name));
    match names.find(|(_, number)| *number == status) {
        Some((name, _)) if !function.starts_with("hiprtc") => (*name).to_owned(),
        _ => format!("status {status}"),
    }
}

/// Returns descriptions of the parts of a call that the recorder did not decode.
fn undecoded(call: &TraceCall) -> Vec<String> {
    let function = &call.function;
    let Some(arguments) = &call.arguments else {
        return vec![format!("the arguments of {function}")];
    };
    let mut lacks = Vec::new();
    for argument in arguments {
        match &argument.value {
            ArgumentValue::Unknown(_, why) => {
                lacks.push(format!("`{}` of {function}: {why}", argument.name));
            }
            ArgumentValue::Memory { content: Some(content), .. } if !content.stored => {
                lacks.push(format!("the content that {function} read: {} bytes", content.bytes));
            }
            ArgumentValue::Memory { .. }
            | ArgumentValue::Number(_)
            | ArgumentValue::Address(_)
            | ArgumentValue::Text(_)
            | ArgumentValue::Texts(_)
            | ArgumentValue::Bytes(_) => {}
        }
    }
    if function == "hipGetProcAddress" {
        lacks.push("calls of functions that hipGetProcAddress returned".to_owned());
    }
    if let Some(kernel) = &call.kernel
        && kernel.arguments.is_none()
    {
        let name = if kernel.name.is_empty() { "an unknown kernel" } else { &kernel.name };
        lacks.push(format!("the arguments of the kernel {name}"));
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lines: &[&str]) -> Result<RecordingSummary, Stop> {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("12");
        fs::create_dir_all(process.join(trace::CONTENTS)).unwrap();
        fs::write(process.join(trace::CALLS), lines.join("\n") + "\n").unwrap();
        summary(folder.path())
    }

    #[test]
    fn failures_and_gaps_are_counted() {
        let call = |number: u32, function: &str, more: &str| {
            format!(r#"{{"call":{{"number":{number},"thread":1,"function":"{function}"{more}}}}}"#)
        };
        let end = |number: u32, status: u32| {
            format!(r#"{{"end":{{"number":{number},"status":{status}}}}}"#)
        };
        let unknown = r#","arguments":[{"name":"p","value":{"unknown":["0x8","too large"]}}]"#;
        let lines = [
            call(0, "hipMalloc", r#","arguments":[]"#),
            end(0, 2),
            call(1, "hipMemcpyBatchAsync", ""),
            end(1, 0),
            call(2, "__hipPushCallConfiguration", r#","arguments":[]"#),
            end(2, 0),
            call(3, "hipSetDevice", unknown),
            r#"{"note":"full"}"#.to_owned(),
        ];
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let found = written(&lines).unwrap();
        assert_eq!((found.processes, found.calls), (1, 3));
        let failed = ("hipMalloc".to_owned(), "hipErrorOutOfMemory".to_owned());
        assert_eq!(found.failed, [(failed, 1)].into());
        assert_eq!(found.open, ["hipSetDevice"]);
        let lacks: Vec<_> = found.undecoded.keys().map(String::as_str).collect();
        assert_eq!(
            lacks,
            ["`p` of hipSetDevice: too large", "the arguments of hipMemcpyBatchAsync"]
        );
        assert_eq!(found.notes, ["full"]);
    }

    #[test]
    fn damaged_recordings_are_errors() {
        let error = |line: &str| written(&[line]).unwrap_err().to_string();
        assert!(error("{}").contains("calls.jsonl`:1 is not a line of a trace"));
        let other = r#"{"start":{"version":99,"process":1,"command":[],"library":""}}"#;
        assert!(error(other).contains("has version 99 of the format"), "{}", error(other));
    }
}
