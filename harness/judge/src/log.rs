//! What standard error tells of the device.

use crate::{Kind, Location, Observation, Outcome};

/// Begins the lines of the emulated device.
const DEVICE: &str = "rocrepro-device: ";
/// ROCr's own words for a page fault of a GPU, before it aborts the process.
const GPU_FAULT: &str = "Memory access fault by GPU";

/// Lines of the emulated device by which a run proves nothing, with the word for the signature.
const OWN_FAILURES: [(&str, &str, &str); 3] = [
    ("gap: ", "gap", "the emulated device lacks something that this run needs"),
    ("internal error: ", "device-error", "the emulated device failed"),
    ("bad configuration: ", "device-configuration", "the emulated device was misconfigured"),
];

/// No verdict where the emulated device says that it, and not the stack, is at fault.
pub(crate) fn own_failure(stderr: &str) -> Option<Outcome> {
    OWN_FAILURES.iter().find_map(|(mark, word, about)| {
        let text = device_line(stderr, mark)?;
        Some(Outcome::no_verdict(word, format!("{about}: {text}")))
    })
}

/// clr's own words for a queue that the device has given up; see `callbackQueue` in rocclr/device/rocm/rocdevice.cpp of ROCm/clr.
const QUEUE_ABORT: &str = "aborting with error";

/// Makes a failure a memory fault where the device reported one, and so a run whose statuses and bytes are all good: nobody was
/// told of the fault. `refused` says that some call was. Wrong bytes that were read before keep their own outcome: they came first
/// as far as can be told.
pub(crate) fn attribute_fault(
    outcome: Outcome,
    observation: &Observation,
    refused: bool,
) -> Outcome {
    let mut outcome = by_fault(outcome, observation, refused);
    // Which kernel hangs, and what it waits for.
    if outcome.kind == Kind::Hang
        && let Some(text) = device_line(&observation.stderr, "hang: ")
    {
        outcome.details.insert(0, format!("The device says what does not end: {text}"));
    }
    attribute_findings(outcome, &observation.stderr)
}

/// Whatever a run shows whose device goes on after a mistake that its sanitizer found, the mistakes come first: the rest may follow
/// from them.
fn attribute_findings(mut outcome: Outcome, stderr: &str) -> Outcome {
    let mut findings = device_lines(stderr, "finding: ");
    let Some(first) = findings.next() else { return outcome };
    let others: Vec<_> = findings.map(|text| format!("The sanitizer also found: {text}")).collect();
    let site = kernel(first).unwrap_or_else(|| site(&outcome.at));
    let mut found = Outcome::new(
        Kind::MemoryFault,
        format!("memory-fault:{site}"),
        match others.len() {
            0 => format!("the sanitizer found: {first}"),
            more => format!("the sanitizer found: {first} (and {more} more)"),
        },
    );
    found.at = outcome.at;
    found.details = others;
    if outcome.kind != Kind::Pass {
        found.details.push(format!("Seen as: {}", outcome.summary));
    }
    found.details.append(&mut outcome.details);
    found
}

fn by_fault(mut outcome: Outcome, observation: &Observation, refused: bool) -> Outcome {
    let Some((kernel, text)) = memory_fault(&observation.stderr) else {
        return match observation.stderr.lines().find(|line| line.contains(QUEUE_ABORT)) {
            Some(line) if outcome.kind == Kind::Pass && !refused => Outcome::new(
                Kind::ApiError,
                "api-error:queue:aborted".to_owned(),
                format!("a queue was aborted, and no call reported it: {}", line.trim()),
            ),
            _ => outcome,
        };
    };
    match outcome.kind {
        Kind::Pass if refused => {
            outcome.details.push(format!("The device also reported a fault: {text}"));
            outcome
        }
        Kind::Pass
        | Kind::ApiError
        | Kind::Crash
        | Kind::Hang
        | Kind::LibraryExit
        | Kind::TeardownCrash => {
            let site = kernel.unwrap_or_else(|| site(&outcome.at));
            let mut fault = Outcome::new(
                Kind::MemoryFault,
                format!("memory-fault:{site}"),
                format!("the device reported a fault: {text}"),
            );
            fault.at = outcome.at;
            fault.details.push(format!("Seen as: {}", outcome.summary));
            fault.details.append(&mut outcome.details);
            fault
        }
        _ => {
            outcome.details.push(format!("The device also reported a fault: {text}"));
            outcome
        }
    }
}

fn site(at: &Location) -> String {
    match (&at.api, at.phase) {
        (Some(api), _) => api.clone(),
        (None, Some(phase)) => phase.to_string(),
        (None, None) => "device".to_owned(),
    }
}

/// The kernel, where it is named, and what the device said.
fn memory_fault(stderr: &str) -> Option<(Option<String>, String)> {
    let line = fault_line(stderr)?;
    Some((kernel(line), line.to_owned()))
}

/// What the device said of memory that it could not access.
pub(crate) fn fault_line(stderr: &str) -> Option<&str> {
    device_line(stderr, "fault: ")
        .or_else(|| stderr.lines().find(|line| line.contains(GPU_FAULT)).map(str::trim))
}

/// The kernel that a fault or a finding is of, where it is named.
fn kernel(text: &str) -> Option<String> {
    text.strip_prefix("kernel ")
        .and_then(|rest| rest.split(':').next())
        .map(|name| name.trim().trim_end_matches(".kd").to_owned())
        .filter(|name| !name.is_empty())
}

fn device_line<'a>(stderr: &'a str, mark: &'a str) -> Option<&'a str> {
    device_lines(stderr, mark).next()
}

fn device_lines<'a>(stderr: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    // Another thread's text may stand before it on the same line.
    stderr.lines().filter_map(move |line| {
        line.match_indices(DEVICE)
            .find_map(|(at, _)| line[at + DEVICE.len()..].strip_prefix(mark))
            .map(str::trim)
    })
}
