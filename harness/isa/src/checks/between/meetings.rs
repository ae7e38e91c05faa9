//! What global wave sync orders: who comes to a resource lets go of what it did, as by an atomic, and who was let go and has
//! waited for that hears of it.

use std::sync::Arc;

use super::{Access, Between, Clock, Event, Time, Worker};
use crate::{
    checks::{access::Kind, scope::Scope, scoreboard::Origin},
    sync::Synced,
};

/// A resource of global wave sync.
#[derive(Default)]
pub(super) struct Meeting {
    /// What those who came to it have let go of.
    gathered: Arc<Clock>,
    /// Of that, what those hear who are let go.
    opened: Arc<Clock>,
}

impl Between {
    /// An instruction of global wave sync has run.
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

    /// The wave has waited for all that goes by the counter of global wave sync.
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
