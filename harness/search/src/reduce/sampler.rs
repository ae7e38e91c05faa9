//! Runs candidates, counts the outcomes, and decides from the counts whether a candidate still fails.

use std::collections::{BTreeMap, HashMap};

use super::{CandidateOutcome, InvalidReason, Runner, SearchEnded, SubstituteFailure};
use crate::sequential::{log_likelihood_ratio, lower_bound, passes_needed};

/// Settings of a reduction: error probability, and assumptions about the failure.
#[derive(Clone, Copy, Debug)]
pub struct ReduceSettings {
    /// True to assume at first that the failure occurs in every run, so that one run decides about a candidate. As soon
    /// as a candidate has both failed and passed, the failure counts as intermittent.
    pub deterministic: bool,
    /// Accepted probability that the result is not minimal, 0 to 1.
    pub error: f64,
    /// Lowest failure rate that must be detected, 0 to 1. A failure with a lower rate counts as gone.
    pub least_rate: f64,
}

impl Default for ReduceSettings {
    fn default() -> Self {
        ReduceSettings { deterministic: false, error: 0.01, least_rate: 0.05 }
    }
}

/// Outcomes of one candidate's runs, counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of runs with the failure that the search is about.
    pub same: u32,
    /// Number of runs that passed, or that failed in another way.
    pub not: u32,
    /// Number of runs without a verdict.
    pub none: u32,
}

impl Counts {
    /// Returns the number of runs with a verdict.
    pub fn runs(self) -> u32 {
        self.same + self.not
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Fails,
    Gone,
}

/// Error probability of a rejection during the search. A wrong rejection only means that the edit is tried again later.
const ERROR_ON_THE_WAY: f64 = 0.05;
/// Probability of accepting a candidate that fails only at [`RARE_SHARE`] of the original's failure rate.
const RARE_ACCEPT_PROBABILITY: f64 = 0.01;
/// A candidate fails too rarely if its failure rate is this share of the original's failure rate.
const RARE_SHARE: f64 = 0.5;
/// Highest failure rate that is assumed. A failure that has occurred in every run so far may still be intermittent.
const MAX_RATE: f64 = 0.98;
/// If a candidate has this many more runs without a verdict than with one, it is rejected.
const NO_VERDICTS: u32 = 3;
/// Minimum number of runs from which the failure rate of an intermittent failure is first estimated.
const FIRST_RUNS: u32 = 20;
/// If no run has passed, the first estimate needs only this many failures.
const FIRST_HITS: u32 = 3;
/// Number of failures with which a failure rate is estimated well enough.
const ENOUGH_FAILURES: u32 = 8;

pub(super) struct Sampler<C> {
    settings: ReduceSettings,
    cache: HashMap<String, Counts>,
    pub(super) runs: u32,
    pub(super) others: BTreeMap<String, (u32, C)>,
    /// Failures other than the one that the search is about, by the key of the candidate.
    other_failures: HashMap<String, Vec<SubstituteFailure>>,
    /// Failure rate of the original, 0 to 1. The search accepts only candidates that, judging by their runs, fail as
    /// often.
    rate: f64,
    /// Number of failures of the original and of the accepted candidates. Used only while the failure counts as
    /// deterministic, so these are failures in a row.
    row: u32,
    /// True once the original or the result of the search has both failed and passed, so that the failure counts as
    /// intermittent.
    flaky: bool,
}

impl<C: Clone> Sampler<C> {
    pub(super) fn new(settings: ReduceSettings) -> Self {
        Sampler {
            settings,
            cache: HashMap::new(),
            runs: 0,
            others: BTreeMap::new(),
            other_failures: HashMap::new(),
            rate: MAX_RATE,
            row: 0,
            flaky: false,
        }
    }

    pub(super) fn counts(&self, key: &str) -> Counts {
        self.cache.get(key).copied().unwrap_or_default()
    }

    /// Returns the other failures that a candidate has shown, the most frequent first.
    pub(super) fn other_failures(&self, key: &str) -> Vec<SubstituteFailure> {
        let mut all = self.other_failures.get(key).cloned().unwrap_or_default();
        all.sort_by_key(|other| std::cmp::Reverse(other.count));
        all
    }

    /// Counts a failure of a candidate other than the failure that the search is about.
    fn count_other(&mut self, key: &str, signature: String, invalid: Option<InvalidReason>) {
        let all = self.other_failures.entry(key.to_owned()).or_default();
        match all.iter_mut().find(|met| met.signature == signature && met.invalid == invalid) {
            Some(met) => met.count += 1,
            None => all.push(SubstituteFailure { signature, count: 1, invalid }),
        }
    }

    fn observe(
        &mut self,
        candidate: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<Counts, SearchEnded> {
        let seen = runner.run(candidate, key).ok_or(SearchEnded)?;
        self.runs += 1;
        let counts = self.cache.entry(key.to_owned()).or_default();
        match seen {
            CandidateOutcome::Same => counts.same += 1,
            CandidateOutcome::Pass => counts.not += 1,
            CandidateOutcome::Other(_) | CandidateOutcome::Invalid(..) => counts.not += 1,
            CandidateOutcome::NoVerdict => counts.none += 1,
        }
        let counts = *counts;
        match seen {
            CandidateOutcome::Other(signature) => {
                let new = || (0, candidate.clone());
                self.others.entry(signature.clone()).or_insert_with(new).0 += 1;
                self.count_other(key, signature, None);
            }
            CandidateOutcome::Invalid(signature, why) => {
                self.count_other(key, signature, Some(why))
            }
            CandidateOutcome::Same | CandidateOutcome::Pass | CandidateOutcome::NoVerdict => {}
        }
        Ok(counts)
    }

    /// Runs the original candidate until its failure rate can be estimated.
    pub(super) fn estimate_rate(
        &mut self,
        start: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<(), SearchEnded> {
        let mut counts = self.counts(key);
        loop {
            self.flaky |= counts.same > 0 && counts.not > 0;
            let enough = match self.flaky {
                true => counts.same >= 2 * ENOUGH_FAILURES && counts.runs() >= FIRST_RUNS,
                false => counts.same >= if self.settings.deterministic { 1 } else { FIRST_HITS },
            };
            if enough || counts.runs() + counts.none >= 10 * FIRST_RUNS {
                break;
            }
            counts = self.observe(start, key, runner)?;
        }
        // The lower bound of the rate is used, because with a rate that is too high, every candidate would seem to fail
        // too rarely.
        let rate = match self.flaky {
            true => lower_bound(counts.same, counts.runs(), 0.1),
            false => MAX_RATE,
        };
        self.rate = rate.clamp(self.settings.least_rate, MAX_RATE);
        self.row = counts.same;
        Ok(())
    }

    /// Decides whether a candidate still fails, and about as often as the original.
    pub(super) fn decide(
        &mut self,
        candidate: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, SearchEnded> {
        self.run_until_decided(candidate, key, ERROR_ON_THE_WAY, 1, runner)
    }

    /// Runs a candidate until the counts of its outcomes decide.
    ///
    /// `miss` is the probability of rejecting a candidate that fails as often as the original. As long as the failure
    /// has occurred in every run, a candidate is rejected after `passes` passes.
    fn run_until_decided(
        &mut self,
        candidate: &C,
        key: &str,
        miss: f64,
        passes: u32,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, SearchEnded> {
        loop {
            let counts = self.counts(key);
            let fails = match self.flaky {
                true => self.evidence(counts) >= -RARE_ACCEPT_PROBABILITY.ln(),
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

    /// Compares two hypotheses by the counts of a candidate: it fails as often as the original, or only at
    /// [`RARE_SHARE`] of that rate. Returns the logarithm of the likelihood ratio, which is positive if the counts
    /// favour the first hypothesis.
    fn evidence(&self, counts: Counts) -> f64 {
        log_likelihood_ratio(counts.same, counts.not, self.rate, self.rate * RARE_SHARE)
    }

    /// Accepts a candidate from which the search continues, and adds its failures to the count of consecutive failures.
    pub(super) fn accept(&mut self, key: &str) {
        self.row += self.counts(key).same;
    }

    /// Runs the result of the search again, because it was selected for its failures. Returns false if the search has
    /// to start again, because it trusted single runs of an intermittent failure, or overestimated the rate by chance.
    pub(super) fn check_result(
        &mut self,
        result: &C,
        key: &str,
        runner: &mut dyn Runner<C>,
    ) -> Result<bool, SearchEnded> {
        let before = self.counts(key);
        loop {
            let counts = self.counts(key);
            let hits = counts.same - before.same;
            let fresh = counts.runs() - before.runs();
            if !self.flaky && counts.same > 0 && counts.not > 0 {
                self.flaky = true;
                return Ok(false);
            }
            let wanted = if self.flaky { ENOUGH_FAILURES } else { self.deterministic_after() };
            let most = (f64::from(ENOUGH_FAILURES) / self.settings.least_rate) as u32;
            if hits >= wanted || fresh >= most || counts.none >= most {
                break;
            }
            self.observe(result, key, runner)?;
        }
        self.row += self.counts(key).same - before.same;
        Ok(!self.flaky || self.evidence(self.counts(key)) > ERROR_ON_THE_WAY.ln())
    }

    /// Returns the number of new failures in a row after which a failure counts as deterministic.
    fn deterministic_after(&self) -> u32 {
        if self.settings.deterministic { 2 } else { ENOUGH_FAILURES }
    }

    /// Decides about a candidate again, with a smaller error probability: `elements` such decisions together err with
    /// the probability that the settings accept.
    pub(super) fn confirm(
        &mut self,
        candidate: &C,
        key: &str,
        elements: u32,
        runner: &mut dyn Runner<C>,
    ) -> Result<Decision, SearchEnded> {
        let error = self.settings.error / f64::from(elements.max(1));
        let passes = if self.settings.deterministic {
            1
        } else {
            let low = lower_bound(self.row, self.row, 0.05);
            passes_needed(low.max(self.settings.least_rate), error)
        };
        self.run_until_decided(candidate, key, error, passes, runner)
    }
}
