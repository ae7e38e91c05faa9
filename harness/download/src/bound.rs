use std::path::Path;

use crate::DownloadError;

/// Maximum size of a response in bytes, and the reason for this maximum. Every download needs a maximum, because an
/// endless response would fill the disk or the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimit {
    pub(crate) most: u64,
    why: &'static str,
    /// True if the maximum is the free space on a disk.
    disk: bool,
}

impl SizeLimit {
    /// Creates a maximum size in bytes. `why` is the reason for the maximum: a clause at the end of an error message,
    /// for example `no index of Debian is larger`.
    pub const fn new(most: u64, why: &'static str) -> Self {
        Self { most, why, disk: false }
    }

    /// Lowers the maximum to the free space on the disk that contains the folder. If the free space is unknown, the
    /// maximum is not changed.
    pub fn within_free_space(self, folder: &Path) -> Self {
        let free =
            rustix::fs::statvfs(folder).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        match free {
            Ok(free) if free < self.most => Self { most: free, disk: true, ..self },
            _ => self,
        }
    }

    /// Returns the maximum size in bytes.
    pub fn max_bytes(self) -> u64 {
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
