//! Dataflow analysis that finds the memory operations that may be outstanding when a wave reaches a point of its code.
//!
//! A wave counts its outstanding operations with several counters. The analysis assumes that the operations of a
//! counter complete in the order in which the wave issued them. A wait for at most `n` outstanding operations then
//! completes an operation if the wave has issued `n` later ones. Some operations complete in another order. In this
//! case, more operations may be outstanding than the analysis finds.

use std::collections::{BTreeMap, BTreeSet};

/// Number of counters.
pub(crate) const COUNTERS: usize = 3;

/// Maximum value of a counter. Hardware delays an instruction that would exceed it.
const CAPACITY: u8 = 63;

/// An event in the code: a change of the outstanding operations, or a point at which the analysis reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The wave issues an operation, which increments `counter`. `operation` identifies the operation in the result;
    /// `None` if the analysis need not report it.
    Issue { counter: usize, operation: Option<u32> },
    /// The wave waits until at most `left` operations of the counter are outstanding.
    Wait { counter: usize, left: u8 },
    /// A call, after which it is unknown which operations are outstanding. The analysis assumes that all are complete.
    Forget,
    /// A point in the code, with its number. The analysis reports which operations are outstanding there.
    Point(u32),
}

/// Events that occur one after another, and the blocks that may be executed next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) steps: Vec<Step>,
    pub(crate) next: Vec<usize>,
}

/// For each counter, the operations that may be outstanding, in ascending order. Each entry identifies an operation and
/// contains how many operations the wave has issued after it: the minimum over all paths.
type State = [Vec<(u32, u8)>; COUNTERS];

/// Returns the operations that are outstanding at each point on at least one path from the first block. The analysis
/// uses only edges for which `follows` returns true.
pub(crate) fn outstanding(
    blocks: &[Block],
    follows: impl Fn(usize, usize) -> bool,
) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut entries: Vec<Option<State>> = vec![None; blocks.len()];
    let mut points: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    if let Some(first) = entries.first_mut() {
        *first = Some(State::default());
    }
    let mut changed: BTreeSet<usize> = (0..blocks.len().min(1)).collect();
    while let Some(at) = changed.pop_first() {
        let Some(mut state) = entries[at].clone() else { continue };
        for step in &blocks[at].steps {
            execute(*step, &mut state, &mut points);
        }
        for &next in blocks[at].next.iter().filter(|next| follows(at, **next)) {
            let is_new = match &mut entries[next] {
                Some(known) => join(known, &state),
                unknown => {
                    *unknown = Some(state.clone());
                    true
                }
            };
            if is_new {
                changed.insert(next);
            }
        }
    }
    points
}

/// Updates `state` for a step. If the step is a point, adds the outstanding operations to `points`. States only grow
/// during the analysis, so an operation that has been added to a point stays correct.
fn execute(step: Step, state: &mut State, points: &mut BTreeMap<u32, BTreeSet<u32>>) {
    match step {
        Step::Issue { counter, operation } => {
            let pending = &mut state[counter];
            pending.iter_mut().for_each(|(_, later)| *later += 1);
            pending.retain(|(known, later)| *later < CAPACITY && Some(*known) != operation);
            if let Some(operation) = operation {
                let at = pending.partition_point(|(known, _)| *known < operation);
                pending.insert(at, (operation, 0));
            }
        }
        Step::Wait { counter, left } => state[counter].retain(|(_, later)| *later < left),
        Step::Forget => *state = State::default(),
        Step::Point(point) => {
            let pending = state.iter().flatten().map(|(operation, _)| *operation);
            points.entry(point).or_default().extend(pending);
        }
    }
}

/// Adds the operations of `other` to `known`, for a block that two paths reach. Returns true if `known` has changed.
fn join(known: &mut State, other: &State) -> bool {
    let mut changed = false;
    for (known, other) in known.iter_mut().zip(other) {
        for (operation, later) in other {
            match known.binary_search_by_key(operation, |(operation, _)| *operation) {
                Ok(at) if known[at].1 <= *later => continue,
                Ok(at) => known[at].1 = *later,
                Err(at) => known.insert(at, (*operation, *later)),
            }
            changed = true;
        }
    }
    changed
}

/// Returns the back edges of loops. These are edges to a block on the current path of a depth-first search.
pub(crate) fn back_edges(blocks: &[Block]) -> BTreeSet<(usize, usize)> {
    let (mut found, mut seen) = (BTreeSet::new(), vec![false; blocks.len()]);
    let mut on_path = vec![false; blocks.len()];
    let mut path: Vec<(usize, usize)> = (0..blocks.len().min(1)).map(|first| (first, 0)).collect();
    while let Some((at, index)) = path.last_mut() {
        let at = *at;
        (seen[at], on_path[at]) = (true, true);
        let Some(&next) = blocks[at].next.get(*index) else {
            on_path[at] = false;
            path.pop();
            continue;
        };
        *index += 1;
        if on_path[next] {
            found.insert((at, next));
        } else if !seen[next] {
            path.push((next, 0));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generates pseudo-random numbers.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = device::mix(self.0 + 1);
            (self.0 >> 8) as usize % limit
        }
    }

    /// Returns a graph of at most five blocks with at most three steps each.
    fn graph(draw: &mut Draw) -> Vec<Block> {
        let count = 1 + draw.below(5);
        let step = |id: u32, draw: &mut Draw| {
            let counter = usize::from(draw.below(4) == 0);
            match draw.below(8) {
                0..3 => Step::Issue { counter, operation: Some(id) },
                3 => Step::Issue { counter, operation: None },
                4 | 5 => Step::Wait { counter, left: draw.below(3) as u8 },
                6 if draw.below(4) == 0 => Step::Forget,
                _ => Step::Point(id),
            }
        };
        let mut blocks = Vec::new();
        for number in 0..count {
            let steps = (0..draw.below(4)).map(|at| step((4 * number + at) as u32, draw)).collect();
            let next = (0..draw.below(3)).map(|_| draw.below(count)).collect();
            blocks.push(Block { steps, next });
        }
        blocks
    }

    /// Follows all paths of at most `blocks_left` blocks. The queues contain the outstanding operations of a real wave,
    /// from the oldest to the newest.
    fn walk(
        blocks: &[Block],
        at: usize,
        mut queues: [Vec<Option<u32>>; COUNTERS],
        blocks_left: usize,
        points: &mut BTreeMap<u32, BTreeSet<u32>>,
    ) {
        for step in &blocks[at].steps {
            match *step {
                Step::Issue { counter, operation } => queues[counter].push(operation),
                Step::Wait { counter, left } => {
                    let done = queues[counter].len().saturating_sub(usize::from(left));
                    queues[counter].drain(..done);
                }
                Step::Forget => queues = Default::default(),
                Step::Point(point) => {
                    let pending = queues.iter().flatten().flatten().copied();
                    points.entry(point).or_default().extend(pending);
                }
            }
        }
        if blocks_left > 1 {
            for next in &blocks[at].next {
                walk(blocks, *next, queues.clone(), blocks_left - 1, points);
            }
        }
    }

    #[test]
    fn the_fixed_point_equals_a_walk_over_all_paths() {
        let mut draw = Draw(1);
        let (mut pending, mut waited) = (0, 0);
        for _ in 0..10_000 {
            let blocks = graph(&mut draw);
            let mut walked = BTreeMap::new();
            // If an operation is outstanding at a point, there is a path to this point that passes each block at most
            // once before the operation's block and at most once after it.
            walk(&blocks, 0, Default::default(), 2 * blocks.len() + 1, &mut walked);
            let found = outstanding(&blocks, |_, _| true);
            assert_eq!(found, walked, "{blocks:?}");
            pending += found.values().filter(|operations| !operations.is_empty()).count();
            waited += found.values().filter(|operations| operations.is_empty()).count();
        }
        assert!(pending > 500 && waited > 500, "{pending} {waited}");
    }

    #[test]
    fn the_path_with_the_fewest_later_operations_counts() {
        let issue = |operation| Step::Issue { counter: 0, operation };
        // There are two paths from the first block to the last one. Only the first path issues a later operation.
        let mut blocks = vec![
            Block { steps: vec![issue(Some(7))], next: vec![1, 2] },
            Block { steps: vec![issue(None)], next: vec![3] },
            Block { steps: vec![], next: vec![3] },
            Block { steps: vec![Step::Wait { counter: 0, left: 1 }, Step::Point(1)], next: vec![] },
        ];
        assert_eq!(outstanding(&blocks, |_, _| true)[&1], BTreeSet::from([7]));
        blocks[2].steps.push(issue(None));
        assert_eq!(outstanding(&blocks, |_, _| true)[&1], BTreeSet::new());
    }

    #[test]
    fn without_back_edges_no_path_visits_a_block_twice() {
        let mut draw = Draw(2);
        let mut loops = 0;
        for _ in 0..3000 {
            let blocks = graph(&mut draw);
            let back = back_edges(&blocks);
            let mut straight = blocks.clone();
            for (at, block) in straight.iter_mut().enumerate() {
                block.next.retain(|next| !back.contains(&(at, *next)));
            }
            assert!(back_edges(&straight).is_empty(), "{blocks:?}");
            let followed = outstanding(&blocks, |at, next| !back.contains(&(at, next)));
            assert_eq!(followed, outstanding(&straight, |_, _| true), "{blocks:?}");
            loops += usize::from(!back.is_empty());
        }
        assert!(loops > 500, "{loops}");
    }

    #[test]
    fn stores_in_the_tail_of_a_loop_are_outstanding_at_the_barrier_at_its_head() {
        let store = Step::Issue { counter: 0, operation: Some(7) };
        let wait = Step::Wait { counter: 0, left: 0 };
        let a_loop = |steps: &[Step]| {
            vec![
                Block { steps: vec![], next: vec![1] },
                Block { steps: steps.to_vec(), next: vec![1, 2] },
                Block::default(),
            ]
        };
        let check = |steps: &[Step], expected: &[u32], straight: &[u32]| {
            let blocks = a_loop(steps);
            let back = back_edges(&blocks);
            assert_eq!(back, BTreeSet::from([(1, 1)]));
            let all = outstanding(&blocks, |_, _| true);
            assert_eq!(all[&1], expected.iter().copied().collect(), "{steps:?}");
            let forward = outstanding(&blocks, |at, next| !back.contains(&(at, next)));
            assert_eq!(forward[&1], straight.iter().copied().collect(), "{steps:?}");
        };
        check(&[Step::Point(1), store], &[7], &[]);
        check(&[wait, Step::Point(1), store], &[], &[]);
        check(&[Step::Point(1), store, wait], &[], &[]);
        check(&[store, Step::Point(1)], &[7], &[7]);
        check(&[store, Step::Forget, Step::Point(1)], &[], &[]);
    }
}
