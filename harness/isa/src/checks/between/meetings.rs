//! Synchronisation by global wave sync. A wave that arrives at a resource releases, as with an atomic. When the
//! resource has let the wave pass, the wave acquires as soon as it waits for the counter of the instruction.

use std::sync::Arc;

use super::{Access, Clock, Event, MemoryRaceDetector, Time, WaveOrder};
use crate::{
    checks::{access::Kind, scope::Scope, scoreboard::Origin},
    sync::SyncEffect,
};

#[derive(Default)]
pub(super) struct SyncResource {
    /// Vector clock with everything that waves released when they arrived at the resource.
    gathered: Arc<Clock>,
    /// Value of `gathered` when the resource last opened. Waves that pass the resource acquire this clock.
    opened: Arc<Clock>,
}

impl MemoryRaceDetector {
    /// Records a global-wave-sync instruction that has run.
    pub(crate) fn syncs(
        &mut self,
        worker: &mut WaveOrder,
        origin: &Origin,
        synced: &SyncEffect,
        outstanding: Option<Time>,
    ) {
        self.drop_large_state();
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
            self.append_released_entries(now, &mut entries);
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

    /// Records that the wave has waited for the counter of its global-wave-sync instruction, so that the wave acquires.
    pub(crate) fn passes(&mut self, worker: &mut WaveOrder) {
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
