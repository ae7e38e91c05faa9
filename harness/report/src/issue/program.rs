//! Writes the parts of an issue about a program that rocrepro did not export: the user's own, or one that a case
//! contains.

use std::fmt::Write;

use judge::{End, Kind, Outcome};

use super::{
    Findings, Form, Home,
    findings::{PrintedProgramRun, UnexportedProgram},
    markdown::{fenced, with_interval},
};
use crate::{
    Record,
    failures::{list_failures, other_failure_count},
    words::count,
};

/// Substrings of kernel names by which a library is recognised, each with the library's name in the form.
const KERNELS: [(&str, &str); 8] = [
    ("rocsolver", "rocSOLVER"),
    ("rocsparse", "rocSPARSE"),
    ("rocblas", "rocBLAS"),
    ("Cijk_", "rocBLAS"),
    ("rocfft", "rocFFT"),
    ("rocprim", "rocPRIM"),
    ("rocrand", "rocRAND"),
    ("miopen", "MIOpen"),
];

/// Returns the commands and properties of the program if the issue is about a program that rocrepro did not export,
/// otherwise `None`.
pub(super) fn unexported_program(findings: &Findings) -> Option<&UnexportedProgram> {
    findings.program.as_ref()?.own.as_ref()
}

/// Returns what the user or the case states about the program, as one sentence. Returns `None` for a command without
/// `--title`, because its generated title only says with which status the command should end.
pub(super) fn stated_property(findings: &Findings) -> Option<&str> {
    let title = findings.record.title.as_str();
    let is_made = findings.case.is_empty() && title.contains(" ends with exit status ");
    (!is_made && !title.is_empty()).then_some(title)
}

/// Prefixes of status names that may occur in the messages of exceptions and in the last output of a program.
const STATUSES: [&str; 6] =
    ["hipError", "HIP_ERROR_", "HIPRTC_ERROR_", "HSA_STATUS_", "rocblas_status_", "_STATUS_"];

/// Returns true if the user's program may be the cause of the failure: it passes on none of the tested configurations,
/// no known failure has this signature, and the device found no error in a kernel of a library.
///
/// The checks of a program case of the library count as evidence against ROCm, because each names the source of what it
/// expects. A command or a case of the user has no such source: its output, its exit status and the statuses that it
/// prints only show what the program claims, and HIP also returns an error if a call is not valid.
pub(super) fn may_be_program_error(findings: &Findings) -> bool {
    let Findings { record, controls, .. } = findings;
    let outcome = &record.outcome;
    let passes_elsewhere =
        controls.iter().any(|control| control.rate.runs > 0 && control.rate.failed == 0);
    if fails_on_cpu(findings) {
        return true;
    }
    if findings.launches_own_kernels {
        return may_be_kernel_error(findings);
    }
    unexported_program(findings).is_some()
        && (findings.is_of_the_user || has_only_exit_evidence(outcome))
        && faulting_library(&outcome.signature).is_none()
        && findings.duplicates.is_empty()
        && findings.known_bugs.is_empty()
        && !passes_elsewhere
}

/// Returns true if only a case of the user says that the results of the case's own kernel are wrong, and they are wrong
/// on every release that was tried. A kernel may differ from the formula that the case states for it, so a trial with
/// other axis values that passes shows nothing.
fn may_be_kernel_error(findings: &Findings) -> bool {
    let on_releases = || findings.controls.iter().filter(|control| control.release.is_some());
    findings.is_of_the_user
        && findings.planted.is_empty()
        && findings.record.outcome.kind == Kind::WrongData
        && findings.duplicates.is_empty()
        && findings.known_bugs.is_empty()
        && !on_releases().any(|control| control.rate.runs > 0 && control.rate.failed == 0)
}

/// Returns true if the issue is not to be filed yet: the program may be the cause, and the user has not ruled that out.
pub(super) fn is_draft(findings: &Findings) -> bool {
    !findings.anyway && may_be_program_error(findings)
}

/// Returns true if the program fails in the same way on the CPU. Another failure there shows nothing, because the CPU
/// lacks some operations.
fn fails_on_cpu(findings: &Findings) -> bool {
    matches!(findings.on_cpu, Some(PrintedProgramRun::Ran { fails_alike: true, .. }))
}

/// Explains why the program itself may be the cause.
pub(super) fn explain_doubt(findings: &Findings) -> String {
    if fails_on_cpu(findings) {
        return "**This is not an issue of ROCm: the program fails in the same way on the CPU.** Look for a mistake in the \
                program first, or in the framework."
            .to_owned();
    }
    let first = match is_draft(findings) {
        true => "This is not an issue yet, because nothing",
        false => "Nothing",
    };
    if findings.launches_own_kernels {
        return format!(
            "**{first} shows that ROCm caused this failure.** The case may be wrong: the kernel is defined in the case, \
             and the failure occurs on every release that was tried. Compare the kernel with what the case states in \
             `computes`, and its grid with the number of elements."
        );
    }
    let tried = match findings.controls.is_empty() {
        true => "was not tried on another release, architecture or device",
        false => "passes on no other configuration on which it was tried",
    };
    let status = match names_a_status(&findings.record.outcome) {
        true => {
            " The program shows an error status of ROCm, but ROCm also returns one for an invalid call."
        }
        false => "",
    };
    format!(
        "**{first} shows that ROCm caused this failure.** The program itself may be the cause: it {tried}, and the case library \
         knows no such failure of ROCm.{status} Do not file this before you have ruled out the program, for example by a release \
         or a machine on which it passes."
    )
}

/// Returns true if the only sign of a failure is the way in which the program ended: no check failed, no ROCm status
/// was reported, and the device found no error.
fn has_only_exit_evidence(outcome: &Outcome) -> bool {
    let by_its_end = match outcome.kind {
        Kind::ApiError => ["exit:", "exception:"].iter().any(|s| outcome.signature.starts_with(s)),
        Kind::Crash | Kind::Hang | Kind::LibraryExit | Kind::TeardownCrash => true,
        _ => outcome.signature == "leak:process",
    };
    by_its_end && !names_a_status(outcome)
}

/// Returns true if the output or the exception of the program names an error status of ROCm.
fn names_a_status(outcome: &Outcome) -> bool {
    let mut texts = outcome.details.iter().chain([&outcome.summary]);
    texts.any(|text| STATUSES.iter().any(|status| text.contains(status)))
}

/// Describes the failure in a few words, for the title of the issue.
/// `refused_call` is the last HIP call that returned an error.
pub(super) fn symptom(record: &Record, refused_call: Option<&str>) -> String {
    let outcome = &record.outcome;
    let parts: Vec<&str> = outcome.signature.split(':').collect();
    let part = |n: usize| parts.get(n).copied().unwrap_or_default();
    let during = match part(1) {
        "program" | "" => String::new(),
        phase => format!(" in phase `{phase}`"),
    };
    match (outcome.kind, part(0), part(1), part(2)) {
        (Kind::WrongData, _, "output", "missing") => "the output lacks a required text".to_owned(),
        (Kind::WrongData, _, "output", _) => "the output contains a forbidden text".to_owned(),
        (Kind::WrongData, _, name, "zero") => format!("`{name}` is zero"),
        (Kind::WrongData, _, name, "nan") => format!("`{name}` is NaN"),
        (Kind::WrongData, _, name, "stale") => format!("`{name}` holds its previous content"),
        (Kind::WrongData, _, name, "poison") => {
            format!("`{name}` holds data that was never computed")
        }
        (Kind::WrongData, _, name, "shape") => format!("`{name}` has a wrong shape"),
        (Kind::WrongData, _, name, "false") => format!("the check `{name}` fails"),
        (Kind::WrongData, _, name, _) => match single_value(outcome) {
            Some((got, right)) => format!("`{name}` is {got} instead of {right}"),
            None => format!("`{name}` is wrong"),
        },
        (Kind::ApiError, "exit", status, _) => {
            format!("the program ends with exit status {status}{}", last_refused_call(refused_call))
        }
        (Kind::ApiError, "exception", name, _) => {
            let text = outcome.summary.split_once(&format!("{name}: ")).map(|(_, text)| text);
            let text =
                text.and_then(|text| text.lines().next()).map(|text| text.trim_end_matches('.'));
            let text = text.map_or(String::new(), |text| format!(": {text}"));
            format!("{name}{text}{}", last_refused_call(refused_call))
        }
        (Kind::ApiError, _, name, status) => format!("`{name}` returns {status}"),
        (Kind::CompileError, ..) => "the compiler rejects the program".to_owned(),
        (Kind::Crash, ..) => match record.exit {
            judge::End::Signalled { signal } => {
                let signal = judge::signal(signal);
                let call = outcome.at.api.as_ref().map(|call| format!(" in `{call}`"));
                format!("the program dies of {signal}{}{during}", call.unwrap_or_default())
            }
            _ => format!("the program crashes{during}"),
        },
        (Kind::MemoryFault, ..) => format!("memory fault in `{}`", parts[1..].join(":")),
        (Kind::Hang, ..) => format!("the program hangs{during}"),
        (Kind::TeardownCrash, ..) => {
            let call = outcome.at.api.as_ref().map(|call| format!(" in `{call}`"));
            format!("the program crashes{} after its work is done", call.unwrap_or_default())
        }
        (Kind::LibraryExit, ..) => format!("the program ends before it is done{during}"),
        (Kind::Leak, _, "process", _) => "the program leaves processes behind".to_owned(),
        (Kind::Leak, _, name, _) => match leaked_memory(outcome) {
            Some(lost) => format!("`{name}`: {lost} were not given back"),
            None => format!("`{name}` is not freed"),
        },
        _ => outcome.signature.clone(),
    }
}

/// Names the last HIP call that returned an error, as the end of a sentence. Empty if `refused_call` is `None`.
fn last_refused_call(refused_call: Option<&str>) -> String {
    let call =
        refused_call.and_then(|call| Some((call.split('(').next()?, call.rsplit_once(" -> ")?.1)));
    call.map_or(String::new(), |(call, status)| format!(", after {call} returned {status}"))
}

/// Returns the wrong and the right value of a check that compares a single value. `None` if the check compares several
/// values, or if a value has more than 20 characters.
pub(super) fn single_value(outcome: &Outcome) -> Option<(&str, &str)> {
    if !outcome.summary.contains("1 of 1 wrong") {
        return None;
    }
    let value = |name: &str| {
        let found = outcome.details.iter().find_map(|line| line.trim().strip_prefix(name));
        found.map(str::trim).filter(|value| value.len() <= 20)
    };
    Some((value("got at 0:")?, value("right at 0:")?))
}

/// Returns the amount of memory that the program did not free, as a check of the program measured it; `None` if the
/// summary of the outcome does not contain it.
fn leaked_memory(outcome: &Outcome) -> Option<String> {
    let text = outcome.summary.rsplit(": ").next()?;
    let (before, after) = text.split_once(" before, ")?;
    let after = after.split(" after").next()?;
    let (before, after): (u64, u64) = (before.parse().ok()?, after.parse().ok()?);
    let lost = before.checked_sub(after).filter(|lost| *lost > 0)?;
    Some(match lost % (1 << 20) {
        0 => format!("{} MiB", lost >> 20),
        _ => format!("{lost} bytes"),
    })
}

/// Describes in a sentence what the program should have done.
pub(super) fn expected(outcome: &Outcome) -> String {
    let name = outcome.signature.split(':').nth(1).unwrap_or_default();
    let right = outcome.summary.rsplit_once(", expected ").map(|(_, right)| right);
    match (outcome.kind, right) {
        (Kind::WrongData, _) if name == "output" => {
            "The program prints all required texts and no forbidden text.".to_owned()
        }
        (Kind::ApiError, Some(right)) if !outcome.signature.starts_with("exception:") => {
            format!("`{name}` returns {right}.")
        }
        (Kind::WrongData, _) => match single_value(outcome) {
            Some((_, right)) => format!("`{name}` is {right}."),
            None => format!("The check `{name}` of the program holds."),
        },
        (Kind::MemoryFault, _) => {
            "Kernels access only their own memory, and all conflicting accesses are ordered."
                .to_owned()
        }
        (Kind::Leak, _) if name != "process" => format!("`{name}` is freed."),
        (Kind::CompileError, _) => "The program compiles.".to_owned(),
        (Kind::Hang, _) => "The program finishes.".to_owned(),
        _ => "The program finishes with the expected exit status.".to_owned(),
    }
}

/// Explains how to reproduce the failure with the program in `file`. The program's text is in another section.
pub(super) fn steps(findings: &Findings, file: &str, own: &UnexportedProgram) -> String {
    let mut text = format!("The program is `{file}`");
    text.push_str(match own.text_is_whole {
        true => ", printed above.",
        false => {
            ", which this report does not include; with `--source FILE` it includes a source file."
        }
    });
    if let Some(found) = &findings.shortened {
        let _ = write!(
            text,
            " `rocrepro minimise` shortened it from {} to {}: {} the program still failed in the same way{}.",
            count(found.lines_before, "line"),
            found.lines,
            match found.complete {
                true => "none of these lines can be removed, and",
                false => "some of these lines may still be removable, and",
            },
            match &found.passes {
                Some(place) => format!(" and still passed {place}"),
                None => String::new(),
            }
        );
        let printed = findings.program.as_ref().map_or(0, |it| it.text.lines().count());
        if own.text_is_whole && own.helper.is_none() && printed > found.lines {
            let more = count(printed - found.lines, "line");
            let _ = write!(
                text,
                " The printed text has {more} more, which replace the functions of rocrepro's helper that the \
                 program calls."
            );
        }
        if found.without_checks.is_some() {
            text.push_str(
                " A failing run reaches no check, so the printed text has none. The other runs of this report are of \
                 the program with its checks.",
            );
        }
        if !found.complete {
            text.push_str(
                " It was stopped before it had tried every line, so more may be unnecessary.",
            );
        }
    }
    if let Some(helper) = own.helper {
        let _ = write!(
            text,
            " It checks its results with `{helper}` of rocrepro (one file without dependencies, in \
             `harness/cli/program`), which prints each check if the program is started directly."
        );
    }
    if !own.packages.is_empty() {
        let names: Vec<String> = own.packages.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(text, " It imports {}", names.join(", "));
        // PyPI does not accept versions with a `+` (PEP 440, local version identifiers).
        text.push_str(match own.packages.iter().any(|name| name.contains('+')) {
            true => "; a version with a `+` is not from PyPI.",
            false => ".",
        });
    }
    let _ = write!(
        text,
        "\n\nTo run it directly, on a machine with ROCm and a GPU:\n\n{}",
        fenced("sh", &own.plainly.join("\n"))
    );
    if let Some(run) = &own.as_printed {
        let _ = write!(text, "\n\n{}", as_printed(run));
    }
    let how = match findings.record.device.emulated {
        true => "To run it on the emulated device, as for this report (no GPU is needed)",
        false => "To run it as for this report",
    };
    let _ = write!(text, "\n\n{how}:\n\n{}", fenced("sh", &own.again.join("\n")));
    let rate = findings.rate;
    let _ = write!(
        text,
        "\n\nRun {} before filing, each time in a fresh process: it failed as described in {} of {}.",
        if rate.runs == 1 { "once".to_owned() } else { format!("{} times", rate.runs) },
        rate.failed,
        rate.runs
    );
    if !findings.others.is_empty() {
        let other = other_failure_count(&findings.others);
        let _ = write!(
            text,
            " In {other} of them it failed in another way: {}.",
            list_failures(&findings.others)
        );
    }
    if rate.failed < rate.runs {
        let what = if findings.others.is_empty() { "Its rate" } else { "The rate of that failure" };
        let _ = write!(text, " {what} is {}.", with_interval(rate));
    }
    text
}

/// Describes the result of running the program as the issue prints it.
fn as_printed(run: &PrintedProgramRun) -> String {
    let (fails_alike, end, last) = match run {
        PrintedProgramRun::NotRun(why) => {
            return format!("These commands were not run for this report: {why}.");
        }
        PrintedProgramRun::Ran { fails_alike, end, last } => (fails_alike, end, last),
    };
    let end = match end {
        End::Exited(status) => format!("it ended with exit status {status}"),
        End::Signalled { signal } => format!("it died of {}", judge::signal(*signal)),
        End::TimedOut { .. } => "it hung and was killed".to_owned(),
        _ => "it is unknown how it ended".to_owned(),
    };
    let last = match last.as_str() {
        "" => " without output".to_owned(),
        last => format!("; the last line of its output was `{last}`"),
    };
    let how =
        if *fails_alike { "it failed as described" } else { "**it did not fail as described**" };
    format!(
        "The program was run once with exactly these commands, in an empty folder, on the stack and device of this \
         report, and {how}: {end}{last}."
    )
}

/// Describes the interpreter and the Python packages with which the program ran. `None` if they are unknown.
pub(super) fn packages(record: &Record) -> Option<String> {
    let program = record.program.as_ref()?;
    let runs_on = program.runs_on.as_ref().map(|it| match it.strip_prefix("C++, ") {
        Some(compiler) => format!("The program is C++ {compiler}."),
        None => format!("Interpreter of the program: {it}."),
    });
    let packages = (!program.packages.is_empty()).then(|| {
        let n = count(program.packages.len(), "Python package");
        format!("{n} in the environment of the program: {}.", program.packages.join(", "))
    });
    let parts: Vec<String> = runs_on.into_iter().chain(packages).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Returns the library that contains the kernel in which a memory fault occurred, recognised by the kernel's name in
/// the signature. `None` if the failure is not a memory fault, or if the library is unknown.
pub fn faulting_library(signature: &str) -> Option<&'static str> {
    let fault = signature.strip_prefix("memory-fault:")?;
    KERNELS.iter().find(|(mark, _)| fault.contains(mark)).map(|(_, library)| *library)
}

/// Selects the repository for an issue about a program. The result is less certain than for a failing call of a plan.
pub(super) fn home(record: &Record) -> Home {
    let outcome = &record.outcome;
    let fault = outcome.signature.strip_prefix("memory-fault:").unwrap_or_default();
    if let Some((mark, library)) = KERNELS.iter().find(|(mark, _)| fault.contains(mark)) {
        return Home {
            repository: "ROCm/rocm-libraries",
            component: library,
            why: format!("the kernel belongs to {library}, because its name contains `{mark}`"),
            form: Form::RocmLibraries,
        };
    }
    let runtime = |component, repository, why: &str| Home {
        repository,
        component,
        why: why.to_owned(),
        form: Form::Rocm,
    };
    let packages = record.program.iter().flat_map(|program| &program.packages);
    let mut names = packages.map(|package| package.split("==").next().unwrap_or_default());
    match outcome.kind {
        Kind::CompileError => {
            runtime("llvm-project", "ROCm/llvm-project", "the compiler rejects the program")
        }
        Kind::WrongData if names.any(|name| name == "triton") => Home {
            repository: "triton-lang/triton",
            component: "Triton",
            why: "the numbers are wrong, and Triton (from PyPI) compiled the kernels with its own compiler".to_owned(),
            form: Form::Triton,
        },
        _ => runtime(
            "clr",
            "ROCm/rocm-systems",
            "the results do not point to a library above the HIP runtime; but this is only a guess",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProgramRun, fixture::failed};

    fn record(kind: Kind, signature: &str, summary: &str) -> Record {
        let mut record = failed("programs/a");
        record.outcome.kind = kind;
        record.outcome.signature = signature.to_owned();
        record.outcome.summary = summary.to_owned();
        record.outcome.at.api = None;
        record
    }

    #[test]
    fn describes_every_kind_of_failure() {
        let check = |kind, signature: &str, summary: &str, words: &str, right: &str| {
            let mut record = record(kind, signature, summary);
            record.exit = judge::End::Signalled { signal: 11 };
            let described = (symptom(&record, None), expected(&record.outcome));
            assert_eq!((described.0.as_str(), described.1.as_str()), (words, right));
        };
        let ends = "The program finishes with the expected exit status.";
        check(Kind::ApiError, "exit:4", "", "the program ends with exit status 4", ends);
        check(Kind::Crash, "crash:program", "", "the program dies of SIGSEGV", ends);
        check(
            Kind::Crash,
            "crash:middle",
            "",
            "the program dies of SIGSEGV in phase `middle`",
            ends,
        );
        check(
            Kind::ApiError,
            "api-error:launch:hipSuccess",
            "launch: answers hipSuccess, expected hipErrorNoBinaryForGpu",
            "`launch` returns hipSuccess",
            "`launch` returns hipErrorNoBinaryForGpu.",
        );
        let mut in_call = record(Kind::Crash, "crash:program:SIGSEGV", "");
        in_call.exit = judge::End::Signalled { signal: 11 };
        in_call.outcome.at.api = Some("hipFree".to_owned());
        assert_eq!(symptom(&in_call, None), "the program dies of SIGSEGV in `hipFree`");
        in_call.outcome.kind = Kind::TeardownCrash;
        assert_eq!(
            symptom(&in_call, None),
            "the program crashes in `hipFree` after its work is done"
        );
        let refused = "hipStreamEndCapture(0x1, 0x2) -> hipErrorStreamCaptureInvalidated";
        let raised = record(
            Kind::ApiError,
            "exception:RuntimeError:a.py:16",
            "the program ended with an exception (line 16 of a.py): RuntimeError: HIP error: no\nmore",
        );
        assert_eq!(
            symptom(&raised, Some(refused)),
            "RuntimeError: HIP error: no, after hipStreamEndCapture returned hipErrorStreamCaptureInvalidated"
        );
        let lost = "memory (line 41): 1431654400 before, 22368256 after";
        check(
            Kind::Leak,
            "leak:memory:lost",
            lost,
            "`memory`: 1344 MiB were not given back",
            "`memory` is freed.",
        );
        let mut single =
            record(Kind::WrongData, "wrong-data:lock:other", "lock: 1 of 1 wrong from element 0");
        single.outcome.details = vec!["  got at 0: 2".to_owned(), "right at 0: 1".to_owned()];
        assert_eq!(symptom(&single, None), "`lock` is 2 instead of 1");
        assert_eq!(expected(&single.outcome), "`lock` is 1.");
        let holds = "The check `sum` of the program holds.";
        check(Kind::WrongData, "wrong-data:sum:other", "", "`sum` is wrong", holds);
        check(
            Kind::WrongData,
            "wrong-data:output:missing",
            "",
            "the output lacks a required text",
            "The program prints all required texts and no forbidden text.",
        );
    }

    #[test]
    fn kernel_name_selects_the_repository() {
        let check = |record: &Record, wanted: &str| {
            let home = home(record);
            assert_eq!(format!("{} {}", home.repository, home.component), wanted);
        };
        let potf2 = "memory-fault:_ZN9rocsolver9v33100700L18potf2_kernel_smallE";
        let solver = record(Kind::MemoryFault, potf2, "");
        check(&solver, "ROCm/rocm-libraries rocSOLVER");
        let mut wrong = record(Kind::WrongData, "wrong-data:max:other", "");
        check(&wrong, "ROCm/rocm-systems clr");
        wrong.program = Some(Box::new(ProgramRun {
            kind: "python".to_owned(),
            runs_on: None,
            environment: None,
            packages: vec!["numpy==2.0".to_owned(), "triton==3.9.0".to_owned()],
            lock: None,
            checks: Vec::new(),
        }));
        check(&wrong, "triton-lang/triton Triton");
        assert_eq!(
            packages(&wrong).as_deref(),
            Some("2 Python packages in the environment of the program: numpy==2.0, triton==3.9.0.")
        );
        // A crash does not indicate that the compiler is the cause.
        wrong.outcome.kind = Kind::Crash;
        check(&wrong, "ROCm/rocm-systems clr");
    }
}
