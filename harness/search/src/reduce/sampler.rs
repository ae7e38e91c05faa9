//! Runs of candidates, counted, and what they decide.

use std::collections::{BTreeMap, HashMap};

use super::{Instead, Runner, Seen, Stopped, Wrong};
use crate::sequential::{evidence, lower_bound, passes_needed};

/// How sure a search wants to be.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether the failure comes every time, as far as is known beforehand. One run then decides; the first pass of
    /// something that has failed before revokes it.
    pub deterministic: bool,
    /// Probability of stopping at something that is not minimal, in all.
    pub error: f64,
    /// Failures that are rarer than this are taken for gone.
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
/// Probability that something that fails at [`SHARE`] of the rate is taken for as good as the start.
const TOO_RARE: f64 = 0.01;
/// The share of the start's rate that is too rare.
const SHARE: f64 = 0.5;
/// A failure that came every time so far may still fail to come.
const MOST_RATE: f64 = 0.98;
/// Runs without a verdict after which a candidate is left alone.
const NO_VERDICTS: u32 = 3;
/// Runs that the first estimate of the rate takes.
const FIRST_RUNS: u32 = 20;
/// Failures that end it sooner, as long as there is nothing else.
const FIRST_HITS: u32 = 3;
/// Failures that make a rate known well enough.
const HITS: u32 = 8;

pub(super) struct Sampler<C> {
    settings: Settings,
    cache: HashMap<String, Counts>,
    pub(super) runs: u32,
    pub(super) others: BTreeMap<String, (u32, C)>,
    /// What failed in the place of the failure in question, by key.
    instead: HashMap<String, Vec<Instead>>,
    /// The rate of the start: whatever is accepted fails as often, as far as runs tell.
    rate: f64,
    /// Failures of what was accepted, while there is nothing else.
    row: u32,
    /// Whether something that fails has also passed.
    flaky: bool,
}

impl<C: Clone> Sampler<C> {
    pub(super) fn new(settings: Settings) -> Self {
        Sampler {
            settings,
            cache: HashMap::new(),
            runs: 0,
            others: BTreeMap::new(),
            instead: HashMap::new(),
            rate: MOST_RATE,
            row: 0,
            flaky: false,
        }
    }

    pub(super) fn counts(&self, key: &str) -> Counts {
        self.cache.get(key).copied().unwrap_or_default()
    }

    /// What failed in the place of the failure in question, the most frequent first.
    pub(super) fn instead(&self, key: &str) -> Vec<Instead> {
        let mut all = self.instead.get(key).cloned().unwrap_or_default();
        all.sort_by_key(|instead| std::cmp::Reverse(instead.count));
        all
    }

    fn met(&mut self, key: &str, signature: String, own: Option<Wrong>) {
        let all = self.instead.entry(key.to_owned()).or_default();
        match all.iter_mut().find(|met| met.signature == signature && met.own == own) {
            Some(met) => met.count += 1,
            None => all.push(Instead { signature, count: 1, own }),
        }
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
            Seen::Other(_) | Seen::Own(..) => counts.not += 1,
            Seen::NoVerdict => counts.none += 1,
        }
        let counts = *counts;
        match seen {
            Seen::Other(signature) => {
                let new = || (0, candidate.clone());
                self.others.entry(signature.clone()).or_insert_with(new).0 += 1;
                self.met(key, signature, None);
            }
            Seen::Own(signature, why) => self.met(key, signature, Some(why)),
            Seen::Same | Seen::Pass | Seen::NoVerdict => {}
        }
        Ok(counts)
    }

    /// Estimates the rate of the start.
    pub(super) fn first(
        &mut self,
        start: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<(), Stopped> {
        let mut counts = self.counts(key);
        loop {
            self.flaky |= counts.same > 0 && counts.not > 0;
            let enough = match self.flaky {
                true => counts.same >= 2 * HITS && counts.runs() >= FIRST_RUNS,
                false => counts.same >= if self.settings.deterministic { 1 } else { FIRST_HITS },
            };
            if enough || counts.runs() + counts.none >= 10 * FIRST_RUNS {
                break;
            }
            counts = self.observe(start, key, runner)?;
        }
        // A rate that is taken for too high makes everything look too rare.
        let rate = match self.flaky {
            true => lower_bound(counts.same, counts.runs(), 0.1),
            false => MOST_RATE,
        };
        self.rate = rate.clamp(self.settings.least_rate, MOST_RATE);
        self.row = counts.same;
        Ok(())
    }

    /// Whether a candidate still fails, and as often as the start.
    pub(super) fn decide(
        &mut self,
        candidate: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, Stopped> {
        self.until(candidate, key, ERROR_ON_THE_WAY, 1, runner)
    }

    /// Runs a candidate until its counts decide. `miss` is the probability that one which fails as often as the start is taken for one
    /// that does not; `passes` decide where failures come every time.
    fn until(
        &mut self,
        candidate: &C,
        key: &str,
        miss: f64,
        passes: u32,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, Stopped> {
        loop {
            let counts = self.counts(key);
            let fails = match self.flaky {
                true => self.evidence(counts) >= -TOO_RARE.ln(),
                false => counts.same > 0,
            };
            if fails {
                return Ok(Decision::Fails);
            }
            let gone = match self.flaky {
                true => self.evidence(counts) <= miss.ln(),
                false => counts.not >= passes,
            };
            if gone || counts.none >= NO_VERDICTS + counts.runs() {
                return Ok(Decision::Gone);
            }
            self.observe(candidate, key, runner)?;
        }
    }

    /// By how much runs speak for the start's rate.
    fn evidence(&self, counts: Counts) -> f64 {
        evidence(counts.same, counts.not, self.rate, self.rate * SHARE)
    }

    /// The search goes on from this candidate.
    pub(super) fn moved(&mut self, key: &str) {
        self.row += self.counts(key).same;
    }

    /// A fresh sample of the result, so that its rate does not rest on the runs that it was chosen by. False where the search has to
    /// begin again: it trusted single runs of something that fails now and then, or a rate that was luck.
    pub(super) fn last(
        &mut self,
        result: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<bool, Stopped> {
        let before = self.counts(key);
        loop {
            let counts = self.counts(key);
            let hits = counts.same - before.same;
            let fresh = counts.runs() - before.runs();
            if !self.flaky && counts.same > 0 && counts.not > 0 {
                self.flaky = true;
                return Ok(false);
            }
            let wanted = if self.flaky { HITS } else { self.certain() };
            let most = (f64::from(HITS) / self.settings.least_rate) as u32;
            if hits >= wanted || fresh >= most || counts.none >= most {
                break;
            }
            self.observe(result, key, runner)?;
        }
        self.row += self.counts(key).same - before.same;
        Ok(!self.flaky || self.evidence(self.counts(key)) > ERROR_ON_THE_WAY.ln())
    }

    /// Fresh failures in a row by which a failure counts as one that comes every time.
    fn certain(&self) -> u32 {
        if self.settings.deterministic { 2 } else { HITS }
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
        let passes = if self.settings.deterministic {
            1
        } else {
            let low = lower_bound(self.row, self.row, 0.05);
            passes_needed(low.max(self.settings.least_rate), error)
        };
        self.until(candidate, key, error, passes, runner)
    }
}
