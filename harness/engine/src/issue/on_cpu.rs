//! Runs a PyTorch program once with the device `cpu` in place of the GPU. A failure that also occurs there is not
//! caused by ROCm.

use std::sync::LazyLock;

use judge::Kind;
use plan::Program as CaseProgram;
use regex::Regex;
use report::{
    Record,
    issue::{PrintedProgramRun, Program},
};
use supervise::Cancel;

use super::{as_printed, program::modules};
use crate::{Session, Stop, failing_trial::FailingTrial};

/// PyTorch's name of the GPU, as a Python string.
static DEVICE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""cuda(?::\d+)?"|'cuda(?::\d+)?'"#).ok());

/// Call that copies a tensor or a module to the GPU.
static TO_DEVICE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\.cuda\((?:\d*|non_blocking=\w+)\)").ok());

/// Calls that need no GPU, or have no effect on tensors of the CPU.
static DEVICE_FREE_CALLS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"torch\.cuda\.(?:synchronize|is_available|empty_cache|manual_seed|manual_seed_all|device_count)\b",
    )
    .ok()
});

/// Returns a PyTorch program with the device `cpu` in place of the GPU. Returns `None` if the program does not use
/// PyTorch, or uses the GPU other than by its device name.
fn rewritten(text: &str) -> Option<String> {
    if !text.lines().flat_map(modules).any(|module| module == "torch") {
        return None;
    }
    let named = DEVICE.as_ref()?.replace_all(text, "\"cpu\"");
    let changed = TO_DEVICE.as_ref()?.replace_all(&named, ".cpu()");
    let rest = DEVICE_FREE_CALLS.as_ref()?.replace_all(&changed, "").to_lowercase();
    // Kernels that are compiled for the CPU need a compiler that the machine may lack.
    let other = ["cuda", "hip", "rocm", "triton", "torch.compile"];
    let is_of_gpu = other.iter().any(|word| rest.contains(word));
    (changed != text && !is_of_gpu).then(|| changed.into_owned())
}

/// Runs the program of the issue once on the CPU. Returns `None` if it cannot be rewritten for the CPU, or could not be
/// run.
///
/// # Errors
/// Fails if the case has mistakes, or on a request to stop.
pub(super) fn run(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    of_case: &CaseProgram,
    printed: &Program,
    cancel: &Cancel,
) -> Result<Option<PrintedProgramRun>, Stop> {
    let is_python = printed.language == "python" && subject.faults.is_empty();
    let Some(text) = is_python.then(|| rewritten(&printed.text)).flatten() else {
        return Ok(None);
    };
    let on_cpu = Program { text, ..printed.clone() };
    let ran = as_printed::run(subject, session, failed, of_case, &on_cpu, cancel)?;
    Ok(ran.ok().flatten().and_then(|ran| compare_strictly(failed, ran)))
}

/// Compares a run on the CPU with the failure more strictly: it shows the same failure only if the exception has the
/// same message, or if the same check fails. Two exceptions of one type may have different causes, and so may two
/// failures with one exit status. Returns `None` for a program that was not run.
fn compare_strictly(failed: &Record, ran: PrintedProgramRun) -> Option<PrintedProgramRun> {
    let PrintedProgramRun::Ran { fails_alike, end, last } = ran else { return None };
    let message = judge::last_words(&failed.stderr_tail).unwrap_or_default();
    let shown = last.strip_suffix("...").unwrap_or(&last);
    let is_same = match failed.outcome.kind {
        Kind::WrongData => true,
        _ => !shown.is_empty() && message.starts_with(shown),
    };
    let is_exception = failed.outcome.signature.starts_with("exception:");
    let is_known = is_exception || failed.outcome.kind == Kind::WrongData;
    Some(PrintedProgramRun::Ran { fails_alike: fails_alike && is_same && is_known, end, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_that_name_the_device_are_rewritten() {
        let check = |text: &str, expected: Option<&str>| {
            let text = format!("import torch\n{text}\n");
            let expected = expected.map(|text| format!("import torch\n{text}\n"));
            assert_eq!(rewritten(&text), expected);
        };
        check("x = torch.ones(3, device=\"cuda\")", Some("x = torch.ones(3, device=\"cpu\")"));
        check("x.to('cuda:1').cuda(); y.cuda(0)", Some("x.to(\"cpu\").cpu(); y.cpu()"));
        check(
            "d = \"cuda\" if torch.cuda.is_available() else \"cpu\"; torch.cuda.synchronize()",
            Some("d = \"cpu\" if torch.cuda.is_available() else \"cpu\"; torch.cuda.synchronize()"),
        );
        check("x = torch.ones(3)", None);
        check("x = torch.ones(3, device=\"cuda\"); s = torch.cuda.Stream()", None);
        check("f = torch.compile(g); f(torch.ones(3, device=\"cuda\"))", None);
        assert_eq!(rewritten("import cupy\nx = f(\"cuda\")\n"), None);
    }
}
