//! Is an answer wrong more often than it says? Simulated bisects of many worlds. What the search claims at most was
//! set by most of them, so these are no independent evidence of it; the others are marked.
//!
//! `cargo run --release -p search --example calibration [-- BISECTS [MODEL]]`

mod judge;
mod worlds;

use judge::{Said, at_least, bisect};
use worlds::{INDEPENDENT, MODELS};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let bisects = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let only = arguments.next().unwrap_or_default();
    println!(
        "{bisects} simulated bisects of 256 builds a row. Wrong: what the answer names holds no change. Chance: of so many wrong \
         answers or more, if they were as sure as they say.\nNot the first: one place that holds a change, but an earlier one \
         is rarer or elsewhere.\n"
    );
    println!(
        "| model | one place | wider | none | stated % | wrong | chance | not the first | runs | builds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let show = std::env::var_os("SHOW_WRONG").is_some();
    let exact = MODELS.iter().any(|model| model.name == only);
    let wanted = |name: &str| if exact { name == only } else { name.contains(&only) };
    for model in MODELS.iter().filter(|model| wanted(model.name)) {
        let (mut place, mut wider, mut none, mut wrong, mut later) = (0, 0, 0, 0, 0);
        let (mut doubt, mut runs, mut builds) = (0.0, 0, 0);
        for seed in 1..=bisects {
            let outcome = bisect(model, seed as u64);
            runs += outcome.runs;
            builds += outcome.builds;
            let mut count = |stated: f64, right: bool| {
                doubt += 1.0 - stated;
                wrong += usize::from(!right);
                if show && !right {
                    println!("{seed}: {:?}, but {:?}", outcome.answer, outcome.world.changes);
                }
            };
            match outcome.said {
                Said::Place { stated, right, first } => {
                    count(stated, right);
                    place += 1;
                    later += usize::from(right && !first);
                }
                Said::Wider { stated, right } => {
                    count(stated, right);
                    wider += 1;
                }
                Said::Nothing => {
                    none += 1;
                    if show {
                        println!("{seed}: {:?}", outcome.answer);
                    }
                }
            }
        }
        let answered: usize = place + wider;
        let doubt = doubt / answered.max(1) as f64;
        let mean = |sum: u32| f64::from(sum) / bisects as f64;
        let mark = if INDEPENDENT.contains(&model.name) { " (independent)" } else { "" };
        println!(
            "| {}{mark} | {place} | {wider} | {none} | {:.2} | {wrong} | {:.3} | {later} | {:.1} | {:.1} |",
            model.name,
            100.0 * (1.0 - doubt),
            at_least(wrong, answered, doubt),
            mean(runs),
            mean(builds),
        );
    }
}
