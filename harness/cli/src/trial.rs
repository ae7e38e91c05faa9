use std::{collections::hash_map::RandomState, hash::BuildHasher, path::Path};

use case::{Case, Lowered, Trial};
use device::{Place, Planted};
use judge::{Context, End, Limit, Observation, judge, verdict};
use plan::{Event, Order};
use supervise::{Cancel, Ended, Observed, Reason};

use crate::Session;

/// One trial to run once.
pub struct Job<'a> {
    /// Its case.
    pub case: &'a Case,
    /// The point of the matrix.
    pub trial: &'a Trial,
    /// Its calls and their right results.
    pub lowered: &'a Lowered,
    /// Planted faults; those at a call are already part of the plan.
    pub faults: &'a [Planted],
}

/// Runs one trial in a fresh process and judges it.
pub fn run_trial(session: &Session, job: &Job<'_>, cancel: &Cancel) -> report::Record {
    todo!()
}
