//! What a program about one failure can do without: everything after the failing step, all other checks, guards, and the end
//! of the process. Unlike the edits of `reduce`, the result is no case any more: its set-up is free to go as well.

use std::collections::BTreeSet;

use plan::{Call, Plan, Step};

use search::reduce::Tree;

use crate::uses::{block, block_mut, buffers, calls, objects};

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
    let used: Vec<Step> = plan.steps().into_iter().cloned().collect();
    let launches = |name: &str| {
        used.iter().any(|s| {
            matches!(s.call.work(), Call::Launch { kernel, .. } | Call::Compile { kernel } | Call::FindSymbol { kernel, .. } if kernel == name)
        })
    };
    plan.kernels.retain(|name, _| launches(name));
    plan.buffers.retain(|name, _| used.iter().any(|s| buffers(&s.call).contains(&name.as_str())));
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
        match step.call.work_mut() {
            Call::Launch { grid, block, args, .. } => {
                (*grid, *block) = ([1; 3], [1; 3]);
                args.clear();
            }
            call => {
                if let Some(body) = block_mut(call) {
                    empty_launches(body);
                }
            }
        }
    }
}

/// What may go: what kernels do, all steps that name one thing at once, then single steps.
pub fn leaner(plan: &Plan, failing: Option<u32>) -> Tree<Leaner> {
    let all: Vec<&Step> = calls(&plan.setup).into_iter().chain(calls(&plan.body)).collect();
    let drop = |steps: Vec<u32>| Tree::Edit(vec![Leaner::Drop(steps)]);
    let mut things: Vec<Vec<u32>> = Vec::new();
    for name in plan.buffers.keys() {
        let ids = all.iter().filter(|s| buffers(&s.call).contains(&name.as_str()));
        things.push(ids.map(|s| s.id).collect());
    }
    for name in plan.streams.keys() {
        let ids = all.iter().filter(|s| s.call.stream() == Some(name));
        things.push(ids.map(|s| s.id).collect());
    }
    for name in plan.kernels.keys() {
        let ids = all.iter().filter(|s| kernel(&s.call) == Some(name));
        things.push(ids.map(|s| s.id).collect());
    }
    let named: BTreeSet<_> = all.iter().flat_map(|s| objects(&s.call)).collect();
    for object in named {
        let ids = all.iter().filter(|s| objects(&s.call).contains(&object));
        things.push(ids.map(|s| s.id).collect());
    }
    things.retain(|ids| !ids.is_empty() && !failing.is_some_and(|id| ids.contains(&id)));
    let things = things.into_iter().map(drop).collect();
    let singles = all.iter().filter(|s| Some(s.id) != failing).map(|s| drop(vec![s.id]));
    let mut trees = vec![Tree::Halves(things), Tree::Halves(singles.collect())];
    if !plan.kernels.is_empty() {
        trees.insert(0, Tree::Edit(vec![Leaner::EmptyKernels]));
    }
    Tree::Each(trees)
}

fn kernel(call: &Call) -> Option<&String> {
    match call.work() {
        Call::Compile { kernel }
        | Call::Load { kernel }
        | Call::Launch { kernel, .. }
        | Call::FindSymbol { kernel, .. } => Some(kernel),
        _ => None,
    }
}

/// What is used before it is made, in words; none where everything is made first.
pub fn unmade(plan: &Plan) -> Option<String> {
    let mut made: BTreeSet<(u8, &str)> = BTreeSet::new();
    for step in calls(&plan.setup).into_iter().chain(calls(&plan.body)) {
        let makes = maker(&step.call);
        made.extend(makes);
        let buffers = buffers(&step.call).into_iter().map(|name| (BUFFER, name));
        let streams =
            step.call.stream().filter(|name| *name != plan::DEFAULT_STREAM).map(|n| (STREAM, n));
        let objects = objects(&step.call).into_iter().map(|(kind, name)| (kind as u8, name));
        let kernels = kernel(&step.call).map(|name| (KERNEL, name.as_str()));
        let mut used = buffers.chain(streams).chain(objects).chain(kernels);
        if let Some((_, name)) = used.find(|thing| !made.contains(thing)) {
            return Some(format!("`{name}` is used before it is made"));
        }
    }
    None
}

const BUFFER: u8 = u8::MAX;
const STREAM: u8 = u8::MAX - 1;
const KERNEL: u8 = u8::MAX - 2;

/// What a call makes.
fn maker(call: &Call) -> Option<(u8, &str)> {
    match call {
        Call::Alloc { buffer, .. } => Some((BUFFER, buffer)),
        Call::StreamCreate { stream } => Some((STREAM, stream)),
        Call::Load { kernel } => Some((KERNEL, kernel)),
        Call::Compile { kernel } => Some((KERNEL, kernel)),
        Call::EventCreate { .. }
        | Call::EndCapture { .. }
        | Call::EmptyGraph { .. }
        | Call::GraphInstantiate { .. }
        | Call::RandCreate { .. }
        | Call::BlasltCreate { .. }
        | Call::RocblasCreate { .. } => {
            objects(call).first().map(|(kind, name)| (*kind as u8, *name))
        }
        _ => None,
    }
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
