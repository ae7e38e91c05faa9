//! Compares `plan` with an independent implementation on random small plans ([`random_plans`]). The two implementations
//! must accept the same plans and compute the same bytes. The independent implementation ([`machine`], [`memory`])
//! models only bytes, edges and captures. It was written from the documentation alone.
//!
//! The environment variable `ROCREPRO_ORACLE_PLANS` sets the number of plans, and `ROCREPRO_ORACLE_SEED` sets the seed.

mod effect_coverage;
mod kernels;
mod machine;
mod memory;
mod random_plans;

use std::{cell::Cell, collections::BTreeSet};

use plan::{Call, Dtype, Mistake, Plan, Reference, Step, analyse, digest, races, reference};
use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};

use self::{
    machine::Machine,
    random_plans::{Piece, pieces, plan},
};

fn number_from_environment(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not `{text}`")))
}

fn plan_count() -> u32 {
    number_from_environment("ROCREPRO_ORACLE_PLANS").map_or(600, |plans| plans as u32)
}

/// Calls `check` with random plans. Without a seed in the environment, the plans are the same in every run.
fn for_each_plan(check: impl Fn(&Plan) -> Result<(), TestCaseError>) {
    let config = ProptestConfig {
        cases: plan_count(),
        rng_seed: RngSeed::Fixed(number_from_environment("ROCREPRO_ORACLE_SEED").unwrap_or(12)),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let test = |pieces: Vec<Piece>| check(&plan(&pieces));
    if let Err(why) = TestRunner::new(config).run(&pieces(), test) {
        panic!("{why}");
    }
}

/// Message with which the model rejects a check of a buffer that contains unknown bytes, even if only a part is
/// unknown.
const UNKNOWN: &str = "cannot be computed in advance";

#[test]
fn reference_equals_bytewise_execution() {
    let sound = Cell::new(0u32);
    for_each_plan(|plan| {
        let machine = Machine::new(plan);
        let order: Vec<usize> = (0..machine.operations.len()).collect();
        match (reference(plan), machine.run(&order)) {
            (Ok(got), Ok((want, ..))) => {
                sound.set(sound.get() + 1);
                let got: Vec<_> =
                    got.expected.into_iter().map(|e| (e.step, e.occurrence, e.digest)).collect();
                let want: Vec<_> = want
                    .into_iter()
                    .map(|(step, nth, bytes)| (step, nth, digest(&bytes)))
                    .collect();
                prop_assert_eq!(got, want);
            }
            (Err(_), Err(_)) => {}
            (Ok(_), Err(why)) => prop_assert!(false, "accepted, although {why:?}"),
            (Err(mistakes), Ok((.., memory))) => {
                let doubtful = |mistake: &Mistake| {
                    mistake.message.contains(UNKNOWN) && !memory.doubtful.is_empty()
                };
                prop_assert!(mistakes.iter().all(doubtful), "refused: {mistakes:?}");
            }
        }
        Ok(())
    });
    assert!(sound.get() * 10 > plan_count(), "only {} plans had a result", sound.get());
}

/// Returns `plan` with matrix products of type `of`, in which sums may be rounded.
fn with_product_type(plan: &Plan, of: Dtype) -> Plan {
    fn change(steps: &mut [Step], of: Dtype) {
        for step in steps {
            match &mut step.call {
                Call::FillNumbers { dtype, .. } => *dtype = of,
                Call::RocblasGemm { problem, .. } => problem.dtype = of,
                Call::Repeat { body, .. } | Call::Thread { body } => change(body, of),
                _ => {}
            }
        }
    }
    let mut plan = plan.clone();
    for steps in [&mut plan.setup, &mut plan.body, &mut plan.verify] {
        change(steps, of);
    }
    plan
}

#[test]
fn analysis_by_size_equals_analysis_by_bytes() {
    let (sound, wrong) = (Cell::new(0u32), Cell::new(0u32));
    let rounding = Cell::new(0u32);
    for_each_plan(|plan| {
        let found = reference(plan).map(drop);
        let count = if found.is_ok() { &sound } else { &wrong };
        count.set(count.get() + 1);
        prop_assert_eq!(analyse(plan), found);
        for of in [Dtype::F32, Dtype::Bf16] {
            let plan = with_product_type(plan, of);
            let found = reference(&plan).map(drop);
            let rounds = |mistake: &Mistake| mistake.message.contains("is not exact in its type");
            let some = found.as_ref().is_err_and(|mistakes| mistakes.iter().any(rounds));
            rounding.set(rounding.get() + u32::from(some));
            prop_assert_eq!(analyse(&plan), found, "{:?}", of);
        }
        Ok(())
    });
    let (sound, wrong) = (sound.get(), wrong.get());
    let few = plan_count() / 10;
    assert!(sound > few && wrong > few, "{sound} plans with a result, {wrong} without");
    assert!(rounding.get() > 0, "no product rounds");
}

#[test]
fn check_content_is_the_last_version_of_its_buffer() {
    let (met, versions) = (Cell::new(0u32), Cell::new(0usize));
    for_each_plan(|plan| {
        let Ok(all) = reference(plan) else { return Ok(()) };
        for expected in all.expected {
            let (step, nth) = (expected.step, expected.occurrence);
            let content = Reference::content(plan, step, nth).expect("the plan has this check");
            prop_assert_eq!(digest(&content.want), expected.digest);
            let made = plan.steps().iter().find(|made| made.id == step).map(|made| &made.call);
            let Some(Call::Check { buffer, .. }) = made else { continue };
            let last = content.history.iter().rev().find(|write| write.buffer == *buffer);
            prop_assert_eq!(last.map(|write| &write.bytes), Some(&content.want));
            met.set(met.get() + 1);
            versions.set(versions.get().max(content.history.len()));
        }
        Ok(())
    });
    assert!(met.get() * 10 > plan_count(), "only {} checks of a buffer", met.get());
    assert!(versions.get() > 3, "{} versions at most", versions.get());
    let none = plan(&[]);
    assert_eq!(Reference::content(&none, u32::MAX, 0), None);
}

/// Returns the lines of the two accesses that race.
fn lines(race: &Mistake) -> (u32, u32) {
    let (_, earlier) = race.message.split_once("(line ").expect("it names the other line");
    (earlier[..earlier.find(')').expect("closed")].parse().expect("a number"), race.line)
}

/// Accepted plans have no unordered conflicting accesses. For every reported race, no path of edges leads from one
/// access to the other.
#[test]
fn races_equal_unordered_pairs_of_the_machine() {
    let (quiet, racy) = (Cell::new(0u32), Cell::new(0u32));
    for_each_plan(|plan| {
        let machine = Machine::new(plan);
        let order: Vec<usize> = (0..machine.operations.len()).collect();
        let Ok((_, touched, _)) = machine.run(&order) else { return Ok(()) };
        let found = races(plan);
        let declared = machine.unordered(None);
        if found.is_empty() {
            quiet.set(quiet.get() + 1);
            prop_assert_eq!(machine.unordered(Some(&touched)), BTreeSet::new(), "accepted");
            prop_assert_eq!(declared, BTreeSet::new(), "accepted, by what is declared");
        } else {
            racy.set(racy.get() + 1);
            for race in &found {
                prop_assert!(declared.contains(&lines(race)), "{race:?} is none of {declared:?}");
            }
        }
        Ok(())
    });
    let (quiet, racy) = (quiet.get(), racy.get());
    let few = plan_count() / 30;
    assert!(quiet > few && racy > few, "{quiet} plans without a race, {racy} with one");
}

#[test]
fn accepted_plans_have_one_result_in_every_legal_order() {
    let others = Cell::new(0u32);
    for_each_plan(|plan| {
        let machine = Machine::new(plan);
        let first: Vec<usize> = (0..machine.operations.len()).collect();
        let Ok((want, ..)) = machine.run(&first) else { return Ok(()) };
        if !races(plan).is_empty() {
            return Ok(());
        }
        // Three other orders are tried: the last ready operation first, and two pseudo-random orders.
        let mut mixed = plan.body.len() as u64;
        let mut any = |ready: usize| {
            mixed = mixed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (mixed >> 33) as usize % ready
        };
        let orders =
            [machine.order(|ready| ready - 1), machine.order(&mut any), machine.order(any)];
        for order in orders {
            others.set(others.get() + u32::from(order != first));
            let Ok((mut got, ..)) = machine.run(&order) else {
                prop_assert!(false, "it cannot go on in the order {order:?}");
                unreachable!()
            };
            let by_step = |result: &(u32, u32, Vec<u8>)| (result.0, result.1);
            let mut want = want.clone();
            got.sort_by_key(by_step);
            want.sort_by_key(by_step);
            prop_assert_eq!(got, want);
        }
        Ok(())
    });
    assert!(others.get() * 10 > plan_count(), "only {} other orders", others.get());
}
