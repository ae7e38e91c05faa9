//! Progress of a fetch.

/// Step of a fetch. Sizes are in bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FetchEvent<'a> {
    /// Another process is fetching the same stack. This fetch continues when that has ended.
    Waiting {
        /// The process, for example `rocrepro (process 4711)`.
        holder: &'a str,
    },
    /// No mirror has a locked package any more. The fetch looks for its replacement.
    Moved {
        /// The package and its version.
        package: &'a str,
    },
    /// Packages are being downloaded.
    Download {
        /// Downloaded bytes.
        done: u64,
        /// Bytes that were missing at the start.
        total: u64,
    },
    /// Packages are being verified and unpacked.
    Unpack {
        /// Bytes of packages read.
        done: u64,
        /// Bytes of all packages.
        total: u64,
    },
}

/// Function that receives the events of a fetch, possibly from several threads at once.
pub type FetchProgress<'a> = dyn Fn(FetchEvent<'_>) + Sync + 'a;
