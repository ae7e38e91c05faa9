//! Compares the estimated remaining effort with the effort that the search needed afterwards.

use search::bisect::{Action, BisectSettings, BuildOutcome, Event, Posterior, State, next_action};

/// Estimated and actual remaining effort after a share of the runs, each as numbers of runs and of newly installed
/// builds, summed over all searches.
struct Compared {
    estimated: (f64, f64),
    actual: (f64, f64),
}

/// Runs a bisect in which bad builds fail at `rate`. Returns, for each run after the ends were verified: runs so far,
/// installed builds so far, estimated runs and estimated builds.
fn bisect(rate: f64, seed: u64) -> Vec<(u32, u32, f64, f64)> {
    let first_bad = 1 + (seed as usize * 71) % 256;
    let mut numbers = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut share = move || {
        numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (numbers >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut state = State::new(BisectSettings::new(256));
    let mut estimates = Vec::new();
    loop {
        let event = match next_action(&state) {
            Action::Finish(_) => break,
            Action::Install(build) => Event::Installed { build, seconds: 0.0 },
            Action::Run(build) => {
                let fails = build >= first_bad && share() < rate;
                let seen = if fails { BuildOutcome::Bad } else { BuildOutcome::Good };
                Event::Ran { build, seen, seconds: 0.0 }
            }
        };
        state.observe(event);
        if state.tally(0).runs() >= 2 {
            let remaining = Posterior::from_state(&state).remaining(&state);
            estimates.push((state.runs(), state.installs(), remaining.runs, remaining.builds));
        }
    }
    estimates
}

/// Sums the efforts of all searches, each at the time when `share` of its runs had been made.
fn compared(all: &[Vec<(u32, u32, f64, f64)>], share: f64) -> Compared {
    let mut sums = Compared { estimated: (0.0, 0.0), actual: (0.0, 0.0) };
    for estimates in all {
        let (runs, installs, ..) = estimates[estimates.len() - 1];
        let at = ((estimates.len() - 1) as f64 * share) as usize;
        let (so_far, obtained, left, builds) = estimates[at];
        sums.estimated = (sums.estimated.0 + left, sums.estimated.1 + builds);
        sums.actual.0 += f64::from(runs - so_far);
        sums.actual.1 += f64::from(installs - obtained);
    }
    sums
}

#[test]
fn remaining_runs_estimate_is_accurate() {
    for rate in [1.0, 0.9, 0.5, 0.2] {
        let all: Vec<_> = (1..=30).map(|seed| bisect(rate, seed)).collect();
        for share in [0.0, 0.3, 0.6] {
            let Compared { estimated, actual } = compared(&all, share);
            let (runs, builds) =
                (estimated.0 / actual.0, (estimated.1 - actual.1) / all.len() as f64);
            println!("rate {rate}, after {share}: {runs:.2} of the runs, {builds:+.1} builds");
            assert!((0.65..1.55).contains(&runs), "rate {rate}, after {share}: {runs}");
            assert!(builds.abs() < 2.5, "rate {rate}, after {share}: {builds} builds too many");
        }
    }
}
