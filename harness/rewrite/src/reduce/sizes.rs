//! Scales all sizes in a plan together, so that the minimised case uses small buffers.

use plan::{Arg, BufferAddress, Call, MAX_BUFFER_BYTES, Plan, kernel};

use crate::uses::{each_mut, launches_own};

/// Returns the sizes in bytes to try for the largest buffer, in ascending order. Returns an empty list if the plan
/// launches a kernel that the case defines, because it is unknown which memory that kernel accesses.
pub(super) fn targets(plan: &Plan) -> Vec<u64> {
    if launches_own(plan) {
        return Vec::new();
    }
    let largest = largest(plan);
    let smallest = if largest.is_multiple_of(4) { 4 } else { 1 };
    (0..40).map(|n| 1 << n).filter(|target| (smallest..largest).contains(target)).collect()
}

pub(super) fn largest(plan: &Plan) -> u64 {
    plan.buffers.values().map(|b| b.bytes).filter(usable).max().unwrap_or(0)
}

/// Returns true if an allocation of this size may succeed. Larger allocations are expected to fail, and a case with one
/// of them would lose its meaning with a smaller size.
fn usable(bytes: &u64) -> bool {
    *bytes <= MAX_BUFFER_BYTES
}

/// Scales all sizes in a plan so that the largest buffer has `target` bytes. Multiples of four stay multiples of four.
pub(super) fn scale(plan: &mut Plan, target: u64) {
    let ratio = Ratio { target, original: largest(plan) };
    if ratio.original <= target {
        return;
    }
    let old = plan.buffers.clone();
    for buffer in plan.buffers.values_mut().filter(|b| usable(&b.bytes)) {
        buffer.bytes = ratio.bytes(buffer.bytes).max(1);
    }
    let new = plan.buffers.clone();
    let room = |place: &BufferAddress, of: &std::collections::BTreeMap<String, plan::Buffer>| {
        of.get(&place.buffer).map_or(0, |b| b.bytes.saturating_sub(place.offset))
    };
    each_mut(&mut plan.body, &mut |step| {
        let work = step.call.work_mut();
        if let Call::Copy { to, from, bytes, .. } = work {
            let whole = *bytes == room(to, &old) || *bytes == room(from, &old);
            for place in [&mut *to, &mut *from] {
                place.offset = ratio.bytes(place.offset);
            }
            *bytes = match whole {
                true => room(to, &new).min(room(from, &new)),
                false => ratio.bytes(*bytes).max(1),
            };
        }
        if let Call::Set { to, bytes, .. } = work {
            let whole = *bytes == room(to, &old);
            to.offset = ratio.bytes(to.offset);
            *bytes = if whole { room(to, &new) } else { ratio.bytes(*bytes).max(1) };
        }
        if let Call::Copy2d { to_pitch, from_pitch, width, .. } = work {
            for size in [to_pitch, from_pitch, width] {
                *size = ratio.bytes(*size).max(1);
            }
        }
        if let Call::RandGenerate { count, .. } = work {
            *count = (ratio.bytes(*count * 4) / 4).max(1);
        }
        if let Call::BlasltMatmul { problem, .. } | Call::RocblasGemm { problem, .. } = work {
            for size in [&mut problem.m, &mut problem.n, &mut problem.k] {
                *size = ratio.side(*size);
            }
        }
        if let Call::Launch { kernel: name, grid, block, args, .. } = work {
            for place in args.iter_mut().flat_map(Arg::places_mut) {
                place.offset = ratio.bytes(place.offset);
            }
            let count = args.iter_mut().find_map(|arg| Some((arg.as_u32()?, arg)));
            let Some((n, arg)) = count.filter(|_| kernel(name).is_some()) else { return };
            let before = n.max(1);
            let n = match name.as_str() {
                "matmul_f32" => ratio.side(u64::from(n)) as u32,
                "copy_u8" => ratio.bytes(u64::from(n)).max(1) as u32,
                _ => (ratio.bytes(u64::from(n) * 4) / 4).max(1) as u32,
            };
            *arg = Arg::u32(n);
            let flat = grid[1..] == [1, 1] && grid[0] == before.div_ceil(block[0].max(1));
            if flat {
                grid[0] = n.div_ceil(block[0].max(1)).max(1);
            } else {
                for groups in grid.iter_mut() {
                    let wanted = (u64::from(*groups) * u64::from(n)).div_ceil(u64::from(before));
                    *groups = (wanted as u32).max(1);
                }
            }
        }
    });
}

struct Ratio {
    target: u64,
    original: u64,
}

impl Ratio {
    /// Scales a size in bytes, rounding up so that the content of a buffer still fits.
    fn bytes(&self, bytes: u64) -> u64 {
        let exact =
            (u128::from(bytes) * u128::from(self.target)).div_ceil(u128::from(self.original));
        let exact = exact as u64;
        if bytes.is_multiple_of(4) { exact.next_multiple_of(4) } else { exact }
    }

    /// Scales the side of a square so that its area shrinks by the ratio, rounding down.
    fn side(&self, side: u64) -> u64 {
        ((side as f64 * (self.target as f64 / self.original as f64).sqrt()) as u64).max(1)
    }
}
