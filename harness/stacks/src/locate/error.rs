//! What can go wrong with a stack, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::LockError;

/// Why a stack could not be found or fetched. Every message says what to do; causes chain as sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// Not a way to name a stack.
    #[error("{spec:?} is not a stack; use system, a directory, or one of {known}")]
    UnknownSpec {
        /// What was given.
        spec: String,
        /// The Debian releases.
        known: String,
    },
    /// A Debian release that is not in the table.
    #[error("there is no stack {wanted}; choose from {known}")]
    UnknownRelease {
        /// What was given.
        wanted: String,
        /// The Debian releases.
        known: String,
    },
    /// A fetched stack was asked for before it was fetched.
    #[error("{spec} has not been fetched; run `rocrepro rocm fetch {spec}`")]
    NotFetched {
        /// The stack.
        spec: String,
    },
    /// A directory without a HIP runtime.
    #[error(
        "no ROCm in {path}: looked for libamdhip64.so in {looked}; \
         name the prefix (it holds lib/), the unpacked wheel, or the root of a Debian tree (it holds usr/)"
    )]
    NoRocm {
        /// The directory.
        path: PathBuf,
        /// Where the library could have been, relative to it.
        looked: String,
    },
    /// No installed ROCm.
    #[error(
        "no ROCm is installed: looked in {looked}; install one, set ROCM_PATH, \
         or use another stack such as debian:latest"
    )]
    NoSystem {
        /// Where was looked.
        looked: String,
    },
    /// A path that the dynamic loader cannot be told.
    #[error("{path} holds a `:` or `;`, which the dynamic loader takes as a separator; move it")]
    Unusable {
        /// The directory.
        path: PathBuf,
    },
    /// Neither XDG_CACHE_HOME nor HOME says where stacks live.
    #[error("no cache directory: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoCache,
    /// apt is not installed.
    #[error("reading the indexes of Debian for {spec} needs apt-get, which is not on PATH")]
    NoApt {
        /// The stack.
        spec: String,
    },
    /// A release of which packages do not fit together.
    #[error("the release cannot be locked: {detail}")]
    Lock {
        /// Which.
        detail: String,
    },
    /// The host's apt sources name no Debian mirror.
    #[error(
        "no Debian mirror in this machine's apt sources ({looked}); name one with --mirror, \
         for example the one your network provides"
    )]
    NoMirror {
        /// Files read.
        looked: String,
    },
    /// Not the address of a mirror.
    #[error(
        "{mirror:?} is not the address of a mirror; expected one such as http://HOST/debian or file:/FOLDER"
    )]
    BadMirror {
        /// What was given.
        mirror: String,
    },
    /// Debian's signing keys are not installed.
    #[error(
        "Debian's archive keys are not on this machine (looked for {looked}); \
         install the package debian-archive-keyring"
    )]
    NoKeyring {
        /// Files looked for.
        looked: String,
    },
    /// The mirror does not answer, or not with a Debian archive.
    #[error(
        "the mirror {mirror} could not be read: {detail}; check the network, or name another with --mirror"
    )]
    Mirror {
        /// The mirror.
        mirror: String,
        /// What apt said.
        detail: String,
    },
    /// The mirror's index is not signed by Debian.
    #[error(
        "the mirror {mirror} is not trusted: {detail}; \
         update the package debian-archive-keyring, or name another mirror with --mirror"
    )]
    Untrusted {
        /// The mirror.
        mirror: String,
        /// What apt said.
        detail: String,
    },
    /// The release has moved on.
    #[error(
        "{gone} of {spec} is not on {mirrors}; {instead}name a mirror that keeps old versions with --mirror, or use an \
         installed ROCm or the folder of an unpacked TheRock tarball"
    )]
    Gone {
        /// The stack.
        spec: String,
        /// The package that is missing, with its version.
        gone: String,
        /// Who was asked.
        mirrors: String,
        /// Which versions are there, and how to fetch the nearest release; it ends where other advice begins.
        instead: String,
    },
    /// The release has no such library.
    #[error("{spec} has no {extra}; {have}")]
    NoExtra {
        /// The stack.
        spec: String,
        /// The library.
        extra: String,
        /// The releases that have it.
        have: String,
    },
    /// Not the name of a GPU architecture.
    #[error("{name:?} is not a GPU architecture; expected a name such as gfx1151")]
    Architecture {
        /// What was given.
        name: String,
    },
    /// apt failed in a way that is not one of the above.
    #[error(
        "apt-get could not {action}: {detail}; see whether `apt-get update` works on this machine"
    )]
    Apt {
        /// What it was doing.
        action: &'static str,
        /// What it said.
        detail: String,
    },
    /// A downloaded package is not what the index promises.
    #[error("{path} is damaged ({detail}); it has been removed, fetch again")]
    Damaged {
        /// The package.
        path: PathBuf,
        /// Expected and found.
        detail: String,
    },
    /// A package that cannot be unpacked safely.
    #[error(
        "{path} cannot be unpacked: {reason}; remove it and fetch again, and report it if it persists"
    )]
    Archive {
        /// The package.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No space left.
    #[error(
        "no space left for {path}; free some (a stack takes about 400 MB), or set XDG_CACHE_HOME"
    )]
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// Somebody has had the stack in work for longer than it is waited for.
    #[error(
        "{path} is held by {holder}, and waiting for it took too long; end that process, and try again"
    )]
    Locked {
        /// The lock's file.
        path: PathBuf,
        /// A process, as the kernel names it.
        holder: String,
    },
    /// Somebody ended the fetch.
    #[error(
        "the fetch was called off; what was downloaded is kept, and the next fetch goes on from there"
    )]
    CalledOff,
    /// Any other failure of the file system.
    #[error("cannot {action} {path}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<LockError> for StackError {
    fn from(not_held: LockError) -> Self {
        match not_held {
            LockError::Io { action, path, source } => Self::io(action, &path)(source),
            LockError::Late { path, holder } => Self::Locked { path, holder },
            LockError::CalledOff => Self::CalledOff,
        }
    }
}

impl StackError {
    /// Whether the machine or its network is at fault, not what was asked for: later the same may work.
    pub fn is_environment(&self) -> bool {
        // Without a last arm for the rest: a new kind has to say whose fault it is.
        match self {
            Self::UnknownSpec { .. }
            | Self::UnknownRelease { .. }
            | Self::NotFetched { .. }
            | Self::NoRocm { .. }
            | Self::NoSystem { .. }
            | Self::Unusable { .. }
            | Self::NoCache
            | Self::Lock { .. }
            | Self::BadMirror { .. }
            | Self::NoExtra { .. }
            | Self::Architecture { .. } => false,
            Self::NoApt { .. }
            | Self::NoMirror { .. }
            | Self::NoKeyring { .. }
            | Self::Mirror { .. }
            | Self::Untrusted { .. }
            | Self::Gone { .. }
            | Self::Apt { .. }
            | Self::Damaged { .. }
            | Self::Archive { .. }
            | Self::DiskFull { .. }
            | Self::Locked { .. }
            | Self::CalledOff
            | Self::Io { .. } => true,
        }
    }

    /// For `map_err`: an I/O error with what was attempted.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io { action, path, source },
        }
    }
}
