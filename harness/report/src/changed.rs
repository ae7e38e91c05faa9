//! Two runs beside each other: which trials came to something else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

use judge::{FailureIdentity, Kind, Rate, may_be_same};
use serde::Serialize;

use crate::{
    Record,
    conditions::text,
    words::{BOLD, count, faults, place, styled},
};

/// Trials of one run alone that are named.
const NAMED: usize = 10;

/// How a trial differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It passed, and fails now.
    NowFails,
    /// It failed, and passes now.
    NowPasses,
    /// It fails in another way.
    FailsOtherwise,
    /// The intervals of its failure rates, 95 % each, do not overlap.
    AnotherRate,
    /// What was seen differs, and chance may explain it.
    PerhapsChance,
    /// The text of the case differs, so that what was seen says nothing of what the runs stood on.
    AnotherText,
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
            Change::AnotherText => "another text",
            Change::NoVerdict => "no verdict",
        }
    }

    /// Whether it is shown that the runs differ there.
    fn counts(self) -> bool {
        !matches!(self, Change::PerhapsChance | Change::NoVerdict)
    }
}

/// Signatures of the runs of one trial, without skipped runs and those without a verdict.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Signatures, in their order, with their numbers.
    signatures: Vec<(Arc<str>, u32)>,
    /// Texts of the case.
    texts: Vec<Arc<str>>,
    /// True if a record does not contain the digest of its case.
    any_text: bool,
}

impl Seen {
    fn signatures(&self) -> BTreeSet<&str> {
        self.signatures.iter().map(|(signature, _)| &**signature).collect()
    }

    fn failures(&self) -> Rate {
        let runs = self.signatures.iter().map(|(_, n)| n).sum();
        let passed = self.signatures.iter().find(|(signature, _)| &**signature == PASS);
        Rate { hits: runs - passed.map_or(0, |(_, n)| *n), runs }
    }

    fn owned(&self) -> BTreeMap<String, u32> {
        self.signatures.iter().map(|(signature, n)| ((**signature).to_owned(), *n)).collect()
    }

    /// Returns true if some records of both may be of one text of the case. A record of an older version may be of any.
    fn may_be_one_text(&self, other: &Seen) -> bool {
        self.any_text || other.any_text || self.texts.iter().any(|text| other.texts.contains(text))
    }
}

/// One of two runs that are compared: what its records came to, without the records.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// By each trial under its faults.
    trials: BTreeMap<String, Seen>,
    /// Texts that many trials share.
    shared: BTreeSet<Arc<str>>,
    places: Vec<String>,
    /// When the last trial ended.
    last: String,
    records: usize,
    /// Build ids by the names of libraries, and rocrepro's own.
    builds: BTreeMap<String, BTreeSet<String>>,
}

impl Side {
    /// Takes a record of the run.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        let under = faults(record).map_or(String::new(), |faults| format!(" under {faults}"));
        let signature = (!matches!(record.outcome.kind, Kind::Skip | Kind::NoVerdict))
            .then(|| self.shared(&record.outcome.signature));
        let text = text(record).map(|text| self.shared(text));
        let seen = self.trials.entry(format!("{}{under}", record.trial)).or_default();
        if let Some(signature) = signature {
            match seen.signatures.binary_search_by(|(there, _)| there.cmp(&signature)) {
                Ok(at) => seen.signatures[at].1 += 1,
                Err(at) => seen.signatures.insert(at, (signature, 1)),
            }
        }
        match text {
            Some(text) if seen.texts.contains(&text) => {}
            Some(text) => seen.texts.push(text),
            None => seen.any_text = true,
        }
        let place = place(record);
        if !self.places.contains(&place) {
            self.places.push(place);
        }
        if record.date > self.last {
            self.last.clone_from(&record.date);
        }
        let libraries = record.stack.libraries.iter();
        let own = Some(record.build.as_str()).filter(|build| !build.is_empty());
        let builds = libraries.map(|library| (library.name.as_str(), library.build_id.as_deref()));
        for (name, id) in builds.chain([("rocrepro", own)]) {
            let id = id.unwrap_or("no build id");
            match self.builds.get_mut(name) {
                Some(ids) if ids.contains(id) => {}
                Some(ids) => _ = ids.insert(id.to_owned()),
                None => _ = self.builds.insert(name.to_owned(), [id.to_owned()].into()),
            }
        }
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(there) = self.shared.get(text) {
            return Arc::clone(there);
        }
        let new: Arc<str> = text.into();
        self.shared.insert(Arc::clone(&new));
        new
    }
}

impl<'r> FromIterator<&'r Record> for Side {
    fn from_iter<I: IntoIterator<Item = &'r Record>>(records: I) -> Side {
        let mut side = Side::default();
        records.into_iter().for_each(|record| side.add(record));
        side
    }
}

/// Signatures with their numbers, in words.
fn seen(signatures: &BTreeMap<String, u32>) -> String {
    let runs: u32 = signatures.values().sum();
    match signatures.iter().next() {
        None => "no verdict".to_owned(),
        Some((signature, _)) if runs == 1 => signature.clone(),
        Some(_) => {
            let each = signatures.iter().map(|(signature, n)| format!("{n} of {runs} {signature}"));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

/// The signature of a trial that passed.
const PASS: &str = "pass";

/// None where both came to the same.
fn change(old: &Seen, new: &Seen) -> Option<Change> {
    let (before, after) = (old.signatures(), new.signatures());
    match (before.is_empty(), after.is_empty()) {
        (true, true) => return None,
        (false, false) => {}
        _ => return Some(Change::NoVerdict),
    }
    let ((low, high), (new_low, new_high)) = (old.failures().interval(), new.failures().interval());
    // An earlier version recorded less of a failure, and differs in nothing else.
    let is_in = |one: &str, all: &BTreeSet<&str>| all.iter().any(|other| may_be_same(one, other));
    let is_within = |one: &BTreeSet<&str>, other| one.iter().all(|one| is_in(one, other));
    if !before.iter().any(|one| is_in(one, &after)) {
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
    let same = is_within(&before, &after) && is_within(&after, &before);
    (!same).then_some(Change::PerhapsChance)
}

/// Two runs beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    /// Trials of both.
    pub in_both: usize,
    /// Those that came to something else.
    pub changed: Vec<Changed>,
    /// Trials that failed in both with nothing but the same exit status.
    pub not_known: Vec<String>,
    /// Trials of the old run alone, with their faults.
    pub only_old: Vec<String>,
    /// Those of the new one.
    pub only_new: Vec<String>,
    /// Libraries, and rocrepro itself, with another build id: the name, the old one and the new one.
    pub libraries: Vec<(String, String, String)>,
    /// What the old run stood on, and when its last trial ended.
    pub old: Vec<(String, String)>,
    /// The same of the new one.
    pub new: Vec<(String, String)>,
    /// Whether each trial ran once in each.
    pub once: bool,
}

/// A trial of both runs that came to something else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The trial, with its faults.
    pub trial: String,
    /// How it differs.
    pub change: Change,
    /// What the old run saw: signatures with their numbers.
    pub old: BTreeMap<String, u32>,
    /// What the new one saw.
    pub new: BTreeMap<String, u32>,
}

impl Changes {
    /// Compares the records of two runs.
    pub fn of(old: &[Record], new: &[Record]) -> Changes {
        Changes::between(&old.iter().collect(), &new.iter().collect())
    }

    /// Compares two runs.
    pub fn between(old: &Side, new: &Side) -> Changes {
        let (before, after) = (&old.trials, &new.trials);
        let both = before.iter().filter_map(|(name, old)| Some((name, old, after.get(name)?)));
        let (mut changed, mut not_known) = (Vec::new(), Vec::new());
        let mut in_both = 0;
        for (name, old, new) in both {
            in_both += 1;
            let is_bare = |one: &&str| FailureIdentity::parse(one).is_bare_exit();
            if old.signatures().intersection(&new.signatures()).any(is_bare) {
                not_known.push(name.clone());
            }
            if let Some(mut change) = change(old, new) {
                if !old.may_be_one_text(new) && change != Change::NoVerdict {
                    change = Change::AnotherText;
                }
                let (old, new) = (old.owned(), new.owned());
                changed.push(Changed { trial: name.clone(), change, old, new });
            }
        }
        changed.sort_by(|a, b| (a.change, &a.trial).cmp(&(b.change, &b.trial)));
        let alone = |one: &BTreeMap<String, Seen>, other: &BTreeMap<String, Seen>| {
            one.keys().filter(|name| !other.contains_key(*name)).cloned().collect()
        };
        let places = |side: &Side| {
            side.places.iter().map(|place| (place.clone(), side.last.clone())).collect()
        };
        Changes {
            in_both,
            changed,
            not_known,
            only_old: alone(before, after),
            only_new: alone(after, before),
            libraries: builds(&old.builds, &new.builds),
            old: places(old),
            new: places(new),
            once: old.records.max(new.records) <= before.len().max(after.len()),
        }
    }

    fn number(&self, wanted: impl Fn(Change) -> bool) -> usize {
        self.changed.iter().filter(|changed| wanted(changed.change)).count()
    }

    /// Whether a trial of both came to something else, which chance does not explain.
    pub fn differ(&self) -> bool {
        self.number(Change::counts) > 0
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Changed { trial, change, old, new } in &self.changed {
            if *change != Change::NoVerdict {
                let words = styled(BOLD, format!("{:<15}", change.words()));
                let (old, new) = (seen(old), seen(new));
                let why = match change {
                    Change::AnotherText => "; the case's text differs",
                    _ => "",
                };
                let _ = writeln!(text, "{words} {trial}\n    {old} -> {new}{why}");
            }
        }
        let without = self.changed.iter().filter(|c| c.change == Change::NoVerdict);
        let without: Vec<&String> = without.map(|changed| &changed.trial).collect();
        named("a verdict in one run only", &without, &mut text);
        for (which, alone) in [("old", &self.only_old), ("new", &self.only_new)] {
            named(
                &format!("only in the {which} run"),
                &alone.iter().collect::<Vec<_>>(),
                &mut text,
            );
        }
        let not_known: Vec<&String> = self.not_known.iter().collect();
        named(
            "the same exit status alone, which need not be the same failure",
            &not_known,
            &mut text,
        );
        for (library, old, new) in &self.libraries {
            let _ = writeln!(text, "{library}: {old} -> {new}");
        }
        for (which, places) in [("old", &self.old), ("new", &self.new)] {
            for (place, last) in places {
                let _ = writeln!(text, "{which}: {place}; {last}");
            }
        }
        let _ = writeln!(
            text,
            "{} in both: {} differ, {} differ perhaps by chance, {} have a verdict in one run only",
            count(self.in_both, "trial"),
            self.number(Change::counts),
            self.number(|change| change == Change::PerhapsChance),
            self.number(|change| change == Change::NoVerdict),
        );
        if self.differ() && self.once {
            text.push_str("Each trial ran once in each run: a failure that comes and goes looks like a difference; `--repeat` \
                           can tell the two apart.\n");
        }
        text
    }
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

/// Returns the libraries whose build ids differ.
fn builds(
    old: &BTreeMap<String, BTreeSet<String>>,
    new: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<(String, String, String)> {
    let words = |ids: Option<&BTreeSet<String>>| {
        ids.map_or("not loaded".to_owned(), |ids| {
            ids.iter().cloned().collect::<Vec<_>>().join(" and ")
        })
    };
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
    use crate::fixture::{asking, doing, failed, passed, plain, skipped, unproven};

    fn other(mut record: Record, signature: &str) -> Record {
        record.outcome.signature = signature.to_owned();
        record
    }

    fn told(old: &[Record], new: &[Record]) -> (String, bool) {
        let changes = Changes::of(old, new);
        (plain(&changes.text()), changes.differ())
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

    /// Another text of the case is no news of ROCm, and is told.
    #[test]
    fn another_text_is_named() {
        let (old, new) = (doing("one", passed("a/b")), doing("two", failed("a/b")));
        let (text, differs) = told(std::slice::from_ref(&old), std::slice::from_ref(&new));
        let wanted =
            "another text    a/b\n    pass -> wrong-data:back:zero; the case's text differs\n";
        assert!(text.contains(wanted) && differs, "{text}");
        // A record of an older version may be of any text.
        let (text, _) = told(&[passed("a/b")], &[new]);
        let wanted = format!("{:<15} a/b\n    pass -> wrong-data:back:zero\n", "now fails");
        assert!(text.contains(&wanted), "{text}");
        let variable = asking(&[("--env", "A=1")], passed("a/b"));
        let (text, _) = told(&[asking(&[], failed("a/b"))], &[variable]);
        assert!(text.contains(
            "new: ROCm 7.2.4 (debian:7.2.4) on the emulated gfx1151; not a GPU result; with A=1;"
        ));
    }

    #[test]
    fn nothing_differs_from_itself() {
        let run = [passed("a/b"), failed("c/d"), skipped("e/f"), unproven("g/h")];
        let (text, differs) = told(&run, &run);
        assert!(!differs && text.contains("4 trials in both: 0 differ, 0 differ"), "{text}");
    }

    #[test]
    fn failures_are_compared_by_their_identity() {
        let seen = |signature: &str| [other(failed("a/b"), signature)];
        let now = "exception:KeyError:x.py:3:f";
        // The old run was of a version that recorded less.
        assert!(!told(&seen("exception:KeyError"), &seen(now)).1);
        assert!(told(&seen("exception:ValueError"), &seen(now)).1);
        assert!(told(&seen("exit:1"), &seen(now)).1);
        let (text, differs) = told(&seen("exit:1"), &seen("exit:1"));
        let words =
            "the same exit status alone, which need not be the same failure: 1 trial\n    a/b\n";
        assert!(!differs && text.contains(words), "{text}");
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
