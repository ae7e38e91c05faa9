//! Mixtures of two or three rows. Their allowed reports follow from those of the rows.

use crate::{
    expectation::{AllowedAnswers, Expectation},
    row::Row,
    table,
};

/// Deterministic pseudo-random numbers.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Returns a number below `limit`.
    pub(crate) fn next(&mut self, limit: usize) -> usize {
        // Knuth's MMIX generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Returns the rows of a mixture; each attempt gives other rows.
pub(crate) fn draw(seed: u64, attempt: u64) -> Vec<&'static Row> {
    let rows: Vec<&Row> = table::rows().filter(|row| row.mixes).collect();
    let mut numbers = Numbers(seed.wrapping_mul(7919).wrapping_add(17 + 104_729 * attempt));
    numbers.next(1);
    let wanted = 2 + numbers.next(2);
    let mut drawn: Vec<&Row> = Vec::new();
    while drawn.len() < wanted {
        let row = rows[numbers.next(rows.len())];
        if drawn.iter().all(|other| other.name != row.name && !excludes(other, row)) {
            drawn.push(row);
        }
    }
    drawn
}

/// Returns whether two rows conflict: a run has one stack, one case, and one of each folder.
fn excludes(a: &Row, b: &Row) -> bool {
    // The worker of a foreign case cannot write its process id where signal rows expect it, so cases and signals are
    // not mixed.
    const PLACES: [&[&str]; 4] = [
        &["runtime", "library", "case"],
        &["environment", "folder", "disk", "cache"],
        &["case", "signal"],
        &["limit"],
    ];
    const NAMES: [[&str; 2]; 5] = [
        // A launcher that ends its worker with an ignored signal does not end it.
        ["launcher/ignores-signals", "launcher/ends-a-hanging-worker"],
        // A worker that hangs in its exit handlers hangs in the call that exits.
        ["preload/hang-at-exit", "runtime/malloc-exits"],
        // A foreign case has few wrong bytes, which need no file.
        ["disk/spool-vanishes-with-wrong-data", "case/"],
        // A large environment does not fit such a stack, so no command starts.
        ["limit/stack-", "environment/"],
        // A command without memory for another thread may have enough for a temporary folder and abort later.
        ["limit/memory-64m", "case/"],
    ];
    let both = |[one, other]: &[&str; 2], a: &Row, b: &Row| {
        a.name.starts_with(one) && b.name.starts_with(other)
    };
    if NAMES.iter().any(|names| both(names, a, b) || both(names, b, a)) {
        return true;
    }
    let family = |row: &Row| row.name.split('/').next().unwrap_or_default();
    PLACES.iter().any(|place| place.contains(&family(a)) && place.contains(&family(b)))
}

/// Returns the allowed reports of a mixture:
/// * a pass only if every row allows one, because a disturbance that must be reported is reported in a mixture too;
/// * a failure only if a row allows that failure, so that trouble of the machine is never blamed on ROCm;
/// * no verdict, if any row allows more than a pass;
/// * a refusal if a row may be refused, and only a refusal if a row must be refused.
pub(crate) fn expected(rows: &[&Row]) -> Expectation {
    let of = |row: &&Row| row.expect.any.all().to_vec();
    let all: Vec<&'static str> = rows.iter().flat_map(of).collect();
    let only = |answer: &str| rows.iter().any(|row| row.expect.any.all() == [answer]);
    let mut any: Vec<&'static str> = Vec::new();
    if only("refused") {
        any.push("refused");
        // Trouble of the machine may be detected before the mistake.
        any.extend(all.iter().filter(|a| **a == "stopped" || a.starts_with("killed")));
    } else {
        any.extend(all.iter().filter(|answer| **answer != "pass" && **answer != "done"));
        if rows.iter().all(|row| row.expect.allows("pass")) {
            any.push("pass");
        }
        if !rows.iter().all(|row| row.expect.any.all() == ["pass"]) {
            any.extend(["no-verdict *", "stopped"]);
        }
    }
    Expectation { any: AllowedAnswers::Derived(any), says: &[], hides: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::row;

    #[track_caller]
    fn check(rows: &[&[&'static str]], allowed: &[&str], forbidden: &[&str]) {
        let rows: Vec<Row> =
            rows.iter().map(|any| row("a/b", |_| (), any.to_vec().leak())).collect();
        let expect = expected(&rows.iter().collect::<Vec<_>>());
        for answer in allowed {
            assert!(expect.allows(answer), "{answer}: {expect:?}");
        }
        for answer in forbidden {
            assert!(!expect.allows(answer), "{answer}: {expect:?}");
        }
    }

    #[test]
    fn allowed_reports_of_a_mixture_follow_from_its_rows() {
        check(&[&["pass"], &["pass"]], &["pass"], &["no-verdict x", "fail crash:x", "refused"]);
        check(
            &[&["pass"], &["fail crash:*"]],
            &["fail crash:x", "no-verdict x"],
            &["pass", "fail hang:x"],
        );
        check(
            &[&["no-verdict *", "pass"], &["pass"]],
            &["pass", "no-verdict x"],
            &["fail crash:x"],
        );
        check(
            &[&["no-verdict *"], &["fail crash:*"]],
            &["no-verdict x", "fail crash:x"],
            &["pass"],
        );
        check(
            &[&["refused"], &["fail crash:*"]],
            &["refused"],
            &["pass", "fail crash:x", "no-verdict x"],
        );
    }

    #[test]
    fn mixtures_are_deterministic_and_differ_by_seed() {
        let names = |seed| draw(seed, 0).iter().map(|row| row.name).collect::<Vec<_>>();
        assert_eq!(names(7), names(7));
        let different: std::collections::BTreeSet<_> = (0..200).map(names).collect();
        assert!(different.len() > 190, "{}", different.len());
    }
}
