//! Measures, with simulated bisects of histories from many models, whether more answers are wrong than the
//! probabilities in the answers predict.
//!
//! The maximum confidence was tuned on most of these models, so they are not independent evidence for it. The
//! independent models are marked.
//!
//! `cargo run --release -p search --example calibration [-- BISECTS [MODEL [FIRST]]]`
//!
//! FIRST is the first seed. With it, the bisects of a model can be run in parts: each part prints a line of sums, and
//! `calibration -- sum` turns such lines on its standard input into rows of the table.

mod claim;
mod worlds;

use std::{collections::BTreeMap, io::BufRead};

use claim::{Claim, at_least, bisect};
use worlds::{INDEPENDENT, MODELS, Model};

/// Sums over the bisects of one model.
#[derive(Default)]
struct Row {
    place: usize,
    wider: usize,
    none: usize,
    wrong: usize,
    /// Number of right answers that name a later change than the first one.
    later: usize,
    doubt: f64,
    runs: f64,
    builds: f64,
}

impl Row {
    fn run(model: &Model, seeds: impl Iterator<Item = usize>) -> Row {
        let show = std::env::var_os("SHOW_WRONG").is_some();
        let mut row = Row::default();
        for seed in seeds {
            let outcome = bisect(model, seed as u64);
            row.runs += f64::from(outcome.runs);
            row.builds += f64::from(outcome.builds);
            match outcome.claim {
                Claim::Place { right, first, .. } => {
                    row.place += 1;
                    row.later += usize::from(right && !first);
                }
                Claim::Wider { .. } => row.wider += 1,
                Claim::Nothing => row.none += 1,
            }
            let claim = match outcome.claim {
                Claim::Place { stated, right, .. } | Claim::Wider { stated, right } => {
                    Some((stated, right))
                }
                Claim::Nothing => None,
            };
            if let Some((stated, right)) = claim {
                row.doubt += 1.0 - stated;
                row.wrong += usize::from(!right);
            }
            if show && claim.is_none_or(|(_, right)| !right) {
                println!("{seed}: {:?}, but {:?}", outcome.answer, outcome.world.changes);
            }
        }
        row
    }

    fn add(&mut self, other: &Row) {
        self.place += other.place;
        self.wider += other.wider;
        self.none += other.none;
        self.wrong += other.wrong;
        self.later += other.later;
        self.doubt += other.doubt;
        self.runs += other.runs;
        self.builds += other.builds;
    }

    fn print(&self, model: &str) {
        let answered = self.place + self.wider;
        let bisects = answered + self.none;
        let doubt = self.doubt / answered.max(1) as f64;
        let share = |part: usize| 100.0 * part as f64 / bisects.max(1) as f64;
        println!(
            "| {model}{} | {bisects} | {} | {:.1} % | {:.1} % | {:.2} | {:.1} | {} | {:.3} | {} | {:.1} | {:.1} |",
            if INDEPENDENT.contains(&model) { " *(independent)*" } else { "" },
            self.place,
            share(self.wider),
            share(self.none),
            100.0 * (1.0 - doubt),
            100.0 * (answered - self.wrong) as f64 / answered.max(1) as f64,
            self.wrong,
            at_least(self.wrong, answered, doubt),
            self.later,
            self.runs / bisects.max(1) as f64,
            self.builds / bisects.max(1) as f64,
        );
    }

    /// Prints the sums as a line that [`Row::read`] parses.
    fn print_sums(&self, model: &str) {
        let Row { place, wider, none, wrong, later, doubt, runs, builds } = self;
        println!("{model}: {place} {wider} {none} {wrong} {later} {doubt} {runs} {builds}");
    }

    fn read(line: &str) -> Option<(&str, Row)> {
        let (model, sums) = line.rsplit_once(": ")?;
        let sums: Vec<f64> = sums.split(' ').map(|sum| sum.parse().ok()).collect::<Option<_>>()?;
        let [place, wider, none, wrong, later, doubt, runs, builds] = sums.try_into().ok()?;
        let [place, wider, none, wrong, later] =
            [place, wider, none, wrong, later].map(|sum| sum as usize);
        Some((model, Row { place, wider, none, wrong, later, doubt, runs, builds }))
    }
}

fn head() {
    println!(
        "| model | bisects | one place | range | none | stated % | right % | wrong | chance | not the first | runs | builds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|n| n.parse::<usize>().ok());
    if arguments.first().is_some_and(|word| word == "sum") {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Some((model, row)) = Row::read(&line) {
                rows.entry(model.to_owned()).or_default().add(&row);
            }
        }
        head();
        let known = MODELS.iter().filter_map(|model| Some((model.name, rows.get(model.name)?)));
        known.for_each(|(model, row)| row.print(model));
        return;
    }
    let bisects = number(0).unwrap_or(1000);
    let only = arguments.get(1).cloned().unwrap_or_default();
    let exact = MODELS.iter().any(|model| model.name == only);
    let wanted = |name: &str| if exact { name == only } else { name.contains(&only) };
    let models = MODELS.iter().filter(|model| wanted(model.name));
    if let Some(first) = number(2) {
        models.for_each(|model| {
            Row::run(model, first..first + bisects).print_sums(model.name);
        });
        return;
    }
    println!(
        "Simulated bisects of 256 builds. Range: the share that names more than one place. Wrong: no named place \
         contains a change. Chance: probability of at least as many wrong answers if the stated probabilities were \
         right.\nNot the first: one place with a change, but an earlier change is rarer or elsewhere.\n"
    );
    head();
    models.for_each(|model| Row::run(model, 1..bisects + 1).print(model.name));
}
