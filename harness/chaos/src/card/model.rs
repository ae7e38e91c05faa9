//! What a card does to trials, and what must be said of each: written from the promises of docs/hardware-runner.md.

use crate::expect::fits;

/// What happens when a trial runs, and what the run must make of it.
pub(super) struct Fate {
    /// As `c/card.c` knows it.
    pub(super) action: &'static str,
    /// The verdict of its record.
    pub(super) verdict: &'static str,
    /// The signature of its record; a `*` at the end stands for anything.
    signature: &'static str,
    /// Whether the card is broken after it, so that it must be blamed and nothing may run.
    pub(super) breaks: bool,
    /// How often it begins.
    pub(super) begins: usize,
    /// In so many of a hundred trials that are not healthy.
    weight: u64,
}

const fn fate(
    action: &'static str,
    verdict: &'static str,
    signature: &'static str,
    weight: u64,
) -> Fate {
    Fate { action, verdict, signature, breaks: false, begins: 1, weight }
}

impl Fate {
    const fn breaks(mut self) -> Fate {
        self.breaks = true;
        self
    }
}

/// Nothing happens.
pub(super) const HEALTHY: &Fate = &fate("passes", "pass", "pass", 0);

const KILLED_IN_CHECK: &str = "poisons-and-killed-in-check";

const FATES: [Fate; 12] = [
    fate("fails", "news-fail", "wrong-data:*", 14),
    fate("crashes", "news-fail", "crash:*", 10),
    fate("hangs", "news-fail", "hang:*", 12),
    fate("poisons", "news-fail", "hang:*", 14).breaks(),
    fate("loses", "news-fail", "api-error:hipMemcpy:*", 12).breaks(),
    // Its process stays whatever the card does, so it is not known what still happens there.
    fate("cannot-be-killed", "news-fail", "hang:*", 1).breaks(),
    fate("holds-and-works", "news-fail", "hang:*", 1).breaks(),
    // The runner was killed when it looked at the card: it knew how the trial had ended, so that is told and the trial does not run
    // again. Once more on a card that was mended it would break that again, and whoever kills the runner for it would have no end.
    fate(KILLED_IN_CHECK, "news-fail", "hang:*", 6).breaks(),
    fate("counts", "pass", "pass", 8),
    fate("counts-and-fails", "no-verdict", "no-verdict:hardware", 8),
    Fate { begins: 2, ..fate("killed", "pass", "pass", 8) },
    fate("reboots", "no-verdict", "no-verdict:*", 6),
];

impl Fate {
    /// Whether a record says of its trial what it must.
    pub(super) fn allows(&self, verdict: &str, signature: &str) -> bool {
        verdict == self.verdict && fits(self.signature, signature)
    }

    /// Whether its process stays, so that nothing mends the card.
    pub(super) fn stays(&self) -> bool {
        self.action.contains("be-killed") || self.action.contains("holds")
    }

    /// Whether the runner is killed before it knows what came of the card.
    pub(super) fn is_not_looked_after(&self) -> bool {
        self.action == KILLED_IN_CHECK
    }

    /// Whether it concerns nothing besides the card that its trial runs on.
    fn is_of_its_card(&self) -> bool {
        !["killed", "reboots", "holds", "be-killed"].iter().any(|word| self.action.contains(word))
    }

    pub(super) fn words(&self) -> String {
        format!("{} with {}", self.verdict, self.signature)
    }
}

/// What a seed draws.
pub(super) struct Drawn {
    /// What happens to each trial.
    pub(super) fates: Vec<&'static Fate>,
    /// Whether somebody named a command that mends a card.
    pub(super) mends: bool,
    pub(super) cards: usize,
}

/// Of so many trials. On two cards nothing ends the runner: what ran on the other card then would have another fate than its own.
pub(super) fn draw(seed: u64, trials: usize) -> Drawn {
    let mut state = seed.wrapping_mul(7919).wrapping_add(17);
    let mut below = |limit: u64| {
        // Knuth's MMIX generator.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let cards = 1 + below(2) as usize;
    let fates = || FATES.iter().filter(|fate| cards == 1 || fate.is_of_its_card());
    let mut one = || {
        if below(5) < 3 {
            return HEALTHY;
        }
        let mut left = below(fates().map(|fate| fate.weight).sum());
        fates()
            .find(|fate| match left.checked_sub(fate.weight) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            })
            .unwrap_or(HEALTHY)
    };
    let fates = (0..trials).map(|_| one()).collect();
    Drawn { fates, mends: below(4) == 0, cards }
}

/// The fate whose action has this name.
pub(super) fn named(action: &str) -> &'static Fate {
    FATES.iter().find(|fate| fate.action == action).expect("an action of the table")
}

/// The fates of a night with a card that dies at this trial.
pub(super) fn night(trials: usize, at: usize) -> Vec<&'static Fate> {
    let poisons = named("poisons");
    (0..trials).map(|n| if n == at { poisons } else { HEALTHY }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_is_drawn_and_a_seed_says_which() {
        let names = |seed| draw(seed, 8).fates.iter().map(|fate| fate.action).collect::<Vec<_>>();
        assert_eq!(names(3), names(3));
        let all: Vec<&str> = (0..500).flat_map(names).collect();
        for fate in FATES.iter().chain([HEALTHY]) {
            assert!(all.contains(&fate.action), "{} is never drawn", fate.action);
        }
        let two = |seed: &u64| draw(*seed, 8).cards == 2;
        assert!((0..500).filter(two).any(|seed| draw(seed, 8).mends));
        let on_two: Vec<&str> = (0..500).filter(two).flat_map(names).collect();
        assert!(on_two.contains(&"poisons") && !on_two.contains(&"reboots"));
    }
}
