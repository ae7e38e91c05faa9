//! Finds the messages of the device in the worker's standard error, and changes the outcome accordingly.

use crate::{Kind, Location, Observation, Outcome};

const DEVICE: &str = "rocrepro-device: ";
/// Message that ROCr prints when a GPU reports a page fault, before it aborts the process.
const GPU_FAULT: &str = "Memory access fault by GPU";

/// Messages of the emulated device that invalidate a run. Each entry contains the beginning of the message, the last
/// part of the signature, and a text for people.
const OWN_FAILURES: [(&str, &str, &str); 3] = [
    ("gap: ", "gap", "the emulated device does not support a feature that this run needs"),
    ("internal error: ", "device-error", "the emulated device failed"),
    ("bad configuration: ", "device-configuration", "the emulated device was misconfigured"),
];

/// Returns a `no-verdict` outcome if the emulated device reports a failure of the device itself. Such a failure says
/// nothing about the stack.
pub(crate) fn own_failure(stderr: &str) -> Option<Outcome> {
    OWN_FAILURES.iter().find_map(|(mark, word, about)| {
        let text = device_line(stderr, mark)?;
        Some(Outcome::no_verdict(word, format!("{about}: {text}")))
    })
}

/// Message that the HIP runtime (clr) prints when the device has aborted a queue. Source: `callbackQueue` in
/// rocclr/device/rocm/rocdevice.cpp of ROCm/clr.
const QUEUE_ABORT: &str = "aborting with error";

/// Changes an outcome to a memory fault if the device reported one. Two outcomes are kept: that of wrong bytes, which
/// were read before the fault, and a pass if some call failed (`refused`) and thereby reported the fault to the
/// program. After that, if the sanitizer reported findings, changes the outcome to the first finding.
pub(crate) fn attribute_fault(
    outcome: Outcome,
    observation: &Observation,
    refused: bool,
) -> Outcome {
    let mut outcome = attribute_memory_fault(outcome, observation, refused);
    // The device reports which kernel hangs and what the kernel waits for. Its report is added to the details.
    if outcome.kind == Kind::Hang
        && let Some(text) = device_line(&observation.stderr, "hang: ")
    {
        outcome.details.insert(0, format!("The device reports a hang: {text}"));
    }
    attribute_findings(outcome, &observation.stderr)
}

/// Changes an outcome to the first finding of the sanitizer, if any. The device continues after a finding, so a failure
/// that follows may be a consequence of the finding.
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
        found.details.push(format!("Symptom: {}", outcome.summary));
    }
    found.details.append(&mut outcome.details);
    found
}

fn attribute_memory_fault(
    mut outcome: Outcome,
    observation: &Observation,
    refused: bool,
) -> Outcome {
    let Some((kernel, text)) = memory_fault(&observation.stderr) else {
        return match observation.stderr.lines().find(|line| line.contains(QUEUE_ABORT)) {
            Some(line) if outcome.kind == Kind::Pass && !refused => Outcome::new(
                Kind::ApiError,
                "api-error:queue:aborted".to_owned(),
                format!("a queue was aborted, but no call reported it: {}", line.trim()),
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
            fault.details.push(format!("Symptom: {}", outcome.summary));
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

/// Returns the line that reports a memory fault, and the name of the kernel if the line names one.
fn memory_fault(stderr: &str) -> Option<(Option<String>, String)> {
    let line = fault_line(stderr)?;
    Some((kernel(line), line.to_owned()))
}

/// Returns the line in which the device reports an access to invalid memory.
pub(crate) fn fault_line(stderr: &str) -> Option<&str> {
    device_line(stderr, "fault: ")
        .or_else(|| stderr.lines().find(|line| line.contains(GPU_FAULT)).map(str::trim))
}

/// Returns the name of the kernel in the text of a fault or finding; `None` if the text names none.
fn kernel(text: &str) -> Option<String> {
    text.strip_prefix("kernel ")
        .and_then(|rest| rest.split(':').next())
        .map(|name| name.trim().trim_end_matches(".kd").to_owned())
        .filter(|name| !name.is_empty())
}

/// Returns true if the device reported a fault, and each fault is a kernel that stopped itself by a trap.
pub(crate) fn faults_are_aborts(stderr: &str) -> bool {
    let mut faults = device_lines(stderr, "fault: ").peekable();
    faults.peek().is_some() && faults.all(|text| text.contains("device-side abort"))
}

fn device_line<'a>(stderr: &'a str, mark: &'a str) -> Option<&'a str> {
    device_lines(stderr, mark).next()
}

fn device_lines<'a>(stderr: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    // Within a line, output of another thread may precede the prefix of the device's message.
    stderr.lines().filter_map(move |line| {
        line.match_indices(DEVICE)
            .find_map(|(at, _)| line[at + DEVICE.len()..].strip_prefix(mark))
            .map(str::trim)
    })
}
