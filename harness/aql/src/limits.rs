//! Checks dispatch packets as a packet processor does, and computes how many workgroups fit on a device.

use std::fmt;

use device::{
    Arch,
    model::{self, LARGEST_WORKGROUP},
};

use crate::DispatchPacket;

/// Reason why a packet processor rejects a dispatch packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The packet has zero dimensions.
    NoDimensions,
    /// The packet does not specify a kernel.
    NoKernel,
    /// The packet requests more LDS than a workgroup can have.
    TooMuchLds {
        /// Requested size in bytes.
        wanted: u32,
        /// Maximum size in bytes.
        most: u32,
    },
    /// The workgroup has too many work-items.
    LargeWorkgroup {
        /// Number of work-items.
        items: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoDimensions => f.write_str("a dispatch without dimensions"),
            Refusal::NoKernel => f.write_str("a dispatch without a kernel"),
            Refusal::TooMuchLds { wanted, most } => {
                write!(f, "a dispatch with {wanted} bytes of LDS; the limit is {most}")
            }
            Refusal::LargeWorkgroup { items } => {
                write!(f, "a workgroup of {items} work-items; the limit is {LARGEST_WORKGROUP}")
            }
        }
    }
}

/// Returns the reason why the packet processor of an architecture rejects a packet; `None` if the packet is valid.
pub fn rejection_reason<S>(arch: Arch, packet: &DispatchPacket<S>) -> Option<Refusal> {
    let items: u64 = packet.workgroup.iter().map(|n| u64::from((*n).max(1))).product();
    let most = arch.facts().lds_bytes;
    // The two lowest bits contain the number of dimensions.
    if packet.setup & 3 == 0 {
        Some(Refusal::NoDimensions)
    } else if packet.kernel_object == 0 {
        Some(Refusal::NoKernel)
    } else if packet.group_bytes > most {
        Some(Refusal::TooMuchLds { wanted: packet.group_bytes, most })
    } else if items > LARGEST_WORKGROUP.into() {
        Some(Refusal::LargeWorkgroup { items })
    } else {
        None
    }
}

/// Returns the number of workgroups of a dispatch that fit on the device at the same time. The result takes the limits
/// on waves and on LDS into account, but not the limit on registers.
pub fn room<S>(arch: Arch, packet: &DispatchPacket<S>) -> u32 {
    let model = model::for_arch(arch);
    let items: u32 = packet.workgroup.iter().map(|n| u32::from((*n).max(1))).product();
    // A wave with fewer lanes than usual also occupies a whole wave slot.
    let waves = items.div_ceil(arch.wave_size());
    let by_waves = model.waves_per_unit / waves.max(1);
    let granules = packet.group_bytes.max(1).next_multiple_of(arch.facts().lds_granule);
    let by_lds = arch.facts().lds_bytes / granules;
    model.compute_units * by_waves.min(by_lds).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> DispatchPacket {
        DispatchPacket {
            header: 0,
            setup: 3,
            workgroup: [64, 1, 1],
            reserved0: 0,
            grid: [64, 1, 1],
            private_bytes: 0,
            group_bytes: 0,
            kernel_object: 4096,
            kernarg: 0,
            reserved2: 0,
            completion: 0,
        }
    }

    /// Waves and LDS both limit the number of workgroups, and the smaller limit applies. LDS is allocated in granules.
    #[test]
    fn waves_and_lds_limit_workgroups_per_unit() {
        #[track_caller]
        fn check(arch: Arch, items: u16, group_bytes: u32, in_a_unit: u32) {
            let packet = DispatchPacket { workgroup: [items, 1, 1], group_bytes, ..packet() };
            assert_eq!(room(arch, &packet), in_a_unit * model::for_arch(arch).compute_units);
        }
        check(Arch::Gfx90a, 64, 0, 32);
        check(Arch::Gfx90a, 256, 0, 8);
        check(Arch::Gfx90a, 64, 12 * 512, 10);
        check(Arch::Gfx90a, 64, 12 * 512 + 1, 9);
        check(Arch::Gfx950, 64, 12 * 1280, 10);
        check(Arch::Gfx950, 64, 12 * 1280 + 1, 9);
        check(Arch::Gfx950, 1024, 160 << 10, 1);
        check(Arch::Gfx1151, 64, 6 * 1024, 10);
        check(Arch::Gfx1151, 64, 6 * 1024 + 1, 9);
        check(Arch::Gfx1151, 32, 1, 32);
        check(Arch::Gfx1151, 1024, 64 << 10, 1);
    }
}
