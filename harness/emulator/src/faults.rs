//! Faults that are planted in the device on purpose.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use device::{Fault, Planted};

use crate::config;

/// The planted faults with the number of opportunities that each has had.
struct Chooser(Vec<(Planted, AtomicU64)>);

impl Chooser {
    fn new(planted: &[Planted]) -> Chooser {
        Chooser(planted.iter().map(|p| (p.clone(), AtomicU64::new(0))).collect())
    }

    /// The fault, where this opportunity to misbehave is taken. It depends on nothing but the seed, the
    /// fault and how many opportunities there were before.
    fn taken(&self, fault: Fault) -> Option<&Planted> {
        let (planted, seen) = self.0.iter().find(|(planted, _)| planted.fault == fault)?;
        let opportunity = seen.fetch_add(1, Ordering::Relaxed);
        planted.takes(opportunity).then_some(planted)
    }
}

fn chooser() -> &'static Chooser {
    static CHOOSER: OnceLock<Chooser> = OnceLock::new();
    CHOOSER.get_or_init(|| Chooser::new(&config::get().faults))
}

/// Whether the device misbehaves in this way at this opportunity.
pub(crate) fn takes(fault: Fault) -> bool {
    taken(fault).is_some()
}

/// The planted fault with its parameters, where the device misbehaves in this way at this opportunity.
pub(crate) fn taken(fault: Fault) -> Option<&'static Planted> {
    chooser().taken(fault)
}

/// Whether the opportunity of this number is taken: for those that may be looked at more than once.
pub(crate) fn takes_at(fault: Fault, opportunity: u64) -> bool {
    let planted = chooser().0.iter().find(|(planted, _)| planted.fault == fault);
    planted.is_some_and(|(planted, _)| planted.takes(opportunity))
}

/// The fault, whether or not an opportunity is taken.
pub(crate) fn planted(fault: Fault) -> Option<&'static Planted> {
    chooser().0.iter().map(|(planted, _)| planted).find(|planted| planted.fault == fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_counts_its_own_opportunities() {
        let half = |fault| Planted { probability: 0.5, ..Planted::from(fault) };
        let chooser = Chooser::new(&[half(Fault::CopyZero), half(Fault::CopyDrop)]);
        for opportunity in 0..100 {
            let taken = chooser.taken(Fault::CopyZero).is_some();
            assert_eq!(taken, half(Fault::CopyZero).takes(opportunity));
            if opportunity % 3 == 0 {
                chooser.taken(Fault::CopyDrop);
            }
        }
    }

    #[test]
    fn a_fault_that_is_not_planted_is_never_taken() {
        assert_eq!(Chooser::new(&[Planted::from(Fault::CopyDrop)]).taken(Fault::CopyZero), None);
    }
}
