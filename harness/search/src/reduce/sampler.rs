//! Runs of candidates, counted, and what they decide.

use std::collections::{BTreeMap, HashMap};

use super::{Runner, Seen, Stopped};
use crate::sequential::{lower_bound, passes_needed};

/// How sure a search wants to be.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether the failure comes every time, as far as is known beforehand. One run then decides; the first pass of
    /// something that has failed before revokes it.
    pub deterministic: bool,
    /// Probability of stopping at something that is not minimal, in all.
    pub error: f64,
    /// Failures that become rarer than this are taken for gone.
    pub least_rate: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { deterministic: false, error: 0.01, least_rate: 0.05 }
    }
}

/// Runs of one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// With the failure in question.
    pub same: u32,
    /// Without it: passes and other failures.
    pub not: u32,
    /// Without a verdict.
    pub none: u32,
}

impl Counts {
    /// Runs with a verdict.
    pub fn runs(self) -> u32 {
        self.same + self.not
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Fails,
    Gone,
}

/// Wrong rejections on the way cost a later attempt and no more.
const ERROR_ON_THE_WAY: f64 = 0.05;
/// Runs without a verdict after which a candidate is left alone.
const NO_VERDICTS: u32 = 3;
/// Runs that the first estimate of the rate takes, unless its failures come sooner.
const FIRST_RUNS: u32 = 20;
const FIRST_HITS: u32 = 3;
/// Hits of the result that make its rate known well enough.
const LAST_HITS: u32 = 8;
/// The weight that runs of a candidate keep for the rate of its successor.
const INHERITED: f64 = 0.6;

pub(super) struct Sampler<C> {
    settings: Settings,
    cache: HashMap<String, Counts>,
    pub(super) runs: u32,
    pub(super) others: BTreeMap<String, (u32, C)>,
    /// Hits and runs of what was accepted last, with a share of what came before.
    chain: (f64, f64),
    /// Whether something that fails has also passed.
    flaky: bool,
    /// Whether that was found out since the last question.
    reopened: bool,
}

impl<C: Clone> Sampler<C> {
    pub(super) fn new(settings: Settings) -> Self {
        Sampler {
            settings,
            cache: HashMap::new(),
            runs: 0,
            others: BTreeMap::new(),
            chain: (0.0, 0.0),
            flaky: false,
            reopened: false,
        }
    }

    pub(super) fn counts(&self, key: &str) -> Counts {
        self.cache.get(key).copied().unwrap_or_default()
    }

    fn observe(
        &mut self,
        candidate: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<Counts, Stopped> {
        let seen = runner.run(candidate, key).ok_or(Stopped)?;
        self.runs += 1;
        let counts = self.cache.entry(key.to_owned()).or_default();
        match seen {
            Seen::Same => counts.same += 1,
            Seen::Pass => counts.not += 1,
            Seen::Other(signature) => {
                counts.not += 1;
                let entry = self.others.entry(signature).or_insert_with(|| (0, candidate.clone()));
                entry.0 += 1;
            }
            Seen::NoVerdict => counts.none += 1,
        }
        Ok(*counts)
    }

    /// Estimates the rate of the start.
    pub(super) fn first(
        &mut self,
        start: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<(), Stopped> {
        let hits = if self.settings.deterministic { 1 } else { FIRST_HITS };
        loop {
            let counts = self.counts(key);
            let enough = counts.same >= hits || counts.runs() >= FIRST_RUNS;
            let hopeless = counts.runs() + counts.none >= 10 * FIRST_RUNS;
            if enough && counts.same > 0 || hopeless {
                break;
            }
            self.observe(start, key, runner)?;
        }
        self.moved(key);
        Ok(())
    }

    /// Whether a candidate still fails.
    pub(super) fn decide(
        &mut self,
        candidate: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, Stopped> {
        let needed = self.needed_on_the_way();
        self.until(candidate, key, needed, runner)
    }

    fn until(
        &mut self,
        candidate: &C,
        key: &str,
        needed: u32,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, Stopped> {
        loop {
            let counts = self.counts(key);
            if counts.same > 0 {
                return Ok(Decision::Fails);
            }
            if counts.not >= needed || counts.none >= NO_VERDICTS {
                return Ok(Decision::Gone);
            }
            self.observe(candidate, key, runner)?;
        }
    }

    fn needed_on_the_way(&self) -> u32 {
        if !self.flaky {
            return 1;
        }
        let (hits, runs) = self.chain;
        // A smaller candidate often fails less often, and is welcome.
        let rate = (hits / runs / 2.0).max(self.settings.least_rate);
        passes_needed(rate, ERROR_ON_THE_WAY)
    }

    /// The search goes on from this candidate.
    pub(super) fn moved(&mut self, key: &str) {
        let counts = self.counts(key);
        self.notice(counts);
        // What fails every time tells the same of its successor; else the rate changes from one to the next.
        let kept = if self.flaky { INHERITED } else { 1.0 };
        let (hits, runs) = self.chain;
        self.chain = (hits * kept + f64::from(counts.same), runs * kept + f64::from(counts.runs()));
    }

    fn notice(&mut self, counts: Counts) {
        if counts.same > 0 && counts.not > 0 && !self.flaky {
            self.flaky = true;
            self.reopened = true;
        }
    }

    /// A fresh sample of the result, so that its rate does not rest on the run that it was chosen by.
    pub(super) fn last(
        &mut self,
        result: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<(), Stopped> {
        let before = self.counts(key);
        loop {
            let counts = self.counts(key);
            let hits = counts.same - before.same;
            let fresh = counts.runs() - before.runs();
            let wanted = if self.flaky { LAST_HITS } else { self.certain() };
            let most = (f64::from(LAST_HITS) / self.settings.least_rate) as u32;
            if hits >= wanted || fresh >= most || counts.none >= most {
                break;
            }
            self.observe(result, key, runner)?;
            self.notice(self.counts(key));
        }
        let counts = self.counts(key);
        self.chain = if self.flaky {
            (f64::from(counts.same.max(1)), f64::from(counts.runs()))
        } else {
            let fresh = f64::from(counts.runs() - before.runs());
            (self.chain.0 + fresh, self.chain.1 + fresh)
        };
        Ok(())
    }

    /// Fresh failures in a row by which a failure counts as one that comes every time.
    fn certain(&self) -> u32 {
        if self.settings.deterministic { 2 } else { LAST_HITS }
    }

    /// Decides again with the error that `elements` decisions may have in all.
    pub(super) fn confirm(
        &mut self,
        candidate: &C,
        key: &str,
        elements: u32,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, Stopped> {
        let error = self.settings.error / f64::from(elements.max(1));
        let needed = if self.flaky || !self.settings.deterministic {
            let (hits, runs) = self.chain;
            let low = lower_bound(hits as u32, runs.ceil() as u32, 0.05);
            passes_needed(low.max(self.settings.least_rate), error)
        } else {
            1
        };
        self.until(candidate, key, needed, runner)
    }

    /// Whether the failure turned out to be a flaky one since the last question, so that single passes prove nothing.
    pub(super) fn reopened(&mut self) -> bool {
        std::mem::take(&mut self.reopened)
    }
}
