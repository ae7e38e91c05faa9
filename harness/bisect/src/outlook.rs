//! Estimates the cost of a search before anything runs.

use std::fmt::Write;

use ::search::bisect::{Action, BisectSettings, BuildOutcome, Event, State, next_action};
use report::count;

use crate::{axis::Axis, journal::BisectHeader};

/// Failure rates of bad builds, in tenths, for which the cost of the search is estimated, each with its description.
/// The real rate is unknown.
const FAILURE_RATES: [(u32, &str); 3] =
    [(10, "in every run"), (5, "in every second run"), (2, "in every fifth run")];

/// Number of simulated searches for each failure rate. Each search has the change at a different point.
const SIMULATIONS: usize = 16;

/// Download rates of a slow and of a fast connection, in bytes per second.
const DOWNLOAD_RATES: [f64; 2] = [4e6, 25e6];

/// Describes a search and estimates its number of runs and builds, its download size and its time. `kept` returns true
/// for a build that this machine already has; `to` is the download source of a second search, if there is one.
pub fn dry_run(
    begun: &BisectHeader,
    axis: &Axis,
    kept: &dyn Fn(usize) -> bool,
    to: Option<&str>,
) -> String {
    let mut text = String::new();
    let last = axis.point_count() - 1;
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<11} {value}");
    };
    line("trial", begun.subject.clone());
    line("good", axis.label(0));
    line("bad", axis.label(last));
    line("points", axis.point_count().to_string());
    axis.silent.iter().for_each(|note| line("note", note.clone()));
    axis.gaps().for_each(|hole| line("note", format!("builds may be missing: {hole}")));
    let sizes: Vec<u64> = (0..=last).filter_map(|n| axis.build(n)?.size()).collect();
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64;
    for (rate, often) in FAILURE_RATES {
        let (runs, builds) = simulated_cost(begun, rate);
        let mut what =
            format!("about {runs:.0} runs of {builds:.0} builds, if bad ones fail {often}");
        if mean > 0.0 {
            let bytes = builds * mean;
            let minutes = DOWNLOAD_RATES.map(|line| bytes / line / 60.0);
            what.push_str(&format!(
                ": {:.1} GB, {:.0} min at 4 MB/s, {:.0} min at 25 MB/s, plus the time of the runs",
                bytes / 1e9,
                minutes[0].ceil(),
                minutes[1].ceil()
            ));
        }
        line("expect", what);
    }
    let there = (0..=last).filter(|n| kept(*n)).count();
    if there > 0 {
        line("kept", format!("{} already on this machine", count(there, "build")));
    }
    if let Some(to) = to {
        line("then", format!("search the builds of {to} between last good and first bad build"));
    }
    text
}

/// Simulates searches in which bad builds fail in `rate` tenths of their runs. Returns the mean number of runs and the
/// mean number of builds.
fn simulated_cost(begun: &BisectHeader, rate: u32) -> (f64, f64) {
    let (mut runs, mut builds) = (0, 0);
    // The seed is fixed, so that the same command gives the same estimate.
    let mut state = 1_u64;
    let mut tenth = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 10
    };
    for n in 0..SIMULATIONS {
        let bad = begun.points - 1;
        let change = 1 + (2 * n + 1) * bad / (2 * SIMULATIONS);
        let mut setup = BisectSettings::new(bad);
        setup.install_cost = begun.install_cost;
        let mut search = State::new(setup);
        loop {
            let event = match next_action(&search) {
                Action::Install(build) => Event::Installed { build, seconds: 0.0 },
                Action::Run(build) => {
                    let fails = build >= change && tenth() < u64::from(rate);
                    let seen = if fails { BuildOutcome::Bad } else { BuildOutcome::Good };
                    Event::Ran { build, seen, seconds: 0.0 }
                }
                Action::Finish(_) => break,
            };
            search.observe(event);
        }
        runs += search.runs();
        builds += search.installs();
    }
    (f64::from(runs) / SIMULATIONS as f64, f64::from(builds) / SIMULATIONS as f64)
}
