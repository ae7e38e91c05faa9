//! A seeded sample of `examples/calibration`: no model is wrong so much more often than its answers say that so few bisects show it.

#[path = "../examples/calibration/judge.rs"]
mod judge;
#[path = "../examples/calibration/worlds.rs"]
mod worlds;

use judge::{Said, at_least, bisect};
use worlds::{INDEPENDENT, MODELS, Model};

/// Bisects of each model: few, for time. A model that is wrong in a seventh of them may pass; the example runs more.
const BISECTS: u64 = 25;

#[track_caller]
fn check(model: &Model) -> usize {
    let (mut answered, mut wrong, mut doubt) = (0, Vec::new(), 0.0);
    for seed in 1..=BISECTS {
        let outcome = bisect(model, seed);
        assert!(outcome.runs <= 2000 && outcome.builds <= 257, "{}: {seed}", model.name);
        let (Said::Place { stated, right, .. } | Said::Wider { stated, right }) = outcome.said
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
fn answers_are_wrong_no_more_often_than_they_say() {
    let wrong: usize = MODELS.iter().filter(|model| !BIG.contains(&model.name)).map(check).sum();
    println!("{wrong} wrong");
}

/// Thousands of runs each: left to the example.
const BIG: [&str; 3] = [
    "p .1 or .9 for each build",
    "p .1 to 1 for each build",
    "p rises from .1 to 1 over 60 builds",
];

/// The table of `examples/anchors`, which holds within 15 %: a sample of its cheap rows, with room for chance.
#[test]
fn plain_changes_cost_what_they_should() {
    for (name, most) in [("always", 19.0 * 1.15), ("p .2", 174.0 * 1.25)] {
        let model = MODELS.iter().find(|model| model.name == name).expect("a model");
        let runs: u32 = (1..=40).map(|seed| bisect(model, seed).runs).sum();
        let mean = f64::from(runs) / 40.0;
        assert!(mean <= most, "{name}: {mean} runs");
    }
}

#[test]
fn independent_models_are_models() {
    for name in INDEPENDENT {
        assert!(MODELS.iter().any(|model| model.name == name), "{name}");
    }
}

/// Who judges is judged: a claim that holds no change is wrong, and a certain claim may not be wrong once in ten.
#[test]
fn the_judge_can_say_no() {
    assert!(at_least(3, 25, 0.001) < 0.01 && at_least(3, 25, 0.2) > 0.5);
    assert_eq!(at_least(0, 25, 0.001), 1.0);
}
