//! What a search says that it will still take, against what it then took.

use search::bisect::{Action, Event, Posterior, Seen, Setup, State, next};

/// Runs and new builds that were said to be left after so many runs, and those that came.
struct Compared {
    said: (f64, f64),
    came: (f64, f64),
}

/// A search in which bad builds fail at a rate, looked at after each run since its ends were verified.
fn bisect(rate: f64, seed: u64) -> Vec<(u32, u32, f64, f64)> {
    let first_bad = 1 + (seed as usize * 71) % 256;
    let mut numbers = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut share = move || {
        numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (numbers >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut state = State::new(Setup::new(256));
    let mut told = Vec::new();
    loop {
        let event = match next(&state) {
            Action::Finish(_) => break,
            Action::Install(build) => Event::Installed { build, seconds: 0.0 },
            Action::Run(build) => {
                let fails = build >= first_bad && share() < rate;
                let seen = if fails { Seen::Bad } else { Seen::Good };
                Event::Ran { build, seen, seconds: 0.0 }
            }
        };
        state.observe(event);
        if state.tally(0).runs() >= 2 {
            let left = Posterior::of(&state).left(&state);
            told.push((state.runs(), state.installs(), left.runs, left.builds));
        }
    }
    told
}

/// Of all searches, when this share of their runs was made.
fn compared(all: &[Vec<(u32, u32, f64, f64)>], share: f64) -> Compared {
    let mut sums = Compared { said: (0.0, 0.0), came: (0.0, 0.0) };
    for told in all {
        let (runs, installs, ..) = told[told.len() - 1];
        let at = ((told.len() - 1) as f64 * share) as usize;
        let (so_far, obtained, left, builds) = told[at];
        sums.said = (sums.said.0 + left, sums.said.1 + builds);
        sums.came.0 += f64::from(runs - so_far);
        sums.came.1 += f64::from(installs - obtained);
    }
    sums
}

#[test]
fn what_is_left_is_about_what_comes() {
    for rate in [1.0, 0.9, 0.5, 0.2] {
        let all: Vec<_> = (1..=30).map(|seed| bisect(rate, seed)).collect();
        for share in [0.0, 0.3, 0.6] {
            let Compared { said, came } = compared(&all, share);
            let (runs, builds) = (said.0 / came.0, (said.1 - came.1) / all.len() as f64);
            println!("rate {rate}, after {share}: {runs:.2} of the runs, {builds:+.1} builds");
            assert!((0.65..1.55).contains(&runs), "rate {rate}, after {share}: {runs}");
            assert!(builds.abs() < 2.5, "rate {rate}, after {share}: {builds} builds too many");
        }
    }
}
