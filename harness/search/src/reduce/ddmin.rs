//! Plain delta debugging, with which this crate's search is compared.

use std::collections::{HashMap, HashSet};

use super::{EditResult, SearchSpace};

/// Cost of a reduction by plain delta debugging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DdminStats {
    /// Number of runs of well-formed candidates.
    pub runs: u32,
    /// Number of tried subsets that are not well-formed. Plain delta debugging has no static checks, so it would run
    /// such subsets too.
    pub unresolved: u32,
}

/// Runs the algorithm `ddmin` (Zeller and Hildebrandt, IEEE TSE 28, 2002) on `start`. The elements are the strongest
/// edits; an element is kept if its edit is not applied. `fails` receives a candidate and its key, and returns true if
/// the candidate fails. Returns the smallest candidate that failed, and the cost of the reduction.
///
/// The outcome of each candidate is cached, and a single run is trusted, so this works only for failures that occur in
/// every run.
pub fn ddmin<S: SearchSpace>(
    space: &S,
    start: &S::Candidate,
    fails: &mut dyn FnMut(&S::Candidate, &str) -> bool,
) -> (S::Candidate, DdminStats) {
    let tree = space.edits(start);
    let edits: Vec<S::Edit> =
        tree.leaves().into_iter().filter_map(|l| l.first().cloned()).collect();
    let mut tests = DdminStats::default();
    let mut cache = HashMap::new();
    let mut refused = HashSet::new();
    let mut made = |kept: &[usize]| {
        let applied: Vec<_> =
            (0..edits.len()).filter(|i| !kept.contains(i)).map(|i| edits[i].clone()).collect();
        let candidate = match space.apply(start, &applied) {
            EditResult::Candidate(candidate) => candidate,
            EditResult::Unchanged => start.clone(),
            EditResult::IllFormed(_) => {
                tests.unresolved += u32::from(refused.insert(kept.to_vec()));
                return None;
            }
        };
        let key = space.key(&candidate);
        let same = *cache.entry(key.clone()).or_insert_with(|| {
            tests.runs += 1;
            fails(&candidate, &key)
        });
        same.then_some(candidate)
    };
    let mut best = start.clone();
    let mut kept: Vec<usize> = (0..edits.len()).collect();
    let mut parts = 2;
    while kept.len() >= 2 {
        let size = kept.len().div_ceil(parts);
        let chunks: Vec<Vec<usize>> = kept.chunks(size).map(<[usize]>::to_vec).collect();
        let subset = chunks.iter().find_map(|chunk| Some((chunk.clone(), made(chunk)?)));
        if let Some((chunk, candidate)) = subset {
            (kept, best, parts) = (chunk, candidate, 2);
            continue;
        }
        let complement = chunks.iter().find_map(|chunk| {
            let rest: Vec<_> = kept.iter().copied().filter(|i| !chunk.contains(i)).collect();
            let candidate = made(&rest)?;
            Some((rest, candidate))
        });
        if let Some((rest, candidate)) = complement {
            (kept, best, parts) = (rest, candidate, (parts - 1).max(2));
        } else if parts < kept.len() {
            parts = (2 * parts).min(kept.len());
        } else {
            break;
        }
    }
    (best, tests)
}
