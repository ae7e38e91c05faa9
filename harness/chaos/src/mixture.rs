//! Draws mixtures of two or three disturbances, and derives the allowed answers of a mixture from those of its rows.

use crate::{
    expectation::{AllowedAnswers, Expectation},
    row::Row,
    table,
};

/// A generator of pseudo-random numbers with its state.
pub(crate) struct RandomNumbers(pub(crate) u64);

impl RandomNumbers {
    /// Returns the next number, which is less than `limit`.
    pub(crate) fn next(&mut self, limit: usize) -> usize {
        // This is a linear congruential generator with the constants of Knuth's MMIX.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Draws the rows of a mixture. The result depends only on the seed and `attempt`. If the rows of one attempt need
/// conflicting settings, the caller tries the next one.
pub(crate) fn draw(seed: u64, attempt: u64) -> Vec<&'static Row> {
    let rows: Vec<&Row> = table::rows().filter(|row| row.mixes).collect();
    let mut numbers = RandomNumbers(seed.wrapping_mul(7919).wrapping_add(17 + 104_729 * attempt));
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

/// Returns true if two rows cannot be combined. A run has only one stack, one case and one folder of each kind.
fn excludes(a: &Row, b: &Row) -> bool {
    // Each list contains families whose rows exclude each other. Rows with a case of their own exclude rows with
    // signals, because the worker of such a case cannot write its process id to the file in which the signal rows
    // expect it.
    const PLACES: [&[&str]; 4] = [
        &["runtime", "library", "case"],
        &["environment", "folder", "disk", "cache"],
        &["case", "signal"],
        &["limit"],
    ];
    const NAMES: [[&str; 2]; 5] = [
        // The launcher sends its worker a signal that the worker ignores, so the worker would not end.
        ["launcher/ignores-signals", "launcher/ends-a-hanging-worker"],
        // A worker that hangs in its exit handlers would also hang in a call that exits.
        ["preload/hang-at-exit", "runtime/malloc-exits"],
        // The case of the second row has so few wrong bytes that the worker does not save them to a file.
        ["disk/spool-vanishes-with-wrong-data", "case/"],
        // A large environment does not fit on a small call stack, so no program would start.
        ["limit/stack-", "environment/"],
        // With so little memory, the command cannot start another thread, but may still create a temporary folder
        // before it aborts.
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

/// Derives the allowed answers of a mixture from its rows:
/// * A pass is allowed only if every row allows a pass, because a disturbance that must be reported on its own must
///   also be reported in a mixture.
/// * A failure is allowed only if a row allows that failure, so that ROCm is never blamed for trouble of the machine.
/// * The answer `no-verdict` is allowed if any row allows an answer other than a pass.
/// * A refusal is allowed if any row allows a refusal. If a row allows only a refusal, the other allowed answers are
///   that the command stops early, or is killed because of trouble of the machine.
pub(crate) fn expected(rows: &[&Row]) -> Expectation {
    let of = |row: &&Row| row.expect.any.all().to_vec();
    let all: Vec<&'static str> = rows.iter().flat_map(of).collect();
    let only = |answer: &str| rows.iter().any(|row| row.expect.any.all() == [answer]);
    let mut any: Vec<&'static str> = Vec::new();
    if only("refused") {
        any.push("refused");
        // The command may detect the trouble of the machine before the reason for the refusal.
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
