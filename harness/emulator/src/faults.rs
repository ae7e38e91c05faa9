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

    /// Whether this opportunity to misbehave is taken. It depends on nothing but the seed, the
    /// fault and how many opportunities there were before.
    fn takes(&self, fault: Fault) -> bool {
        let mut planted = self.0.iter().filter(|(planted, _)| planted.fault == fault);
        planted.any(|(planted, seen)| chooses(planted, seen.fetch_add(1, Ordering::Relaxed)))
    }
}

fn chooses(planted: &Planted, opportunity: u64) -> bool {
    let name = planted.fault.name().bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    let hash = mix(mix(planted.seed ^ name) ^ opportunity);
    // 53 bits are what a double holds exactly, so a probability of 1 always chooses.
    ((hash >> 11) as f64) < planted.probability * (1u64 << 53) as f64
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Whether the device misbehaves in this way at this opportunity.
pub(crate) fn takes(fault: Fault) -> bool {
    static CHOOSER: OnceLock<Chooser> = OnceLock::new();
    CHOOSER.get_or_init(|| Chooser::new(&config::get().faults)).takes(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(probability: f64, seed: u64) -> Vec<bool> {
        let planted = Planted { probability, seed, ..Planted::from(Fault::CopyZero) };
        let chooser = Chooser::new(&[planted, Planted::from(Fault::CopyDrop)]);
        (0..1000).map(|_| chooser.takes(Fault::CopyZero)).collect()
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
    fn a_fault_that_is_not_planted_is_never_taken() {
        assert!(!Chooser::new(&[Planted::from(Fault::CopyDrop)]).takes(Fault::CopyZero));
    }
}
