//! Runs a sample of `examples/calibration` with fixed seeds. The test fails if clearly more answers of a model are
//! wrong than the probabilities in the answers predict.

#[path = "../examples/calibration/claim.rs"]
mod claim;
#[path = "../examples/calibration/worlds.rs"]
mod worlds;

use claim::{Claim, at_least, bisect};
use worlds::{INDEPENDENT, MODELS, Model};

/// Number of bisects per model. The number is small to save time, so a model with one wrong answer in seven may pass;
/// the example runs more bisects.
const BISECTS: u64 = 25;

#[track_caller]
fn check(model: &Model) -> usize {
    let (mut answered, mut wrong, mut doubt) = (0, Vec::new(), 0.0);
    for seed in 1..=BISECTS {
        let outcome = bisect(model, seed);
        assert!(outcome.runs <= 2000 && outcome.builds <= 257, "{}: {seed}", model.name);
        let (Claim::Place { stated, right, .. } | Claim::Wider { stated, right }) = outcome.claim
        else {
            continue;
        };
        answered += 1;
        doubt += 1.0 - stated;
        if !right {
            wrong.push(format!(
                "seed {seed}: {:?}, not {:?}",
                outcome.answer, outcome.world.changes
            ));
        }
    }
    let doubt = doubt / f64::from(answered.max(1));
    let chance = at_least(wrong.len(), answered as usize, doubt);
    assert!(chance >= 0.01, "{}: {}", model.name, wrong.join("\n"));
    wrong.len()
}

#[test]
fn answers_are_wrong_no_more_often_than_stated() {
    let wrong: usize = MODELS.iter().filter(|model| !BIG.contains(&model.name)).map(check).sum();
    println!("{wrong} wrong");
}

/// Models whose bisects take thousands of runs each. Only the example `calibration` runs them.
const BIG: [&str; 3] = [
    "p .1 or .9 for each build",
    "p .1 to 1 for each build",
    "p rises from .1 to 1 over 60 builds",
];

/// Number of additional runs with which the last good build would show a failure rate of a tenth.
const RARE_RUNS: f64 = 26.0;

/// Checks that bisects of simple histories stay within the run limits of `examples/anchors`, with a margin for chance.
#[test]
fn simple_changes_cost_no_more_than_the_limits() {
    for (name, most) in [("always", 19.0 * 1.15 + RARE_RUNS), ("p .2", 174.0 * 1.25)] {
        let model = MODELS.iter().find(|model| model.name == name).expect("a model");
        let runs: u32 = (1..=40).map(|seed| bisect(model, seed).runs).sum();
        let mean = f64::from(runs) / 40.0;
        assert!(mean <= most, "{name}: {mean} runs");
    }
}

#[test]
fn independent_model_names_exist() {
    for name in INDEPENDENT {
        assert!(MODELS.iter().any(|model| model.name == name), "{name}");
    }
}

/// If answers claim to be nearly certain, 3 wrong ones of 25 must be rejected.
#[test]
fn statistical_check_rejects_overconfident_claims() {
    assert!(at_least(3, 25, 0.001) < 0.01 && at_least(3, 25, 0.2) > 0.5);
    assert_eq!(at_least(0, 25, 0.001), 1.0);
}
