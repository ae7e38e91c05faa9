//! Measures simulated bisects: mean number of runs, mean number of installed builds, and share of wrong answers.
//!
//! Two other strategies are measured for comparison: a fixed number of repetitions of each build, and Wald's sequential
//! test. These two know the true failure rates, which this crate's search has to estimate.
//!
//! `cargo run --release -p search --example anchors [-- BISECTS [BUILDS...] [p=RATE...]]`

mod simulation;

use simulation::{Model, Random, Spent, ours, repeated, sequential};

type Cell = (f64, f64, Option<(f64, f64)>);

/// Simulated configurations: failure rate of bad builds, failure rate of good builds, and the highest accepted mean
/// numbers of runs and of builds for a history of 256 builds (`None` without such limits).
const CELLS: [Cell; 8] = [
    (1.0, 0.0, Some((19.0, 8.1))),
    (0.9, 0.0, Some((26.0, 8.8))),
    (0.5, 0.0, Some((61.0, 9.4))),
    (0.2, 0.0, Some((174.0, 9.9))),
    (0.05, 0.0, Some((744.0, 10.3))),
    (0.5, 0.01, Some((72.0, 10.1))),
    (0.2, 0.01, Some((256.0, 11.6))),
    (1.0, 0.01, None),
];

fn main() {
    let rates: Vec<f64> =
        std::env::args().filter_map(|word| word.strip_prefix("p=")?.parse().ok()).collect();
    let mut numbers = std::env::args().skip(1).filter_map(|n| n.parse::<usize>().ok());
    let bisects = numbers.next().unwrap_or(2000);
    let mut sizes: Vec<usize> = numbers.collect();
    if sizes.is_empty() {
        sizes = vec![256, 1024];
    }
    println!(
        "{bisects} simulated bisects a row. Runs include those of the ends and of the closing check; builds are those obtained \
         between the ends.\nRepeated and sequential know p and q, and trust the ends.\n"
    );
    println!(
        "| N | p | q | limit | runs | p95 | builds | wrong % | repeated: runs | wrong % | sequential: runs | wrong % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for builds in sizes {
        let wanted = |p: f64| rates.is_empty() || rates.contains(&p);
        for (p, q, limit) in CELLS.into_iter().filter(|(p, ..)| wanted(*p)) {
            let limit = limit.filter(|_| builds == 256);
            let mut table = [Column::default(), Column::default(), Column::default()];
            for bisect in 0..bisects {
                let mut random = Random::new(bisect as u64 + 1);
                let model = Model { builds, first_bad: 1 + random.below(builds), p, q };
                let strategies: [fn(&Model, &mut Random) -> Spent; 3] =
                    [ours, repeated, sequential];
                for (column, strategy) in table.iter_mut().zip(strategies) {
                    column.add(strategy(&model, &mut random), model.first_bad);
                }
            }
            let limit =
                limit.map_or("-".to_owned(), |(runs, installs)| format!("{runs} / {installs}"));
            let [ours, repeated, sequential] = &mut table;
            println!(
                "| {builds} | {p} | {q} | {limit} | {:.1} | {} | {:.2} | {:.2} | {:.1} | {:.2} | {:.1} | {:.2} |",
                ours.mean(),
                ours.high(),
                ours.builds as f64 / bisects as f64,
                ours.wrong(),
                repeated.mean(),
                repeated.wrong(),
                sequential.mean(),
                sequential.wrong(),
            );
        }
    }
}

#[derive(Default)]
struct Column {
    runs: Vec<u32>,
    builds: usize,
    wrong: u32,
}

impl Column {
    fn add(&mut self, spent: Spent, first_bad: usize) {
        self.runs.push(spent.runs);
        self.builds += spent.builds;
        self.wrong += u32::from(spent.answer != Some(first_bad));
    }

    fn mean(&self) -> f64 {
        self.runs.iter().map(|n| f64::from(*n)).sum::<f64>() / self.runs.len() as f64
    }

    fn high(&mut self) -> u32 {
        self.runs.sort_unstable();
        self.runs[self.runs.len() * 95 / 100]
    }

    fn wrong(&self) -> f64 {
        100.0 * f64::from(self.wrong) / self.runs.len() as f64
    }
}
