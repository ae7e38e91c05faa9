//! Writes the sections of an issue about a trial.

use std::{cmp::Ordering, fmt::Write};

use judge::Kind;

use super::{
    Control, Findings, Home,
    markdown::{fenced, folded, with_interval},
    program as own_program,
};
use crate::{
    evidence::{Exported, Factor, FactorKind, FactorVerdict, Passes, Rate, Setting},
    must_hold,
    text::visible,
    words::{count, without_lines},
};

/// Describes the failure in a few words: `hipGraphInstantiate dies of SIGABRT`.
pub(super) fn symptom(findings: &Findings) -> String {
    let outcome = &findings.record.outcome;
    if own_program::own(findings).is_some() {
        return own_program::symptom(&findings.record);
    }
    let parts: Vec<&str> = outcome.signature.split(':').collect();
    let part = |n: usize| parts.get(n).copied().unwrap_or_default();
    let api = outcome.at.api.as_deref().unwrap_or("the process");
    match outcome.kind {
        Kind::WrongData => wrong_data(part(1), part(2), &outcome.summary),
        Kind::ApiError if part(0) == "unexpected-value" => {
            format!("`{}` gives `{}`", part(1), part(2))
        }
        Kind::ApiError => format!("`{}` returns {}", part(1), part(2)),
        Kind::CompileError => "hipRTC refuses a valid kernel".to_owned(),
        Kind::Crash => format!("crash in `{api}`"),
        Kind::MemoryFault => format!("memory access fault in `{}`", parts[1..].join(":")),
        Kind::Hang => format!("hang in `{api}`"),
        Kind::TeardownCrash => "crash after the work is done".to_owned(),
        Kind::LibraryExit => format!("`{api}` exits the process"),
        Kind::Leak => "memory is not freed".to_owned(),
        Kind::KernelError => {
            "the GPU driver logs an error although all results are right".to_owned()
        }
        Kind::Pass | Kind::Skip | Kind::NoVerdict => outcome.signature.clone(),
    }
}

/// Describes the wrong bytes of a buffer, given the class of wrong data in the signature.
fn wrong_data(buffer: &str, class: &str, summary: &str) -> String {
    match class {
        "zero" => format!("`{buffer}` holds zeros instead of its data"),
        "poison" => format!("`{buffer}` holds the bytes of fresh memory instead of its data"),
        "stale" => format!("`{buffer}` holds older data"),
        "later" => format!("`{buffer}` holds later data"),
        "other" => format!("`{buffer}` holds data of another buffer"),
        "same" | "unequal" => without_lines(summary),
        _ => format!("wrong data in `{buffer}` ({class})"),
    }
}

/// Returns the title of the issue, without the prefix that the form demands.
pub(super) fn title(findings: &Findings) -> String {
    let record = &findings.record;
    let values =
        record.trial.split_once('[').map_or("", |(_, values)| values.trim_end_matches(']'));
    // A minimal case has no axes. The value of an axis in the original case is named only if another value passes.
    let decides = |value: &&str| {
        let axis = value.split('=').next().unwrap_or_default();
        let other = |control: &Control| {
            control.rate.failed == 0
                && control.what.ends_with(&format!(" instead of {value}"))
                && control.what.starts_with(&format!("{axis}="))
        };
        findings.minimised.is_none() || findings.controls.iter().any(other)
    };
    let values: Vec<&str> = values.split(',').filter(|v| !v.is_empty()).filter(decides).collect();
    let values =
        if values.is_empty() { String::new() } else { format!(" with {}", values.join(",")) };
    let release = match &record.stack.rocm {
        Some(version) => format!("ROCm {version}"),
        None => record.stack.spec.clone(),
    };
    let emulated = if record.device.emulated { " (emulated)" } else { "" };
    let gfx = record.device.gfx.split(':').next().unwrap_or_default();
    let words = record.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let test = words.trim_end_matches('.');
    let failure = format!("{}{values} on {release}, {gfx}{emulated}", symptom(findings));
    let title = with_context(&failure, test);
    let title = visible(&title).replace('`', "").replace(['\n', '\t'], " ");
    if findings.planted.is_empty() { title } else { format!("INJECTED, do not file: {title}") }
}

/// Longest title in characters, without the prefixes.
const LONGEST_TITLE: usize = 120;

/// Adds to the description of a failure the title of the case that does not hold, cut after a word if that is too long.
fn with_context(failure: &str, test: &str) -> String {
    let start = format!("{failure}; violates: ");
    let room = LONGEST_TITLE.saturating_sub(start.chars().count());
    if test.chars().count() <= room {
        return start + test;
    }
    let mut shown = String::new();
    for word in test.split(' ') {
        if shown.chars().count() + word.chars().count() + " ...".len() > room {
            break;
        }
        shown.push_str(word);
        shown.push(' ');
    }
    // A few words say nothing.
    if shown.split(' ').count() < 5 { failure.to_owned() } else { start + &shown + "..." }
}

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
            if own_program::own(findings).is_some() { "the program itself" } else { "a kernel of the case itself" },
            mistake.found,
            mistake.again
        ));
    }
    if own_program::may_be_its_own(findings) {
        notes.push(own_program::doubt(findings));
    }
    notes.iter().map(|note| format!("> {note}")).collect::<Vec<_>>().join("\n>\n")
}

/// Returns the warning that the failure was found on an emulated device. Empty for a failure on a GPU.
pub(super) fn notice(findings: &Findings) -> String {
    let device = &findings.record.device;
    if !device.emulated {
        return String::new();
    }
    let (gfx, builds) = (&device.gfx, builds(findings));
    let program = match requirements_if_standalone(findings) {
        Some(needs) => format!("; the program needs only {needs}"),
        None => String::new(),
    };
    let libraries = match own_program::own(findings) {
        // The program's own Python packages may contain the other libraries.
        Some(_) => "ROCm's libraries",
        None => "the libraries",
    };
    format!(
        "> **Found on an emulated {gfx}, not on a GPU.** The HIP runtime and {libraries} are {builds}; below the \
         HSA interface runs an emulator. It cannot show bugs of hardware, firmware or the kernel driver, and it may \
         have bugs of its own. **Please confirm on hardware**{program}."
    )
}

/// Describes where the libraries are from. Builds by a distribution contain the distribution's patches.
fn builds(findings: &Findings) -> String {
    let spec = &findings.record.stack.spec;
    match findings.packages.is_empty() {
        true => format!("those found in `{spec}`"),
        false => {
            "Debian's packages as released, which contain Debian's patches and are listed below"
                .to_owned()
        }
    }
}

/// Describes what the exported program requires in addition to a C++ compiler. `None` unless that is only HIP and
/// hipRTC.
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
    placed(findings, &findings.record.outcome.summary)
}

/// Removes line numbers of the case file from a sentence if the issue contains an exported program instead of the case.
fn placed(findings: &Findings, text: &str) -> String {
    let written = findings.program.as_ref().is_some_and(|program| program.own.is_none());
    if written { without_lines(text) } else { text.to_owned() }
}

pub(super) fn problem(findings: &Findings) -> String {
    let record = &findings.record;
    let mut text = sentence(&summary(findings));
    if findings.program.is_none() && record.outcome.summary.contains("(line ") {
        text.push_str(" (Line numbers refer to the case at the end.)");
    }
    text
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
    format!("**Expected:** {}\n\n**Actual:** {}", expected(findings), actual(findings))
}

pub(super) fn expected(findings: &Findings) -> String {
    let outcome = &findings.record.outcome;
    if own_program::own(findings).is_some() {
        let title = sentence(&findings.record.title);
        return format!("{title} {}", own_program::expected(outcome));
    }
    let summary = without_lines(&outcome.summary);
    let right = summary.split_once(judge::EXPECTED).map(|(_, right)| right);
    let holds = match right.zip(outcome.signature.split(':').nth(1)) {
        Some((right, buffer)) if outcome.kind == Kind::WrongData => {
            format!("{buffer} holds {right}")
        }
        _ => must_hold(outcome),
    };
    let holds = sentence(&holds);
    // The title of the case describes neither a reduced case nor a single failing call.
    let whole = findings.minimised.is_none() && outcome.kind != Kind::ApiError;
    if whole { format!("{} {holds}", sentence(&findings.record.title)) } else { holds }
}

pub(super) fn actual(findings: &Findings) -> String {
    let record = &findings.record;
    let mut text = format!("{} (signature `{}`)", symptom(findings), record.outcome.signature);
    let details = record.outcome.details.iter();
    let mut lines: Vec<String> = details.map(|text| placed(findings, text)).collect();
    if let Some(call) = &findings.open_call {
        lines.push(format!("{call} had not returned when the program ended"));
    }
    if let judge::End::Signalled { signal } = record.exit {
        let place = &record.outcome.summary;
        lines.insert(
            0,
            match place.contains(" died of ") {
                true => place.clone(),
                false => format!("the process was killed by {}", judge::signal(signal)),
            },
        );
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n\n{}", fenced("", &lines.join("\n")));
    }
    text
}

/// Formats the change of a mitigation.
pub(super) fn factor_title(factor: &Factor) -> String {
    match factor.kind {
        FactorKind::Env => format!("`{}={}`", factor.name, factor.value),
        FactorKind::Limit => format!("limit `{}={}`", factor.name, factor.value),
        FactorKind::Rewrite => format!("calls: {}", factor.name),
    }
}

/// Formats a table of the mitigations that were tried and their effects. `None` if none were tried.
pub(super) fn mitigations(findings: &Findings) -> Option<String> {
    let found = findings.mitigations.as_ref()?;
    let mut text = format!(
        "#### Mitigations\n\nWithout any change the test fails in {} runs.\n\n",
        with_interval(found.base)
    );
    let title = factor_title;
    let of = |wanted: fn(&FactorVerdict) -> bool| {
        let found = found.factors.iter().filter(|f| wanted(&f.verdict));
        found.map(|f| format!("{} ({})", title(f), f.rate)).collect::<Vec<_>>()
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
            FactorVerdict::ChangedSignature { to } => format!("fails as `{to}`"),
            FactorVerdict::Rarer => "rarer".to_owned(),
            FactorVerdict::Wrong { to } => format!("not conclusive: `{to}`"),
            FactorVerdict::Undecided => "undecided".to_owned(),
        };
        let _ = write!(
            text,
            "\n| {} | {} | {} | {effect} | {} |",
            title(factor),
            factor.rate,
            found.base,
            factor.meaning
        );
    }
    match found.minimal_set.as_slice() {
        [] => {}
        set => {
            let _ = write!(text, "\n\nThese help only together: `{}`.", set.join("`, `"));
        }
    }
    if found.points_to.is_empty() {
        text.push_str("\n\nNone of these changes helped.");
    } else {
        let _ = write!(text, "\n\nThis points to: {}.", found.points_to.join(", "));
    }
    let useless = of(|v| *v == FactorVerdict::NoEffect);
    if !useless.is_empty() {
        let title = format!("{} that did not help", count(useless.len(), "change"));
        let _ = write!(text, "\n\n{}", folded(&title, &useless.join(", ")));
    }
    for (why, names) in found.not_tried_by_reason() {
        let _ = write!(text, "\n\nNot tried: `{}`: {why}.", names.join("`, `"));
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
                "The program above, `{}`; the build command lists the required libraries.",
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
             headers of `{}`, without those libraries of the build command that this release does not contain.",
            findings.record.stack.spec
        );
    }
    let _ = write!(text, "\n\n{}", ran(exported, verified, findings.rate));
    if exported.traces_equal == Some(true) && verified.failed == verified.runs {
        text.push_str(
            " It makes the same API calls as its case, in the same order (traces compared).",
        );
    }
    match &exported.passes {
        Some(Passes { on, rate, otherwise }) => {
            let _ = write!(
                text,
                "\n\nThe same program passed in {} of {} runs on {}{}.",
                rate.runs - rate.failed,
                rate.runs,
                place(on),
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
fn ran(exported: &Exported, verified: Rate, reported: Rate) -> String {
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
    match verified.compared(reported) {
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
pub(super) fn place(on: &Setting) -> String {
    let rocm = on.rocm.as_ref().map_or(String::new(), |v| format!("ROCm {v} "));
    let emulated = if on.emulated { "the emulated " } else { "" };
    format!("{rocm}({}) on {emulated}{}", on.stack, on.gfx)
}

/// Explains why the issue belongs in this repository, and lists the builds of the libraries in the failing process.
pub(super) fn repository_and_builds(findings: &Findings, home: &Home) -> String {
    let record = &findings.record;
    let mut text = String::new();
    if !own_program::is_draft(findings) {
        let Home { why, component, repository, .. } = home;
        let _ =
            write!(text, "**Filed here because** {why} (component {component}; {repository}).\n\n");
    }
    let mut filed = std::mem::take(&mut text);
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
    if !record.limits.is_empty() {
        let limits: Vec<_> = record.limits.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let _ = write!(text, "\n\nLimits of the failing run (ulimit): `{}`.", limits.join(" "));
    }
    filed.push_str(&folded("Libraries and environment of the failing process", &text));
    filed
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

/// Returns the last line of the issue: the version of rocrepro that wrote it, and the command that repeats it.
pub(super) fn colophon(findings: &Findings) -> String {
    let record = &findings.record;
    format!(
        "<sub>Written by rocrepro {} on {} from measured runs; repeat it with `{}`.</sub>",
        record.rocrepro, record.date, findings.again
    )
}
