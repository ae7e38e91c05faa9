//! Recognises failures of different cases that are one bug.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bugs, Failure};

impl Bugs {
    /// Returns each trial with each of its failures. A trial is given by its name and the digest of its plan or
    /// program.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&(String, String), &Failure)> {
        self.trials.iter().flat_map(move |(trial, results)| {
            let case = trial.0.split('[').next().unwrap_or_default();
            let signatures: BTreeSet<&String> =
                results.values().flat_map(|results| results.failed.keys()).collect();
            let failure = move |signature: &String| {
                Some(self.known.get_key_value(&(case.to_owned(), signature.clone()))?.0)
            };
            signatures.into_iter().filter_map(failure).map(move |failure| (trial, failure))
        })
    }

    /// Returns a map from each failure to the failure under which it is listed. Failures with the same signature are
    /// one bug if their trials run the same plan or program. They are listed under the one that occurred first.
    pub(super) fn same_bugs(&self) -> BTreeMap<&Failure, &Failure> {
        let mut same: BTreeMap<(&str, &str), Vec<&Failure>> = BTreeMap::new();
        for (trial, failure) in self.failures() {
            if let Some(digest) = self.unnamed.get(trial) {
                same.entry((digest, &failure.1)).or_default().push(failure);
            }
        }
        let mut listed_as: BTreeMap<&Failure, &Failure> =
            self.known.keys().map(|failure| (failure, failure)).collect();
        // A case can share plans with several others, so this is repeated until nothing changes.
        loop {
            let mut changed = false;
            for group in same.values() {
                let listed = group.iter().filter_map(|failure| listed_as.get(failure).copied());
                let Some(first) = listed.min_by_key(|failure| (self.first_seen(failure), *failure))
                else {
                    continue;
                };
                for failure in group {
                    changed |= listed_as.insert(failure, first) != Some(first);
                }
            }
            if !changed {
                return listed_as;
            }
        }
    }

    /// Returns the date of the first occurrence of a failure.
    fn first_seen(&self, failure: &Failure) -> Option<&str> {
        self.known.get(failure).map(|about| about.first.as_str())
    }
}
