//! The interface through which a session runs trials. Tests replace it.

use std::fmt::Debug;

use report::Record;
use supervise::{Cancel, Limits};

use super::Session;
use crate::{Job, slots::Slot};

/// A runner of trials. A session that has none starts a worker process for each trial.
pub trait TrialRunner: Debug + Send + Sync {
    /// Executes and judges the trial. Returns `None` if the run was cancelled.
    fn run(
        &self,
        session: &Session,
        job: &Job<'_>,
        limits: &Limits,
        slot: Option<&Slot>,
        cancel: &Cancel,
    ) -> Option<Record>;
}
