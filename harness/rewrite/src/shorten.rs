//! Shortens the plan of an exported program until it shows only one failure. The steps after the failing one, all other
//! checks, and the guards are dropped. The teardown is dropped, too, unless the failure is in it. Unlike the edits in
//! `reduce`, the edits in this module may drop steps of the set-up, so the result cannot be written as a case.

use std::collections::BTreeSet;

use plan::{Call, ObjectKind, ObjectUse, Plan, Step};

use search::reduce::EditTree;

use crate::uses::{block, block_mut, calls};

/// An edit that shortens the plan of an exported program.
#[derive(Clone, Debug, PartialEq)]
pub enum ShortenEdit {
    /// Drops the steps with these ids.
    Drop(Vec<u32>),
    /// Replaces all kernels by empty ones without parameters.
    EmptyKernels,
}

/// Returns the plan up to the failing step, without other checks and without guards. If `failing` is `None`, the whole
/// body is kept. The teardown is kept only if `in_teardown` is true and the failing step is not in the body. Returns
/// `None` if the failing step is neither in the body nor in the teardown that is kept.
pub fn shorten(plan: &Plan, failing: Option<u32>, in_teardown: bool) -> Option<Plan> {
    let mut short = plan.clone();
    if !in_teardown {
        short.teardown.clear();
    }
    if let Some(failing) = failing {
        let place = |steps: &[Step]| steps.iter().position(|step| contains_step(step, failing));
        if let Some(at) = place(&short.body) {
            short.body.truncate(at + 1);
            short.teardown.clear();
        } else {
            let at = place(&short.teardown)?;
            short.teardown.truncate(at + 1);
        }
    }
    short.verify.clear();
    for buffer in short.buffers.values_mut() {
        buffer.guarded = false;
    }
    let is_other_check = |step: &Step| {
        let looks = step.call.is_check() || matches!(step.call, Call::Guards { .. });
        looks && Some(step.id) != failing
    };
    let steps = calls(&short.body).into_iter().chain(calls(&short.teardown));
    let ids = steps.filter(|s| is_other_check(s)).map(|s| s.id).collect();
    without(&mut short, &ids);
    Some(short)
}

fn contains_step(step: &Step, id: u32) -> bool {
    step.id == id || block(&step.call).is_some_and(|body| body.iter().any(|s| contains_step(s, id)))
}

/// Drops steps from the set-up, the body and the teardown, and the buffers and kernels that no remaining step uses.
fn without(plan: &mut Plan, ids: &BTreeSet<u32>) {
    fn remove(steps: &mut Vec<Step>, ids: &BTreeSet<u32>) {
        steps.retain_mut(|step| {
            if ids.contains(&step.id) {
                return false;
            }
            match block_mut(&mut step.call) {
                Some(body) => {
                    remove(body, ids);
                    !body.is_empty()
                }
                None => true,
            }
        });
    }
    remove(&mut plan.setup, ids);
    remove(&mut plan.body, ids);
    remove(&mut plan.teardown, ids);
    let steps: Vec<Step> = plan.steps().into_iter().cloned().collect();
    let used: BTreeSet<_> = steps.iter().flat_map(|s| named_objects(&s.call)).collect();
    plan.kernels.retain(|name, _| used.contains(&(ObjectKind::Kernel, name)));
    plan.buffers.retain(|name, _| used.contains(&(ObjectKind::Buffer, name)));
}

/// Applies one edit to a plan.
pub fn apply_shorten_edit(plan: &mut Plan, edit: &ShortenEdit) {
    match edit {
        ShortenEdit::Drop(steps) => without(plan, &steps.iter().copied().collect()),
        ShortenEdit::EmptyKernels => {
            for (name, source) in &mut plan.kernels {
                *source = format!("extern \"C\" __global__ void {name}() {{}}");
            }
            plan.own_kernels.values_mut().for_each(|own| own.code = None);
            empty_launches(&mut plan.setup);
            empty_launches(&mut plan.body);
        }
    }
}

fn empty_launches(steps: &mut [Step]) {
    for step in steps {
        if let Call::Launch { grid, block, args, .. } = step.call.work_mut() {
            (*grid, *block) = ([1; 3], [1; 3]);
            args.clear();
        }
        if let Some(body) = step.call.body_mut() {
            empty_launches(body);
        }
    }
}

/// Returns the edits to try: empty kernels, then all steps that name one object, then single steps.
pub fn shorten_edits(plan: &Plan, failing: Option<u32>) -> EditTree<ShortenEdit> {
    let all = all_calls(plan);
    let drop = |steps: Vec<u32>| EditTree::Edit(vec![ShortenEdit::Drop(steps)]);
    let named: BTreeSet<_> = all.iter().flat_map(|s| named_objects(&s.call)).collect();
    let with = |thing: &(ObjectKind, &str)| {
        let ids = all.iter().filter(|s| named_objects(&s.call).contains(thing));
        ids.map(|s| s.id).collect::<Vec<u32>>()
    };
    let mut together: Vec<Vec<u32>> = named.iter().map(with).collect();
    together.retain(|ids| !failing.is_some_and(|id| ids.contains(&id)));
    let together = together.into_iter().map(drop).collect();
    let singles = all.iter().filter(|s| Some(s.id) != failing).map(|s| drop(vec![s.id]));
    let mut trees = vec![EditTree::Halves(together), EditTree::Halves(singles.collect())];
    if !plan.kernels.is_empty() {
        trees.insert(0, EditTree::Edit(vec![ShortenEdit::EmptyKernels]));
    }
    EditTree::Each(trees)
}

/// Returns the calls of the set-up, the body and the teardown.
fn all_calls(plan: &Plan) -> Vec<&Step> {
    [&plan.setup, &plan.body, &plan.teardown].into_iter().flat_map(|steps| calls(steps)).collect()
}

/// Returns the objects that a call names, including those that an added graph node names. The null stream is left out.
fn named_objects(call: &Call) -> Vec<(ObjectKind, &str)> {
    let named = call.all_named().into_iter().map(|n| (n.kind, n.name));
    named.filter(|thing| *thing != (ObjectKind::Stream, plan::DEFAULT_STREAM)).collect()
}

/// Returns a message about the first object that a step uses before any step has created it; `None` if every object is
/// created first.
pub fn used_before_creation(plan: &Plan) -> Option<String> {
    let mut made: BTreeSet<(ObjectKind, &str)> = BTreeSet::new();
    for step in all_calls(plan) {
        let makes = step.call.named().into_iter().filter(|n| n.role == ObjectUse::Created);
        made.extend(makes.map(|n| (n.kind, n.name)));
        if let Some((_, name)) =
            named_objects(&step.call).into_iter().find(|thing| !made.contains(thing))
        {
            return Some(format!("`{name}` is used before it is created"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use case::{Case, Kernels, lower};

    use super::*;

    fn plan(steps: &str) -> Plan {
        let text = format!(
            "title: t\nsource: [s]\nbuffers:\n  a: {{on: device, bytes: 64, fill: pattern}}\n  b: {{on: device, bytes: 64}}\n\
             steps:\n{steps}faults: [copy.zero]\n"
        );
        let case = Case::parse("c/t", &text).expect("a case");
        let trial = case.trials().swap_remove(0);
        let fill = "__global__ void fill_u32(unsigned* to, unsigned long n, unsigned value) {}";
        let kernels = Kernels::from([("fill_u32".to_owned(), fill.to_owned())]);
        lower(&case, &trial, &kernels, &[]).expect("it lowers").plan
    }

    #[test]
    fn shortening_drops_later_steps_and_checks() {
        let plan = plan(
            "  - copy: {to: b, from: a, stream: s}\n  - sync: s\n  - check: b\n  - sync: device\n",
        );
        let failing = plan.body.iter().find(|s| matches!(s.call, Call::StreamSynchronize { .. }));
        let failing = failing.expect("a sync").id;
        let short = shorten(&plan, Some(failing), false).expect("in the body");
        assert_eq!(short.body.len(), 2, "{:?}", short.body);
        assert!(short.teardown.is_empty() && short.verify.is_empty());
        assert!(short.buffers.values().all(|b| !b.guarded));
        assert_eq!(used_before_creation(&short), None);
        assert!(super::shorten(&plan, Some(u32::MAX), true).is_none());
    }

    #[test]
    fn keeps_the_teardown_up_to_a_failure_in_it() {
        let plan = plan("  - copy: {to: b, from: a, stream: s}\n  - sync: s\n  - check: b\n");
        let failing = plan.teardown.get(1).expect("two steps").id;
        assert!(shorten(&plan, Some(failing), false).is_none());
        let mut short = shorten(&plan, Some(failing), true).expect("in the teardown");
        assert_eq!(short.teardown, plan.teardown[..2]);
        assert!(calls(&short.body).iter().all(|step| !step.call.is_check()), "{:?}", short.body);
        assert_eq!(shorten(&plan, None, true).map(|short| short.teardown), Some(plan.teardown));
        let other = short.teardown[0].id;
        apply_shorten_edit(&mut short, &ShortenEdit::Drop(vec![other]));
        assert_eq!(short.teardown.iter().map(|step| step.id).collect::<Vec<_>>(), [failing]);
    }

    #[test]
    fn empty_kernels_take_no_arguments() {
        let mut plan = plan("  - launch: {kernel: fill_u32, args: [a, 16, 1], stream: s}\n");
        let EditTree::Each(trees) = shorten_edits(&plan, None) else { panic!("in turn") };
        assert_eq!(trees[0], EditTree::Edit(vec![ShortenEdit::EmptyKernels]));
        apply_shorten_edit(&mut plan, &ShortenEdit::EmptyKernels);
        let launches: Vec<_> = plan
            .body
            .iter()
            .filter_map(|s| match &s.call {
                Call::Launch { args, grid, .. } => Some((args.len(), *grid)),
                _ => None,
            })
            .collect();
        assert_eq!(launches, [(0, [1; 3])]);
        assert!(plan.kernels["fill_u32"].ends_with("fill_u32() {}"), "{:?}", plan.kernels);
    }

    #[test]
    fn detects_use_before_creation() {
        let plan = plan("  - copy: {to: b, from: a, stream: s}\n  - sync: s\n");
        let id = |wanted: fn(&Call) -> bool| {
            BTreeSet::from([plan.setup.iter().find(|s| wanted(&s.call)).expect("a step").id])
        };
        let mut without_stream = plan.clone();
        without(&mut without_stream, &id(|c| matches!(c, Call::StreamCreate { .. })));
        assert_eq!(
            used_before_creation(&without_stream).as_deref(),
            Some("`s` is used before it is created")
        );
        let mut without_buffer = plan.clone();
        without(&mut without_buffer, &id(|c| matches!(c, Call::Alloc { .. })));
        assert!(used_before_creation(&without_buffer).is_some());
    }
}
