//! What a program about one failure can do without: everything after the failing step, all other checks, guards, and the end
//! of the process. Unlike the edits of `reduce`, the result is no case any more: its set-up is free to go as well.

use std::collections::BTreeSet;

use plan::{Call, NamedAs, Plan, Step, Thing};

use search::reduce::Tree;

use crate::uses::{block, block_mut, calls};

/// A change of a short program. Its result is no case: its kernels may be others than the library's.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaner {
    /// Leaves these steps out.
    Drop(Vec<u32>),
    /// Launches kernels that do nothing and take nothing.
    EmptyKernels,
}

/// The plan up to its failing step, without looks at anything else; none where the failure lies outside of the body.
pub fn lean(plan: &Plan, failing: Option<u32>) -> Option<Plan> {
    let mut lean = plan.clone();
    if let Some(failing) = failing {
        let at = lean.body.iter().position(|step| holds(step, failing))?;
        lean.body.truncate(at + 1);
    }
    lean.verify.clear();
    lean.teardown.clear();
    for buffer in lean.buffers.values_mut() {
        buffer.guarded = false;
    }
    let watches = |step: &Step| {
        let looks = matches!(
            step.call,
            Call::Check { .. } | Call::Guards { .. } | Call::Equal { .. } | Call::Differ { .. }
        );
        looks && Some(step.id) != failing
    };
    let ids = calls(&lean.body).into_iter().filter(|s| watches(s)).map(|s| s.id).collect();
    without(&mut lean, &ids);
    Some(lean)
}

fn holds(step: &Step, id: u32) -> bool {
    step.id == id || block(&step.call).is_some_and(|body| body.iter().any(|s| holds(s, id)))
}

/// Leaves steps out wherever they are, and what is declared for them alone.
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
    let steps: Vec<Step> = plan.steps().into_iter().cloned().collect();
    let used: BTreeSet<_> = steps.iter().flat_map(|s| things(&s.call)).collect();
    plan.kernels.retain(|name, _| used.contains(&(Thing::Kernel, name)));
    plan.buffers.retain(|name, _| used.contains(&(Thing::Buffer, name)));
}

/// Makes a plan leaner.
pub fn apply_leaner(plan: &mut Plan, edit: &Leaner) {
    match edit {
        Leaner::Drop(steps) => without(plan, &steps.iter().copied().collect()),
        Leaner::EmptyKernels => {
            for (name, source) in &mut plan.kernels {
                *source = format!("extern \"C\" __global__ void {name}() {{}}");
            }
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

/// What may go: what kernels do, all steps that name one thing at once, then single steps.
pub fn leaner(plan: &Plan, failing: Option<u32>) -> Tree<Leaner> {
    let all: Vec<&Step> = calls(&plan.setup).into_iter().chain(calls(&plan.body)).collect();
    let drop = |steps: Vec<u32>| Tree::Edit(vec![Leaner::Drop(steps)]);
    let named: BTreeSet<_> = all.iter().flat_map(|s| things(&s.call)).collect();
    let with = |thing: &(Thing, &str)| {
        let ids = all.iter().filter(|s| things(&s.call).contains(thing));
        ids.map(|s| s.id).collect::<Vec<u32>>()
    };
    let mut together: Vec<Vec<u32>> = named.iter().map(with).collect();
    together.retain(|ids| !failing.is_some_and(|id| ids.contains(&id)));
    let together = together.into_iter().map(drop).collect();
    let singles = all.iter().filter(|s| Some(s.id) != failing).map(|s| drop(vec![s.id]));
    let mut trees = vec![Tree::Halves(together), Tree::Halves(singles.collect())];
    if !plan.kernels.is_empty() {
        trees.insert(0, Tree::Edit(vec![Leaner::EmptyKernels]));
    }
    Tree::Each(trees)
}

/// What a call and a node that it adds name; the null stream is always there.
fn things(call: &Call) -> Vec<(Thing, &str)> {
    let named = call.all_named().into_iter().map(|n| (n.thing, n.name));
    named.filter(|thing| *thing != (Thing::Stream, plan::DEFAULT_STREAM)).collect()
}

/// What is used before it is made, in words; none where everything is made first.
pub fn unmade(plan: &Plan) -> Option<String> {
    let mut made: BTreeSet<(Thing, &str)> = BTreeSet::new();
    for step in calls(&plan.setup).into_iter().chain(calls(&plan.body)) {
        let makes = step.call.named().into_iter().filter(|n| n.role == NamedAs::Made);
        made.extend(makes.map(|n| (n.thing, n.name)));
        if let Some((_, name)) = things(&step.call).into_iter().find(|thing| !made.contains(thing))
        {
            return Some(format!("`{name}` is used before it is made"));
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
    fn what_follows_the_failure_and_watches_goes() {
        let plan = plan(
            "  - copy: {to: b, from: a, stream: s}\n  - sync: s\n  - check: b\n  - sync: device\n",
        );
        let failing = plan.body.iter().find(|s| matches!(s.call, Call::StreamSynchronize { .. }));
        let failing = failing.expect("a sync").id;
        let lean = lean(&plan, Some(failing)).expect("in the body");
        assert_eq!(lean.body.len(), 2, "{:?}", lean.body);
        assert!(lean.teardown.is_empty() && lean.verify.is_empty());
        assert!(lean.buffers.values().all(|b| !b.guarded));
        assert_eq!(unmade(&lean), None);
        assert!(super::lean(&plan, Some(u32::MAX)).is_none());
    }

    #[test]
    fn empty_kernels_need_no_buffers() {
        let mut plan = plan("  - launch: {kernel: fill_u32, args: [a, 16, 1], stream: s}\n");
        let Tree::Each(trees) = leaner(&plan, None) else { panic!("in turn") };
        assert_eq!(trees[0], Tree::Edit(vec![Leaner::EmptyKernels]));
        apply_leaner(&mut plan, &Leaner::EmptyKernels);
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
    fn what_is_used_must_be_made() {
        let plan = plan("  - copy: {to: b, from: a, stream: s}\n  - sync: s\n");
        let id = |wanted: fn(&Call) -> bool| {
            BTreeSet::from([plan.setup.iter().find(|s| wanted(&s.call)).expect("a step").id])
        };
        let mut without_stream = plan.clone();
        without(&mut without_stream, &id(|c| matches!(c, Call::StreamCreate { .. })));
        assert_eq!(unmade(&without_stream).as_deref(), Some("`s` is used before it is made"));
        let mut without_buffer = plan.clone();
        without(&mut without_buffer, &id(|c| matches!(c, Call::Alloc { .. })));
        assert!(unmade(&without_buffer).is_some());
    }
}
