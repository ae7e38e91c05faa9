//! Formats the result of a bisect as plain text, which can be pasted into an issue.

use std::fmt::Write;

use judge::FailureIdentity;

use crate::{
    evidence::{BisectEvidence, CrossedBuild, Rate},
    words::count,
};

/// Formats a bisect result as plain text. `sentence` states the result; if the threshold is random, the text of
/// [`BisectEvidence::band`] replaces it. `spent` describes the number of runs and the time.
pub fn bisected(found: &BisectEvidence, sentence: &str, spent: &str) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11} {value}");
    };
    line("trial", &found.trial);
    match &found.band {
        Some(band) => line("answer", &band.sentence()),
        None => line("answer", sentence),
    }
    let build = |label: &Option<String>| {
        label.as_ref().map(|label| {
            let rate = found.rates.iter().find(|r| r.version == *label).map(|r| r.rate);
            format!("{label}   {}", runs(rate.unwrap_or_default()))
        })
    };
    let (good, bad) = match (found.worse, found.fix) {
        (true, _) => ("fails less", "fails more"),
        (false, true) => ("first good", "last bad"),
        (false, false) => ("last good", "first bad"),
    };
    let ends = [(good, &found.last_good), (bad, &found.first_bad)];
    for (name, label) in ends.into_iter().filter(|_| found.band.is_none()) {
        if let Some(text) = build(label) {
            line(name, &text);
        }
    }
    if !found.signature.is_empty() {
        let alone = match FailureIdentity::parse(&found.signature).is_bare_exit() {
            true => {
                " (only an exit status is known, so these runs may have failed for different reasons)"
            }
            false => "",
        };
        line("signature", &format!("{}{alone}", found.signature));
    }
    // If the user supplied the tested command, it may have run on any device, so the architecture is unknown and empty.
    if !found.on.gfx.is_empty() {
        let device = if found.on.emulated { "the emulated " } else { "" };
        line("device", &format!("{device}{}", found.on.gfx));
    }
    for note in &found.notes {
        line("note", note);
    }
    if let Some(confidence) = found.confidence.filter(|_| found.band.is_none()) {
        line("confidence", &format!("{:.2} %", 100.0 * confidence));
    }
    line("spent", spent);
    for component in &found.components {
        let what = format!("{} {} .. {}", component.name, component.good, component.bad);
        line("moved", &what);
        if let Some(url) = &component.compare_url {
            line("", url);
        }
    }
    for crossed in &found.crossed {
        let CrossedBuild { component, of, rate, why } = crossed;
        let what = why.as_ref().map_or_else(|| runs(*rate), |why| format!("no result: {why}"));
        line("crossed", &format!("last good build with {component} of {of}: {what}"));
    }
    for skipped in &found.skipped {
        line("skipped", &format!("{}: {}", skipped.version, skipped.why));
    }
    for command in &found.rerun {
        line("again", command);
    }
    text
}

fn runs(rate: Rate) -> String {
    match rate {
        Rate { runs: 0, .. } => "not run".to_owned(),
        Rate { failed: 0, runs } => format!("{runs} of {} passed", count(runs, "run")),
        Rate { failed, runs } => format!("{failed} of {} failed", count(runs, "run")),
    }
}
