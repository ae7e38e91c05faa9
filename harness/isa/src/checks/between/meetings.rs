//! Synchronisation by global wave sync. A wave that arrives at a resource releases like an atomic. A wave that was let
//! through acquires once it has waited for the instruction.

use std::sync::Arc;

use super::{Access, Between, Clock, Event, Time, Worker};
use crate::{
    checks::{access::Kind, scope::Scope, scoreboard::Origin},
    sync::Synced,
};

/// A resource of global wave sync.
#[derive(Default)]
pub(super) struct Meeting {
    /// Clock released by the waves that arrived.
    gathered: Arc<Clock>,
    /// Clock that a wave acquires when it is let through: the value of `gathered` when the resource opened.
    opened: Arc<Clock>,
}

impl Between {
    /// Records an executed instruction of global wave sync.
    pub(crate) fn syncs(
        &mut self,
        worker: &mut Worker,
        origin: &Origin,
        synced: &Synced,
        outstanding: Option<Time>,
    ) {
        self.forget_all_where_there_is_much();
        self.renew(worker);
        if synced.lets_go {
            let scope = &Scope::NOTHING;
            let access =
                Access { origin, kind: Kind::Atomic, scope, returns: synced.hears, outstanding };
            let now = self.events.len() as Time;
            let site = self.site(&access);
            let point = self.point(worker, &access, now);
            self.events.push(Event { wave: worker.number, site, point });
            let mut entries = Vec::new();
            self.let_go(now, &mut entries);
            let released = Arc::new(Clock::new(entries));
            self.entries += released.entries().len();
            let before = self.meetings.entry(synced.resource).or_default().gathered.clone();
            let gathered = self.join(&before, &released);
            self.meetings.entry(synced.resource).or_default().gathered = gathered;
        }
        let meeting = self.meetings.entry(synced.resource).or_default();
        if synced.opens {
            meeting.opened = meeting.gathered.clone();
        }
        if synced.hears {
            worker.comes_to = Some(synced.resource);
        }
    }

    /// Records that the wave has waited for the counter of global wave sync.
    pub(crate) fn passes(&mut self, worker: &mut Worker) {
        self.renew(worker);
        let Some(resource) = worker.comes_to.take() else { return };
        let Some(meeting) = self.meetings.get(&resource) else { return };
        let opened = meeting.opened.clone();
        let heard = self.join(&worker.heard, &opened);
        if !Arc::ptr_eq(&heard, &worker.heard) {
            (worker.heard, worker.stale) = (heard, self.caches);
        }
    }
}
