//! Race detection in memory: how the waves of a workgroup synchronise with each other at barriers and through the LDS.

use std::sync::Arc;

use super::{Clock, Entry, MemoryRaceDetector, Time, WaveOrder};

impl MemoryRaceDetector {
    /// Records a barrier, at which each wave of the workgroup acquires from all others. `outstanding` contains, for
    /// each wave, the first of its writes that may not have reached memory.
    pub(crate) fn meet(
        &mut self,
        workers: &mut [WaveOrder],
        outstanding: impl Iterator<Item = Option<Time>>,
    ) {
        let now = self.now();
        let not_come: Arc<[Time]> = match self.apart {
            true => outstanding.map(|first| first.unwrap_or(Time::MAX)).collect(),
            false => Arc::default(),
        };
        workers.iter_mut().for_each(|worker| self.renew(worker));
        let (mut known, mut heard) = (Arc::default(), Arc::default());
        for worker in workers.iter() {
            known = self.join(&known, &worker.known);
            heard = self.join(&heard, &worker.heard);
        }
        let stale = workers.iter().fold(0, |all, worker| all | worker.stale);
        for worker in workers {
            (worker.known, worker.heard) = (known.clone(), heard.clone());
            (worker.met, worker.stale) = (now, stale);
            worker.not_come = not_come.clone();
        }
    }

    /// Records that the wave with this index acquired through the LDS. `others` contains two values for each wave of
    /// the workgroup: the time up to which its accesses are now ordered, and the first of its writes that may not have
    /// reached memory.
    pub(crate) fn record_acquire(
        &mut self,
        workers: &mut [WaveOrder],
        index: usize,
        others: impl Iterator<Item = (Time, Option<Time>)>,
    ) {
        workers.iter_mut().for_each(|worker| self.renew(worker));
        let WaveOrder { number, met, .. } = workers[index];
        let [mut known, mut heard] = [&workers[index].known, &workers[index].heard].map(Arc::clone);
        let (mut stale, mut entries) = (workers[index].stale, Vec::new());
        for (other, (made, outstanding)) in workers.iter().zip(others) {
            // The wave has not acquired from this other wave since the last barrier.
            if other.number == number || made == 0 {
                continue;
            }
            let before = heard.entry(other.number).map_or(0, |entry| entry.made);
            if made > met.max(before) {
                let first = outstanding.filter(|_| self.apart).unwrap_or(Time::MAX);
                entries.push(Entry { wave: other.number, made, come: made.min(first - 1) });
            }
            // The other wave may have acquired clocks and invalidated caches. The wave acquires these clocks too, even
            // if the other wave has not accessed memory since.
            known = self.join(&known, &other.known);
            heard = self.join(&heard, &other.heard);
            stale |= other.stale;
        }
        if !entries.is_empty() {
            heard = self.join(&heard, &Arc::new(Clock::new(entries)));
        }
        let worker = &mut workers[index];
        (worker.known, worker.heard, worker.stale) = (known, heard, stale);
    }
}
