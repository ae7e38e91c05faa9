//! What makes a failure go away: single changes first, then the smallest set of them where no single one does.
//!
//! The failure may come now and then. Its rate is measured first; a change has helped once it would have failed by then with all but a
//! small probability. One that still fails is compared with the rate without it: it does nothing once its counts speak for that rate and
//! against a quarter of it, and makes the failure rarer once they speak for the quarter. What its runs do not tell stays undecided.

use std::collections::BTreeMap;

use crate::{
    reduce::Seen,
    sequential::{evidence, lower_bound, passes_needed},
};

/// How sure a search is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Probability that a change which does nothing is said to help; 0 to 1.
    pub error: f64,
    /// Failures from which the rate without any change is taken.
    pub failures: u32,
    /// Most runs without any change.
    pub base_runs: u32,
    /// Most runs of one change; what is not decided by then stays undecided.
    pub factor_runs: u32,
}

impl Default for Settings {
    /// One wrong "helps" in a thousand changes, so that some dozens of them together stay below 5 %.
    fn default() -> Settings {
        Settings { error: 0.001, failures: 10, base_runs: 200, factor_runs: 1000 }
    }
}

/// Runs of one set of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Failures with the signature in question.
    pub same: u32,
    /// Runs without failure.
    pub passes: u32,
    /// Other failures by signature.
    pub others: BTreeMap<String, u32>,
    /// Failures, by signature, of what the change made wrong.
    pub own: BTreeMap<String, u32>,
    /// Runs that proved nothing.
    pub without: u32,
}

impl Tally {
    /// Runs that proved something.
    pub fn runs(&self) -> u32 {
        let failed = self.others.values().chain(self.own.values());
        self.same + self.passes + failed.sum::<u32>()
    }

    fn add(&mut self, seen: Seen) {
        match seen {
            Seen::Same => self.same += 1,
            Seen::Pass => self.passes += 1,
            Seen::Other(signature) => *self.others.entry(signature).or_default() += 1,
            Seen::Own(signature, _) => *self.own.entry(signature).or_default() += 1,
            Seen::NoVerdict => self.without += 1,
        }
    }
}

fn most_frequent(failures: &BTreeMap<String, u32>) -> Option<String> {
    failures.iter().max_by_key(|(_, count)| **count).map(|(signature, _)| signature.clone())
}

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The failure is gone.
    Helped,
    /// It fails as often as before.
    Nothing,
    /// It fails, at a quarter of the rate or less.
    Rarer,
    /// It fails in another way.
    Changed(String),
    /// The change made it wrong, so its failure tells nothing.
    Wrong(String),
    /// The runs did not tell.
    Undecided,
}

/// The end of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Runs without any change.
    pub base: Tally,
    /// What each change did alone, in order.
    pub single: Vec<(Effect, Tally)>,
    /// The changes of the smallest set that helps, where no single one does.
    pub set: Vec<usize>,
    /// Runs of everything.
    pub runs: u32,
}

/// Makes that many runs of a set of changes.
pub type Run<'r> = dyn FnMut(&[usize], u32) -> Option<Vec<Seen>> + 'r;

/// Searches among `factors` changes, of which `together` says whether two can be made at once.
///
/// `run` makes that many runs of a set of changes, each in a fresh process, and may make fewer only to end the search: then None comes
/// back. None too where nothing failed without any change.
pub fn search(
    factors: usize,
    together: &dyn Fn(usize, usize) -> bool,
    settings: &Settings,
    run: &mut Run<'_>,
) -> Option<Found> {
    let mut runs = 0;
    let mut counted = |set: &[usize], count: u32| {
        let seen = run(set, count)?;
        runs += seen.len() as u32;
        (seen.len() as u32 == count).then_some(seen)
    };
    let mut base = Tally::default();
    while base.same < settings.failures && base.runs() + base.without < settings.base_runs {
        let left = settings.base_runs - base.runs() - base.without;
        counted(&[], left.min(settings.failures))?.into_iter().for_each(|seen| base.add(seen));
    }
    if base.same == 0 {
        return None;
    }
    let rate = lower_bound(base.same, base.runs(), 0.05);
    let passes = passes_needed(rate, settings.error);
    let limits = Limits {
        rate: f64::from(base.same) / f64::from(base.runs()),
        passes: passes.min(settings.factor_runs),
        enough: passes <= settings.factor_runs,
        most: settings.factor_runs,
    };
    let mut single = Vec::with_capacity(factors);
    for factor in 0..factors {
        single.push(limits.try_alone(factor, &mut counted)?);
    }
    let mut set = Vec::new();
    if single.iter().all(|(effect, _)| *effect != Effect::Helped) {
        set = smallest_set(&single, together, limits, &mut counted)?;
    }
    Some(Found { base, single, set, runs })
}

/// When a change is decided.
#[derive(Clone, Copy)]
struct Limits {
    /// The failure's rate without any change.
    rate: f64,
    /// Passes in a row, and nothing else, that make a change one that helps.
    passes: u32,
    /// Whether so many may be run.
    enough: bool,
    /// Most runs.
    most: u32,
}

/// Odds at which counts speak for one rate and against another.
const ODDS: f64 = 15.0;
/// The share of the rate that is another rate.
const SHARE: f64 = 0.25;

impl Limits {
    /// What counts with failures say, by the sequential test of Wald ("Sequential tests of statistical hypotheses", 1945) between the rate
    /// without any change and a quarter of it; none while they say nothing.
    fn compare(self, tally: &Tally) -> Option<Effect> {
        // A failure that came every time so far may still fail to come.
        let rate = self.rate.min(0.98);
        match evidence(tally.same, tally.runs() - tally.same, rate, rate * SHARE) {
            log if log >= ODDS.ln() => Some(Effect::Nothing),
            log if log <= -ODDS.ln() => Some(Effect::Rarer),
            _ => None,
        }
    }

    /// Runs one change until it is decided.
    fn try_alone(self, factor: usize, run: &mut Run<'_>) -> Option<(Effect, Tally)> {
        let (effect, mut tally) = self.try_set(&[factor], run)?;
        if tally.same == 0 {
            return Some((effect, tally));
        }
        loop {
            if let Some(effect) = self.compare(&tally) {
                return Some((effect, tally));
            }
            if tally.runs() >= self.most || tally.without > self.most {
                return Some((Effect::Undecided, tally));
            }
            run(&[factor], 1)?.into_iter().for_each(|seen| tally.add(seen));
        }
    }

    /// Runs a set of changes until it fails as before, or helps.
    fn try_set(self, set: &[usize], run: &mut Run<'_>) -> Option<(Effect, Tally)> {
        let passes = self.passes;
        let mut tally = Tally::default();
        // A few runs decide most changes: they do nothing. Then batches, which the caller may run at once.
        let mut batch = 1;
        while tally.same == 0 && tally.runs() < passes && tally.without <= passes {
            let count = batch.min(passes - tally.runs());
            run(set, count)?.into_iter().for_each(|seen| tally.add(seen));
            batch = (batch * 4).min(32);
        }
        let effect = if tally.same > 0 {
            Effect::Nothing
        } else if tally.runs() < passes || !self.enough {
            Effect::Undecided
        } else if let Some(other) = most_frequent(&tally.others) {
            Effect::Changed(other)
        } else if let Some(own) = most_frequent(&tally.own) {
            Effect::Wrong(own)
        } else {
            Effect::Helped
        };
        Some((effect, tally))
    }
}

/// Makes every change that did no harm at once, and drops one after the other while the failure stays away.
fn smallest_set(
    single: &[(Effect, Tally)],
    together: &dyn Fn(usize, usize) -> bool,
    limits: Limits,
    run: &mut Run<'_>,
) -> Option<Vec<usize>> {
    let mut set: Vec<usize> = Vec::new();
    for (factor, (effect, _)) in single.iter().enumerate() {
        let fails = matches!(effect, Effect::Nothing | Effect::Rarer);
        if fails && set.iter().all(|other| together(*other, factor)) {
            set.push(factor);
        }
    }
    if set.len() < 2 || limits.try_set(&set, run)?.0 != Effect::Helped {
        return Some(Vec::new());
    }
    // Halves first: most of the changes do nothing.
    let mut size = set.len() / 2;
    while size > 0 && set.len() > 2 {
        let mut at = 0;
        while at < set.len() && set.len() > 2 {
            let mut fewer = set.clone();
            fewer.drain(at..(at + size).min(set.len()));
            if fewer.len() >= 2 && limits.try_set(&fewer, run)?.0 == Effect::Helped {
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
    use crate::reduce::Wrong;

    /// Numbers that look random, the same each time (SplitMix64).
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, p: f64) -> bool {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 <= p
        }
    }

    /// Searches where a set of changes fails at this rate, or in another way.
    fn searched(
        factors: usize,
        seed: u64,
        fails: impl Fn(&[usize]) -> Result<f64, Seen>,
    ) -> Option<Found> {
        let mut dice = Dice(seed);
        let mut run = |set: &[usize], count: u32| {
            let one = |dice: &mut Dice| match fails(set) {
                Ok(p) if dice.below(p) => Seen::Same,
                Ok(_) => Seen::Pass,
                Err(other) => other,
            };
            Some((0..count).map(|_| one(&mut dice)).collect())
        };
        search(factors, &|_, _| true, &Settings::default(), &mut run)
    }

    fn effects(found: &Found) -> Vec<&Effect> {
        found.single.iter().map(|(effect, _)| effect).collect()
    }

    #[test]
    fn each_change_gets_its_word() {
        let found = searched(4, 1, |set| match set {
            [0] => Ok(0.0),
            [2] => Err(Seen::Other("hang".to_owned())),
            [3] => Err(Seen::Own("query".to_owned(), Wrong::Answer)),
            _ => Ok(1.0),
        });
        let found = found.expect("it fails");
        let changed = Effect::Changed("hang".to_owned());
        let wrong = Effect::Wrong("query".to_owned());
        assert_eq!(effects(&found), [&Effect::Helped, &Effect::Nothing, &changed, &wrong]);
        assert_eq!(found.single[1].1.runs(), 2, "two failures of two decide");
        assert_eq!(found.set, []);
    }

    /// A change that does nothing is not said to help, and one that helps is found, at whatever rate.
    #[test]
    fn failures_that_come_now_and_then() {
        for rate in [0.5, 0.2, 0.1] {
            for seed in 0..50 {
                let fails = |set: &[usize]| Ok(if set.contains(&3) { 0.0 } else { rate });
                let found = searched(6, seed, fails).expect("it fails");
                let helped: Vec<_> =
                    (0..6).filter(|n| found.single[*n].0 == Effect::Helped).collect();
                assert_eq!(helped, [3], "rate {rate}, seed {seed}: {found:?}");
            }
        }
    }

    /// One failure among many passes is no proof that a change does nothing, and one among few is none that it does something.
    #[test]
    fn counts_are_compared_with_the_base_rate() {
        for (base, changed) in [(1.0, 0.1), (0.6, 0.05), (1.0, 1.0), (0.5, 0.5), (0.1, 0.1)] {
            let mut nothing = 0;
            for seed in 0..50 {
                let found =
                    searched(1, seed, |set| Ok(if set.is_empty() { base } else { changed }));
                nothing += u32::from(found.expect("it fails").single[0].0 == Effect::Nothing);
            }
            let right = if base == changed { nothing } else { 50 - nothing };
            assert!(right >= 44, "{base}, {changed}: {nothing} of 50 do nothing");
        }
        let settings = Settings { factor_runs: 4, ..Settings::default() };
        let mut count = 0;
        let mut run = |set: &[usize], runs: u32| {
            let one = |n: u32| if set.is_empty() || n % 3 == 2 { Seen::Same } else { Seen::Pass };
            count += runs;
            Some((count - runs..count).map(one).collect())
        };
        let found = search(1, &|_, _| true, &settings, &mut run).expect("it fails");
        assert!(matches!(found.single[0].0, Effect::Undecided | Effect::Rarer), "{found:?}");
    }

    #[test]
    fn two_changes_that_help_only_together() {
        let fails =
            |set: &[usize]| Ok(if set.contains(&1) && set.contains(&6) { 0.0 } else { 1.0 });
        assert_eq!(searched(9, 1, fails).expect("it fails").set, [1, 6]);
        assert_eq!(searched(9, 1, |_| Ok(1.0)).expect("it fails").set, []);
    }

    #[test]
    fn changes_that_exclude_each_other_are_not_made_at_once() {
        let mut run = |set: &[usize], count: u32| {
            assert!(!(set.contains(&0) && set.contains(&1)));
            Some(vec![Seen::Same; count as usize])
        };
        let together = |a: usize, b: usize| a + b != 1;
        assert!(search(3, &together, &Settings::default(), &mut run).is_some());
    }

    #[test]
    fn nothing_to_search() {
        assert_eq!(searched(3, 1, |_| Ok(0.0)), None);
        let settings = Settings::default();
        assert_eq!(search(3, &|_, _| true, &settings, &mut |_, _| None), None);
        let mut nothing = |_: &[usize], count: u32| Some(vec![Seen::NoVerdict; count as usize]);
        assert_eq!(search(3, &|_, _| true, &settings, &mut nothing), None);
    }

    #[test]
    fn machine_trouble_leaves_a_change_undecided() {
        let mut run = |set: &[usize], count: u32| {
            let seen = if set.is_empty() { Seen::Same } else { Seen::NoVerdict };
            Some(vec![seen; count as usize])
        };
        let found = search(1, &|_, _| true, &Settings::default(), &mut run).expect("it fails");
        assert_eq!(effects(&found), [&Effect::Undecided]);
    }
}
