//! Tests that [`case::analyse`], which computes with the sizes of buffers alone, reports the same mistakes as
//! [`case::lower`], which computes their bytes.

use case::{Case, Kernels, Trial, analyse, lower};
use plan::{Call, MemoryEffect, Plan, Step};
use proptest::prelude::*;

use super::texts::{KERNELS, PLANS};

fn compare(case: &Case, trial: &Trial, kernels: &Kernels) -> Result<(), TestCaseError> {
    let by_sizes = analyse(case, trial, kernels).err();
    let by_bytes = lower(case, trial, kernels, &[]).err();
    prop_assert_eq!(by_sizes, by_bytes, "{}", case.trial_id(trial));
    Ok(())
}

#[test]
fn library_is_valid_by_sizes_and_by_bytes() {
    for (id, text) in PLANS.iter() {
        let case = Case::parse(id, text).unwrap_or_else(|m| panic!("{id}: {m:#?}"));
        for trial in case.trials() {
            compare(&case, &trial, &KERNELS).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// Numbers that a mutation inserts into a case, for example sizes that are too small, odd or slightly too large.
const NUMBERS: &[&str] = &["0", "1", "3", "4", "7", "15", "16", "63", "64", "100", "1000", "4097"];

fn other_number(text: &str, which: usize, by: &str) -> String {
    let numbers: Vec<_> = text
        .char_indices()
        .filter(|&(at, c)| {
            c.is_ascii_digit() && !text[..at].ends_with(|c: char| c.is_ascii_digit())
        })
        .map(|(at, _)| at)
        .collect();
    let Some(&at) = numbers.get(which % numbers.len().max(1)) else { return text.to_owned() };
    let end = text[at..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| at + n);
    format!("{}{by}{}", &text[..at], &text[end..])
}

/// Removes, swaps or duplicates lines in the steps of a case.
fn other_steps(text: &str, from: usize, to: usize, how: u8) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let steps: Vec<_> =
        (0..lines.len()).filter(|&n| lines[n].trim_start().starts_with("- ")).collect();
    if steps.is_empty() {
        return text.to_owned();
    }
    let (from, to) = (steps[from % steps.len()], steps[to % steps.len()]);
    match how {
        0 => drop(lines.remove(from)),
        1 => lines.swap(from, to),
        _ => lines.insert(to, lines[from]),
    }
    lines.join("\n")
}

fn other_plan(plan: &mut Plan, from: usize, to: usize, how: u8) {
    let phases = [&mut plan.setup, &mut plan.body, &mut plan.verify, &mut plan.teardown];
    let mut filled: Vec<_> = phases.into_iter().filter(|steps| !steps.is_empty()).collect();
    let phases = filled.len();
    let Some(steps) = filled.get_mut(from % phases.max(1)) else { return };
    let (from, to) = (from / phases % steps.len(), to % steps.len());
    match how {
        0 => drop(steps.remove(from)),
        1 => steps.swap(from, to),
        _ => steps.insert(to, steps[from].clone()),
    }
}

fn few_repeats(steps: &mut [Step]) {
    for step in steps {
        if let Call::Repeat { count, body } = &mut step.call {
            *count = (*count).min(3);
            few_repeats(body);
        }
    }
}

/// Maximum number of bytes that the reference model may process in one mutated case, which takes about a second.
const MAX_BYTES: u64 = 4 << 30;

fn bytes(plan: &Plan) -> u64 {
    fn calls(steps: &[Step]) -> u64 {
        let of = |step: &Step| match &step.call {
            Call::Repeat { count, body } => u64::from(*count).saturating_mul(calls(body)),
            _ => 1,
        };
        steps.iter().map(of).fold(0, u64::saturating_add)
    }
    let largest = plan.buffers.values().map(|buffer| buffer.bytes).max().unwrap_or_default();
    calls(&plan.body).saturating_mul(largest)
}

/// Maximum number of multiplications of a plan whose matrix products are computed. Other numbers of rows and columns
/// can make a product of the library a billion times as large, although its buffers stay small.
const MAX_PRODUCTS: u64 = 1 << 28;

fn products(steps: &[Step]) -> u64 {
    let of = |step: &Step| match (&step.call, step.call.memory_effect()) {
        (Call::Repeat { count, body }, _) => u64::from(*count).saturating_mul(products(body)),
        (Call::Thread { body }, _) => products(body),
        (_, MemoryEffect::Product { problem, .. }) => {
            problem.m.saturating_mul(problem.n).saturating_mul(problem.k)
        }
        _ => 0,
    };
    steps.iter().map(of).fold(0, u64::saturating_add)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn mutated_cases_have_the_same_mistakes(
        which in any::<prop::sample::Index>(),
        of_trial in any::<prop::sample::Index>(),
        numbers in prop::collection::vec((any::<usize>(), 0..NUMBERS.len()), 0..3),
        steps in prop::collection::vec((any::<usize>(), any::<usize>(), 0u8..3), 0..3),
    ) {
        let cases: Vec<_> = PLANS.iter().collect();
        let (id, text) = *which.get(&cases);
        let mut text = text.clone();
        for (which, by) in numbers {
            text = other_number(&text, which, NUMBERS[by]);
        }
        for (from, to, how) in steps {
            text = other_steps(&text, from, to, how);
        }
        let Ok(case) = Case::parse(id, &text) else { return Ok(()) };
        let trials = case.trials();
        let trial = of_trial.get(&trials);
        let analysed = analyse(&case, trial, &KERNELS);
        prop_assume!(analysed.as_ref().map_or(0, bytes) <= MAX_BYTES);
        prop_assume!(analysed.map_or(0, |plan| products(&plan.body)) <= MAX_PRODUCTS);
        compare(&case, trial, &KERNELS)?;
    }

    #[test]
    fn mutated_plans_have_the_same_mistakes(
        which in any::<prop::sample::Index>(),
        of_trial in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<usize>(), any::<usize>(), 0u8..3), 1..4),
    ) {
        let cases: Vec<_> = PLANS.iter().collect();
        let (id, text) = *which.get(&cases);
        let case = Case::parse(id, text).expect("it is in the library");
        let trials = case.trials();
        let mut plan = analyse(&case, of_trial.get(&trials), &KERNELS).expect("it is sound");
        few_repeats(&mut plan.body);
        for (from, to, how) in edits {
            other_plan(&mut plan, from, to, how);
        }
        prop_assert_eq!(plan::analyse(&plan), plan::reference(&plan).map(drop), "{}", plan.trial);
    }
}
