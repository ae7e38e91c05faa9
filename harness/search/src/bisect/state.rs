//! The settings of a bisect, and its observations so far.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sequential::lower_bound;

/// A build counts as unusable if it is statistically certain, with the error probability `OTHER_ERROR`, that more than
/// `MAX_OTHER_SHARE` of its runs fail with other signatures than the one searched for. For example, 2 such failures in
/// 2 runs are enough, but 10 runs need 5. A bad end that fails in two ways is run until this is decided; its runs also
/// show which failure is the more frequent one.
const MAX_OTHER_SHARE: f64 = 0.2;
const OTHER_ERROR: f64 = 0.05;

/// Default limit on the number of runs in a bisect. A failure that occurs in one of twenty runs needs about half of
/// them.
pub const DEFAULT_RUNS: u32 = 2000;

/// Settings of a bisect.
#[derive(Clone, Debug, PartialEq)]
pub struct BisectSettings {
    bad: usize,
    /// For each n, the sum of the prior weights of the first n builds; `None` if all weights are equal.
    cumulated: Option<Vec<f64>>,
    /// Cost of installing a build, as an equivalent number of runs.
    pub install_cost: f64,
    /// Failure rate of bad builds if the user knows it, 0 to 1.
    pub rate: Option<f64>,
    /// Posterior probability from which the search ends with an answer, 0 to 1.
    pub confidence: f64,
    /// Number of passes of the bad end, without a failure, after which the failure counts as not reproducible. For each
    /// failure of the bad end, the same number of passes is allowed in addition.
    pub patience: u32,
    /// Limits on runs, builds and time.
    pub budget: SearchBudget,
    /// For the good end and the bad end, true if the end belongs to another line of history than the builds between the
    /// ends, for example a release among nightly builds. A difference between such an end and its neighbour is not a
    /// change within the history.
    pub other_line: [bool; 2],
}

/// Limits on a bisect; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchBudget {
    /// Maximum number of runs of all builds together.
    pub runs: Option<u32>,
    /// Maximum number of installed builds, including the two ends.
    pub installs: Option<u32>,
    /// Maximum time for installing and running, in seconds.
    pub seconds: Option<f64>,
}

impl BisectSettings {
    /// Returns the default settings for a history of the builds 0 to `bad`. Build 0 is the good end, and build `bad`
    /// the bad end.
    ///
    /// # Panics
    /// Panics if `bad` is 0, because a history of one build contains no change.
    pub fn new(bad: usize) -> BisectSettings {
        assert!(bad > 0, "a history has two ends");
        BisectSettings {
            bad,
            cumulated: None,
            install_cost: 5.0,
            rate: None,
            confidence: 0.99,
            patience: 150,
            budget: SearchBudget { runs: Some(DEFAULT_RUNS), ..SearchBudget::default() },
            other_line: [false; 2],
        }
    }

    /// Sets for each build the relative prior probability that it introduced the change: `weights[n]` belongs to build
    /// `n`, and `weights[0]` is ignored. A build whose relevant components equal those of its predecessor should get a
    /// small weight.
    ///
    /// # Panics
    /// Panics if there is not one weight per build, or if a weight other than the first is not positive.
    pub fn with_weights(mut self, weights: &[f64]) -> BisectSettings {
        assert_eq!(weights.len(), self.bad + 1);
        assert!(weights[1..].iter().all(|w| *w > 0.0));
        let mut sum = 0.0;
        let cumulated = weights[1..].iter().map(|w| {
            sum += w;
            sum
        });
        self.cumulated = Some([0.0].into_iter().chain(cumulated).collect());
        self
    }

    /// Returns the index of the bad end.
    pub fn bad(&self) -> usize {
        self.bad
    }

    /// Returns the prior probability that one of the builds `after + 1 ..= until` introduced the change, 0 to 1.
    pub(super) fn prior(&self, after: usize, until: usize) -> f64 {
        match &self.cumulated {
            Some(sums) => (sums[until] - sums[after]) / sums[self.bad],
            None => (until - after) as f64 / self.bad as f64,
        }
    }
}

/// Outcome of one run of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildOutcome {
    /// The trial passed.
    Good,
    /// The trial failed with the signature that the search is about.
    Bad,
    /// The trial failed with another signature, so the run counts neither as good nor as bad.
    Other,
}

/// One observation of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A build was installed and is now active.
    Installed {
        /// Index of the build.
        build: usize,
        /// Time that the installation took, in seconds.
        seconds: f64,
    },
    /// A build cannot be tested: it does not exist, does not load, or fails a smoke test.
    Unusable {
        /// Index of the build.
        build: usize,
        /// Time that it took to find this out, in seconds.
        seconds: f64,
    },
    /// The trial ran once on the active build.
    Ran {
        /// Index of the active build.
        build: usize,
        /// Outcome of the run.
        seen: BuildOutcome,
        /// Time that the run took, in seconds.
        seconds: f64,
    },
}

/// Outcomes of one build's runs, counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of runs that passed.
    pub good: u32,
    /// Number of runs that failed with the signature that the search is about.
    pub bad: u32,
    /// Number of runs that failed with another signature.
    pub other: u32,
    /// True if the build cannot be installed, loaded or started.
    pub broken: bool,
}

impl Tally {
    fn count(&mut self, seen: BuildOutcome) {
        match seen {
            BuildOutcome::Good => self.good += 1,
            BuildOutcome::Bad => self.bad += 1,
            BuildOutcome::Other => self.other += 1,
        }
    }

    /// Returns the number of runs that count as good or bad.
    pub fn runs(&self) -> u32 {
        self.good + self.bad
    }

    /// Returns true if the build is broken, or if its runs show with statistical certainty that it fails with other
    /// signatures too often to be tested.
    pub fn is_unusable(&self) -> bool {
        let often =
            || lower_bound(self.other, self.runs() + self.other, OTHER_ERROR) > MAX_OTHER_SHARE;
        self.broken || (self.other >= 2 && often())
    }
}

/// Settings of a bisect, and all observations so far.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    setup: BisectSettings,
    tallies: BTreeMap<usize, Tally>,
    runs: Vec<(usize, BuildOutcome)>,
    active: Option<usize>,
    installed: Vec<usize>,
    seconds: f64,
}

impl State {
    /// Returns a state without observations.
    pub fn new(setup: BisectSettings) -> State {
        State {
            setup,
            tallies: BTreeMap::new(),
            runs: Vec::new(),
            active: None,
            installed: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Returns the settings of the bisect.
    pub fn setup(&self) -> &BisectSettings {
        &self.setup
    }

    /// Adds an observation of the caller.
    ///
    /// # Panics
    /// Panics if the build is not in the history.
    pub fn observe(&mut self, event: Event) {
        let (Event::Installed { build, seconds }
        | Event::Unusable { build, seconds }
        | Event::Ran { build, seconds, .. }) = event;
        assert!(build <= self.setup.bad, "build {build} is not in the history");
        self.seconds += seconds;
        match event {
            Event::Installed { .. } => {
                self.active = Some(build);
                if !self.installed.contains(&build) {
                    self.installed.push(build);
                }
            }
            Event::Unusable { .. } => self.tallies.entry(build).or_default().broken = true,
            Event::Ran { seen, .. } => {
                self.tallies.entry(build).or_default().count(seen);
                self.runs.push((build, seen));
            }
        }
    }

    /// Returns the outcome counts of a build.
    pub fn tally(&self, build: usize) -> Tally {
        self.tallies.get(&build).copied().unwrap_or_default()
    }

    /// Returns all observed builds with their outcome counts, in the order of the history.
    pub fn tallies(&self) -> impl Iterator<Item = (usize, Tally)> + '_ {
        self.tallies.iter().map(|(build, tally)| (*build, *tally))
    }

    /// Returns the number of runs of all builds so far.
    pub fn runs(&self) -> u32 {
        self.runs.len() as u32
    }

    /// Returns the number of different builds that were installed so far, including the ends.
    pub fn installs(&self) -> u32 {
        self.installed.len() as u32
    }

    /// Returns the time spent on installing and running so far, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Returns the active build, which is the only one that can be run: the build that was last installed successfully.
    /// `None` before the first installation.
    pub fn active(&self) -> Option<usize> {
        self.active
    }

    pub(super) fn installed(&self, build: usize) -> bool {
        self.installed.contains(&build)
    }

    pub(super) fn is_unusable(&self, build: usize) -> bool {
        self.tallies.get(&build).is_some_and(Tally::is_unusable)
    }

    /// Returns true if the build seems to fail with other signatures too often to be tested, but too few runs were made
    /// to be certain. Further runs must decide.
    pub(super) fn needs_more_runs(&self, build: usize) -> bool {
        let tally = self.tally(build);
        let seems = tally.other >= 2
            && f64::from(tally.other) > MAX_OTHER_SHARE * f64::from(tally.runs() + tally.other);
        seems && !tally.is_unusable()
    }

    /// Returns the first build between two builds that is not known to be unusable.
    pub(super) fn usable_between(&self, after: usize, until: usize) -> Option<usize> {
        (after + 1..until).find(|build| !self.is_unusable(*build))
    }

    /// Returns the unusable builds between two builds.
    pub(super) fn unusable_between(&self, after: usize, until: usize) -> Vec<usize> {
        self.tallies
            .range(after + 1..until.max(after + 1))
            .filter(|(_, tally)| tally.is_unusable())
            .map(|(build, _)| *build)
            .collect()
    }

    /// Returns the name of the limit that one more run would exceed; if `install` is true, also considers one more
    /// installed build. Returns `None` if no limit would be exceeded.
    pub(super) fn exhausted_limit(&self, install: bool) -> Option<String> {
        let SearchBudget { runs, installs, seconds } = self.setup.budget;
        let over = |limit: Option<u32>, used: u32| limit.is_some_and(|limit| used >= limit);
        if over(runs, self.runs()) {
            Some("runs".to_owned())
        } else if install && over(installs, self.installs()) {
            Some("installs".to_owned())
        } else if seconds.is_some_and(|limit| self.seconds >= limit) {
            Some("seconds".to_owned())
        } else {
            None
        }
    }

    /// Counts how often passes of build `good` and failures of build `bad` alternate, in the order of the runs. A
    /// failure in the run after another failure does not count, because the earlier failure may have caused it.
    pub(super) fn alternations(&self, good: usize, bad: usize) -> u32 {
        let (mut count, mut last, mut before) = (0, None, None);
        for (build, seen) in &self.runs {
            let after_failure = before.replace(*seen) == Some(BuildOutcome::Bad);
            let shows_bad = match seen {
                BuildOutcome::Good if *build == good => false,
                BuildOutcome::Bad if *build == bad && !after_failure => true,
                _ => continue,
            };
            if last != Some(shows_bad) {
                count += 1;
                last = Some(shows_bad);
            }
        }
        count
    }

    /// Counts the outcomes of a build's runs, without runs right after a failing run of any build. A failure may leave
    /// something behind that makes the next run fail too.
    pub(super) fn tally_not_after_failure(&self, build: usize) -> Tally {
        let mut tally = Tally { broken: self.tally(build).broken, ..Tally::default() };
        let mut before = None;
        for (of, seen) in &self.runs {
            let after_failure = before.replace(*seen) == Some(BuildOutcome::Bad);
            if *of == build && !after_failure {
                tally.count(*seen);
            }
        }
        tally
    }

    pub(super) fn last_run_failed(&self) -> bool {
        self.runs.last().is_some_and(|(_, seen)| *seen == BuildOutcome::Bad)
    }

    /// Returns true if the most recent runs all failed, on at least `builds` different builds, and if none of them was
    /// a run of the good end.
    pub(super) fn is_suspicious(&self, builds: usize) -> bool {
        let mut failed: Vec<usize> = Vec::new();
        for (build, seen) in self.runs.iter().rev() {
            match seen {
                BuildOutcome::Good => return false,
                BuildOutcome::Bad if *build == 0 => return false,
                BuildOutcome::Bad if !failed.contains(build) => failed.push(*build),
                _ => {}
            }
            if failed.len() >= builds {
                return true;
            }
        }
        false
    }

    /// Returns how often the good end has passed in all, and how often it has failed since its last pass.
    pub(super) fn good_end_turned(&self) -> (u32, u32) {
        let of_good_end = || self.runs.iter().filter(|(build, _)| *build == 0);
        let failures =
            of_good_end().rev().take_while(|(_, seen)| *seen == BuildOutcome::Bad).count();
        (self.tally(0).good, failures as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn build_is_unusable_once_it_certainly_fails_otherwise_too_often() {
        let check = |runs: u32, other: u32, expected: bool| {
            let tally = Tally { good: runs - other, other, ..Tally::default() };
            assert_eq!(tally.is_unusable(), expected, "{other} of {runs}");
        };
        check(1, 1, false);
        check(2, 2, true);
        check(5, 2, false);
        check(6, 4, true);
        check(8, 4, false);
        check(10, 5, true);
        check(100, 25, false);
        check(100, 30, true);
    }
}
