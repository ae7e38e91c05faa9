//! Finds changes that make a failure go away: first single changes, then, if no single change helps, the smallest set
//! of changes.
//!
//! The failure may be intermittent, so its rate without any change, the base rate, is measured first. A change helps if
//! the trial with this change passes so many times in a row that, at the base rate, it would almost certainly have
//! failed. If the trial still fails with a change, a likelihood ratio test compares two hypotheses: that the failure
//! rate is the base rate, and that it is a quarter of the base rate. If the counts clearly favour the first, the change
//! has no effect; if they clearly favour the second, it may make the failure rarer. Otherwise the effect stays
//! undecided.
//!
//! Of dozens of changes without any effect, some show few failures by chance, and the runs without any change may show
//! many by chance. Therefore a change counts as helping, or as making the failure rarer, only if Fisher's exact test
//! shows a difference from the runs without any change, after Bonferroni's correction for the number of changes.

use std::collections::BTreeMap;

use crate::{
    fisher::Count,
    reduce::CandidateOutcome,
    sequential::{log_likelihood_ratio, lower_bound, passes_needed},
};

/// Error probability and run limits of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MitigateSettings {
    /// Probability that a change without effect is reported as helping, 0 to 1, if the base rate is at the lower end of
    /// its confidence interval.
    pub error: f64,
    /// Largest probability that any of the changes is reported as helping, or as making the failure rarer, if none of
    /// them has an effect, 0 to 1.
    pub any_error: f64,
    /// Number of failures from which the base rate is estimated.
    pub failures: u32,
    /// Maximum number of runs without any change, for the estimate of the base rate.
    pub base_runs: u32,
    /// Maximum number of runs with one change. If they do not decide, the effect of the change stays undecided.
    pub factor_runs: u32,
}

impl Default for MitigateSettings {
    /// Returns settings with which at most 5 % of all searches report an effect where no change has one.
    fn default() -> MitigateSettings {
        MitigateSettings {
            error: 0.001,
            any_error: 0.05,
            failures: 10,
            base_runs: 200,
            factor_runs: 1000,
        }
    }
}

/// Outcomes of the runs with one set of changes, counted by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactorRuns {
    /// Number of failures with the signature that the search is about.
    pub same: u32,
    /// Number of runs without a failure.
    pub passes: u32,
    /// Number of other failures, by signature.
    pub others: BTreeMap<String, u32>,
    /// Number of failures of checks that the change itself made invalid, by the signature of the failure.
    pub invalid: BTreeMap<String, u32>,
    /// Number of runs without a verdict.
    pub no_verdict: u32,
}

impl FactorRuns {
    /// Returns the number of runs with a verdict.
    pub fn runs(&self) -> u32 {
        let failed = self.others.values().chain(self.invalid.values());
        self.same + self.passes + failed.sum::<u32>()
    }

    /// Returns the number of failures with the signature that the search is about.
    fn same_failures(&self) -> Count {
        Count { failed: self.same, runs: self.runs() }
    }

    /// Returns the number of failures with any signature.
    fn any_failures(&self) -> Count {
        Count { failed: self.runs() - self.passes, runs: self.runs() }
    }

    fn add(&mut self, seen: CandidateOutcome) {
        match seen {
            CandidateOutcome::Same => self.same += 1,
            CandidateOutcome::Pass => self.passes += 1,
            CandidateOutcome::Other(signature) => *self.others.entry(signature).or_default() += 1,
            CandidateOutcome::Invalid(signature, _) => {
                *self.invalid.entry(signature).or_default() += 1
            }
            CandidateOutcome::NoVerdict => self.no_verdict += 1,
        }
    }
}

fn most_frequent(failures: &BTreeMap<String, u32>) -> Option<String> {
    failures.iter().max_by_key(|(_, count)| **count).map(|(signature, _)| signature.clone())
}

/// Effect of a change on the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeEffect {
    /// The failure does not occur with the change.
    Helped,
    /// The failure is as frequent as before.
    Nothing,
    /// The failure occurs at a quarter of the base rate or less, and failures of all kinds together occur less often
    /// too.
    Rarer,
    /// The trial fails with this signature instead, possibly only in some runs.
    Changed(String),
    /// The change itself made the case invalid, so the failure with this signature proves nothing.
    Invalid(String),
    /// The runs did not suffice to decide.
    Undecided,
}

/// Result of a search for mitigations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mitigation {
    /// Outcomes of the runs without any change.
    pub base: FactorRuns,
    /// Effect of each single change and the outcomes of its runs, in the order of the changes.
    pub single: Vec<(ChangeEffect, FactorRuns)>,
    /// Indices of the changes in the smallest set that helps; empty if a single change helps, or if no set was found.
    pub set: Vec<usize>,
    /// Total number of runs.
    pub runs: u32,
}

/// Callback that runs the trial and returns the outcomes. The arguments are the indices of the changes to apply, and
/// the number of runs. `None` ends the search.
pub type RunFactors<'r> = dyn FnMut(&[usize], u32) -> Option<Vec<CandidateOutcome>> + 'r;

/// Callback that receives the outcomes of the runs without any change, and the effects of the changes that were tried
/// so far.
pub type ProgressCallback<'r> = dyn FnMut(&FactorRuns, &[(ChangeEffect, FactorRuns)]) + 'r;

/// Searches among `factors` changes for one, or for a smallest set, that makes the failure go away.
///
/// `together` returns true if two changes can be applied at the same time. `run` runs the trial the given number of
/// times with a set of changes, each time in a fresh process. If `run` returns `None` or fewer outcomes than requested,
/// the search ends.
///
/// Returns `None` if `run` ended the search, or if the failure never occurred without changes.
pub fn search(
    factors: usize,
    together: &dyn Fn(usize, usize) -> bool,
    settings: &MitigateSettings,
    run: &mut RunFactors<'_>,
    tried: &mut ProgressCallback<'_>,
) -> Option<Mitigation> {
    let mut runs = 0;
    let mut counted = |set: &[usize], count: u32| {
        let seen = run(set, count)?;
        runs += seen.len() as u32;
        (seen.len() as u32 == count).then_some(seen)
    };
    let mut base = FactorRuns::default();
    while base.same < settings.failures && base.runs() + base.no_verdict < settings.base_runs {
        let left = settings.base_runs - base.runs() - base.no_verdict;
        counted(&[], left.min(settings.failures))?.into_iter().for_each(|seen| base.add(seen));
    }
    if base.same == 0 {
        return None;
    }
    let rate = lower_bound(base.same, base.runs(), 0.05);
    let passes = passes_needed(rate, settings.error);
    // The changes that do not help alone are tried together, which is one more test.
    let level = settings.any_error / (factors + 1) as f64;
    let most = settings.factor_runs;
    let significant = (1..=most).find(|runs| {
        let count = Count { failed: 0, runs: *runs };
        count.is_rarer(base.same_failures(), level)
    });
    let limits = StopRule {
        rate: f64::from(base.same) / f64::from(base.runs()),
        same: base.same_failures(),
        any: base.any_failures(),
        level,
        passes: passes.max(significant.unwrap_or(most)).min(most),
        enough: passes <= most && significant.is_some(),
        most,
    };
    let mut single = Vec::with_capacity(factors);
    tried(&base, &single);
    for factor in 0..factors {
        single.push(limits.try_alone(factor, &mut counted)?);
        tried(&base, &single);
    }
    let mut set = Vec::new();
    if single.iter().all(|(effect, _)| *effect != ChangeEffect::Helped) {
        set = smallest_set(&single, together, limits, &mut counted)?;
    }
    Some(Mitigation { base, single, set, runs })
}

/// Stopping rule for the test of one change or set of changes.
#[derive(Clone, Copy)]
struct StopRule {
    /// Failure rate without any change, 0 to 1.
    rate: f64,
    /// Failures without any change that have the signature that the search is about.
    same: Count,
    /// All failures without any change.
    any: Count,
    /// Largest p-value of a difference from the runs without any change, corrected for the number of changes.
    level: f64,
    /// Consecutive passes after which a change counts as helping.
    passes: u32,
    /// True if the run limit `most` is high enough to prove by passes that a change helps.
    enough: bool,
    /// Maximum number of runs with the change or set.
    most: u32,
}

/// Likelihood ratio from which the counts favour one of two failure rates.
const LIKELIHOOD_RATIO: f64 = 15.0;
/// A failure counts as rarer if its rate is at most this share of the base rate.
const RARER_SHARE: f64 = 0.25;

impl StopRule {
    /// Decides by Wald's sequential test ("Sequential tests of statistical hypotheses", 1945) whether counts with at
    /// least one failure fit the base rate or a quarter of it. Returns `None` while neither is clearly favoured.
    fn compare(self, tally: &FactorRuns) -> Option<ChangeEffect> {
        // A failure that occurred in every run so far may still be intermittent.
        let rate = self.rate.min(0.98);
        match log_likelihood_ratio(tally.same, tally.runs() - tally.same, rate, rate * RARER_SHARE)
        {
            log if log >= LIKELIHOOD_RATIO.ln() => Some(ChangeEffect::Nothing),
            log if log <= -LIKELIHOOD_RATIO.ln() => Some(ChangeEffect::Rarer),
            _ => None,
        }
    }

    /// Runs the trial with one change until the effect of the change is decided or the run limit is reached.
    fn try_alone(
        self,
        factor: usize,
        run: &mut RunFactors<'_>,
    ) -> Option<(ChangeEffect, FactorRuns)> {
        let (effect, mut tally) = self.try_set(&[factor], run)?;
        if tally.same == 0 {
            return Some((effect, tally));
        }
        loop {
            match self.compare(&tally) {
                Some(ChangeEffect::Rarer) => return self.confirm(factor, tally, run),
                Some(effect) => return Some((effect, tally)),
                None => {}
            }
            if tally.runs() >= self.most || tally.no_verdict > self.most {
                return Some((ChangeEffect::Undecided, tally));
            }
            run(&[factor], 1)?.into_iter().for_each(|seen| tally.add(seen));
        }
    }

    /// Decides whether a change makes the failure rarer, as its counts so far suggest. The number of further runs does
    /// not depend on their outcomes, because a search that ended at the first significant count would often find one by
    /// chance.
    fn confirm(
        self,
        factor: usize,
        mut tally: FactorRuns,
        run: &mut RunFactors<'_>,
    ) -> Option<(ChangeEffect, FactorRuns)> {
        let expected = |runs: u32| (f64::from(runs) * self.rate * RARER_SHARE).ceil() as u32;
        let needed = (tally.runs()..=self.most).find(|runs| {
            let count = Count { failed: expected(*runs), runs: *runs };
            count.is_rarer(self.same, self.level)
        });
        let Some(needed) = needed else { return Some((ChangeEffect::Undecided, tally)) };
        while tally.runs() < needed && tally.no_verdict <= self.most {
            run(&[factor], needed - tally.runs())?.into_iter().for_each(|seen| tally.add(seen));
        }
        let effect = if tally.same_failures().is_rarer(self.same, self.level) {
            // If the trial fails in another way instead, it does not fail less often.
            match most_frequent(&tally.others).or_else(|| most_frequent(&tally.invalid)) {
                Some(other) if !tally.any_failures().is_rarer(self.any, self.level) => {
                    match tally.others.is_empty() {
                        true => ChangeEffect::Invalid(other),
                        false => ChangeEffect::Changed(other),
                    }
                }
                _ => ChangeEffect::Rarer,
            }
        } else if self.compare(&tally) == Some(ChangeEffect::Nothing) {
            ChangeEffect::Nothing
        } else {
            ChangeEffect::Undecided
        };
        Some((effect, tally))
    }

    /// Runs the trial with a set of changes until the failure occurs again, or the trial has passed often enough.
    fn try_set(
        self,
        set: &[usize],
        run: &mut RunFactors<'_>,
    ) -> Option<(ChangeEffect, FactorRuns)> {
        let passes = self.passes;
        let mut tally = FactorRuns::default();
        // The first runs are few, because most changes have no effect, which a few runs show. Later runs are requested
        // in batches, which the caller may run in parallel.
        let mut batch = 1;
        while tally.same == 0 && tally.runs() < passes && tally.no_verdict <= passes {
            let count = batch.min(passes - tally.runs());
            run(set, count)?.into_iter().for_each(|seen| tally.add(seen));
            batch = (batch * 4).min(32);
        }
        let effect = if tally.same > 0 {
            ChangeEffect::Nothing
        } else if tally.runs() < passes || !self.enough {
            ChangeEffect::Undecided
        } else if let Some(other) = most_frequent(&tally.others) {
            ChangeEffect::Changed(other)
        } else if let Some(signature) = most_frequent(&tally.invalid) {
            ChangeEffect::Invalid(signature)
        } else {
            ChangeEffect::Helped
        };
        Some((effect, tally))
    }
}

/// Applies all changes that did not help alone at the same time. If the failure goes away, removes changes from the set
/// as long as the failure does not come back.
fn smallest_set(
    single: &[(ChangeEffect, FactorRuns)],
    together: &dyn Fn(usize, usize) -> bool,
    limits: StopRule,
    run: &mut RunFactors<'_>,
) -> Option<Vec<usize>> {
    let mut set: Vec<usize> = Vec::new();
    for (factor, (effect, _)) in single.iter().enumerate() {
        let fails = matches!(effect, ChangeEffect::Nothing | ChangeEffect::Rarer);
        if fails && set.iter().all(|other| together(*other, factor)) {
            set.push(factor);
        }
    }
    if set.len() < 2 || limits.try_set(&set, run)?.0 != ChangeEffect::Helped {
        return Some(Vec::new());
    }
    // Halves are dropped first, because most of the changes have no effect.
    let mut size = set.len() / 2;
    while size > 0 && set.len() > 2 {
        let mut at = 0;
        while at < set.len() && set.len() > 2 {
            let mut fewer = set.clone();
            fewer.drain(at..(at + size).min(set.len()));
            if fewer.len() >= 2 && limits.try_set(&fewer, run)?.0 == ChangeEffect::Helped {
                set = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::InvalidReason;

    /// Pseudo-random numbers (SplitMix64).
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, p: f64) -> bool {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 <= p
        }
    }

    /// Searches with simulated trials. `fails` returns the failure rate with a set of changes, or another outcome.
    fn simulate(
        factors: usize,
        seed: u64,
        fails: impl Fn(&[usize]) -> Result<f64, CandidateOutcome>,
    ) -> Option<Mitigation> {
        let mut dice = Dice(seed);
        let mut run = |set: &[usize], count: u32| {
            let one = |dice: &mut Dice| match fails(set) {
                Ok(p) if dice.below(p) => CandidateOutcome::Same,
                Ok(_) => CandidateOutcome::Pass,
                Err(other) => other,
            };
            Some((0..count).map(|_| one(&mut dice)).collect())
        };
        search(factors, &|_, _| true, &MitigateSettings::default(), &mut run, &mut |_, _| ())
    }

    fn effects(found: &Mitigation) -> Vec<&ChangeEffect> {
        found.single.iter().map(|(effect, _)| effect).collect()
    }

    #[test]
    fn single_changes_are_classified_by_their_effect() {
        let found = simulate(4, 1, |set| match set {
            [0] => Ok(0.0),
            [2] => Err(CandidateOutcome::Other("hang".to_owned())),
            [3] => Err(CandidateOutcome::Invalid("query".to_owned(), InvalidReason::Answer)),
            _ => Ok(1.0),
        });
        let found = found.expect("it fails");
        let changed = ChangeEffect::Changed("hang".to_owned());
        let wrong = ChangeEffect::Invalid("query".to_owned());
        assert_eq!(
            effects(&found),
            [&ChangeEffect::Helped, &ChangeEffect::Nothing, &changed, &wrong]
        );
        assert_eq!(found.single[1].1.runs(), 2, "two failures of two decide");
        assert!(found.set.is_empty());
    }

    #[test]
    fn intermittent_failures_are_attributed_to_the_right_change() {
        for rate in [0.5, 0.2, 0.1] {
            for seed in 0..50 {
                let fails = |set: &[usize]| Ok(if set.contains(&3) { 0.0 } else { rate });
                let found = simulate(6, seed, fails).expect("it fails");
                let helped: Vec<_> =
                    (0..6).filter(|n| found.single[*n].0 == ChangeEffect::Helped).collect();
                assert_eq!(helped, [3], "rate {rate}, seed {seed}: {found:?}");
            }
        }
    }

    /// A single failure among many passes does not prove that a change has no effect. A single failure among few runs
    /// does not prove that a change has an effect.
    #[test]
    fn effect_is_decided_by_comparison_with_the_base_rate() {
        for (base, changed) in [(1.0, 0.1), (0.6, 0.05), (1.0, 1.0), (0.5, 0.5), (0.1, 0.1)] {
            let mut nothing = 0;
            for seed in 0..50 {
                let found =
                    simulate(1, seed, |set| Ok(if set.is_empty() { base } else { changed }));
                nothing += u32::from(found.expect("it fails").single[0].0 == ChangeEffect::Nothing);
            }
            let right = if base == changed { nothing } else { 50 - nothing };
            assert!(right >= 44, "{base}, {changed}: {nothing} of 50 do nothing");
        }
        let settings = MitigateSettings { factor_runs: 4, ..MitigateSettings::default() };
        let mut count = 0;
        let mut run = |set: &[usize], runs: u32| {
            let one = |n: u32| {
                if set.is_empty() || n % 3 == 2 {
                    CandidateOutcome::Same
                } else {
                    CandidateOutcome::Pass
                }
            };
            count += runs;
            Some((count - runs..count).map(one).collect())
        };
        let found = search(1, &|_, _| true, &settings, &mut run, &mut |_, _| ()).expect("it fails");
        assert!(
            matches!(found.single[0].0, ChangeEffect::Undecided | ChangeEffect::Rarer),
            "{found:?}"
        );
    }

    /// Returns the share of searches among 30 changes that report any effect, if the last change has the rate `changed`
    /// and all others the rate `base`.
    fn share_with_effect(base: f64, changed: f64) -> f64 {
        let searches = 1000;
        let names_any = |seed| {
            let fails = |set: &[usize]| Ok(if set == [29] { changed } else { base });
            let Some(found) = simulate(30, seed, fails) else { return false };
            let is_named = |effect: &&ChangeEffect| {
                matches!(effect, ChangeEffect::Helped | ChangeEffect::Rarer)
            };
            !found.set.is_empty() || effects(&found).iter().any(is_named)
        };
        (0..searches).filter(|seed| names_any(*seed)).count() as f64 / searches as f64
    }

    /// Many changes without any effect must not lead to a report of an effect, while a real effect is found.
    #[test]
    fn effects_are_corrected_for_the_number_of_changes() {
        for rate in [0.12, 0.4, 0.7] {
            let share = share_with_effect(rate, rate);
            assert!(share <= 0.05, "{share} of all searches at a rate of {rate} name a change");
        }
        let share = share_with_effect(0.4, 0.02);
        assert!(share >= 0.9, "only {share} of all searches name the change that has an effect");
    }

    /// Runs that fail in another way with a change do not make the trial fail less often.
    #[test]
    fn other_failures_in_place_of_the_failure_are_a_change_of_it() {
        let mut dice = Dice(1);
        let mut run = |set: &[usize], count: u32| {
            let one = |dice: &mut Dice| match (set.is_empty(), dice.below(0.05)) {
                (true, _) | (_, true) => CandidateOutcome::Same,
                _ => CandidateOutcome::Other("hang".to_owned()),
            };
            Some((0..count).map(|_| one(&mut dice)).collect())
        };
        let settings = MitigateSettings { error: 1e-12, ..MitigateSettings::default() };
        let found = search(1, &|_, _| true, &settings, &mut run, &mut |_, _| ()).expect("it fails");
        assert!(found.single[0].1.same > 0, "{found:?}");
        assert_eq!(effects(&found), [&ChangeEffect::Changed("hang".to_owned())]);
    }

    #[test]
    fn finds_pairs_that_help_only_together() {
        let fails =
            |set: &[usize]| Ok(if set.contains(&1) && set.contains(&6) { 0.0 } else { 1.0 });
        assert_eq!(simulate(9, 1, fails).expect("it fails").set, [1, 6]);
        assert!(simulate(9, 1, |_| Ok(1.0)).expect("it fails").set.is_empty());
    }

    #[test]
    fn incompatible_changes_are_never_combined() {
        let mut run = |set: &[usize], count: u32| {
            assert!(!(set.contains(&0) && set.contains(&1)));
            Some(vec![CandidateOutcome::Same; count as usize])
        };
        let together = |a: usize, b: usize| a + b != 1;
        assert!(
            search(3, &together, &MitigateSettings::default(), &mut run, &mut |_, _| ()).is_some()
        );
    }

    #[test]
    fn returns_none_without_a_failure_to_search_for() {
        assert_eq!(simulate(3, 1, |_| Ok(0.0)), None);
        let settings = MitigateSettings::default();
        assert_eq!(search(3, &|_, _| true, &settings, &mut |_, _| None, &mut |_, _| ()), None);
        let mut nothing =
            |_: &[usize], count: u32| Some(vec![CandidateOutcome::NoVerdict; count as usize]);
        assert_eq!(search(3, &|_, _| true, &settings, &mut nothing, &mut |_, _| ()), None);
    }

    #[test]
    fn runs_without_verdict_leave_a_change_undecided() {
        let mut run = |set: &[usize], count: u32| {
            let seen =
                if set.is_empty() { CandidateOutcome::Same } else { CandidateOutcome::NoVerdict };
            Some(vec![seen; count as usize])
        };
        let found = search(1, &|_, _| true, &MitigateSettings::default(), &mut run, &mut |_, _| ())
            .expect("it fails");
        assert_eq!(effects(&found), [&ChangeEffect::Undecided]);
    }
}
