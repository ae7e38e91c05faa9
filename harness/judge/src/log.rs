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
    mut outcome: Outcome,
    observation: &Observation,
    refused: bool,
) -> Outcome {
    let Some((kernel, text)) = memory_fault(&observation.stderr) else {
        return match observation.stderr.lines().find(|line| line.contains(QUEUE_ABORT)) {
            Some(line) if outcome.kind == Kind::Pass && !refused => Outcome::new(
                Kind::ApiError,
                "api-error:queue:aborted".to_owned(),
                format!("a queue was aborted, and no call told of it: {}", line.trim()),
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
    if let Some(text) = device_line(stderr, "fault: ") {
        let kernel = text
            .strip_prefix("kernel ")
            .and_then(|rest| rest.split(':').next())
            .map(|name| name.trim().trim_end_matches(".kd").to_owned())
            .filter(|name| !name.is_empty());
        return Some((kernel, text.to_owned()));
    }
    let line = stderr.lines().find(|line| line.contains(GPU_FAULT))?;
    Some((None, line.trim().to_owned()))
}

fn device_line<'a>(stderr: &'a str, mark: &str) -> Option<&'a str> {
    // Another thread's text may stand before it on the same line.
    stderr.lines().find_map(|line| {
        line.match_indices(DEVICE)
            .find_map(|(at, _)| line[at + DEVICE.len()..].strip_prefix(mark))
            .map(str::trim)
    })
}
