//! Tests that the parameters of faults have the same meaning for faults of the device and for faults at calls.

use device::FaultSpec;
use judge::Kind;
use rocrepro::{Job, lower_all, run_trial, select};

use crate::common::{library, never, ran_in_own_process, session};

/// Number of graph launches in [`TRIAL`]. Each launches one GPU kernel, and no other kernel runs.
const REPLAYS: u64 = 50;
const TRIAL: &str = "graphs/many-replays[replays=50,waits=end]";

/// Number of times that a run without a verdict is repeated. Such a run had a problem of the machine, which says
/// nothing about the fault.
const AGAIN: usize = 3;

/// Runs the trial once for each run number, as `--repeat` does, and returns the numbers of the runs with wrong data.
/// Every other failure, such as a hang, ends the test with its description, because none of the faults causes one.
#[track_caller]
fn failing(runs: std::ops::Range<u64>, faults: &[&str]) -> Vec<u64> {
    let faults: Vec<FaultSpec> = faults.iter().map(|f| f.parse().expect("a fault")).collect();
    let (library, session, cancel) = (library(), session(|_| ()), never());
    let selected = select(&library, &[TRIAL.to_owned()]).expect("it is there");
    let planted = faults.iter().cloned();
    let lowered = lower_all(&library, &selected, planted).expect("it lowers").swap_remove(0);
    let once = |run: u64| {
        let job = Job {
            case: selected[0].case,
            trial: &selected[0].trial,
            lowered: lowered.clone(),
            run: 0,
            faults: faults.iter().map(|planted| planted.for_run(run)).collect(),
        };
        let record = run_trial(&session, &job, &cancel).expect("it is not cancelled");
        assert_eq!(record.faults, job.faults);
        for planted in &job.faults {
            let words = shell::split(&record.again).expect("a shell reads it");
            let option = ["--fault".to_owned(), planted.to_string()];
            assert!(words.windows(2).any(|pair| pair == option), "{}", record.again);
        }
        record.outcome
    };
    let failed = |run: &u64| {
        let mut outcomes = (0..=AGAIN).map(|_| once(*run));
        let outcome = outcomes.find(|outcome| outcome.kind != Kind::NoVerdict);
        let outcome = outcome.expect("a run has a verdict");
        assert!(matches!(outcome.kind, Kind::Pass | Kind::WrongData), "run {run}: {outcome:?}");
        outcome.kind == Kind::WrongData
    };
    runs.filter(failed).collect()
}

/// Returns the numbers of the runs in which the fault takes effect at least once, if each run has `opportunities`
/// places at which it can take effect.
fn drawn(runs: std::ops::Range<u64>, fault: &str, opportunities: u64) -> Vec<u64> {
    let planted: FaultSpec = fault.parse().expect("a fault");
    let any = |run: &u64| (0..opportunities).any(|n| planted.for_run(*run).takes_effect_at(n));
    runs.filter(any).collect()
}

#[test]
fn fails_exactly_in_the_runs_that_the_seed_draws() {
    if ran_in_own_process("faults::fails_exactly_in_the_runs_that_the_seed_draws") {
        return;
    }
    for fault in [
        "graph.launch-lost,probability=0.02,seed=3",
        "graph.launch-lost,probability=0.4,per=process,seed=5",
        "graph.launch-twice,probability=0.4,per=process,seed=5",
        "kernel.drop,probability=0.4,per=process,seed=5",
    ] {
        let expected = drawn(0..16, fault, REPLAYS);
        assert!((3..14).contains(&expected.len()), "{fault}: {expected:?}");
        assert_eq!(failing(0..16, &[fault]), expected, "{fault}");
    }
}

#[test]
fn fails_again_in_the_same_runs_with_the_same_seed() {
    if ran_in_own_process("faults::fails_again_in_the_same_runs_with_the_same_seed") {
        return;
    }
    let fault = "graph.launch-lost,probability=0.01,seed=9";
    assert_eq!(failing(0..8, &[fault]), failing(0..8, &[fault]));
}

#[test]
fn combines_faults() {
    if ran_in_own_process("faults::combines_faults") {
        return;
    }
    let never = "graph.launch-lost,probability=0.000001";
    let (one, other) = (
        "graph.launch-lost,probability=0.01,seed=1",
        "kernel.drop,probability=0.3,per=process,seed=40",
    );
    assert!(failing(0..2, &[never]).is_empty());
    assert_eq!(failing(0..2, &[never, "graph.launch-twice"]), [0, 1]);
    let mut expected = drawn(0..10, one, REPLAYS);
    expected.extend(drawn(0..10, other, 1));
    expected.sort_unstable();
    expected.dedup();
    assert!((2..9).contains(&expected.len()), "{expected:?}");
    assert_eq!(failing(0..10, &[one, other]), expected);
}
