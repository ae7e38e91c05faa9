//! Two or three rows at once. What may be said then follows from what may be said of each.

use crate::{
    expect::{Answers, Expect},
    row::Row,
    table,
};

/// Numbers that are the same in every run of the tests.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Below `limit`.
    pub(crate) fn next(&mut self, limit: usize) -> usize {
        // Knuth's MMIX generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// The rows of a mixture; another attempt gives others.
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

/// Whether two rows want different things in one place: a run has one stack, one case, and one of each folder.
fn excludes(a: &Row, b: &Row) -> bool {
    // A worker of a foreign case cannot write where rows wait for its number, so cases and signals are apart.
    const PLACES: [&[&str]; 4] = [
        &["runtime", "library", "case"],
        &["environment", "folder", "disk", "cache"],
        &["case", "signal"],
        &["limit"],
    ];
    const NAMES: [[&str; 2]; 5] = [
        // Who ends a worker by a signal that is ignored does not end it.
        ["launcher/ignores-signals", "launcher/ends-a-hanging-worker"],
        // Who hangs as it exits hangs in the call that exits.
        ["preload/hang-at-exit", "runtime/malloc-exits"],
        // Of a foreign case the wrong bytes are few, and no file is needed for them.
        ["disk/spool-vanishes-with-wrong-data", "case/"],
        // A large environment has no room on such a stack, so no command starts.
        ["limit/stack-", "environment/"],
        // A command without memory for one more thread has some for a scratch, and is aborted later.
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

/// What may be said of a mixture:
/// * a pass only where every row allows one, as trouble that must show shows in company as well;
/// * a failure only where a row allows that failure, so that trouble of the machine never blames ROCm;
/// * that a run proves nothing, wherever one row alone is more than harmless;
/// * a refusal where a row may be refused, and nothing else where one must be.
pub(crate) fn expected(rows: &[&Row]) -> Expect {
    let of = |row: &&Row| row.expect.any.all().to_vec();
    let all: Vec<&'static str> = rows.iter().flat_map(of).collect();
    let only = |answer: &str| rows.iter().any(|row| row.expect.any.all() == [answer]);
    let mut any: Vec<&'static str> = Vec::new();
    if only("refused") {
        any.push("refused");
        // The machine may be noticed before the mistake.
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
    Expect { any: Answers::Derived(any), says: &[], hides: &[] }
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
    fn what_a_mixture_may_say_follows_from_its_rows() {
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
    fn mixtures_are_the_same_each_time_and_differ() {
        let names = |seed| draw(seed, 0).iter().map(|row| row.name).collect::<Vec<_>>();
        assert_eq!(names(7), names(7));
        let different: std::collections::BTreeSet<_> = (0..200).map(names).collect();
        assert!(different.len() > 190, "{}", different.len());
    }
}
