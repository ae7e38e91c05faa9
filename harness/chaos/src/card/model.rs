//! Defines how the simulated cards behave in each trial, and which report is expected for each behaviour. The
//! expectations follow docs/hardware-runner.md.

use crate::expectation::matches_pattern;

/// Behaviour of a card during one trial, and the report that is expected for it.
pub(super) struct PlannedTrial {
    /// Name of the behaviour, as in `c/card.c`.
    pub(super) action: &'static str,
    pub(super) verdict: &'static str,
    /// Signature that the record must have. A `*` at the end matches any text.
    signature: &'static str,
    /// True if the card is broken after the trial. The report must then name this trial as the suspect, and no further
    /// trial may run.
    pub(super) breaks: bool,
    /// Number of times that the trial must begin on a working card.
    pub(super) begins: usize,
    /// Share of this behaviour among the trials with a behaviour other than healthy, in percent.
    weight: u64,
}

const fn planned_trial(
    action: &'static str,
    verdict: &'static str,
    signature: &'static str,
    weight: u64,
) -> PlannedTrial {
    PlannedTrial { action, verdict, signature, breaks: false, begins: 1, weight }
}

impl PlannedTrial {
    const fn breaks(mut self) -> PlannedTrial {
        self.breaks = true;
        self
    }
}

pub(super) const HEALTHY: &PlannedTrial = &planned_trial("passes", "pass", "pass", 0);

const KILLED_IN_CHECK: &str = "poisons-and-killed-in-check";

const PLANNED_TRIALS: [PlannedTrial; 12] = [
    planned_trial("fails", "news-fail", "wrong-data:*", 14),
    planned_trial("crashes", "news-fail", "crash:*", 10),
    planned_trial("hangs", "news-fail", "hang:*", 12),
    planned_trial("poisons", "news-fail", "hang:*", 14).breaks(),
    planned_trial("loses", "news-fail", "api-error:hipMemcpy:*", 12).breaks(),
    // The worker cannot be killed, so the state of the card is unknown, whatever the card does.
    planned_trial("cannot-be-killed", "news-fail", "hang:*", 1).breaks(),
    planned_trial("holds-and-works", "news-fail", "hang:*", 1).breaks(),
    // The command is killed during the health check. It had already stored how the trial ended, so the resumed run
    // reports that result and does not repeat the trial. Otherwise the trial would break the repaired card again and
    // again, and the run would never end.
    planned_trial(KILLED_IN_CHECK, "news-fail", "hang:*", 6).breaks(),
    planned_trial("counts", "pass", "pass", 8),
    planned_trial("counts-and-fails", "no-verdict", "no-verdict:hardware", 8),
    PlannedTrial { begins: 2, ..planned_trial("killed", "pass", "pass", 8) },
    planned_trial("reboots", "no-verdict", "no-verdict:*", 6),
];

impl PlannedTrial {
    pub(super) fn allows(&self, verdict: &str, signature: &str) -> bool {
        verdict == self.verdict && matches_pattern(self.signature, signature)
    }

    /// Returns true if the worker of the trial cannot be killed, so that the card cannot be repaired.
    pub(super) fn cannot_be_killed(&self) -> bool {
        self.action.contains("be-killed") || self.action.contains("holds")
    }

    /// Returns true if the command is killed before its health check has shown whether the card still works.
    pub(super) fn is_killed_in_check(&self) -> bool {
        self.action == KILLED_IN_CHECK
    }

    /// Returns true if the behaviour affects only the card on which the trial runs.
    fn affects_only_its_card(&self) -> bool {
        !["killed", "reboots", "holds", "be-killed"].iter().any(|word| self.action.contains(word))
    }

    pub(super) fn words(&self) -> String {
        format!("{} with {}", self.verdict, self.signature)
    }
}

/// Plan of a run on simulated cards.
pub(super) struct RunPlan {
    /// Behaviour of the card in each trial.
    pub(super) trials: Vec<&'static PlannedTrial>,
    /// True if the run has a command that repairs a card (`--recover`).
    pub(super) repairs: bool,
    pub(super) cards: usize,
}

/// Draws a plan from a seed. If there are two cards, no behaviour that ends the command is drawn, because the trial on
/// the other card would then end in an unplanned way.
pub(super) fn draw(seed: u64, trials: usize) -> RunPlan {
    let mut state = seed.wrapping_mul(7919).wrapping_add(17);
    let mut below = |limit: u64| {
        // This is a linear congruential generator with the constants of Knuth's MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let cards = 1 + below(2) as usize;
    let fates = || PLANNED_TRIALS.iter().filter(|fate| cards == 1 || fate.affects_only_its_card());
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
    RunPlan { trials: fates, repairs: below(4) == 0, cards }
}

pub(super) fn trial_with_action(action: &str) -> &'static PlannedTrial {
    PLANNED_TRIALS.iter().find(|fate| fate.action == action).expect("the table has the action")
}

/// Returns the behaviours for a run in which the card breaks at trial number `at`.
pub(super) fn breaking_run(trials: usize, at: usize) -> Vec<&'static PlannedTrial> {
    let poisons = trial_with_action("poisons");
    (0..trials).map(|n| if n == at { poisons } else { HEALTHY }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_behaviour_is_drawn_deterministically() {
        let names = |seed| draw(seed, 8).trials.iter().map(|fate| fate.action).collect::<Vec<_>>();
        assert_eq!(names(3), names(3));
        let all: Vec<&str> = (0..500).flat_map(names).collect();
        for fate in PLANNED_TRIALS.iter().chain([HEALTHY]) {
            assert!(all.contains(&fate.action), "{} is never drawn", fate.action);
        }
        let two = |seed: &u64| draw(*seed, 8).cards == 2;
        assert!((0..500).filter(two).any(|seed| draw(seed, 8).repairs));
        let on_two: Vec<&str> = (0..500).filter(two).flat_map(names).collect();
        assert!(on_two.contains(&"poisons") && !on_two.contains(&"reboots"));
    }
}
