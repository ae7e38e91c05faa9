//! Two runs beside each other: which trials came to something else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use judge::{Kind, Rate};

use crate::{
    Record,
    words::{BOLD, count, faults, place, styled, unique},
};

/// Trials of one run alone that are named.
const NAMED: usize = 10;

/// How a trial differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    NowFails,
    NowPasses,
    FailsOtherwise,
    /// The intervals of its failure rates, 95 % each, do not overlap.
    AnotherRate,
    /// What was seen differs, and chance may explain it.
    PerhapsChance,
    /// One of the runs has no verdict on it.
    NoVerdict,
}

impl Change {
    fn words(self) -> &'static str {
        match self {
            Change::NowFails => "now fails",
            Change::NowPasses => "now passes",
            Change::FailsOtherwise => "fails otherwise",
            Change::AnotherRate => "another rate",
            Change::PerhapsChance => "chance?",
            Change::NoVerdict => "no verdict",
        }
    }

    /// Whether it is shown that the runs differ there.
    fn counts(self) -> bool {
        !matches!(self, Change::PerhapsChance | Change::NoVerdict)
    }
}

/// What the runs of a trial came to: signatures with their numbers. What was skipped or has no verdict is left out.
struct Seen<'a>(BTreeMap<&'a str, u32>);

impl<'a> Seen<'a> {
    fn of(records: &[&'a Record]) -> Seen<'a> {
        let mut seen = BTreeMap::new();
        for record in records {
            if !matches!(record.outcome.kind, Kind::Skip | Kind::NoVerdict) {
                *seen.entry(record.outcome.signature.as_str()).or_default() += 1;
            }
        }
        Seen(seen)
    }

    fn signatures(&self) -> BTreeSet<&'a str> {
        self.0.keys().copied().collect()
    }

    fn failures(&self) -> Rate {
        let runs = self.0.values().sum();
        Rate { hits: runs - self.0.get(PASS).copied().unwrap_or(0), runs }
    }

    fn words(&self) -> String {
        let runs = self.failures().runs;
        match self.0.iter().next() {
            None => "no verdict".to_owned(),
            Some((signature, _)) if runs == 1 => (*signature).to_owned(),
            Some(_) => {
                let each = self.0.iter().map(|(signature, n)| format!("{n} of {runs} {signature}"));
                each.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// The signature of a trial that passed.
const PASS: &str = "pass";

/// None where both came to the same.
fn change(old: &Seen<'_>, new: &Seen<'_>) -> Option<Change> {
    let (before, after) = (old.signatures(), new.signatures());
    match (before.is_empty(), after.is_empty()) {
        (true, true) => return None,
        (false, false) => {}
        _ => return Some(Change::NoVerdict),
    }
    let ((low, high), (new_low, new_high)) = (old.failures().interval(), new.failures().interval());
    if before.is_disjoint(&after) {
        let passes = |signatures: &BTreeSet<&str>| signatures.contains(PASS);
        return Some(match (passes(&before), passes(&after)) {
            (true, false) => Change::NowFails,
            (false, true) => Change::NowPasses,
            _ => Change::FailsOtherwise,
        });
    }
    if high < new_low || new_high < low {
        return Some(Change::AnotherRate);
    }
    (before != after).then_some(Change::PerhapsChance)
}

/// A trial under its faults.
fn trials(records: &[Record]) -> BTreeMap<String, Vec<&Record>> {
    let mut trials: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records {
        let under = faults(record).map_or(String::new(), |faults| format!(" under {faults}"));
        trials.entry(format!("{}{under}", record.trial)).or_default().push(record);
    }
    trials
}

/// What two runs differ in, and whether a trial of both came to something else.
pub fn changed(old: &[Record], new: &[Record]) -> (String, bool) {
    let (before, after) = (trials(old), trials(new));
    let both = before.iter().filter_map(|(name, old)| Some((name, old, after.get(name)?)));
    let mut changes = Vec::new();
    let mut in_both = 0;
    for (name, old, new) in both {
        in_both += 1;
        let (old, new) = (Seen::of(old), Seen::of(new));
        if let Some(change) = change(&old, &new) {
            changes.push((change, name, old.words(), new.words()));
        }
    }
    changes.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut text = String::new();
    for (change, name, old, new) in changes.iter().filter(|(c, ..)| *c != Change::NoVerdict) {
        let words = styled(BOLD, format!("{:<15}", change.words()));
        let _ = writeln!(text, "{words} {name}\n    {old} -> {new}");
    }
    let without = changes.iter().filter(|(c, ..)| *c == Change::NoVerdict);
    let without: Vec<&String> = without.map(|(_, name, ..)| *name).collect();
    named("a verdict in one run only", &without, &mut text);
    for (which, one, other) in [("old", &before, &after), ("new", &after, &before)] {
        let alone: Vec<&String> = one.keys().filter(|name| !other.contains_key(*name)).collect();
        named(&format!("only in the {which} run"), &alone, &mut text);
    }
    for (library, old, new) in libraries(old, new) {
        let _ = writeln!(text, "{library}: {old} -> {new}");
    }
    for (which, records) in [("old", old), ("new", new)] {
        let dates = records.iter().map(|record| record.date.as_str()).max().unwrap_or_default();
        for place in unique(records.iter().map(place)) {
            let _ = writeln!(text, "{which}: {place}; {dates}");
        }
    }
    let number = |wanted: &dyn Fn(Change) -> bool| {
        changes.iter().filter(|(change, ..)| wanted(*change)).count()
    };
    let differ = number(&Change::counts);
    let _ = writeln!(
        text,
        "{} in both: {differ} differ, {} differ and chance may be why, {} have a verdict in one run only",
        count(in_both, "trial"),
        number(&|change| change == Change::PerhapsChance),
        number(&|change| change == Change::NoVerdict),
    );
    if changes.iter().any(|(change, ..)| change.counts())
        && old.len().max(new.len()) <= before.len().max(after.len())
    {
        text.push_str("Each trial ran once in each run: a failure that comes and goes shows as a difference; `--repeat` tells.\n");
    }
    (text, differ > 0)
}

/// Names the first of these trials, where there are some.
fn named(what: &str, trials: &[&String], text: &mut String) {
    if trials.is_empty() {
        return;
    }
    let _ = writeln!(text, "{what}: {}", count(trials.len(), "trial"));
    trials.iter().take(NAMED).for_each(|name| _ = writeln!(text, "    {name}"));
    if trials.len() > NAMED {
        let _ = writeln!(text, "    and {} more", trials.len() - NAMED);
    }
}

/// The libraries with other build ids.
fn libraries(old: &[Record], new: &[Record]) -> Vec<(String, String, String)> {
    let ids = |records: &[Record]| {
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for library in records.iter().flat_map(|record| &record.stack.libraries) {
            let id = library.build_id.clone().unwrap_or_else(|| "no build id".to_owned());
            ids.entry(library.name.clone()).or_default().insert(id);
        }
        ids
    };
    let words = |ids: Option<&BTreeSet<String>>| {
        ids.map_or("not loaded".to_owned(), |ids| {
            ids.iter().cloned().collect::<Vec<_>>().join(" and ")
        })
    };
    let (old, new) = (ids(old), ids(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| (name.clone(), words(old.get(name)), words(new.get(name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failed, passed, plain, skipped, unproven};

    fn other(mut record: Record, signature: &str) -> Record {
        record.outcome.signature = signature.to_owned();
        record
    }

    fn told(old: &[Record], new: &[Record]) -> (String, bool) {
        let (text, differs) = changed(old, new);
        (plain(&text), differs)
    }

    #[test]
    fn each_kind_of_change_is_named() {
        let many = |n: usize, record: Record| vec![record; n];
        let old = [
            vec![
                passed("a/now-fails"),
                failed("b/now-passes"),
                failed("c/otherwise"),
                passed("e/same"),
            ],
            vec![skipped("f/skipped"), passed("g/gone"), unproven("h/none")],
            many(20, passed("d/rate")),
            many(1, failed("d/rate")),
            many(4, passed("i/chance")),
        ]
        .concat();
        let mut new = [
            vec![
                failed("a/now-fails"),
                passed("b/now-passes"),
                other(failed("c/otherwise"), "hang:x"),
                passed("e/same"),
            ],
            vec![passed("f/skipped"), unproven("h/none")],
            many(2, passed("d/rate")),
            many(19, failed("d/rate")),
            many(3, passed("i/chance")),
            many(1, failed("i/chance")),
        ]
        .concat();
        new[0].stack.libraries[0].build_id = Some("9999".to_owned());
        let (text, differs) = told(&old, &new);
        assert!(differs);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn nothing_differs_from_itself() {
        let run = [passed("a/b"), failed("c/d"), skipped("e/f"), unproven("g/h")];
        let (text, differs) = told(&run, &run);
        assert!(!differs && text.contains("4 trials in both: 0 differ, 0 differ"), "{text}");
    }

    /// Each way to swap the two runs is the mirror image, and small numbers never show another rate.
    #[test]
    fn changes_are_mirror_images() {
        let runs = |fails: u32, of: u32| -> Vec<Record> {
            (0..of).map(|n| if n < fails { failed("a/b") } else { passed("a/b") }).collect()
        };
        for (old, of) in (1..6).flat_map(|of| (0..=of).map(move |old| (old, of))) {
            for new in 0..=of {
                let (a, b) = (runs(old, of), runs(new, of));
                let (there, back) = (told(&a, &b), told(&b, &a));
                assert_eq!(there.1, back.1);
                assert_eq!(there.0.contains("now fails"), back.0.contains("now passes"));
                assert!(!there.0.contains("another rate"), "{}", there.0);
                assert_eq!(
                    there.1,
                    (old == 0 && new == of) || (old == of && new == 0),
                    "{old} {new} {of}"
                );
            }
        }
    }
}
