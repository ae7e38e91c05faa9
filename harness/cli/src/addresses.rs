//! Where the kernel puts what a process maps.

/// Processes that are started from here on get the same addresses each time, where the kernel allows it (some containers do
/// not): the HIP runtime goes through its streams in the order of their addresses, and so does what depends on that.
pub(crate) fn fix() {
    // SAFETY: neither call reads or writes memory of this process.
    unsafe {
        let now = libc::personality(0xffff_ffff);
        if now >= 0 {
            libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        }
    }
}
