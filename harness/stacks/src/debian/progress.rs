//! What a fetch tells of itself while it goes on.

/// What a fetch is doing. Sizes are in bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FetchEvent<'a> {
    /// Another process is fetching the same stack; this one goes on when that has ended.
    Waiting {
        /// Who.
        holder: &'a str,
    },
    /// No mirror has a locked package any more; what has taken its place is looked for.
    Moved {
        /// The package and its version.
        package: &'a str,
    },
    /// Packages are being downloaded.
    Download {
        /// Bytes there, of this fetch's.
        done: u64,
        /// Bytes missing at the start.
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

/// Gets the events of a fetch, possibly from several threads at once.
pub type FetchProgress<'a> = dyn Fn(FetchEvent<'_>) + Sync + 'a;
