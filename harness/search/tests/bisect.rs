//! Checks the bisect with simulated histories, and compares it with a naive reference.

use std::collections::BTreeSet;

use proptest::prelude::*;
use search::bisect::{
    Action, Answer, BisectSettings, BuildOutcome, Edge, Event, SearchBudget, State, next_action,
};

struct Random(u64);

impl Random {
    fn chance(&mut self, p: f64) -> bool {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64) < p * (1_u64 << 53) as f64
    }
}

/// Runs a bisect and returns its answer, its final state and all observations. `usable` returns true if a build can be
/// installed, and `run` returns the outcome of a run.
///
/// # Panics
/// Panics if the search runs a build that is not active, or installs a build again that cannot be tested.
fn search(
    setup: BisectSettings,
    usable: impl Fn(usize) -> bool,
    mut run: impl FnMut(usize) -> BuildOutcome,
) -> (Answer, State, Vec<Event>) {
    let mut state = State::new(setup);
    let mut events = Vec::new();
    for _ in 0..100_000 {
        let event = match next_action(&state) {
            Action::Finish(answer) => return (answer, state, events),
            Action::Install(build) => {
                assert!(!state.tally(build).is_unusable(), "{build} cannot be tested");
                match usable(build) {
                    true => Event::Installed { build, seconds: 1.0 },
                    false => Event::Unusable { build, seconds: 1.0 },
                }
            }
            Action::Run(build) => {
                assert_eq!(state.active(), Some(build), "is not active");
                Event::Ran { build, seen: run(build), seconds: 1.0 }
            }
        };
        events.push(event);
        state.observe(event);
    }
    panic!("no end after {} runs", state.runs());
}

fn seen(bad: bool) -> BuildOutcome {
    if bad { BuildOutcome::Bad } else { BuildOutcome::Good }
}

#[track_caller]
fn found(answer: &Answer) -> (usize, usize) {
    match answer {
        Answer::Found(Edge { last_good, first_bad, .. }) => (*last_good, *first_bad),
        other => panic!("{other:?}"),
    }
}

/// Reference that examines every build. Returns the last good and the first bad build.
fn naive(bad: usize, first_bad: usize, broken: &BTreeSet<usize>) -> (usize, usize) {
    let usable = |build: &usize| *build == 0 || *build == bad || !broken.contains(build);
    let last_good = (0..first_bad).rev().find(usable).unwrap_or(0);
    (last_good, (first_bad..=bad).find(usable).unwrap_or(bad))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deterministic_change_is_found_despite_broken_builds(
        (bad, first_bad) in (1_usize..300).prop_flat_map(|bad| (Just(bad), 1..=bad)),
        broken in prop::collection::btree_set(1_usize..300, 0..120),
        other in any::<bool>(),
    ) {
        let inner = |build: usize| build != 0 && build != bad && broken.contains(&build);
        // Broken builds either cannot be installed or fail with another signature.
        let (answer, state, _) = search(
            BisectSettings::new(bad),
            |build| other || !inner(build),
            |build| if inner(build) { BuildOutcome::Other } else { seen(build >= first_bad) },
        );
        prop_assert_eq!(found(&answer), naive(bad, first_bad, &broken));
        let bound = 50 + 3 * (bad as f64).log2().ceil() as u32;
        let counted = state.tallies().map(|(_, tally)| tally.runs()).sum::<u32>();
        prop_assert!(counted <= bound, "{} runs", counted);
    }

    #[test]
    fn weights_never_change_the_answer(
        (bad, first_bad, weights) in (2_usize..100).prop_flat_map(|bad| {
            (Just(bad), 1..=bad, prop::collection::vec(prop::sample::select(vec![0.05, 1.0]), bad + 1))
        }),
    ) {
        let setup = BisectSettings::new(bad).with_weights(&weights);
        let (answer, ..) = search(setup, |_| true, |build| seen(build >= first_bad));
        prop_assert_eq!(found(&answer), (first_bad - 1, first_bad));
    }

    #[test]
    fn search_ends_within_the_budget_for_any_observations(
        bad in 1_usize..60,
        kinds in prop::collection::vec(0_u8..12, 400),
    ) {
        let mut setup = BisectSettings::new(bad);
        setup.budget = SearchBudget { runs: Some(150), installs: Some(20), seconds: None };
        let mut kinds = kinds.iter().cycle();
        let (_, state, _) = search(setup, |build| build % 7 != 3, |_| match kinds.next() {
            Some(0) => BuildOutcome::Other,
            Some(kind) => seen(kind % 2 == 0),
            None => BuildOutcome::Good,
        });
        prop_assert!(state.runs() <= 150 && state.installs() <= 20);
    }

    #[test]
    fn same_observations_give_same_decisions(seed in any::<u64>(), first_bad in 1_usize..=64) {
        let mut random = Random(seed);
        let (answer, _, events) = search(BisectSettings::new(64), |b| b % 9 != 4, |build| {
            seen(random.chance(if build >= first_bad { 0.6 } else { 0.0 }))
        });
        let mut state = State::new(BisectSettings::new(64));
        for event in events {
            match (next_action(&state), event) {
                (Action::Install(want), Event::Installed { build, .. } | Event::Unusable { build, .. })
                | (Action::Run(want), Event::Ran { build, .. }) => prop_assert_eq!(want, build),
                (action, event) => prop_assert!(false, "{:?} and {:?}", action, event),
            }
            state.observe(event);
        }
        prop_assert_eq!(next_action(&state), Action::Finish(answer));
    }
}

#[test]
fn flaky_changes_are_found() {
    for (p, q) in [(0.5, 0.0), (0.2, 0.0), (0.5, 0.01)] {
        let mut wrong = 0;
        for seed in 1..=100_u64 {
            let mut random = Random(seed * 7_777_777);
            let first_bad = 1 + (seed as usize * 37) % 128;
            let (answer, ..) = search(
                BisectSettings::new(128),
                |_| true,
                |build| seen(random.chance(if build >= first_bad { p } else { q })),
            );
            wrong += u32::from(answer.edge().is_none_or(|edge| edge.first_bad != first_bad));
        }
        assert!(wrong <= 4, "p {p}, q {q}: {wrong} of 100 are wrong");
    }
}

/// Builds are broken for ten builds in a row on average, and in three tenths of the whole history.
#[test]
fn few_builds_are_spent_on_long_breakage() {
    let mut installs = 0.0;
    let histories = 300;
    for seed in 1..=histories {
        let mut random = Random(seed * 99_991);
        let mut broken = false;
        let usable: Vec<bool> = (0..=256)
            .map(|_| {
                broken = random.chance(if broken { 0.9 } else { 0.043 });
                !broken
            })
            .collect();
        let first_bad = 1 + (seed as usize * 101) % 256;
        let end = |build: usize| build == 0 || build == 256;
        let (answer, state, _) =
            search(BisectSettings::new(256), |b| end(b) || usable[b], |b| seen(b >= first_bad));
        let (last_good, found_bad) = found(&answer);
        assert!(last_good < first_bad && first_bad <= found_bad);
        installs += state.tallies().filter(|(build, _)| !end(*build)).count() as f64;
    }
    let mean = installs / histories as f64;
    println!("{mean:.1} builds asked for on average");
    // A search that takes the usable build nearest to the middle needs 20.7 builds, and git's random choice 16.5.
    assert!(mean < 19.0, "{mean:.1} builds");
}

#[test]
fn failing_and_unusable_ends_are_reported() {
    let passes = search(BisectSettings::new(9), |_| true, |_| BuildOutcome::Good).0;
    assert_eq!(passes, Answer::NotReproducible { runs: 150, bad: 0 });
    let fails = search(BisectSettings::new(9), |_| true, |_| BuildOutcome::Bad).0;
    assert!(matches!(fails, Answer::GoodEndFails { .. }), "{fails:?}");
    for end in [0, 9] {
        let answer =
            search(BisectSettings::new(9), |build| build != end, |build| seen(build > 4)).0;
        assert_eq!(answer, Answer::EndUnusable { end });
    }
}

#[test]
fn exchanged_ends_are_detected_within_eight_runs() {
    let (answer, state, _) = search(BisectSettings::new(99), |_| true, |build| seen(build < 40));
    assert_eq!(answer, Answer::Exchanged { passes: 4, failures: 4 });
    assert_eq!(state.runs(), 8);
}

/// Builds fail in a fifth of the runs from build 30 on, and always from build 60 on.
#[test]
fn failure_that_becomes_frequent_later_is_reported_as_worse() {
    let (mut worse, mut right) = (0, 0);
    for seed in 1..=20_u64 {
        let mut random = Random(seed * 31_337);
        let rate =
            |build: usize| [0.0, 0.2, 1.0][usize::from(build >= 30) + usize::from(build >= 60)];
        let answer =
            search(BisectSettings::new(128), |_| true, |build| seen(random.chance(rate(build)))).0;
        if let Answer::Worse { after, until, edge, .. } = answer {
            worse += 1;
            right += u32::from(after < 30 && 30 <= until && edge.first_bad == 60);
        }
    }
    assert!(worse >= 8 && right + 1 >= worse, "{right} of {worse} are right");
}

/// The user's rate is only a prior: a wrong rate costs runs and is reported, but the answer stays right.
#[test]
fn wrong_user_rate_does_not_change_the_answer() {
    let mut wrong = 0;
    for seed in 1..=30_u64 {
        let mut random = Random(seed * 4_242);
        let mut setup = BisectSettings::new(128);
        setup.rate = Some(1.0);
        let first_bad = 1 + (seed as usize * 37) % 128;
        let fails = |build: usize| if build >= first_bad { 0.4 } else { 0.0 };
        let (answer, state, _) = search(setup, |_| true, |build| seen(random.chance(fails(build))));
        wrong += u32::from(!matches!(answer, Answer::Found(edge) if edge.first_bad == first_bad));
        assert!(
            search::bisect::Posterior::from_state(&state).supports_rate(1.0) < 0.01,
            "seed {seed}"
        );
    }
    assert!(wrong <= 3, "{wrong} of 30 are wrong");
}

/// After a failure, the next run fails with a probability of 0.3, whatever the build.
#[test]
fn sticky_failure_state_is_not_a_regression() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 1..=40_u64 {
        let mut random = Random(seed * 65_537);
        let first_bad = 1 + (seed as usize * 37) % 128;
        let mut failed = false;
        let run = |build: usize| {
            let fails = f64::from(u8::from(build >= first_bad)) * 0.8;
            failed = random.chance(if failed { f64::max(fails, 0.3) } else { fails });
            seen(failed)
        };
        match search(BisectSettings::new(128), |_| true, run).0 {
            Answer::Found(edge) | Answer::Increase { edge } if edge.first_bad == first_bad => {
                right += 1;
            }
            Answer::Wedged { .. } => {}
            _ => wrong += 1,
        }
    }
    assert!(right >= 34 && wrong <= 3, "{right} right, {wrong} wrong");
}

#[test]
fn wedged_device_is_detected() {
    for wedged_after in 7..12 {
        let mut runs = 0;
        let (answer, ..) = search(
            BisectSettings::new(256),
            |_| true,
            |build| {
                runs += 1;
                seen(build > 200 || runs > wedged_after)
            },
        );
        assert!(matches!(answer, Answer::Wedged { .. }), "after {wedged_after} runs: {answer:?}");
    }
}

#[test]
fn spent_budget_gives_a_range_that_contains_the_change() {
    for runs in 1..20 {
        let mut setup = BisectSettings::new(256);
        setup.budget.runs = Some(runs);
        match search(setup, |_| true, |build| seen(build >= 77)).0 {
            Answer::Range { last_good, first_bad, mass, spent } => {
                assert!(last_good < 77 && 77 <= first_bad && spent == "runs");
                assert!(mass >= 0.95 || runs <= 6, "{mass} after {runs}");
            }
            Answer::Found(edge) => assert_eq!(edge.first_bad, 77),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn two_regressions_are_reported_as_several() {
    let mut state = State::new(BisectSettings::new(12));
    let runs = [(12, 0, 8), (0, 8, 0), (3, 0, 9), (6, 30, 0), (9, 0, 9), (2, 20, 0), (8, 20, 0)];
    for (build, good, bad) in runs {
        let each = std::iter::repeat_n(BuildOutcome::Good, good)
            .chain(std::iter::repeat_n(BuildOutcome::Bad, bad));
        for seen in each {
            state.observe(Event::Ran { build, seen, seconds: 0.0 });
        }
    }
    let answer = loop {
        match next_action(&state) {
            Action::Finish(answer) => break answer,
            Action::Install(build) => state.observe(Event::Installed { build, seconds: 0.0 }),
            Action::Run(build) => {
                let bad = (3..6).contains(&build) || build >= 9;
                state.observe(Event::Ran { build, seen: seen(bad), seconds: 0.0 });
            }
        }
    };
    let Answer::Several { edges } = answer else { panic!("{answer:?}") };
    let places: Vec<_> = edges.iter().map(|e| (e.last_good, e.first_bad)).collect();
    assert_eq!(places, [(2, 3), (8, 9)]);
}
