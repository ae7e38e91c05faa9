//! The execution of trials, which tests replace.

use std::fmt::Debug;

use report::Record;
use supervise::{Cancel, Limits};

use super::Session;
use crate::{Job, slots::Slot};

/// Executes the plan of a trial once. Without one a session starts a worker process for each trial.
pub trait TrialRunner: Debug + Send + Sync {
    /// Executes the trial, on a GPU in its slot, and judges it. Returns none where the run was cancelled before the trial was over.
    fn run(
        &self,
        session: &Session,
        job: &Job<'_>,
        limits: &Limits,
        slot: Option<&Slot>,
        cancel: &Cancel,
    ) -> Option<Record>;
}
