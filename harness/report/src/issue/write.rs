//! Writes the sections of an issue about a trial.

use std::{cmp::Ordering, fmt::Write};

use judge::Kind;

use super::{
    Findings, Home,
    markdown::{fenced, folded, interval, with_interval},
    program as own_program,
    title::symptom,
};
use crate::{
    evidence::{ExportEvidence, Factor, FactorKind, FactorVerdict, PassingRuns, Rate, Setting},
    expected_behaviour,
    failures::{any_failure_rate, format_failures, list_failures},
    words::{count, without_lines},
};

/// Returns the warnings at the top of the issue, about an injected fault, an unfinished report or an error in the
/// program itself. Empty if nothing needs a warning.
pub(super) fn warnings(findings: &Findings) -> String {
    let mut notes = Vec::new();
    if !findings.planted.is_empty() {
        notes.push(format!(
            "**This failure was injected on purpose** (`{}`) to test the tool that found it. It says nothing about any ROCm \
             release. Do not file it.",
            findings.planted.join("`, `")
        ));
    }
    if let Some(missing) = findings.unfinished {
        notes.push(format!(
            "**This report is not finished:** rocrepro was still working on {missing} when it wrote this, or it was stopped."
        ));
    }
    if let Some(mistake) = &findings.mistake {
        notes.push(format!(
            "**The most likely cause is {}, not ROCm:** {}. Reproduce it with `{}`. Do not file this report before \
             the error is fixed or shown to be a false alarm.",
            match own_program::unexported_program(findings) {
                Some(_) => "the program itself",
                None => "a kernel defined in the case",
            },
            mistake.found,
            mistake.again
        ));
    }
    if own_program::may_be_program_error(findings) {
        notes.push(own_program::explain_doubt(findings));
    }
    notes.iter().map(|note| format!("> {note}")).collect::<Vec<_>>().join("\n>\n")
}

/// Returns the warning that the failure was found on an emulated device. Empty for a failure on a GPU.
pub(super) fn emulation_notice(findings: &Findings) -> String {
    let device = &findings.record.device;
    if !device.emulated {
        return String::new();
    }
    let (gfx, builds) = (&device.gfx, builds(findings));
    let program = match requirements_if_standalone(findings) {
        Some(needs) => format!("; the program needs only {needs}"),
        None => String::new(),
    };
    let libraries = match own_program::unexported_program(findings) {
        // The program's own Python packages may contain the other libraries.
        Some(_) => "ROCm's libraries",
        None => "the libraries",
    };
    let kernels = match launches_nothing(findings) {
        true => {
            " The program launches no kernel, so at most ROCm's own kernels, such as copies, ran on it."
        }
        false => "",
    };
    format!(
        "> **Found on an emulated {gfx}, not on a GPU. Please confirm on hardware**{program}. The HIP runtime and \
         {libraries} are {builds}. [rocrepro]({REPOSITORY}) replaces the HSA runtime, the driver and the GPU, and it may \
         have bugs of its own.{kernels}"
    )
}

/// Address of the project's repository.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Returns true if the issue contains the whole program in C++, and the program launches no kernel and calls no library.
fn launches_nothing(findings: &Findings) -> bool {
    const LAUNCHES: [&str; 8] =
        ["<<<", "Launch", "Kernel", "hiprand", "hipblas", "rocblas", "__global__", "#include \""];
    let text = findings.program.as_ref().filter(|program| program.language == "cpp");
    let text = text.map(|program| program.text.as_str()).filter(|text| !text.is_empty());
    let text = text.map(|text| text.replace("hipLaunchHostFunc", ""));
    text.is_some_and(|text| LAUNCHES.iter().all(|word| !text.contains(word)))
}

/// Describes where the libraries are from. Builds by a distribution contain the distribution's patches.
fn builds(findings: &Findings) -> String {
    let spec = &findings.record.stack.spec;
    match findings.packages.is_empty() {
        true => format!("those found in `{spec}`"),
        false => "those of Debian's packages, with Debian's patches (versions below)".to_owned(),
    }
}

/// Describes what the exported program requires in addition to a C++ compiler: HIP, hipRTC if the program uses it, and
/// the devices that the program needs. `None` if the trial calls other libraries of ROCm, or if the program was not
/// exported.
fn requirements_if_standalone(findings: &Findings) -> Option<String> {
    let program = findings.program.as_ref().filter(|program| program.own.is_none())?;
    let hiprtc = program.text.contains("<hip/hiprtc.h>");
    let libraries = if hiprtc { "HIP and hipRTC" } else { "HIP" };
    let needs = |line: &str| Some(line.strip_prefix("// Needs ")?.strip_suffix('.')?.to_owned());
    let devices = program.text.lines().find_map(needs);
    let devices = devices.map_or_else(String::new, |devices| format!(", and {devices}"));
    findings.libraries.is_empty().then(|| format!("{libraries}{devices}"))
}

fn summary(findings: &Findings) -> String {
    without_case_lines(findings, &findings.record.outcome.summary)
}

/// Removes line numbers of the case file from a sentence if the issue contains a program instead of the case.
fn without_case_lines(findings: &Findings, text: &str) -> String {
    let is_printed = findings
        .program
        .as_ref()
        .is_some_and(|program| program.own.as_ref().is_none_or(|own| own.in_case));
    if is_printed { without_lines(text) } else { text.to_owned() }
}

/// Formats a sentence: a capital letter at the start, unless the text starts with a name, and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.trim().chars();
    let start: String = match letters.next() {
        // If the text starts with the name of a function or buffer, its first letter is not changed.
        Some(c) if text.starts_with("the ") || text.starts_with("every ") => {
            c.to_uppercase().collect()
        }
        Some(c) => c.to_string(),
        None => String::new(),
    };
    let text = start + letters.as_str();
    if text.ends_with(['.', '!', '?']) || text.is_empty() { text } else { text + "." }
}

pub(super) fn expected_and_actual(findings: &Findings) -> String {
    let mut right = expected(findings);
    for source in &findings.sources {
        let _ = write!(right, " {}", sentence(source));
    }
    format!("**Expected:** {right}\n\n**Actual:** {}", actual(findings))
}

pub(super) fn expected(findings: &Findings) -> String {
    let outcome = &findings.record.outcome;
    if own_program::unexported_program(findings).is_some() {
        let title = own_program::stated_property(findings).map_or_else(String::new, sentence);
        let mut right = format!("{title} {}", own_program::expected(outcome)).trim().to_owned();
        // The last call of a known failure is the one that fails.
        let bug = findings.known_bugs.iter().find(|bug| !bug.calls.is_empty());
        let call = bug.and_then(|bug| bug.calls.last()).and_then(|call| call.split_once(" -> "));
        if let Some((call, status)) = call {
            let function = call.split('(').next().unwrap_or(call);
            let _ = write!(right, " `{function}` does not return `{status}` there.");
        }
        return right;
    }
    let summary = without_lines(&outcome.summary);
    let right = summary.split_once(judge::EXPECTED).map(|(_, right)| right);
    let holds = match right.zip(outcome.signature.split(':').nth(1)) {
        Some((right, buffer)) if outcome.kind == Kind::WrongData => {
            format!("{buffer} holds {right}")
        }
        _ => expected_behaviour(outcome),
    };
    let holds = sentence(&holds);
    // The title of the case describes neither a reduced case nor a single failing call.
    let whole = findings.minimised.is_none() && outcome.kind != Kind::ApiError;
    if whole { format!("{} {holds}", sentence(&findings.record.title)) } else { holds }
}

pub(super) fn actual(findings: &Findings) -> String {
    let record = &findings.record;
    let is_own = own_program::unexported_program(findings).is_some();
    let mut text = match record.outcome.kind {
        Kind::WrongData if is_own && own_program::single_value(&record.outcome).is_some() => {
            sentence(&symptom(findings))
        }
        // The symptom is described in words only. The summary adds the numbers.
        Kind::WrongData | Kind::Leak => {
            format!("{}: {}", symptom(findings), sentence(&summary(findings)))
        }
        _ => sentence(&summary(findings)),
    };
    if findings.program.is_none() && record.outcome.summary.contains("(line ") {
        text.push_str(" Line numbers refer to the case at the end.");
    }
    let _ = write!(text, " Signature: `{}`.", record.outcome.signature);
    let details = record.outcome.observed_details();
    let mut lines: Vec<String> = details.map(|text| without_case_lines(findings, text)).collect();
    if let Some(call) = &findings.refused_call {
        lines.push(format!("The last HIP call that returned an error: {call}"));
    }
    if let Some(call) = &findings.open_call {
        lines.push(format!("{call} had not returned when the program ended"));
    }
    if let judge::End::Signalled { signal } = record.exit {
        let signal = judge::signal(signal);
        if !record.outcome.summary.contains(&signal) {
            lines.insert(0, format!("the process was killed by {signal}"));
        }
    }
    let traceback = match record.outcome.signature.starts_with("exception:") {
        true => judge::traceback(&record.stderr_tail),
        false => Vec::new(),
    };
    if let Some(named) = traceback.last() {
        lines.retain(|line| !line.trim_end().ends_with(named.trim_end()));
        lines.extend(traceback.iter().map(|line| (*line).to_owned()));
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n\n{}", fenced("", &lines.join("\n")));
    }
    text
}

/// Returns a short description of the change that a mitigation makes, for example `` `NAME=VALUE` ``.
pub(super) fn factor_title(factor: &Factor) -> String {
    match factor.kind {
        FactorKind::Env => format!("`{}={}`", factor.name, factor.value),
        FactorKind::Limit => format!("limit `{}={}`", factor.name, factor.value),
        FactorKind::Rewrite => format!("calls: {}", factor.name),
    }
}

/// Formats a table of the mitigations that were tried and their effects. `None` if none were tried.
pub(super) fn mitigations(findings: &Findings) -> Option<String> {
    let found = findings.mitigations.as_ref().filter(|found| !found.factors.is_empty())?;
    let mut text = format!(
        "#### Settings that were tried\n\n{} fails in {} runs without any change{}.\n\n",
        // The rates below are those of the case. The exported program may have other ones.
        match &findings.program {
            Some(program) if program.own.is_none() =>
                "The case from which the program above was printed",
            Some(_) => "The program",
            None => "The case",
        },
        match found.base_others.is_empty() {
            true => with_interval(found.base),
            false => any_failure_rate(found.base, &found.base_others).to_string(),
        },
        match found.base_others.as_slice() {
            [] => String::new(),
            others => format!(
                ", of which {} failed as described here{}, {}",
                found.base.failed,
                interval(found.base),
                list_failures(others)
            ),
        }
    );
    let title = factor_title;
    let of = |wanted: fn(&FactorVerdict) -> bool| {
        let found = found.factors.iter().filter(|f| wanted(&f.verdict));
        found.map(|f| format!("{} ({})", title(f), f.outcomes())).collect::<Vec<_>>()
    };
    let lists = [
        ("Helps", of(|v| *v == FactorVerdict::Helped)),
        ("Fails in another way", of(|v| matches!(v, FactorVerdict::ChangedSignature { .. }))),
        ("Makes the failure rarer", of(|v| *v == FactorVerdict::Rarer)),
        ("Undecided", of(|v| *v == FactorVerdict::Undecided)),
        (
            "Not conclusive: the expected result in the case may not apply to the changed calls",
            of(|v| matches!(v, FactorVerdict::Wrong { .. })),
        ),
    ];
    let lists = lists.iter().filter(|(_, names)| !names.is_empty());
    let lists: Vec<_> =
        lists.map(|(what, names)| format!("* **{what}:** {}", names.join(", "))).collect();
    text.push_str(&lists.join("\n"));
    let with: Vec<_> =
        found.factors.iter().filter(|f| f.verdict != FactorVerdict::NoEffect).collect();
    if !with.is_empty() {
        text.push_str(
            "\n\n| change | failures | without it | effect | what it changes |\n| --- | --- | --- | --- | --- |",
        );
    }
    for factor in with {
        let effect = match &factor.verdict {
            FactorVerdict::Helped => "**helps**".to_owned(),
            FactorVerdict::NoEffect => "none".to_owned(),
            FactorVerdict::ChangedSignature { .. } => factor.outcomes(),
            FactorVerdict::Rarer => "rarer".to_owned(),
            FactorVerdict::Wrong { to } => format!("not conclusive: `{to}`"),
            FactorVerdict::Undecided => "undecided".to_owned(),
        };
        let _ = write!(
            text,
            "\n| {} | {} | {} | {effect} | {} |",
            title(factor),
            factor.any_failure().map_or("unknown".to_owned(), |rate| rate.to_string()),
            format_failures(found.base, &found.base_others),
            factor.meaning
        );
    }
    match found.minimal_set.as_slice() {
        [] => {}
        set => {
            let _ = write!(text, "\n\nThese help only together: `{}`.", set.join("`, `"));
        }
    }
    if !found.points_to.is_empty() {
        let _ = write!(text, "\n\nThis points to: {}.", found.points_to.join(", "));
    }
    let useless = of(|v| *v == FactorVerdict::NoEffect);
    if !useless.is_empty() {
        let title = format!("{} that did not help", count(useless.len(), "change"));
        let _ = write!(text, "\n\n{}", folded(&title, &useless.join(", ")));
    }
    Some(text)
}

/// Explains how to reproduce the failure with the exported program or the case, which is in another section.
pub(super) fn steps(findings: &Findings) -> String {
    let Some(program) = &findings.program else {
        return format!(
            "This report has no stand-alone program. With rocrepro:\n\n{}",
            fenced("sh", &findings.record.again)
        );
    };
    if let Some(own) = &program.own {
        return own_program::steps(findings, &program.file, own);
    }
    let mut text = match requirements_if_standalone(findings) {
        Some(needs) => {
            format!("The program above, `{}`, needs only {needs}.", program.file)
        }
        None => {
            format!(
                "The program is the one above, `{}`; its build command lists the required libraries.",
                program.file
            )
        }
    };
    let Some(exported) = &program.exported else { return text };
    let lines: Vec<&str> = [exported.build.as_str(), exported.run.as_str()]
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect();
    if !lines.is_empty() {
        let _ = write!(text, "\n\n{}", fenced("sh", &lines.join("\n")));
    }
    let Some(verified) = exported.verified else {
        return text + "\n\n**Not built or run yet**: HIP headers or a compiler were missing.";
    };
    if exported.build.contains("/opt/rocm") {
        let _ = write!(
            text,
            "\n\nThe paths are those of an installation in /opt/rocm. For this report the program was built with the \
             headers of `{}`{}.",
            findings.record.stack.spec,
            match findings.libraries.is_empty() {
                true => "",
                false =>
                    ", without the libraries in the build command that this release does not contain",
            }
        );
    }
    let _ = write!(text, "\n\n{}", export_result(exported, verified, findings.rate));
    if exported.traces_equal == Some(true) && verified.failed == verified.runs {
        text.push_str(
            " It makes the same API calls as its case, in the same order (traces compared).",
        );
    }
    match &exported.passes {
        Some(PassingRuns { on, rate, otherwise }) => {
            let _ = write!(
                text,
                "\n\nThe same program passed in {} of {} runs on {}{}.",
                rate.runs - rate.failed,
                rate.runs,
                describe_setting(on),
                if findings.planted.is_empty() { "" } else { ", without the injected fault" }
            );
            if !otherwise.is_empty() {
                let _ = write!(
                    text,
                    " There, earlier calls return other values, as the case expects ({}), so the pass does not show \
                     that the later calls work from the same state.",
                    otherwise.join("; ")
                );
            }
        }
        None if findings.planted.is_empty() => text.push_str(
            "\n\nNo release was found on which the program passes, so no run confirms that the program itself is \
             correct.",
        ),
        None => {}
    }
    text
}

/// Describes how often the exported program showed the failure, in comparison with the reported failure rate.
fn export_result(exported: &ExportEvidence, verified: Rate, reported: Rate) -> String {
    let Rate { failed, runs } = verified;
    if failed == 0 {
        return format!(
            "**It was built and run {runs} times and did not show this failure**; only the rocrepro test at the end \
             does."
        );
    }
    let mut text = format!(
        "Built and run before filing: it failed as described in {failed} of {runs} fresh processes."
    );
    if let Some(ended) = &exported.ended {
        let _ = write!(text, " A failing run ended with: `{ended}`.");
    }
    let rates = || {
        format!("{}, and that of its case is {}", with_interval(verified), with_interval(reported))
    };
    match verified.compare(reported) {
        Ordering::Equal if failed == runs && reported.failed == reported.runs => {}
        Ordering::Equal => {
            let _ = write!(text, " Its rate is {}: these runs do not show a difference.", rates());
        }
        Ordering::Less => {
            let _ =
                write!(text, " **It fails less often than its case**: its rate is {}.", rates());
        }
        Ordering::Greater => {
            let _ = write!(text, " It fails more often than its case: its rate is {}.", rates());
        }
    }
    if failed < runs {
        // Number of runs in which the failure occurs at least once with a probability of 95 %.
        let miss = 1.0 - f64::from(failed) / f64::from(runs);
        let most = (0.05_f64.ln() / miss.ln()).ceil();
        let _ =
            write!(text, " Run it in a loop: `for i in $(seq {most}); do ./repro || break; done`.");
    }
    if exported.cut_short {
        let tries = exported.tries.map_or(String::new(), |n| format!(" after {}", count(n, "run")));
        let _ = write!(
            text,
            " It may not be the shortest program, because the search was stopped{tries}."
        );
    }
    text
}

/// Describes a configuration: `ROCm 5.7.1 (debian:5.7.1) on the emulated gfx1100`.
pub(super) fn describe_setting(on: &Setting) -> String {
    let rocm = on.rocm.as_ref().map_or(String::new(), |v| format!("ROCm {v} "));
    let emulated = if on.emulated { "the emulated " } else { "" };
    format!("{rocm}({}) on {emulated}{}", on.stack, on.gfx)
}

/// Explains why the issue belongs in the repository that `home` names. Empty for a draft.
pub(super) fn repository(findings: &Findings, home: &Home) -> String {
    if own_program::is_draft(findings) {
        return String::new();
    }
    let Home { why, component, repository, .. } = home;
    format!("**Filed here because** {why} (component {component}; {repository}).")
}

/// Lists the builds of the libraries in the failing process, and its environment.
pub(super) fn builds_and_environment(findings: &Findings) -> String {
    let record = &findings.record;
    let mut text = String::new();
    if record.stack.libraries.is_empty() {
        text.push_str("Unknown: the process ended before it could report them.");
    } else {
        text.push_str("| library | build id |\n| --- | --- |");
        for library in &record.stack.libraries {
            let id = match library.build_id.as_deref().unwrap_or("none") {
                _ if record.device.emulated && library.name.starts_with("libhsa-runtime64") => {
                    "(the emulated device)"
                }
                id => id,
            };
            let _ = write!(text, "\n| {} | {id} |", library.name);
        }
    }
    if !findings.packages.is_empty() {
        let names: Vec<_> =
            findings.packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let _ = write!(text, "\n\nDebian packages, with Debian's patches: {}.", names.join(", "));
    }
    if let Some(packages) = own_program::packages(record) {
        let _ = write!(text, "\n\n{packages}");
    }
    if !findings.variables.is_empty() {
        let given: Vec<_> = findings.variables.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let _ = write!(
            text,
            "\n\nAdditional variables in the environment of the failing run: `{}`.",
            given.join(" ")
        );
    } else {
        text.push_str("\n\nThe environment of the failing run was clean: no variable of HIP, HSA or PyTorch was set.");
    }
    let limits = record.limits.iter().filter(|(_, limit)| *limit != "unlimited");
    let limits: Vec<_> = limits.map(|(k, v)| format!("{k}={v}")).collect();
    if !limits.is_empty() {
        let _ = write!(text, "\n\nLimits of the failing run (ulimit): `{}`.", limits.join(" "));
    }
    folded("Libraries and environment of the failing process", &text)
}

/// Returns a collapsed section with the case that repeats the runs: the minimal case if there is one.
pub(super) fn case(findings: &Findings) -> String {
    let record = &findings.record;
    let Some(minimal) = &findings.minimised else {
        let again = fenced("sh", &record.again);
        return folded(
            "The case, for rocrepro",
            &format!("{again}\n\n{}", fenced("yaml", &findings.case)),
        );
    };
    let (smaller, found) = (&record.again, &minimal.on.again);
    let again = fenced("sh", &format!("{smaller}   # reduced\n{found}   # as found"));
    folded(
        "The reduced case, case.yaml, for rocrepro",
        &format!("{again}\n\n{}", fenced("yaml", &minimal.yaml)),
    )
}

/// Returns the description of the machine as a collapsed section.
pub(super) fn environment(findings: &Findings) -> String {
    folded("Machine (rocrepro doctor)", &fenced("", &findings.environment.text()))
}

pub(super) fn log(title: &str, text: &str) -> String {
    folded(title, &fenced("", text))
}

/// Returns the last line of the issue: the version of rocrepro that wrote the issue, and the command that writes it
/// again.
pub(super) fn colophon(findings: &Findings) -> String {
    let record = &findings.record;
    format!(
        "<sub>Written by rocrepro {} on {} from measured runs; repeat it with `{}`.</sub>",
        record.rocrepro, record.date, findings.again
    )
}
