//! Simulates one bisect and checks whether its answer agrees with the simulated history.

use search::bisect::{
    Action, Answer, BisectSettings, BuildOutcome, Edge, Event, State, next_action,
};

use super::worlds::{Lab, Model, Random, World};

/// The claim that an answer makes, compared with the simulated history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Claim {
    /// The answer names one place with the probability `stated`. `right` is true if the place is one of the changes,
    /// and `first` if it is the first change.
    Place { stated: f64, right: bool, first: bool },
    /// The answer names several places or a range, with the probability `stated`. `right` is true if each place, or the
    /// range, contains a change.
    Wider { stated: f64, right: bool },
    /// The answer names no place.
    Nothing,
}

pub(crate) struct Outcome {
    pub(crate) claim: Claim,
    pub(crate) runs: u32,
    pub(crate) builds: u32,
    pub(crate) answer: Answer,
    pub(crate) world: World,
}

pub(crate) fn bisect(model: &Model, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let world = (model.make)(&mut random);
    let mut lab = Lab::new(&world, &mut random);
    let listed = world.listed();
    let mut state = State::new(BisectSettings::new(listed.len() - 1));
    let answer = loop {
        let event = match next_action(&state) {
            Action::Install(build) if lab.install(listed[build]) => {
                Event::Installed { build, seconds: 0.0 }
            }
            Action::Install(build) => Event::Unusable { build, seconds: 0.0 },
            Action::Run(build) => {
                let seen =
                    if lab.run(listed[build]) { BuildOutcome::Bad } else { BuildOutcome::Good };
                Event::Ran { build, seen, seconds: 0.0 }
            }
            Action::Finish(answer) => break answer,
        };
        state.observe(event);
    };
    let claim = check_claim(&answer, &world, &listed);
    Outcome { claim, runs: state.runs(), builds: state.installs(), answer, world }
}

/// Compares an answer with the simulated history. An answer that names one place claims that the first bad build there
/// introduced the change, and not one of the unlisted builds right before it.
fn check_claim(answer: &Answer, world: &World, listed: &[usize]) -> Claim {
    let hidden = |edge: &Edge| world.hidden_between(listed[edge.last_good], listed[edge.first_bad]);
    let holds = |good: usize, bad: usize| {
        let (good, bad) = (listed[good], listed[bad]);
        world.changes.iter().any(|c| good < *c && *c <= bad)
    };
    let brings = |edge: &Edge| match hidden(edge) {
        0 => holds(edge.last_good, edge.first_bad),
        _ => world.changes.contains(&listed[edge.first_bad]),
    };
    let first = world.changes[0];
    match answer {
        Answer::Found(edge) | Answer::Increase { edge } => Claim::Place {
            stated: edge.confidence_in_first_bad(hidden(edge)),
            right: brings(edge),
            first: listed[edge.last_good] < first && first <= listed[edge.first_bad],
        },
        Answer::Worse { after, until, edge, .. } => Claim::Wider {
            stated: edge.confidence_in_first_bad(hidden(edge)),
            right: holds(*after, *until) && brings(edge),
        },
        Answer::Several { edges } => Claim::Wider {
            stated: edges[0].confidence,
            right: edges.iter().all(|edge| holds(edge.last_good, edge.first_bad)),
        },
        Answer::Range { last_good, first_bad, mass, .. } if *mass > 0.0 => {
            Claim::Wider { stated: *mass, right: holds(*last_good, *first_bad) }
        }
        _ => Claim::Nothing,
    }
}

/// Returns the probability that at least `wrong` of `bisects` answers are wrong if each answer is wrong with
/// probability `chance`.
pub(crate) fn at_least(wrong: usize, bisects: usize, chance: f64) -> f64 {
    if wrong == 0 {
        return 1.0;
    }
    let chance = chance.clamp(1e-12, 1.0 - 1e-12);
    let mut term = bisects as f64 * (1.0 - chance).ln();
    let mut fewer = 0.0;
    for k in 0..wrong.min(bisects + 1) {
        fewer += term.exp();
        let odds = (bisects - k) as f64 / (k + 1) as f64;
        term += odds.max(1e-300).ln() + chance.ln() - (1.0 - chance).ln();
    }
    (1.0 - fewer).max(0.0)
}
