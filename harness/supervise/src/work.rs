//! Describes how much a child has used the processor. The difference between two of these measurements shows if a child
//! that prints nothing still works or hangs.

use std::{collections::BTreeMap, time::Duration};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProcessorUse {
    pub(crate) cpu: Duration,
    /// Time that each thread waited on a run queue, by thread id.
    pub(crate) queued: BTreeMap<String, Duration>,
    /// Number of memory pages that were read from a disk.
    pub(crate) pages: u64,
    /// Work of a program and its descendants by thread; `None` for a child whose processor time counts as a whole.
    pub(crate) activity: Option<Activity>,
}

impl ProcessorUse {
    /// Returns the longest time since `before` that one thread waited for a processor.
    pub(crate) fn waited(&self, before: &ProcessorUse) -> Duration {
        let since = |(thread, queued): (&String, &Duration)| {
            queued.saturating_sub(before.queued.get(thread).copied().unwrap_or_default())
        };
        self.queued.iter().map(since).max().unwrap_or_default()
    }
}

/// Processor time of the threads of a program and its descendants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Activity {
    /// Processor time of each thread whose name begins with [`Limits::progress`](crate::Limits::progress), by thread
    /// id.
    pub(crate) progress: BTreeMap<String, Duration>,
    /// Processor time in user mode of each other thread, and its processor time in system calls.
    pub(crate) others: BTreeMap<String, (Duration, Duration)>,
}

impl Activity {
    /// Returns how much processor time the threads in `progress` have used since `before`.
    pub(crate) fn progressed(&self, before: &Activity) -> Duration {
        let since = |(thread, time): (&String, &Duration)| {
            time.saturating_sub(before.progress.get(thread).copied().unwrap_or_default())
        };
        self.progress.iter().map(since).sum()
    }

    /// Returns how much processor time the threads in `others` have used since `before`: in user mode, and in system
    /// calls.
    pub(crate) fn computed(&self, before: &Activity) -> (Duration, Duration) {
        let since = |(thread, (user, system)): (&String, &(Duration, Duration))| {
            let (user_before, system_before) =
                before.others.get(thread).copied().unwrap_or_default();
            (user.saturating_sub(user_before), system.saturating_sub(system_before))
        };
        let add = |a: (Duration, Duration), b: (Duration, Duration)| (a.0 + b.0, a.1 + b.1);
        self.others.iter().map(since).fold(Default::default(), add)
    }
}
