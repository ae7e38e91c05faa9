/// Progress of fetching a Debian release. All sizes are in bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FetchEvent<'a> {
    /// Another process is fetching the same stack. This fetch continues when the other process has finished.
    Waiting {
        /// Name of the other process, for example `rocrepro (process 4711)`.
        holder: &'a str,
    },
    /// The mirrors no longer have a package in the version that the lock file lists. The fetch searches for the version
    /// that replaced it.
    Moved {
        /// Name of the package, and its version in the lock file.
        package: &'a str,
    },
    /// Packages are being downloaded.
    Download {
        /// Number of bytes downloaded so far.
        done: u64,
        /// Number of bytes to download.
        total: u64,
    },
    /// Packages are being verified and unpacked.
    Unpack {
        /// Number of bytes of the packages that have been read so far.
        done: u64,
        /// Total size of all packages to unpack.
        total: u64,
    },
}

/// Callback that receives the progress of a fetch, possibly from several threads at once.
pub type FetchProgress<'a> = dyn Fn(FetchEvent<'_>) + Sync + 'a;
