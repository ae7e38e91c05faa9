//! Clocks of the device and of the host.

use crate::{node::Node, status::Status, types::ClockCounters};

/// Frequency of the GPU's clock counter, in Hz.
pub(crate) const GPU_FREQUENCY: u64 = 100_000_000;

/// Number of ticks of the host's clocks per second.
const HOST_FREQUENCY: u64 = 1_000_000_000;

fn host(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local variable, and every Linux since 2.6.39 has these clocks.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * HOST_FREQUENCY + time.tv_nsec as u64
}

/// Returns the current value of the GPU's clock counter.
pub(crate) fn gpu() -> u64 {
    host(libc::CLOCK_BOOTTIME) / (HOST_FREQUENCY / GPU_FREQUENCY)
}

/// # Safety
/// As the thunk requires, `counters` must be null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetClockCounters(node: u32, counters: *mut ClockCounters) -> Status {
    if Node::new(node).is_err() || counters.is_null() {
        return Status::INVALID_PARAMETER;
    }
    let system = host(libc::CLOCK_BOOTTIME);
    let found = ClockCounters {
        gpu: system / (HOST_FREQUENCY / GPU_FREQUENCY),
        cpu: host(libc::CLOCK_MONOTONIC_RAW),
        system,
        system_frequency: HOST_FREQUENCY,
    };
    // SAFETY: the pointer is not null, and the caller passes one that is valid for writing.
    unsafe { counters.write_unaligned(found) };
    Status::SUCCESS
}
