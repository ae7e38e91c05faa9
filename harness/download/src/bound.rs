use std::path::Path;

use crate::DownloadError;

/// Maximum size of an answer in bytes, with the reason. Every download has one, because an endless answer would fill the disk or the
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub(crate) most: u64,
    why: &'static str,
    /// True if this is the free space of a disk.
    disk: bool,
}

impl Bound {
    /// Creates a bound in bytes. The reason is a clause that ends a message, for example `the lock says its size`.
    pub const fn new(most: u64, why: &'static str) -> Self {
        Self { most, why, disk: false }
    }

    /// Lowers the bound to the free space of the folder's disk. The bound stays where the free space is unknown.
    pub fn within_free_space(self, folder: &Path) -> Self {
        let free =
            rustix::fs::statvfs(folder).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        match free {
            Ok(free) if free < self.most => Self { most: free, disk: true, ..self },
            _ => self,
        }
    }

    /// Returns the maximum size in bytes.
    pub fn most(self) -> u64 {
        self.most
    }

    pub(crate) fn failure(self, url: &str) -> DownloadError {
        let (url, most, why) = (url.to_owned(), self.most, self.why);
        match self.disk {
            true => DownloadError::NoSpace { url, free: most },
            false => DownloadError::TooLong { url, most, why },
        }
    }
}
