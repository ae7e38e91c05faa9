//! Decides whether an earlier access is ordered before the current one.

use std::ops::Range;

use super::{Event, Kind, RaceReason, Site, Strength, SuspectedRace, Time, WaveOrder};

/// The current access, and the results of comparisons for those bytes that have already been checked.
pub(super) struct CheckedAccess<'a> {
    pub(super) now: Time,
    pub(super) site: u32,
    /// Numbers of the waves that belong to the workgroup of the current access.
    pub(super) own: Range<u32>,
    /// Time of the earlier access that was last found to be ordered before the current one. Adjacent bytes were mostly
    /// accessed by the same earlier instructions, so this saves most comparisons.
    pub(super) settled: Time,
    /// Time of a read that is known to be by the current wave; 0 means that there was no read.
    pub(super) mine: Time,
    /// Function that returns true if the instruction at a code address is the read of a spin loop.
    pub(super) waits: &'a dyn Fn(u64) -> bool,
}

pub(super) enum Order {
    Before,
    /// One of the two accesses is, or may be, a spin-loop read that waits for the other.
    Waits,
    Not(RaceReason),
}

pub(super) struct OrderCheck<'a> {
    pub(super) events: &'a [Event],
    pub(super) sites: &'a [Site],
    pub(super) visit: &'a CheckedAccess<'a>,
    pub(super) worker: &'a WaveOrder,
    pub(super) apart: bool,
}

impl OrderCheck<'_> {
    /// Returns the order of the access at time `then` and the current one. Accesses that cannot race are reported as
    /// ordered.
    pub(super) fn order(&self, then: Time) -> Order {
        let OrderCheck { events, sites, visit, worker, apart } = self;
        let event = events[then as usize];
        if then == 0 || event.wave == worker.number {
            return Order::Before;
        }
        let (before, site) = (&sites[event.site as usize], &sites[visit.site as usize]);
        let (is_own, is_read) = (self.is_own(then), before.kind == Kind::Load);
        // An earlier read needs no wait to be complete, and neither does an earlier access on the same compute unit.
        let comes = is_read || is_own && !apart;
        let is_plain_read = site.kind == Kind::Load && site.strength.to(is_own) == Strength::Plain;
        let (met, clock) = match is_plain_read {
            true if !is_own => (0, &worker.known),
            true if *apart => (worker.fresh, &worker.near),
            _ => (worker.met, &worker.heard),
        };
        let has_met = is_own && then <= met;
        let has_come = || {
            let place = (event.wave - visit.own.start) as usize;
            comes || worker.not_come.get(place).is_none_or(|first| then < *first)
        };
        if has_met && has_come() {
            return Order::Before;
        }
        let known = clock.entry(event.wave).filter(|known| known.made >= then);
        let why = match known {
            Some(known) if comes || known.come >= then => return Order::Before,
            Some(_) => RaceReason::NotArrived,
            None if has_met => RaceReason::NotArrived,
            None if is_own && then <= worker.met => RaceReason::Stale,
            None => match worker.heard.entry(event.wave) {
                Some(heard) if heard.made >= then => RaceReason::Stale,
                _ => RaceReason::Unordered,
            },
        };
        match before.conflicts(site, is_own) {
            false => Order::Before,
            true if is_own && [before, site].iter().any(|site| site.waits(visit.waits)) => {
                Order::Waits
            }
            true => Order::Not(why),
        }
    }

    /// Returns true if the access at time `then` was made by a wave of the current workgroup.
    pub(super) fn is_own(&self, then: Time) -> bool {
        self.visit.own.contains(&self.events[then as usize].wave)
    }

    pub(super) fn rival(&self, then: Time, address: u64, why: RaceReason) -> SuspectedRace {
        let OrderCheck { events, sites, visit, worker, .. } = self;
        let event = events[then as usize];
        let side = |wave, site: u32| (wave, site, sites[site as usize].clone());
        SuspectedRace::new(
            address,
            why,
            side(event.wave, event.site),
            side(worker.number, visit.site),
        )
    }
}
