//! Judges answers by the true failure rates. This oracle shares no code with the search.

use search::bisect::{Answer, Edge};

use super::kinds::{LAST, World};

/// Failure rate below which a build counts as good. An answer cannot exclude lower rates; it states which rate its runs
/// exclude.
const RESOLUTION: f64 = 0.1;

/// Probability of being right that is assumed for an answer that states none.
const CATEGORICAL: f64 = 0.99;

/// The claim that an answer makes, compared with the true rates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) name: &'static str,
    /// Probability that the answer states; `None` if the answer claims nothing.
    pub(crate) stated: Option<f64>,
    pub(crate) right: bool,
}

/// Returns true if the failure rate rises at one of the builds `after + 1 ..= until`.
fn rises(world: &World, after: usize, until: usize) -> bool {
    world.rates[after..=until].windows(2).any(|pair| pair[0] < pair[1])
}

fn good(world: &World, build: usize) -> bool {
    world.rates[build] < RESOLUTION
}

fn fails(world: &World, build: usize) -> bool {
    world.rates[build] > 0.0
}

/// Returns true if no build between the two builds of the edge can be tested.
fn adjacent(world: &World, edge: &Edge) -> bool {
    let testable = |n: usize| !world.unfetchable[n] && !world.silent[n] && world.others[n] == 0.0;
    !(edge.last_good + 1..edge.first_bad).any(testable)
}

fn worse(world: &World, edge: &Edge) -> bool {
    adjacent(world, edge) && world.rates[edge.last_good] < world.rates[edge.first_bad]
}

pub(crate) fn judge(answer: &Answer, world: &World) -> Claim {
    let claim = |name, stated, right| Claim { name, stated: Some(stated), right };
    let from_another_line =
        |edge: &Edge| world.release && edge.last_good == 0 && good(world, edge.last_good);
    match answer {
        Answer::Found(edge) => {
            let right = worse(world, edge)
                && good(world, edge.last_good)
                && world.rates[edge.last_good] <= edge.last_good_rate_below
                && !from_another_line(edge);
            claim("found", edge.confidence, right)
        }
        Answer::Increase { edge } => {
            let right = worse(world, edge)
                && (0..=edge.last_good).any(|build| fails(world, build))
                && !from_another_line(edge);
            claim("increase", edge.confidence, right)
        }
        Answer::OtherLine { edge } => {
            let right = from_another_line(edge) && fails(world, edge.first_bad);
            claim("other line", edge.confidence, right)
        }
        Answer::Worse { after, until, edge, .. } => {
            let begins = good(world, *after)
                && fails(world, *until)
                && until <= &edge.last_good
                && fails(world, edge.last_good);
            claim("worse", edge.confidence, begins && worse(world, edge))
        }
        Answer::Several { edges } => {
            let right = edges.len() > 1 && edges.iter().all(|edge| worse(world, edge));
            claim("several", edges[0].confidence, right)
        }
        Answer::Range { last_good, first_bad, mass, .. } if *mass > 0.0 => {
            claim("range", *mass, rises(world, *last_good, *first_bad))
        }
        Answer::Range { .. } => Claim { name: "nothing", stated: None, right: true },
        Answer::NotReproducible { .. } => claim("not reproducible", CATEGORICAL, good(world, LAST)),
        Answer::GoodEndFails { .. } => claim("good end fails", CATEGORICAL, fails(world, 0)),
        Answer::Exchanged { .. } => {
            claim("exchanged", CATEGORICAL, world.rates[0] > world.rates[LAST])
        }
        Answer::EndUnusable { end } => {
            let right = world.unfetchable[*end] || world.silent[*end] || world.others[*end] > 0.0;
            claim("end unusable", CATEGORICAL, right)
        }
        // The device of these histories never breaks.
        Answer::Wedged { .. } => claim("wedged", CATEGORICAL, false),
    }
}

/// Returns the probability of at least `wrong` wrong answers, if each answer is wrong with its probability in `doubts`.
pub(crate) fn at_least(wrong: usize, doubts: &[f64]) -> f64 {
    // `chances[n]` is the probability of n wrong answers.
    let mut chances = vec![1.0];
    for doubt in doubts {
        chances.push(0.0);
        for n in (0..chances.len()).rev() {
            let fewer = if n > 0 { chances[n - 1] } else { 0.0 };
            chances[n] = chances[n] * (1.0 - doubt) + fewer * doubt;
        }
    }
    chances.iter().skip(wrong).sum()
}
