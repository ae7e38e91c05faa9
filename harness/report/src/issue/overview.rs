//! Writes the beginning of an issue: where the failure occurs, where it does not, and what helps.

use std::fmt::Write;

use judge::{End, FailureComparison};

use super::{
    Control, Findings, KnownBug, PrintedProgramRun, UnjudgedRelease,
    markdown::{fenced, folded, interval, with_interval},
    program as own_program,
    write::{describe_setting, factor_title, sentence},
};
use crate::{
    evidence::{Factor, FactorVerdict, Mitigations, NotTried, Setting},
    failures::{any_failure_rate, failed_clause, list_failures},
    words::{count, link, stack_and_device},
};

/// Maximum number of lines of a program that the issue shows without collapsing it.
const SHOWN_LINES: usize = 70;

/// Returns the first lines of the issue, as a list.
pub(super) fn overview(findings: &Findings) -> String {
    let mut lines: Vec<String> = findings.known_bugs.iter().map(describe_known_bug).collect();
    lines.extend([
        format!("**Fails** in {}", failing_setups(findings)),
        format!("**Passes:** {}", passing_setups(findings)),
        format!("**What helps:** {}", mitigation_text(findings)),
    ]);
    lines.extend(findings.on_cpu.as_ref().and_then(on_cpu));
    lines.extend(since(findings));
    lines.iter().map(|line| format!("* {line}")).collect::<Vec<_>>().join("\n")
}

/// Describes the run of a PyTorch program on the CPU; `None` if the program was not run.
fn on_cpu(run: &PrintedProgramRun) -> Option<String> {
    let PrintedProgramRun::Ran { fails_alike, end, last } = run else { return None };
    let how = "one run with PyTorch's device `cpu` in place of the GPU";
    Some(match (fails_alike, end) {
        (true, _) => format!(
            "**On the CPU** it fails in the same way ({how}), so ROCm does not cause this failure."
        ),
        (false, End::Exited(0)) => format!("**On the CPU** it passes ({how})."),
        (false, _) => format!("**On the CPU** it fails in another way ({how}): `{last}`."),
    })
}

fn failing_setups(findings: &Findings) -> String {
    let place = stack_and_device(&findings.record);
    let others = findings.others.as_slice();
    let mut text = match others {
        [] => format!("{} runs on {place}", with_interval(findings.rate)),
        _ => format!(
            "{} runs, of which {} failed as described here{}, {}, on {place}",
            any_failure_rate(findings.rate, others),
            findings.rate.failed,
            interval(findings.rate),
            list_failures(others)
        ),
    };
    let also: Vec<_> = releases(findings, |control| {
        control.rate.failed > 0 && control.likeness == Some(FailureComparison::Same)
    });
    if !also.is_empty() {
        let _ = write!(text, "; the same failure on {}", also.join(", "));
    }
    text + "."
}

/// Returns the releases of those controls that fulfil the condition, with their failure rates.
fn releases(findings: &Findings, is_wanted: impl Fn(&Control) -> bool) -> Vec<String> {
    let wanted = findings.controls.iter().filter(|control| is_wanted(control));
    let named =
        |control: &Control| Some(format!("{} ({})", control.release.as_ref()?, failed(control)));
    wanted.filter_map(named).collect()
}

fn failed(control: &Control) -> String {
    let Control { rate, others, .. } = control;
    let text = format!("{} of {} failed", rate.failed, count(rate.runs, "run"));
    match others.as_slice() {
        [] => text,
        others => format!("{text}, {}", list_failures(others)),
    }
}

fn passing_setups(findings: &Findings) -> String {
    let passes = |control: &&Control| control.rate.runs > 0 && control.rate.failed == 0;
    let on_releases = releases(findings, |control| passes(&control));
    let exported = findings.program.as_ref().and_then(|program| program.exported.as_ref());
    let mut places = Vec::new();
    // If earlier calls had other results there, a pass does not show that the failing call works.
    let mut unlike = None;
    match exported {
        None => places.extend(on_releases.iter().map(|release| format!("on {release}"))),
        Some(exported) => {
            if let Some(found) = exported.passes.as_ref().filter(|_| findings.planted.is_empty()) {
                let runs = count(found.rate.runs, "run");
                let text = format!(
                    "on {} ({} of {runs} failed",
                    describe_setting(&found.on),
                    found.rate.failed
                );
                match found.otherwise.is_empty() {
                    true => places.push(text + ")"),
                    false => unlike = Some(text),
                }
            }
            // A test may expect other results on another release; an exported program does not.
            let of_program = exported.passes.as_ref().map(|found| &found.on);
            let is_new = |control: &Control| {
                let is_that_of_program = |on: &Setting| {
                    let Some(version) = &on.rocm else { return false };
                    let names = [
                        format!("ROCm {version}"),
                        format!("ROCm {version} on the emulated {}", on.gfx),
                    ];
                    control.release.as_ref().is_some_and(|release| names.contains(release))
                };
                passes(&control) && !of_program.is_some_and(is_that_of_program)
            };
            let on_releases = releases(findings, is_new);
            if !on_releases.is_empty() {
                places.push(format!("the test passes on {}", on_releases.join(", ")));
            }
        }
    }
    let others = findings.controls.iter().filter(passes).filter(|other| other.release.is_none());
    places.extend(others.map(|other| format!("with {} ({})", other.what, failed(other))));
    if let Some(unlike) = unlike {
        let before = if places.is_empty() { "on no comparable configuration; " } else { "" };
        places.push(format!("{before}{unlike}, but earlier calls return other values there)"));
    }
    match (places.is_empty(), findings.controls.is_empty()) {
        (false, _) => places.join("; ") + ".",
        (true, false) => "nothing that was tried.".to_owned(),
        (true, true) => {
            match findings.not_judged.iter().filter(was_run).collect::<Vec<_>>().as_slice() {
                [] => "unknown: nothing else was tried.".to_owned(),
                others => {
                    let releases: Vec<_> =
                        others.iter().map(|other| other.release.as_str()).collect();
                    format!(
                        "unknown: no verdict on ROCm {}, and nothing else was tried.",
                        releases.join(", ")
                    )
                }
            }
        }
    }
}

/// Returns false if the trial was skipped, because the case needs another release.
fn was_run(other: &&UnjudgedRelease) -> bool {
    !other.why.starts_with("needs ROCm ")
}

fn mitigation_text(findings: &Findings) -> String {
    let Some(found) = &findings.mitigations else {
        return "unknown: no setting was tried.".to_owned();
    };
    let helped = found.factors.iter().filter(|factor| factor.verdict == FactorVerdict::Helped);
    let helped: Vec<_> =
        helped.map(|factor| format!("{} ({} failed)", factor_title(factor), factor.rate)).collect();
    match (helped.as_slice(), found.minimal_set.as_slice()) {
        ([], []) if found.factors.is_empty() => "unknown: no setting was tried.".to_owned(),
        ([], []) => {
            let tried = count(found.factors.len(), "change");
            format!(
                "none of {tried} that were tried{}{}.",
                changed_failure(found),
                untried_changes(found)
            )
        }
        ([], set) => format!("only together: `{}`.", set.join("`, `")),
        (helped, _) => {
            format!(
                "{}; without it {}{}.",
                helped.join(", "),
                failed_clause(found.base, &found.base_others),
                untried_changes(found)
            )
        }
    }
}

/// Names a change with which the program fails in another way, as the end of a sentence. Empty if no change had this
/// effect.
fn changed_failure(found: &Mitigations) -> String {
    let other = |factor: &Factor| match &factor.verdict {
        FactorVerdict::ChangedSignature { to } => Some(match factor.others.as_slice() {
            // Evidence of an earlier version does not say how many runs failed.
            [] => format!("; with {} it fails as `{to}`", factor_title(factor)),
            _ => format!("; with {} {}", factor_title(factor), factor.outcomes()),
        }),
        _ => None,
    };
    found.factors.iter().find_map(other).unwrap_or_default()
}

/// Describes how many changes the search had no time to try, as the end of a sentence. Empty if it tried all of them.
fn untried_changes(found: &Mitigations) -> String {
    let late = found.not_tried.iter().filter(|other| other.why == NotTried::SEARCH_ENDED).count();
    if late == 0 { String::new() } else { format!("; there was no time for {late} others") }
}

/// Describes between which versions the failure began or ended, from the result of a bisect. `None` if no bisect found
/// two such versions.
fn since(findings: &Findings) -> Option<String> {
    let found = findings.finer.as_ref().or(findings.bisected.as_ref())?;
    let (Some(good), Some(bad)) = (&found.last_good, &found.first_bad) else { return None };
    let word = if found.fix { "Ended" } else { "Began" };
    Some(format!("**{word}** between {good} and {bad}; details below."))
}

/// Names a known failure, and the calls of the program by which it was recognised.
fn describe_known_bug(bug: &KnownBug) -> String {
    let known = match bug.upstream.as_deref() {
        Some(issue) => format!("**Probably known as** {}", link(issue)),
        None => "**Known** without an issue".to_owned(),
    };
    let known = match bug.about.as_str() {
        "" => known + ".",
        about => format!("{known}. In rocrepro's words: {}", sentence(about)),
    };
    if bug.calls.is_empty() {
        return known;
    }
    format!(
        "{known} The program makes the calls of this failure, in their order and on the same objects: \
         `{}`. The test `{}` of rocrepro makes them without a framework.",
        bug.calls.join("`, `"),
        bug.case
    )
}

/// Explains what the case tests, as a collapsed section. `None` if the case does not say why.
pub(super) fn tested_property(findings: &Findings) -> Option<String> {
    let about = findings.about.as_ref()?.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(folded("What was tested, and why", &sentence(&about)))
}

/// Returns the text of the program, as a collapsed section if it is long. `None` if the issue has no program, or if its
/// text is empty.
pub(super) fn program(findings: &Findings) -> Option<String> {
    let program = findings.program.as_ref().filter(|program| !program.text.is_empty())?;
    let text = fenced(program.language, &program.text);
    let title = format!("<code>{}</code>", program.file);
    match program.text.lines().count() {
        0..=SHOWN_LINES => Some(format!("`{}`:\n\n{text}", program.file)),
        _ => Some(folded(&title, &text)),
    }
}

/// Lists the failure rates of the trial and of its controls, as a collapsed section.
pub(super) fn controls(findings: &Findings) -> String {
    let mut text = String::new();
    if findings.controls.is_empty() {
        text.push_str(match own_program::unexported_program(findings) {
            Some(_) => {
                "None: no variant with a single difference was run, or all of them failed, too."
            }
            None => "None found: every tried variant fails, too.",
        });
    } else {
        text.push_str("| run | failures | |\n| --- | --- | --- |");
        let signature = &findings.record.outcome.signature;
        let others = findings.others.as_slice();
        let shown = match others {
            [] => format!("`{signature}`"),
            _ => format!("{} as `{signature}`, {}", findings.rate.failed, list_failures(others)),
        };
        let all = any_failure_rate(findings.rate, others);
        let _ = write!(text, "\n| as reported | **{all}** | {shown} |");
        for control in &findings.controls {
            let shown = control.failure(signature);
            let _ = write!(text, "\n| {} | {} | {shown} |", control.what, control.rate);
        }
    }
    for UnjudgedRelease { release, why } in findings.not_judged.iter().filter(was_run) {
        let _ = write!(text, "\n\nNo verdict on ROCm {release}: {}", sentence(why));
    }
    if findings.bisected.is_none() && findings.planted.is_empty() {
        text.push_str("\n\nNo nightly build was tested.");
    }
    folded("Control runs", &text)
}
