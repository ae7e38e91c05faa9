//! Faults that are planted in the device on purpose.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use device::{Fault, Per, Planted};

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
        chooses(planted, opportunity).then_some(planted)
    }
}

fn chooses(planted: &Planted, opportunity: u64) -> bool {
    let name = planted.fault.name().bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    let draw = if planted.per == Per::Process { 0 } else { opportunity };
    let hash = mix(mix(planted.seed ^ name) ^ draw);
    // 53 bits are what a double holds exactly, so a probability of 1 always chooses.
    ((hash >> 11) as f64) < planted.probability * (1u64 << 53) as f64
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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
    planted.is_some_and(|(planted, _)| chooses(planted, opportunity))
}

/// The fault, whether or not an opportunity is taken.
pub(crate) fn planted(fault: Fault) -> Option<&'static Planted> {
    chooser().0.iter().map(|(planted, _)| planted).find(|planted| planted.fault == fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(probability: f64, seed: u64) -> Vec<bool> {
        let planted = Planted { probability, seed, ..Planted::from(Fault::CopyZero) };
        let chooser = Chooser::new(&[planted, Planted::from(Fault::CopyDrop)]);
        (0..1000).map(|_| chooser.taken(Fault::CopyZero).is_some()).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(choices(0.5, 7), choices(0.5, 7));
        assert_ne!(choices(0.5, 7), choices(0.5, 8));
    }

    #[test]
    fn the_probability_is_kept() {
        #[track_caller]
        fn check(probability: f64, expected: std::ops::RangeInclusive<usize>) {
            let taken = choices(probability, 1).into_iter().filter(|taken| *taken).count();
            assert!(expected.contains(&taken), "{probability}: {taken} of 1000");
        }
        check(0.0, 0..=0);
        check(0.01, 1..=30);
        check(0.5, 400..=600);
        check(1.0, 1000..=1000);
    }

    #[test]
    fn a_process_has_the_fault_or_has_it_not() {
        let planted = |seed| Planted {
            probability: 0.5,
            per: Per::Process,
            seed,
            ..Planted::from(Fault::CopyZero)
        };
        let draws = |seed| (0..20).map(move |n| chooses(&planted(seed), n));
        let affected: Vec<bool> = (0..100).map(|seed| draws(seed).any(|taken| taken)).collect();
        assert_eq!(
            affected,
            (0..100).map(|seed| draws(seed).all(|taken| taken)).collect::<Vec<_>>()
        );
        assert!((30..70).contains(&affected.iter().filter(|taken| **taken).count()));
    }

    #[test]
    fn a_fault_that_is_not_planted_is_never_taken() {
        assert_eq!(Chooser::new(&[Planted::from(Fault::CopyDrop)]).taken(Fault::CopyZero), None);
    }
}
