//! Formats the result of `rocrepro mitigate` for the terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use crate::{
    evidence::{Factor, FactorKind, FactorVerdict, Mitigations},
    failures::other_failure_count,
    words::{BOLD, DIM, count, styled},
};

/// Formats a table of the changes that were tried: first those that help, then those that change the failure or make it
/// rarer, then all others.
pub fn mitigations(found: &Mitigations) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", styled(BOLD, &found.trial));
    let _ = write!(text, "  {} in {} runs without any change", found.signature, found.base);
    match other_failure_count(&found.base_others) {
        0 => text.push_str("\n\n"),
        other => {
            let _ = writeln!(text, ", another failure in {other}\n");
        }
    }
    let width = found.factors.iter().map(|f| name(f).chars().count()).max().unwrap_or(0);
    let rank = |factor: &&Factor| match factor.verdict {
        FactorVerdict::Helped => 0,
        FactorVerdict::ChangedSignature { .. } => 1,
        FactorVerdict::Rarer => 2,
        FactorVerdict::Undecided => 3,
        FactorVerdict::Wrong { .. } => 4,
        FactorVerdict::NoEffect => 5,
    };
    let mut factors: Vec<_> = found.factors.iter().collect();
    factors.sort_by_key(rank);
    for factor in factors {
        let (word, style) = match factor.verdict {
            FactorVerdict::Helped => {
                ("helps", Style::new().fg_color(Some(AnsiColor::Green.into())).bold())
            }
            FactorVerdict::ChangedSignature { .. } => {
                ("changes it", Style::new().fg_color(Some(AnsiColor::Yellow.into())))
            }
            FactorVerdict::Rarer => ("rarer", Style::new()),
            FactorVerdict::Undecided => ("undecided", Style::new()),
            FactorVerdict::Wrong { .. } => ("not conclusive", DIM),
            FactorVerdict::NoEffect => ("no effect", DIM),
        };
        let more = match &factor.verdict {
            FactorVerdict::Helped => format!("  {}", factor.component),
            FactorVerdict::Wrong { .. } => {
                format!("  {}: other results may be right for the changed calls", factor.outcomes())
            }
            FactorVerdict::ChangedSignature { .. } => format!("  {}", factor.outcomes()),
            _ if !factor.others.is_empty() => format!("  {}", factor.outcomes()),
            _ => String::new(),
        };
        let word = styled(style, format!("{word:<13}"));
        let rate = factor.any_failure().map_or(String::new(), |rate| rate.to_string());
        let _ = writeln!(text, "  {word} {:<width$}  {rate:>7}{more}", name(factor));
    }
    text.push('\n');
    match found.minimal_set.as_slice() {
        [] => {}
        set => {
            let _ =
                writeln!(text, "No single change helps; these help together: {}", set.join(", "));
        }
    }
    match found.points_to.as_slice() {
        [] => text.push_str("None of these changes helps.\n"),
        components => {
            let _ = writeln!(text, "This points to: {}", styled(BOLD, components.join("; ")));
        }
    }
    for (why, names) in found.not_tried_by_reason() {
        let line = match names.as_slice() {
            [name] => format!("not tried: {name}: {why}"),
            names => format!("not tried: {} settings ({}): {why}", names.len(), names.join(", ")),
        };
        let _ = writeln!(text, "{}", styled(DIM, line));
    }
    let _ = writeln!(text, "{}", count(found.runs, "run"));
    text
}

fn name(factor: &Factor) -> String {
    match factor.kind {
        FactorKind::Env => format!("{}={}", factor.name, factor.value),
        FactorKind::Limit => format!("--limit {}={}", factor.name, factor.value),
        FactorKind::Rewrite => factor.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::{NotTried, Rate, Setting},
        fixture::{failed, plain},
    };

    #[test]
    fn settings_that_were_not_tried_take_one_line_for_each_reason() {
        let other = |name: &str, why: &str| NotTried { name: name.to_owned(), why: why.to_owned() };
        let found = Mitigations {
            trial: "a/b".to_owned(),
            digest: String::new(),
            signature: "hang:hipMemcpy".to_owned(),
            on: Setting::from_record(&failed("a/b")),
            base: Rate { failed: 2, runs: 2 },
            base_others: Vec::new(),
            runs: 2,
            factors: Vec::new(),
            minimal_set: Vec::new(),
            points_to: Vec::new(),
            not_tried: vec![
                other("HSA_A", "the device replaces the library"),
                other("B", "It only hides the failure."),
                other("HSA_C", "the device replaces the library"),
            ],
        };
        let text = plain(&mitigations(&found));
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("not tried")).collect();
        assert_eq!(
            lines,
            [
                "not tried: 2 settings (HSA_A, HSA_C): the device replaces the library",
                "not tried: B: It only hides the failure",
            ]
        );
    }
}
