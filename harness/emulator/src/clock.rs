//! System clock of the HSA interface: nanoseconds of `CLOCK_MONOTONIC`. HIP reads `CLOCK_MONOTONIC`, too, so times of
//! the device and of HIP can be compared.

/// Number of ticks of the system clock per second.
pub(crate) const FREQUENCY: u64 = 1_000_000_000;

pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local variable, and CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * FREQUENCY + time.tv_nsec as u64
}
