//! Describes the failures in a series of runs. A run may fail as the report describes, or in another way; both kinds
//! count as failures.

use crate::{
    evidence::{Factor, FactorVerdict, OtherFailure, Rate},
    words::count,
};

/// Returns the rate of runs that failed in any way, as described or otherwise.
pub(crate) fn any_failure_rate(rate: Rate, others: &[OtherFailure]) -> Rate {
    Rate { failed: rate.failed + other_failure_count(others), runs: rate.runs }
}

/// Returns the number of runs that did not fail as described, but in another way.
pub(crate) fn other_failure_count(others: &[OtherFailure]) -> u32 {
    others.iter().map(|other| other.count).sum()
}

/// Formats the number of all failures: `5/5`. If some failures are not as described, adds the number of those that are:
/// `5/5, 2 of them as described`.
pub(crate) fn format_failures(rate: Rate, others: &[OtherFailure]) -> String {
    let all = any_failure_rate(rate, others);
    match (others, rate.failed) {
        ([], _) => all.to_string(),
        (_, 0) => format!("{all}, none of them as described"),
        (_, failed) => format!("{all}, {failed} of them as described"),
    }
}

/// Formats the failures like [`format_failures`], as the end of a sentence: `2/5 failed`.
pub(crate) fn failed_clause(rate: Rate, others: &[OtherFailure]) -> String {
    let text = format_failures(rate, others);
    match text.split_once(',') {
        Some((all, described)) => format!("{all} failed,{described}"),
        None => format!("{text} failed"),
    }
}

/// Lists other failures with their counts: ``2 as `hang` and 1 as `crash` ``.
pub(crate) fn list_failures(others: &[OtherFailure]) -> String {
    let named = others.iter().map(|other| format!("{} as `{}`", other.count, other.signature));
    named.collect::<Vec<_>>().join(", ")
}

impl Factor {
    /// Returns the failure rate of the runs with the change, counting failures with any signature. Returns `None` if
    /// the evidence does not contain this rate.
    pub(crate) fn any_failure(&self) -> Option<Rate> {
        let is_other = matches!(
            self.verdict,
            FactorVerdict::ChangedSignature { .. } | FactorVerdict::Wrong { .. }
        );
        (!is_other || !self.others.is_empty()).then(|| any_failure_rate(self.rate, &self.others))
    }

    /// Describes the outcomes of the runs with the change: `0/9`, or ``9 of 9 runs fail in another way: `hang` ``.
    pub(crate) fn outcomes(&self) -> String {
        let Rate { failed, runs } = self.rate;
        let (other, verb) = match other_failure_count(&self.others) {
            1 => (1, "fails"),
            other => (other, "fail"),
        };
        let text = match (self.others.as_slice(), &self.verdict) {
            ([], FactorVerdict::ChangedSignature { to } | FactorVerdict::Wrong { to }) => {
                return format!("fails in another way: `{to}`");
            }
            ([], _) => return self.rate.to_string(),
            ([only], _) => format!(
                "{other} of {} {verb} in another way: `{}`",
                count(runs, "run"),
                only.signature
            ),
            (all, _) => {
                format!(
                    "{other} of {} {verb} in another way: {}",
                    count(runs, "run"),
                    list_failures(all)
                )
            }
        };
        match failed {
            0 => text,
            _ => format!("{text}; {failed} as described"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::FactorKind;

    fn other(signature: &str, count: u32) -> OtherFailure {
        OtherFailure { signature: signature.to_owned(), count }
    }

    fn factor(failed: u32, others: Vec<OtherFailure>, verdict: FactorVerdict) -> Factor {
        Factor {
            name: "AMD_DIRECT_DISPATCH".to_owned(),
            kind: FactorKind::Env,
            value: "0".to_owned(),
            meaning: String::new(),
            since: None,
            rate: Rate { failed, runs: 9 },
            others,
            verdict,
            component: String::new(),
        }
    }

    #[test]
    fn runs_that_fail_in_another_way_are_failures() {
        let changed = || FactorVerdict::ChangedSignature { to: "hang".to_owned() };
        let check = |factor: Factor, all: Option<u32>, text: &str| {
            assert_eq!(factor.any_failure().map(|rate| rate.failed), all);
            assert_eq!(factor.outcomes(), text);
        };
        let hang = || vec![other("hang", 9)];
        check(factor(0, hang(), changed()), Some(9), "9 of 9 runs fail in another way: `hang`");
        let two = vec![other("hang", 6), other("crash", 1)];
        let text = "7 of 9 runs fail in another way: 6 as `hang`, 1 as `crash`; 1 as described";
        check(factor(1, two, changed()), Some(8), text);
        let one = vec![other("hang", 1)];
        check(factor(0, one, changed()), Some(1), "1 of 9 runs fails in another way: `hang`");
        check(factor(0, Vec::new(), FactorVerdict::Helped), Some(0), "0/9");
        // Evidence of an earlier version does not say how many runs failed.
        check(factor(0, Vec::new(), changed()), None, "fails in another way: `hang`");
    }

    #[test]
    fn counts_say_how_many_failures_are_those_described() {
        let rate = Rate { failed: 2, runs: 5 };
        assert_eq!(format_failures(rate, &[]), "2/5");
        assert_eq!(format_failures(rate, &[other("hang", 3)]), "5/5, 2 of them as described");
        assert_eq!(failed_clause(rate, &[]), "2/5 failed");
        assert_eq!(failed_clause(rate, &[other("hang", 3)]), "5/5 failed, 2 of them as described");
        let none = Rate { failed: 0, runs: 5 };
        assert_eq!(format_failures(none, &[other("hang", 3)]), "3/5, none of them as described");
    }
}
