use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sequential::lower_bound;

/// The share of runs with another failure above which a build says nothing of the one that is looked for, and the
/// probability with which fewer may pass for more by chance: two of two are enough, of ten it takes five. An end that
/// fails in two ways is run until that is clear, which also tells which is the more frequent.
const OTHERS: f64 = 0.2;
const CHANCE: f64 = 0.05;

/// Runs that a search may spend where nobody said another number: a failure that shows in one of twenty runs takes half of them.
pub const DEFAULT_RUNS: u32 = 2000;

/// What the search knows before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    bad: usize,
    /// Sum of the prior weights of builds up to each; none where all weigh the same.
    cumulated: Option<Vec<f64>>,
    /// What obtaining a build costs, in runs.
    pub install_cost: f64,
    /// The rate at which bad builds fail, where the user knows it.
    pub rate: Option<f64>,
    /// Posterior probability that an answer needs.
    pub confidence: f64,
    /// Passes in a row of the bad end that mean that its failure cannot be reproduced.
    pub patience: u32,
    /// What may be spent.
    pub budget: Budget,
}

/// What a search may spend; without a number there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Runs.
    pub runs: Option<u32>,
    /// Builds obtained, the ends included.
    pub installs: Option<u32>,
    /// Seconds of obtaining and running.
    pub seconds: Option<f64>,
}

impl Setup {
    /// A history of the builds 0, which is good, to `bad`.
    ///
    /// # Panics
    /// When `bad` is 0: one build has no change.
    pub fn new(bad: usize) -> Setup {
        assert!(bad > 0, "a history has two ends");
        Setup {
            bad,
            cumulated: None,
            install_cost: 5.0,
            rate: None,
            confidence: 0.99,
            patience: 150,
            budget: Budget { runs: Some(DEFAULT_RUNS), ..Budget::default() },
        }
    }

    /// Weighs each build by how likely the change is to be in it: `weights[n]` belongs to build `n`, and build 0 has none. A build
    /// whose relevant components are those of the build before weighs little.
    ///
    /// # Panics
    /// When the number of weights is not that of the builds, or one of them is not positive.
    pub fn weighted(mut self, weights: &[f64]) -> Setup {
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

    /// The bad end.
    pub fn bad(&self) -> usize {
        self.bad
    }

    /// Prior weight of a change in `after + 1 ..= until`, between 0 and 1.
    pub(super) fn prior(&self, after: usize, until: usize) -> f64 {
        match &self.cumulated {
            Some(sums) => (sums[until] - sums[after]) / sums[self.bad],
            None => (until - after) as f64 / self.bad as f64,
        }
    }
}

/// What one run showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// No failure.
    Good,
    /// The failure that is looked for.
    Bad,
    /// Another failure: neither.
    Other,
}

/// What was observed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The build is active now.
    Installed {
        /// The build.
        build: usize,
        /// How long it took.
        seconds: f64,
    },
    /// The build cannot be tested: it is not there, does not load, or fails a smoke test.
    Unusable {
        /// The build.
        build: usize,
        /// How long it took to find out.
        seconds: f64,
    },
    /// The trial ran once on the active build.
    Ran {
        /// The build.
        build: usize,
        /// What it showed.
        seen: Seen,
        /// How long it took.
        seconds: f64,
    },
}

/// Runs of one build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Runs without a failure.
    pub good: u32,
    /// Runs with the failure that is looked for.
    pub bad: u32,
    /// Runs with another failure.
    pub other: u32,
    /// Whether it cannot be obtained, loaded or started.
    pub broken: bool,
}

impl Tally {
    fn count(&mut self, seen: Seen) {
        match seen {
            Seen::Good => self.good += 1,
            Seen::Bad => self.bad += 1,
            Seen::Other => self.other += 1,
        }
    }

    /// Runs that count.
    pub fn runs(&self) -> u32 {
        self.good + self.bad
    }

    /// Whether nothing can be learned from this build: it is broken, or surely fails in another way too often.
    pub fn unusable(&self) -> bool {
        let often = || lower_bound(self.other, self.runs() + self.other, CHANCE) > OTHERS;
        self.broken || (self.other >= 2 && often())
    }
}

/// Everything observed so far.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    setup: Setup,
    tallies: BTreeMap<usize, Tally>,
    runs: Vec<(usize, Seen)>,
    active: Option<usize>,
    installed: Vec<usize>,
    seconds: f64,
}

impl State {
    /// Nothing observed yet.
    pub fn new(setup: Setup) -> State {
        State {
            setup,
            tallies: BTreeMap::new(),
            runs: Vec::new(),
            active: None,
            installed: Vec::new(),
            seconds: 0.0,
        }
    }

    /// What was known before.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Adds an observation.
    ///
    /// # Panics
    /// When the build is none of the history.
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

    /// What was seen of a build.
    pub fn tally(&self, build: usize) -> Tally {
        self.tallies.get(&build).copied().unwrap_or_default()
    }

    /// Every build that something was seen of, in the order of the history.
    pub fn tallies(&self) -> impl Iterator<Item = (usize, Tally)> + '_ {
        self.tallies.iter().map(|(build, tally)| (*build, *tally))
    }

    /// Runs so far.
    pub fn runs(&self) -> u32 {
        self.runs.len() as u32
    }

    /// Builds obtained so far, the ends included.
    pub fn installs(&self) -> u32 {
        self.installed.len() as u32
    }

    /// Seconds spent on obtaining and running.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The build that is installed now.
    pub fn active(&self) -> Option<usize> {
        self.active
    }

    /// Whether a build has been obtained already.
    pub(super) fn installed(&self, build: usize) -> bool {
        self.installed.contains(&build)
    }

    pub(super) fn unusable(&self, build: usize) -> bool {
        self.tallies.get(&build).is_some_and(Tally::unusable)
    }

    /// Whether it takes more runs of a build to tell whether it fails in another way too often.
    pub(super) fn doubtful(&self, build: usize) -> bool {
        let tally = self.tally(build);
        let seems = tally.other >= 2
            && f64::from(tally.other) > OTHERS * f64::from(tally.runs() + tally.other);
        seems && !tally.unusable()
    }

    /// The usable build between two builds that is nearest to `after`, or none.
    pub(super) fn usable_between(&self, after: usize, until: usize) -> Option<usize> {
        (after + 1..until).find(|build| !self.unusable(*build))
    }

    /// Unusable builds between two builds.
    pub(super) fn unusable_between(&self, after: usize, until: usize) -> Vec<usize> {
        self.tallies
            .range(after + 1..until.max(after + 1))
            .filter(|(_, tally)| tally.unusable())
            .map(|(build, _)| *build)
            .collect()
    }

    /// Which budget is spent, where one more run, or one more build, would be over it.
    pub(super) fn spent(&self, install: bool) -> Option<String> {
        let Budget { runs, installs, seconds } = self.setup.budget;
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

    /// How often passes of `good` and failures of `bad` alternate in time. A failure right after another may be what that one
    /// left behind, on a build that is good, so it does not count.
    pub(super) fn alternations(&self, good: usize, bad: usize) -> u32 {
        let (mut count, mut last, mut before) = (0, None, None);
        for (build, seen) in &self.runs {
            let after_failure = before.replace(*seen) == Some(Seen::Bad);
            let shows_bad = match seen {
                Seen::Good if *build == good => false,
                Seen::Bad if *build == bad && !after_failure => true,
                _ => continue,
            };
            if last != Some(shows_bad) {
                count += 1;
                last = Some(shows_bad);
            }
        }
        count
    }

    /// What was seen of a build where the run before, of whichever build, did not fail: that may leave something behind.
    pub(super) fn own(&self, build: usize) -> Tally {
        let mut own = Tally { broken: self.tally(build).broken, ..Tally::default() };
        let mut before = None;
        for (of, seen) in &self.runs {
            let after_failure = before.replace(*seen) == Some(Seen::Bad);
            if *of == build && !after_failure {
                own.count(*seen);
            }
        }
        own
    }

    /// Whether the last run failed.
    pub(super) fn just_failed(&self) -> bool {
        self.runs.last().is_some_and(|(_, seen)| *seen == Seen::Bad)
    }

    /// Whether the last runs all failed, on at least so many builds, the good end not among them.
    pub(super) fn suspicious(&self, builds: usize) -> bool {
        let mut failed: Vec<usize> = Vec::new();
        for (build, seen) in self.runs.iter().rev() {
            match seen {
                Seen::Good => return false,
                Seen::Bad if *build == 0 => return false,
                Seen::Bad if !failed.contains(build) => failed.push(*build),
                _ => {}
            }
            if failed.len() >= builds {
                return true;
            }
        }
        false
    }

    /// Passes of the good end, and its failures since the last of them.
    pub(super) fn good_end_turned(&self) -> (u32, u32) {
        let of_good_end = || self.runs.iter().filter(|(build, _)| *build == 0);
        let failures = of_good_end().rev().take_while(|(_, seen)| *seen == Seen::Bad).count();
        (self.tally(0).good, failures as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn a_build_says_nothing_once_it_surely_fails_in_another_way_too_often() {
        let check = |runs: u32, other: u32, expected: bool| {
            let tally = Tally { good: runs - other, other, ..Tally::default() };
            assert_eq!(tally.unusable(), expected, "{other} of {runs}");
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
