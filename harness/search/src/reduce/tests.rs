use std::collections::BTreeSet;

use super::*;

/// Search space of number sets that also have a size. An edit drops a number or lowers the size.
struct Sets;

#[derive(Clone, Debug, PartialEq)]
struct Set {
    numbers: BTreeSet<u32>,
    size: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Edit {
    Drop(u32),
    Size(u32),
}

impl SearchSpace for Sets {
    type Candidate = Set;
    type Edit = Edit;

    fn edits(&self, set: &Set) -> EditTree<Edit> {
        let drops = set.numbers.iter().map(|n| EditTree::Edit(vec![Edit::Drop(*n)])).collect();
        let sizes = (0..20).map(|n| 1 << n).filter(|n| *n < set.size).map(Edit::Size).collect();
        EditTree::Each(vec![EditTree::Halves(drops), EditTree::Edit(sizes)])
    }

    fn apply(&self, set: &Set, edits: &[Edit]) -> EditResult<Set> {
        let mut smaller = set.clone();
        for edit in edits {
            match edit {
                Edit::Drop(n) => drop(smaller.numbers.remove(n)),
                Edit::Size(n) => smaller.size = smaller.size.min(*n),
            }
        }
        match smaller {
            same if same == *set => EditResult::Unchanged,
            // A set with 7 is well-formed only if it also contains 8.
            s if s.numbers.contains(&7) && !s.numbers.contains(&8) => {
                EditResult::IllFormed("7".into())
            }
            smaller => EditResult::Candidate(smaller),
        }
    }

    fn key(&self, set: &Set) -> String {
        format!("{set:?}")
    }
}

/// Simulated runner. A candidate fails at `rate` if it contains all `wanted` numbers and its size is large enough.
struct Machine {
    wanted: Vec<u32>,
    size: u32,
    rate: f64,
    state: u64,
    /// Number of runs after which the runner ends the search.
    left: u32,
    /// Without this number, a candidate fails at a fifth of the rate.
    helper: Option<u32>,
}

impl Machine {
    fn chance(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z >> 11) as f64) / (1u64 << 53) as f64
    }
}

impl Runner<Set> for Machine {
    fn run(&mut self, set: &Set, _: &str) -> Option<CandidateOutcome> {
        self.left = self.left.checked_sub(1)?;
        let chance = self.chance();
        let helped = self.helper.is_none_or(|n| set.numbers.contains(&n));
        let rate = if helped { self.rate } else { self.rate / 5.0 };
        let there = self.wanted.iter().all(|n| set.numbers.contains(n)) && set.size >= self.size;
        Some(match there {
            true if chance < rate => CandidateOutcome::Same,
            // Without 5, a candidate fails with another signature. Without 17, it is invalid.
            _ if !set.numbers.contains(&5) => CandidateOutcome::Other("five".into()),
            _ if !set.numbers.contains(&17) => {
                CandidateOutcome::Invalid("seventeen".into(), InvalidReason::Answer)
            }
            _ => CandidateOutcome::Pass,
        })
    }
}

fn run(wanted: &[u32], rate: f64, seed: u64, left: u32, deterministic: bool) -> Reduced<Set, Edit> {
    let start = Set { numbers: (0..24).collect(), size: 4096 };
    let mut machine =
        Machine { wanted: wanted.to_vec(), size: 48, rate, state: seed, left, helper: None };
    let settings = ReduceSettings { deterministic, ..ReduceSettings::default() };
    reduce(&Sets, start, settings, &mut machine)
}

#[test]
fn keeps_exactly_the_needed_parts_at_every_failure_rate() {
    #[track_caller]
    fn check(rate: f64, most: u32) {
        for seed in 0..20 {
            let found = run(&[3, 5, 17], rate, seed, 100_000, false);
            let numbers: Vec<_> = found.candidate.numbers.iter().copied().collect();
            assert_eq!(numbers, [3, 5, 17], "rate {rate}, seed {seed}");
            assert_eq!(found.candidate.size, 64, "rate {rate}, seed {seed}");
            assert!(found.complete && found.runs <= most, "{rate}: {} runs", found.runs);
            let shown = found.with.same as f64 / found.with.runs() as f64;
            assert!((shown - rate).abs() < 0.3, "{rate}: {:?}", found.with);
            assert_eq!(found.needed.len(), 4);
            for needed in found.needed {
                let Rejection::Runs(counts, _) = needed.without else { panic!("{needed:?}") };
                assert!(counts.same == 0 && counts.not > 0, "{:?}: {counts:?}", needed.edit);
            }
        }
    }
    check(1.0, 100);
    check(0.9, 600);
    check(0.5, 1000);
    check(0.2, 6000);
}

#[test]
fn keeps_parts_that_make_the_failure_frequent() {
    for (rate, deterministic) in
        [(0.9, false), (0.5, false), (0.3, false), (1.0, true), (1.0, false)]
    {
        let mut kept = 0;
        for seed in 0..20 {
            let start = Set { numbers: (0..24).collect(), size: 64 };
            let mut machine = Machine {
                wanted: vec![3, 17],
                size: 1,
                rate,
                state: seed,
                left: 100_000,
                helper: Some(11),
            };
            let settings = ReduceSettings { deterministic, ..ReduceSettings::default() };
            let found = reduce(&Sets, start, settings, &mut machine);
            let numbers: Vec<_> = found.candidate.numbers.into_iter().collect();
            kept += u32::from(numbers == [3, 11, 17]);
        }
        assert!(
            kept >= 19,
            "rate {rate}, assumed to be deterministic: {deterministic}: {kept} of 20"
        );
    }
}

#[test]
fn deterministic_failure_needs_one_run_per_candidate() {
    let found = run(&[3, 5, 17], 1.0, 0, 1000, true);
    assert!(found.complete && found.runs < 40, "{} runs", found.runs);
    // The search detects that the failure is not deterministic.
    let found = run(&[3, 5, 17], 0.5, 3, 100_000, true);
    assert_eq!(found.candidate.numbers.len(), 3);
}

#[test]
fn exhausted_runner_leaves_the_best_candidate_so_far() {
    let found = run(&[3, 17], 1.0, 0, 10, true);
    assert!(!found.complete && found.runs == 10);
    assert!(found.candidate.numbers.len() < 24 && found.candidate.numbers.contains(&3));
}

#[test]
fn other_failures_are_reported_separately() {
    let found = run(&[3, 5], 1.0, 0, 1000, true);
    let (count, example) = &found.others["five"];
    assert!(*count > 0 && !example.numbers.contains(&5));

    // Each other failure is listed for the number without which it occurred. Failures of invalid candidates do not
    // count as other failures.
    let found = run(&[3, 5, 17], 1.0, 0, 1000, true);
    assert_eq!(found.others.keys().collect::<Vec<_>>(), ["five"]);
    let mut met = Vec::new();
    for needed in &found.needed {
        let Rejection::Runs(counts, instead) = &needed.without else { panic!("{needed:?}") };
        let counted: u32 = instead.iter().map(|met| met.count).sum();
        assert!(counted <= counts.not, "{needed:?}");
        met.extend(
            instead.iter().map(|met| (met.signature.as_str(), met.invalid, counted == counts.not)),
        );
    }
    met.sort_unstable();
    assert_eq!(met, [("five", None, true), ("seventeen", Some(InvalidReason::Answer), true)]);
}

#[test]
fn elements_needed_for_well_formedness_give_the_reason() {
    let found = run(&[7], 1.0, 0, 1000, true);
    assert_eq!(found.candidate.numbers.iter().copied().collect::<Vec<_>>(), [7, 8]);
    let reasons: Vec<_> = found.needed.iter().map(|n| &n.without).collect();
    assert!(reasons.contains(&&Rejection::IllFormed("7".into())), "{reasons:?}");
}

/// Compares the search with delta debugging as published, on the same edits.
#[test]
fn plain_delta_debugging_takes_more_runs() {
    let start = Set { numbers: (0..24).collect(), size: 4096 };
    let mut machine = Machine {
        wanted: vec![3, 5, 17],
        size: 1,
        rate: 1.0,
        state: 0,
        left: 10_000,
        helper: None,
    };
    let (_, tests) = ddmin::ddmin(&Sets, &start, &mut |set, key| {
        machine.run(set, key) == Some(CandidateOutcome::Same)
    });
    let ours = run(&[3, 5, 17], 1.0, 0, 1000, true).runs;
    assert!(ours < tests.runs, "{ours} and {tests:?}");
}
