//! Derives bugs from the records of many runs.
//!
//! A bug is a failure of a case with one signature. If a trial of another case runs the same plan or program and fails
//! with the same signature, both are one bug. The state of a bug is computed from all records, so it cannot disagree
//! with them. Records that prove nothing about ROCm are left out: skips, records without a verdict, and injected
//! faults.
//!
//! Results are compared within a [`Series`], which is a sequence of builds on one device with the same options. Builds
//! are in the order of their versions or days, because an old release may be tested again after a newer one.

mod same_bugs;
mod series;
#[cfg(test)]
mod tests;
mod text;

use std::{cmp::Reverse, collections::BTreeMap};

use judge::{Kind, Rate, VerdictKind};
use serde::Serialize;

use crate::{Record, conditions};
pub use series::Series;
use series::{BuildRank, classify};

/// State of a bug. The states are ordered: the one that needs attention most comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BugState {
    /// The case was edited, and the trial has run with the new text since, so its newest results say nothing about this
    /// bug.
    Edited,
    /// All builds after the last failure passed, often enough to exclude a bug with this failure rate.
    Fixed,
    /// All builds after the last failure passed, but too few times to exclude a bug with this failure rate.
    Unseen,
    /// The newest tested build fails.
    Open,
    /// The newest tested build fails, although the bug was fixed in older builds.
    Reopened,
}

impl BugState {
    /// Every state, the one that needs attention most first.
    pub const ALL: [BugState; 5] =
        [BugState::Reopened, BugState::Open, BugState::Unseen, BugState::Fixed, BugState::Edited];

    /// Returns true if the bug should be tested again on new builds.
    pub const fn is_open(self) -> bool {
        matches!(self, BugState::Open | BugState::Reopened | BugState::Unseen)
    }
}

/// A failure of a case with one signature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bug {
    /// Short name, 8 hexadecimal digits. It is computed from the case and the signature.
    pub id: String,
    /// Name of the case.
    pub case: String,
    /// Signature of the failure.
    pub signature: String,
    /// Title of the case.
    pub title: String,
    /// Summary of the most recent failure.
    pub summary: String,
    /// Upstream issues of the case and of the expected failure.
    pub upstream: Vec<String>,
    /// State of the series that needs attention most.
    pub state: BugState,
    /// Date of the first failure, RFC 3339 in UTC.
    pub first: String,
    /// Date of the most recent failure, RFC 3339 in UTC.
    pub last: String,
    /// Command that repeats the most recent failure.
    pub again: String,
    /// Trial that failed most recently.
    pub trial: String,
    /// Results of each series in which the failure occurred.
    pub series: Vec<BugSeries>,
}

/// Results of a bug in one series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BugSeries {
    /// The series: origin of the builds, device and options.
    #[serde(flatten)]
    pub series: Series,
    /// State of the trial that needs attention most.
    pub state: BugState,
    /// Newest build of the series on which any trial in the store has run.
    pub newest: String,
    /// Trials that have failed with the signature in this series.
    pub trials: Vec<BugTrial>,
    /// Results of `trials` on each build, the oldest build first. Only runs with the present text of the case count.
    pub builds: Vec<BugBuild>,
    /// Options with which the trials passed on builds where they fail without the options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passes_with: Vec<BugOptions>,
}

/// Options with which the trials of a bug passed on builds where they fail without the options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BugOptions {
    /// Description of the options, for example `with AMD_SERIALIZE_COPY=3`.
    pub options: String,
    /// Number of passes. No run with these options failed with the signature of the bug.
    pub passed: u32,
}

/// Results of a trial of a bug in one series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BugTrial {
    /// Name of the trial.
    pub trial: String,
    /// Digest of the trial's plan or program; absent if its records contain none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// State of this trial.
    pub state: BugState,
    /// First failing build of the most recent occurrence of the bug. An occurrence ends when the bug is fixed.
    pub from: String,
    /// Last build that failed.
    pub to: String,
    /// Number of failures from `from` to `to`.
    pub failed: u32,
    /// Number of runs from `from` to `to` that passed or failed with this signature.
    pub ran: u32,
    /// 95 % interval (Clopper and Pearson) of the failure probability from `from` to `to`.
    pub interval: (f64, f64),
    /// Last build before `from` that was tested and passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// First build after `to` that was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Newest build on which this trial has passed or failed with the signature of the bug.
    pub newest: String,
    /// Number of passes on builds after `to`.
    pub passed: u32,
    /// Number of passes after which the bug counts as fixed. `None` if only one failure is known, because the failure
    /// rate is then unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<u32>,
}

/// Results of a bug on one build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BugBuild {
    /// Name of the build.
    pub build: String,
    /// Number of failures with the signature of the bug.
    pub failed: u32,
    /// Number of passes.
    pub passed: u32,
    /// Number of failures with other signatures. They count neither as failures nor as passes, because they may hide
    /// this bug.
    pub otherwise: u32,
}

impl BugBuild {
    fn new(build: String) -> BugBuild {
        BugBuild { build, failed: 0, passed: 0, otherwise: 0 }
    }
}

/// Collects the records of a store, and derives the bugs from them. The order of the records does not matter.
#[derive(Clone, Debug, Default)]
pub struct Bugs {
    /// Number of each build, which is its index in `names`.
    numbers: BTreeMap<(Series, BuildRank), usize>,
    /// Names of the builds, by number.
    names: Vec<String>,
    /// Results of each trial, by its name and the digest of its plan or program.
    trials: BTreeMap<(String, String), TrialResults>,
    /// Second digest of each trial: that of its plan or program without the trial's name. It is equal for trials of
    /// different cases that do the same. The key is the same as in `trials`.
    unnamed: BTreeMap<(String, String), String>,
    /// Descriptions of the failures.
    known: BTreeMap<Failure, Description>,
}

/// Case and signature of a failure.
type Failure = (String, String);

/// Results of a trial on each build, by the number of the build.
type TrialResults = BTreeMap<usize, BuildResults>;

#[derive(Clone, Debug, Default)]
struct BuildResults {
    /// Date of the most recent result.
    last: String,
    passed: u32,
    /// Number of failures with each signature.
    failed: BTreeMap<String, u32>,
}

#[derive(Clone, Debug)]
struct Description {
    first: String,
    last: String,
    title: String,
    summary: String,
    upstream: Vec<String>,
    again: String,
    trial: String,
}

impl Bugs {
    /// Adds a record. Records that prove nothing about a build of ROCm are ignored.
    pub fn add(&mut self, record: &Record) {
        let failed = record.outcome.kind.is_failure();
        let proves = match record.verdict.kind {
            VerdictKind::Skip | VerdictKind::NoVerdict | VerdictKind::Difference => false,
            _ => failed || record.outcome.kind == Kind::Pass,
        };
        if !proves || !record.faults.is_empty() {
            return;
        }
        let (series, rank, name) = classify(record);
        let number = *self.numbers.entry((series, rank)).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        let text = conditions::plan_digest(record).unwrap_or_default().to_owned();
        let trial = (record.trial.clone(), text);
        if let Some(asked) = record.asked.as_ref().filter(|asked| !asked.unnamed.is_empty()) {
            self.unnamed.insert(trial.clone(), asked.unnamed.clone());
        }
        let trial = self.trials.entry(trial).or_default();
        let results = trial.entry(number).or_default();
        if results.last < record.date {
            results.last.clone_from(&record.date);
        }
        if !failed {
            results.passed += 1;
            return;
        }
        let key = (record.case.clone(), record.outcome.signature.clone());
        *results.failed.entry(key.1.clone()).or_default() += 1;
        self.known.entry(key).or_insert_with(|| Description::from_record(record)).add(record);
    }

    /// Returns all bugs. The bugs that need attention most come first.
    pub fn all(&self) -> Vec<Bug> {
        let listed_as = self.same_bugs();
        let mut descriptions: BTreeMap<&Failure, Description> = BTreeMap::new();
        for (failure, about) in &self.known {
            let bug = listed_as.get(failure).copied().unwrap_or(failure);
            descriptions
                .entry(bug)
                .and_modify(|first| first.merge(about))
                .or_insert_with(|| about.clone());
        }
        let mut trials_of: BTreeMap<&Failure, Vec<&(String, String)>> = BTreeMap::new();
        for (trial, failure) in self.failures() {
            let trials =
                trials_of.entry(listed_as.get(failure).copied().unwrap_or(failure)).or_default();
            if !trials.contains(&trial) {
                trials.push(trial);
            }
        }
        let mut newest_builds: BTreeMap<&Series, usize> = BTreeMap::new();
        for ((series, _), number) in &self.numbers {
            newest_builds.insert(series, *number);
        }
        let bug = |(failure, about): (&Failure, Description)| {
            let trials = trials_of.get(failure)?;
            let series: Vec<BugSeries> = newest_builds
                .iter()
                .filter_map(|(series, newest)| self.series(&failure.1, series, *newest, trials))
                .collect();
            let state = series.iter().map(|series| series.state).max()?;
            Some(about.bug(failure, state, series))
        };
        let mut bugs: Vec<Bug> = descriptions.into_iter().filter_map(bug).collect();
        bugs.sort_by(|a, b| (b.state, &b.last, &a.case).cmp(&(a.state, &a.last, &b.case)));
        bugs
    }

    /// Returns the results of a bug in one series; `None` if the failure did not occur in it.
    fn series(
        &self,
        signature: &str,
        series: &Series,
        newest: usize,
        trials: &[&(String, String)],
    ) -> Option<BugSeries> {
        let builds: Vec<usize> = self
            .numbers
            .range((series.clone(), BuildRank::default())..)
            .take_while(|((of, _), _)| of == series)
            .map(|(_, number)| *number)
            .collect();
        let mut sums: BTreeMap<usize, BugBuild> = BTreeMap::new();
        let mut found = Vec::new();
        for trial in trials {
            let Some(results) = self.trials.get(*trial) else { continue };
            let on = builds.iter().enumerate().filter_map(|(at, number)| {
                let results = results.get(number)?;
                let failed = results.failed.get(signature).copied().unwrap_or(0);
                Some((at, failed, results))
            });
            let on: Vec<_> = on.collect();
            let results: Vec<_> =
                on.iter().map(|(at, failed, results)| (*at, *failed, results.passed)).collect();
            let Some(occurrence) = Occurrence::last(&results) else { continue };
            let edited = self.is_edited(trial, &builds);
            // Results with different texts of a case are never added up.
            for (at, failed, results) in on.into_iter().filter(|_| !edited) {
                let build = || self.names.get(builds[at]).cloned().unwrap_or_default();
                let sum = sums.entry(at).or_insert_with(|| BugBuild::new(build()));
                sum.failed += failed;
                sum.passed += results.passed;
                sum.otherwise += results.failed.values().sum::<u32>() - failed;
            }
            let name = |at: usize| self.names[builds[at]].clone();
            let text = Some(trial.1.clone()).filter(|text| !text.is_empty());
            found.push(occurrence.bug_trial(trial.0.clone(), text, edited, &name));
        }
        let state = found.iter().map(|trial| trial.state).max()?;
        Some(BugSeries {
            series: series.clone(),
            state,
            newest: self.names.get(newest).cloned().unwrap_or_default(),
            trials: found,
            builds: sums.into_values().collect(),
            passes_with: self.passes_with(signature, series, trials),
        })
    }

    /// Returns the options with which the trials never failed on builds where they fail without them.
    fn passes_with(
        &self,
        signature: &str,
        series: &Series,
        trials: &[&(String, String)],
    ) -> Vec<BugOptions> {
        let mut found: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for ((other, rank), number) in &self.numbers {
            let options = other.device.strip_prefix(&series.device);
            let Some(options) = options.and_then(|rest| rest.strip_prefix("; ")) else { continue };
            let usual = self.numbers.get(&(series.clone(), rank.clone()));
            let Some(usual) = usual.filter(|_| other.builds == series.builds) else { continue };
            for results in trials.iter().filter_map(|trial| self.trials.get(*trial)) {
                let fails =
                    results.get(usual).is_some_and(|usual| usual.failed.contains_key(signature));
                let Some(with) = results.get(number).filter(|_| fails) else { continue };
                let (passed, failed) = found.entry(options).or_default();
                *passed += with.passed;
                *failed += with.failed.get(signature).copied().unwrap_or(0);
            }
        }
        let helps = found.into_iter().filter(|(_, (passed, failed))| *passed > 0 && *failed == 0);
        helps
            .map(|(options, (passed, _))| BugOptions { options: options.to_owned(), passed })
            .collect()
    }

    /// Returns true if the case of the trial was edited later: a trial with the same name but another digest ran on one
    /// of the builds after the last run of this trial.
    fn is_edited(&self, trial: &(String, String), builds: &[usize]) -> bool {
        let last = |results: &TrialResults| {
            let dates = builds.iter().filter_map(|number| Some(&results.get(number)?.last));
            dates.max().cloned().unwrap_or_default()
        };
        let own = self.trials.get(trial).map(last).unwrap_or_default();
        let texts = self.trials.range((trial.0.clone(), String::new())..);
        let mut texts = texts.take_while(|((name, _), _)| *name == trial.0);
        texts.any(|(_, results)| last(results) > own)
    }
}

impl Description {
    fn from_record(record: &Record) -> Description {
        Description {
            first: record.date.clone(),
            last: String::new(),
            title: String::new(),
            summary: String::new(),
            upstream: Vec::new(),
            again: String::new(),
            trial: String::new(),
        }
    }

    /// Adds a failure. The title, the summary and the command of the most recent failure describe the bug.
    fn add(&mut self, record: &Record) {
        if record.date < self.first {
            self.first.clone_from(&record.date);
        }
        let known = record.verdict.known.iter().filter(|known| !known.is_from_file());
        for issue in record.upstream.iter().chain(known.filter_map(|known| known.upstream.as_ref()))
        {
            if !self.upstream.contains(issue) {
                self.upstream.push(issue.clone());
                self.upstream.sort();
            }
        }
        // Of several failures in the same second, that of the first trial by name describes the bug.
        let there = (&self.last, Reverse(&self.trial), &self.summary, &self.again);
        let new = (&record.date, Reverse(&record.trial), &record.outcome.summary, &record.again);
        if new > there || self.trial.is_empty() {
            self.last.clone_from(&record.date);
            self.title.clone_from(&record.title);
            self.summary.clone_from(&record.outcome.summary);
            self.again.clone_from(&record.again);
            self.trial.clone_from(&record.trial);
        }
    }

    /// Adds the failures of another case that are the same bug.
    fn merge(&mut self, other: &Description) {
        if other.first < self.first {
            self.first.clone_from(&other.first);
        }
        self.upstream.extend(other.upstream.iter().cloned());
        self.upstream.sort();
        self.upstream.dedup();
        if (&other.last, Reverse(&other.trial)) > (&self.last, Reverse(&self.trial)) {
            let (first, upstream) = (self.first.clone(), self.upstream.clone());
            *self = Description { first, upstream, ..other.clone() };
        }
    }

    fn bug(&self, failure: &Failure, state: BugState, series: Vec<BugSeries>) -> Bug {
        Bug {
            id: bug_id(&failure.0, &failure.1),
            case: failure.0.clone(),
            signature: failure.1.clone(),
            title: self.title.clone(),
            summary: self.summary.clone(),
            upstream: self.upstream.clone(),
            state,
            first: self.first.clone(),
            last: self.last.clone(),
            again: self.again.clone(),
            trial: self.trial.clone(),
            series,
        }
    }
}

/// Returns the name of a bug: the FNV-1a hash of its case and signature, folded to 32 bits.
fn bug_id(case: &str, signature: &str) -> String {
    let bytes = case.bytes().chain([0]).chain(signature.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

/// Maximum probability that a bug is reported as fixed although it still exists. The number of required passes is so
/// high that a bug whose failure rate is the lower bound of its 95 % interval passes all of them with at most this
/// probability.
pub(crate) const MAX_CHANCE: f64 = 0.001;

/// Returns the number of passes after which a bug that failed in `failed` of `ran` runs counts as fixed; `None` if no
/// number of passes is enough. One failure is not counted, because the runs were chosen so that the first and the last
/// of them failed.
fn passes_needed(failed: u32, ran: u32) -> Option<u32> {
    let (hits, runs) = (failed.checked_sub(1)?, ran.checked_sub(1)?);
    if hits == 0 {
        return None;
    }
    let (low, _) = Rate { hits, runs }.interval();
    // The conversion from a float saturates.
    Some((MAX_CHANCE.ln() / (-low).ln_1p()).ceil().max(1.0) as u32)
}

/// Most recent occurrence of a bug in the results of a trial on the builds of a series. An occurrence begins with a
/// failure and ends when later builds have passed often enough.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    /// Last build before `from` that passed.
    before: Option<usize>,
    from: usize,
    to: usize,
    failed: u32,
    ran: u32,
    since: Option<usize>,
    newest: usize,
    passed: u32,
    reopened: bool,
}

impl Occurrence {
    /// Returns the last occurrence; `None` if no build failed. Each result contains the position of a build in its
    /// series, its number of failures and its number of passes. The results are in the order of the builds.
    fn last(results: &[(usize, u32, u32)]) -> Option<Occurrence> {
        let mut last: Option<Occurrence> = None;
        let mut before = None;
        for (at, failed, passed) in results.iter().copied() {
            if failed == 0 && passed == 0 {
                continue;
            }
            match &mut last {
                Some(now) if failed == 0 => {
                    now.passed += passed;
                    now.since.get_or_insert(at);
                    now.newest = at;
                }
                Some(now) if !now.is_fixed() => {
                    now.ran += now.passed + failed + passed;
                    now.failed += failed;
                    (now.to, now.newest, now.passed, now.since) = (at, at, 0, None);
                }
                other if failed > 0 => {
                    let reopened = other.is_some();
                    *other = Some(Occurrence {
                        before,
                        from: at,
                        to: at,
                        failed,
                        ran: failed + passed,
                        since: None,
                        newest: at,
                        passed: 0,
                        reopened,
                    });
                }
                _ => {}
            }
            if failed == 0 {
                before = Some(at);
            }
        }
        last
    }

    fn is_fixed(&self) -> bool {
        // The interval of the rate is computed only if there are passes to compare it with.
        self.passed > 0 && self.needed().is_some_and(|needed| self.passed >= needed)
    }

    fn needed(&self) -> Option<u32> {
        passes_needed(self.failed, self.ran)
    }

    fn state(&self) -> BugState {
        match (self.is_fixed(), self.passed, self.reopened) {
            (true, ..) => BugState::Fixed,
            (false, 0, true) => BugState::Reopened,
            (false, 0, false) => BugState::Open,
            (false, ..) => BugState::Unseen,
        }
    }

    fn bug_trial(
        &self,
        trial: String,
        text: Option<String>,
        edited: bool,
        name: &dyn Fn(usize) -> String,
    ) -> BugTrial {
        BugTrial {
            trial,
            text,
            state: if edited { BugState::Edited } else { self.state() },
            from: name(self.from),
            to: name(self.to),
            failed: self.failed,
            ran: self.ran,
            interval: Rate { hits: self.failed, runs: self.ran }.interval(),
            before: self.before.map(name),
            since: self.since.map(name),
            newest: name(self.newest),
            passed: self.passed,
            needed: self.needed(),
        }
    }
}
