//! Keeps memory mapped while kernels run. If the host frees memory that a running kernel accesses, hardware reports at
//! worst a page fault. In this library, such an access must not crash the process.

use std::sync::Mutex;

use crate::address_map;

#[derive(Debug, Default)]
struct Users {
    /// Number of running kernels.
    kernels: usize,
    /// Freed ranges (start and size in bytes) that are unmapped as soon as no kernel runs.
    freed: Vec<(u64, u64)>,
}

static USERS: Mutex<Users> = Mutex::new(Users { kernels: 0, freed: Vec::new() });

/// Guard for the time in which a kernel runs. While a guard exists, freed memory stays mapped.
pub(crate) struct InUse(());

impl InUse {
    pub(crate) fn new() -> InUse {
        address_map::lock(&USERS).kernels += 1;
        InUse(())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut users = address_map::lock(&USERS);
        users.kernels -= 1;
        if users.kernels == 0 {
            for (start, bytes) in users.freed.drain(..) {
                unmap(start, bytes);
            }
        }
    }
}

/// Unmaps pages at once if no kernel runs, otherwise as soon as the last running kernel has ended.
pub(crate) fn unmap_later(start: u64, bytes: u64) {
    let mut users = address_map::lock(&USERS);
    if users.kernels > 0 {
        users.freed.push((start, bytes));
    } else {
        unmap(start, bytes);
    }
}

/// Unmaps pages at once.
pub(crate) fn unmap(start: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: the range belongs to a mapping that this library made, and the caller has given it up.
        unsafe { libc::munmap(start as *mut libc::c_void, bytes as usize) };
    }
}
