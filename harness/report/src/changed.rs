//! Compares two runs, and reports the trials whose results differ.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

use judge::{FailureIdentity, Kind, Rate, may_be_same};
use serde::Serialize;

use crate::{
    Record,
    conditions::plan_digest,
    words::{BOLD, count, describe_setup, faults, styled},
};

/// Maximum number of trials that [`list_names`] lists by name.
const NAMED: usize = 10;

/// Kind of difference between two runs of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The trial passed in the old run and fails in the new one.
    NowFails,
    /// The trial failed in the old run and passes in the new one.
    NowPasses,
    /// The trial fails in both runs, with different signatures.
    FailsOtherwise,
    /// The 95 % intervals of the two failure rates do not overlap.
    AnotherRate,
    /// The observed signatures differ, but chance may explain the difference.
    PerhapsChance,
    /// The case was edited between the runs, so the edit may explain a different result.
    AnotherText,
    /// One of the two runs has no verdict for the trial.
    NoVerdict,
}

impl Change {
    fn words(self) -> &'static str {
        match self {
            Change::NowFails => "now fails",
            Change::NowPasses => "now passes",
            Change::FailsOtherwise => "fails differently",
            Change::AnotherRate => "another rate",
            Change::PerhapsChance => "chance?",
            Change::AnotherText => "another text",
            Change::NoVerdict => "no verdict",
        }
    }

    /// Returns true if the results certainly differ: neither chance nor a missing verdict explains the difference.
    fn is_certain(self) -> bool {
        !matches!(self, Change::PerhapsChance | Change::NoVerdict)
    }
}

/// Results of the runs of one trial. Skipped runs and runs without a verdict are left out.
#[derive(Clone, Debug, Default)]
struct TrialResults {
    /// Signatures of the results, sorted, each with the number of times that it occurred.
    signatures: Vec<(Arc<str>, u32)>,
    /// Digests of the trial's plan or program. If there are several, the case was edited between the runs of the trial.
    texts: Vec<Arc<str>>,
    /// True if a record does not contain the digest of its trial.
    any_text: bool,
}

impl TrialResults {
    fn signatures(&self) -> BTreeSet<&str> {
        self.signatures.iter().map(|(signature, _)| &**signature).collect()
    }

    fn failures(&self) -> Rate {
        let runs = self.signatures.iter().map(|(_, n)| n).sum();
        let passed = self.signatures.iter().find(|(signature, _)| &**signature == PASS);
        Rate { hits: runs - passed.map_or(0, |(_, n)| *n), runs }
    }

    fn to_counts(&self) -> BTreeMap<String, u32> {
        self.signatures.iter().map(|(signature, n)| ((**signature).to_owned(), *n)).collect()
    }

    /// Returns true if both runs may have used the same version of the case. Records of older versions of rocrepro
    /// contain no digest and therefore match every version of the case.
    fn may_be_one_text(&self, other: &TrialResults) -> bool {
        self.any_text || other.any_text || self.texts.iter().any(|text| other.texts.contains(text))
    }
}

/// Name of a trial, and its injected faults. The second string is empty if no fault was injected.
type Key = (String, String);

/// Returns the name of a trial with its injected faults.
fn name((trial, faults): &Key) -> String {
    match faults.as_str() {
        "" => trial.clone(),
        faults => format!("{trial} under {faults}"),
    }
}

/// Summary of one of the two compared runs. It does not contain the records themselves.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// Results of each trial, by its name and injected faults.
    trials: BTreeMap<Key, TrialResults>,
    /// Signatures and digests, each stored once, because many trials have the same ones.
    shared: BTreeSet<Arc<str>>,
    places: Vec<String>,
    /// Date on which the last trial ended.
    last: String,
    records: usize,
    /// Build ids of each library, by the library's name. rocrepro itself is included.
    builds: BTreeMap<String, BTreeSet<String>>,
}

impl RunSummary {
    /// Adds a record of the run.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        let signature = (!matches!(record.outcome.kind, Kind::Skip | Kind::NoVerdict))
            .then(|| self.shared(&record.outcome.signature));
        let text = plan_digest(record).map(|text| self.shared(text));
        let key = (record.trial.clone(), faults(record).unwrap_or_default());
        let seen = self.trials.entry(key).or_default();
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
        let place = describe_setup(record);
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

impl<'r> FromIterator<&'r Record> for RunSummary {
    fn from_iter<I: IntoIterator<Item = &'r Record>>(records: I) -> RunSummary {
        let mut side = RunSummary::default();
        records.into_iter().for_each(|record| side.add(record));
        side
    }
}

/// Describes the signatures of a trial, each with the number of times that it occurred.
fn format_counts(signatures: &BTreeMap<String, u32>) -> String {
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

const PASS: &str = "pass";

/// Compares the results of a trial in both runs. Returns `None` if the results are equal.
fn change(old: &TrialResults, new: &TrialResults) -> Option<Change> {
    let (before, after) = (old.signatures(), new.signatures());
    match (before.is_empty(), after.is_empty()) {
        (true, true) => return None,
        (false, false) => {}
        _ => return Some(Change::NoVerdict),
    }
    let ((low, high), (new_low, new_high)) = (old.failures().interval(), new.failures().interval());
    // Older versions of rocrepro recorded shorter signatures for the same failures. Signatures of different lengths are
    // therefore treated as equal if they may describe the same failure.
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

/// Differences between two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    /// Number of trials that occur in both runs.
    pub in_both: usize,
    /// Differences between the injected faults of the two runs, each with the number of trials that have it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultDifference>,
    /// Trials whose results differ.
    pub changed: Vec<Changed>,
    /// Trials that failed in both runs with the same exit status, if nothing else is known about the failures. The
    /// failures may therefore differ.
    pub not_known: Vec<String>,
    /// Trials that only the old run contains, each with its injected faults.
    pub only_old: Vec<String>,
    /// Trials that only the new run contains, each with its injected faults.
    pub only_new: Vec<String>,
    /// Libraries (and rocrepro itself) whose build ids differ: name, old build id, new build id.
    pub libraries: Vec<(String, String, String)>,
    /// Configurations of the old run, each with the date on which its last trial ended.
    pub old: Vec<(String, String)>,
    /// Configurations of the new run, each with the date on which its last trial ended.
    pub new: Vec<(String, String)>,
    /// True if neither run repeated a trial, so that chance may explain any difference.
    pub once: bool,
}

/// A trial whose result differs between the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// Name of the trial, with its injected faults.
    pub trial: String,
    /// Kind of difference.
    pub change: Change,
    /// Signatures in the old run, each with the number of times that it occurred.
    pub old: BTreeMap<String, u32>,
    /// Signatures in the new run, each with the number of times that it occurred.
    pub new: BTreeMap<String, u32>,
}

/// A difference between the faults that the old and the new run injected into the same trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultDifference {
    /// Faults in the old run, separated by commas; empty if there were none.
    pub old: String,
    /// Faults in the new run, separated by commas; empty if there were none.
    pub new: String,
    /// Number of trials with this difference.
    pub trials: usize,
}

/// Pairs each trial of the old run with the same trial of the new run. If the injected faults of a trial differ, the
/// trial is paired only if each run contains it with exactly one set of faults that the other run lacks.
fn pair_trials<'k>(old: &'k RunSummary, new: &'k RunSummary) -> Vec<(&'k Key, &'k Key)> {
    let alone = |one: &'k RunSummary, other: &RunSummary| {
        let mut alone: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
        for key in one.trials.keys().filter(|key| !other.trials.contains_key(*key)) {
            alone.entry(&key.0).or_default().push(key);
        }
        alone
    };
    let equal = old.trials.keys().filter_map(|key| Some((key, new.trials.get_key_value(key)?.0)));
    let in_new = alone(new, old);
    let unequal = alone(old, new).into_iter().filter_map(|(trial, keys)| {
        match (keys.as_slice(), in_new.get(trial)?.as_slice()) {
            ([old], [new]) => Some((*old, *new)),
            _ => None,
        }
    });
    equal.chain(unequal).collect()
}

impl Changes {
    /// Compares two runs, given their records.
    pub fn compare_records(old: &[Record], new: &[Record]) -> Changes {
        Changes::compare(&old.iter().collect(), &new.iter().collect())
    }

    /// Compares two runs, given their summaries.
    pub fn compare(old: &RunSummary, new: &RunSummary) -> Changes {
        let pairs = pair_trials(old, new);
        let (mut changed, mut not_known) = (Vec::new(), Vec::new());
        let mut faults: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (old_key, new_key) in &pairs {
            let (Some(old), Some(new)) = (old.trials.get(*old_key), new.trials.get(*new_key))
            else {
                continue;
            };
            let same_faults = old_key.1 == new_key.1;
            let name = if same_faults { name(old_key) } else { old_key.0.clone() };
            if !same_faults {
                *faults.entry((&old_key.1, &new_key.1)).or_default() += 1;
            }
            let is_bare = |one: &&str| FailureIdentity::parse(one).is_bare_exit();
            if old.signatures().intersection(&new.signatures()).any(is_bare) {
                not_known.push(name.clone());
            }
            if let Some(mut change) = change(old, new) {
                // A fault that is injected at a call is part of the plan, so different faults also lead to different
                // digests.
                if same_faults && !old.may_be_one_text(new) && change != Change::NoVerdict {
                    change = Change::AnotherText;
                }
                let (old, new) = (old.to_counts(), new.to_counts());
                changed.push(Changed { trial: name, change, old, new });
            }
        }
        changed.sort_by(|a, b| (a.change, &a.trial).cmp(&(b.change, &b.trial)));
        let (in_old, in_new): (BTreeSet<&Key>, BTreeSet<&Key>) = pairs.iter().copied().unzip();
        let alone = |side: &RunSummary, paired: &BTreeSet<&Key>| {
            side.trials.keys().filter(|key| !paired.contains(key)).map(name).collect()
        };
        let faults = faults.into_iter().map(|((old, new), trials)| FaultDifference {
            old: old.to_owned(),
            new: new.to_owned(),
            trials,
        });
        let places = |side: &RunSummary| {
            side.places.iter().map(|place| (place.clone(), side.last.clone())).collect()
        };
        Changes {
            in_both: pairs.len(),
            faults: faults.collect(),
            changed,
            not_known,
            only_old: alone(old, &in_old),
            only_new: alone(new, &in_new),
            libraries: builds(&old.builds, &new.builds),
            old: places(old),
            new: places(new),
            once: old.records.max(new.records) <= old.trials.len().max(new.trials.len()),
        }
    }

    fn count_changes(&self, wanted: impl Fn(Change) -> bool) -> usize {
        self.changed.iter().filter(|changed| wanted(changed.change)).count()
    }

    /// Returns true if the result of at least one trial certainly differs.
    pub fn differ(&self) -> bool {
        self.count_changes(Change::is_certain) > 0
    }

    /// Describes the differences for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Changed { trial, change, old, new } in &self.changed {
            if *change != Change::NoVerdict {
                let words = styled(BOLD, format!("{:<15}", change.words()));
                let (old, new) = (format_counts(old), format_counts(new));
                let why = match change {
                    Change::AnotherText => "; the text of the case differs",
                    _ => "",
                };
                let _ = writeln!(text, "{words} {trial}\n    {old} -> {new}{why}");
            }
        }
        for FaultDifference { old, new, trials } in &self.faults {
            let [old, new] = [old, new]
                .map(|faults| if faults.is_empty() { "no fault" } else { faults.as_str() });
            let _ = writeln!(
                text,
                "The runs differ in the injected fault: {old} in the old run, {new} in the new run, for {}.",
                count(*trials, "trial")
            );
        }
        let without = self.changed.iter().filter(|c| c.change == Change::NoVerdict);
        let without: Vec<&String> = without.map(|changed| &changed.trial).collect();
        list_names("a verdict in only one run", &without, &mut text);
        for (which, alone) in [("old", &self.only_old), ("new", &self.only_new)] {
            list_names(
                &format!("only in the {which} run"),
                &alone.iter().collect::<Vec<_>>(),
                &mut text,
            );
        }
        let not_known: Vec<&String> = self.not_known.iter().collect();
        list_names("the same exit status, which may be different failures", &not_known, &mut text);
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
            "{} in both: {} differ, {} differ perhaps by chance, {} have a verdict in only one run",
            count(self.in_both, "trial"),
            self.count_changes(Change::is_certain),
            self.count_changes(|change| change == Change::PerhapsChance),
            self.count_changes(|change| change == Change::NoVerdict),
        );
        if self.differ() && self.once {
            text.push_str("Each trial ran only once in each run, so an intermittent failure looks like a difference; \
                           use `--repeat` to distinguish the two.\n");
        }
        text
    }
}

/// Appends the names of the first trials in a list, with the heading `what`, to `text`. Does nothing if the list is
/// empty.
fn list_names(what: &str, trials: &[&String], text: &mut String) {
    if trials.is_empty() {
        return;
    }
    let _ = writeln!(text, "{what}: {}", count(trials.len(), "trial"));
    trials.iter().take(NAMED).for_each(|name| _ = writeln!(text, "    {name}"));
    if trials.len() > NAMED {
        let _ = writeln!(text, "    and {} more", trials.len() - NAMED);
    }
}

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
    use crate::fixture::{failed, passed, plain, skipped, unproven, with_digest, with_options};

    fn other(mut record: Record, signature: &str) -> Record {
        record.outcome.signature = signature.to_owned();
        record
    }

    fn compare(old: &[Record], new: &[Record]) -> (String, bool) {
        let changes = Changes::compare_records(old, new);
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
        let (text, differs) = compare(&old, &new);
        assert!(differs);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn edited_case_is_reported() {
        let (old, new) = (with_digest("one", passed("a/b")), with_digest("two", failed("a/b")));
        let (text, differs) = compare(std::slice::from_ref(&old), std::slice::from_ref(&new));
        let wanted =
            "another text    a/b\n    pass -> wrong-data:back:zero; the text of the case differs\n";
        assert!(text.contains(wanted) && differs, "{text}");
        // A record of an older version has no digest, so it matches every version of the case.
        let (text, _) = compare(&[passed("a/b")], &[new]);
        let wanted = format!("{:<15} a/b\n    pass -> wrong-data:back:zero\n", "now fails");
        assert!(text.contains(&wanted), "{text}");
        let variable = with_options(&[("--env", "A=1")], passed("a/b"));
        let (text, _) = compare(&[with_options(&[], failed("a/b"))], &[variable]);
        assert!(text.contains(
            "new: ROCm 7.2.4 (debian:7.2.4) on the emulated gfx1151; not a GPU result; with A=1;"
        ));
    }

    #[test]
    fn runs_with_different_faults_are_compared() {
        let under = |fault: &str, mut record: Record| {
            record.faults = vec![fault.parse().unwrap()];
            record
        };
        let old = [passed("a/b"), passed("c/d"), passed("e/f")];
        let zero = |record| under("copy.zero", record);
        let new = [zero(failed("a/b")), zero(passed("c/d")), passed("e/f")];
        let (text, differs) = compare(&old, &new);
        let change = format!("{:<15} a/b\n    pass -> wrong-data:back:zero\n", "now fails");
        let line = "The runs differ in the injected fault: no fault in the old run, copy.zero in the new run, for 2 \
                    trials.\n";
        assert!(differs && text.contains(&change) && text.contains(line), "{text}");
        assert!(text.contains("3 trials in both") && !text.contains("only in"), "{text}");
        let (text, _) = compare(&new, &old);
        assert!(text.contains("copy.zero in the old run, no fault in the new run"), "{text}");
        // The trial is not paired, because it is unclear with which of the two faults it should be compared.
        let two = [zero(failed("a/b")), under("copy.late", passed("a/b"))];
        let (text, _) = compare(&old[..1], &two);
        assert!(text.contains("only in the new run: 2 trials"), "{text}");
        assert!(!text.contains("differ in the injected fault"), "{text}");
        // If the new run also contains the trial without a fault, the two trials without a fault are compared.
        let both = [passed("a/b"), zero(failed("a/b"))];
        let (text, differs) = compare(&old[..1], &both);
        assert!(!differs && text.contains("only in the new run: 1 trial\n    a/b under copy.zero"));
    }

    #[test]
    fn run_equals_itself() {
        let run = [passed("a/b"), failed("c/d"), skipped("e/f"), unproven("g/h")];
        let (text, differs) = compare(&run, &run);
        assert!(!differs && text.contains("4 trials in both: 0 differ, 0 differ"), "{text}");
    }

    #[test]
    fn signatures_of_older_versions_match() {
        let seen = |signature: &str| [other(failed("a/b"), signature)];
        let now = "exception:KeyError:x.py:3:f";
        // The old run was recorded by a version of rocrepro that stored shorter signatures.
        assert!(!compare(&seen("exception:KeyError"), &seen(now)).1);
        assert!(compare(&seen("exception:ValueError"), &seen(now)).1);
        assert!(compare(&seen("exit:1"), &seen(now)).1);
        let (text, differs) = compare(&seen("exit:1"), &seen("exit:1"));
        let words = "the same exit status, which may be different failures: 1 trial\n    a/b\n";
        assert!(!differs && text.contains(words), "{text}");
    }

    /// If the two runs are swapped, each change is reversed. A few runs are not enough to show that the failure rate
    /// changed.
    #[test]
    fn swapping_runs_mirrors_the_changes() {
        let runs = |fails: u32, of: u32| -> Vec<Record> {
            (0..of).map(|n| if n < fails { failed("a/b") } else { passed("a/b") }).collect()
        };
        for (old, of) in (1..6).flat_map(|of| (0..=of).map(move |old| (old, of))) {
            for new in 0..=of {
                let (a, b) = (runs(old, of), runs(new, of));
                let (there, back) = (compare(&a, &b), compare(&b, &a));
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
