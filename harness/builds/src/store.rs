//! Builds on this machine.

use std::path::PathBuf;
use std::time::Duration;

use rocm::{Spec, Stack};

use crate::{Build, Components, Place, Unusable};

/// Keeps builds: archives are fetched once, files that builds share are on disk once, and what is not pinned or
/// in use goes when the budget is spent.
#[derive(Clone, Debug)]
pub struct Store {
    stacks: rocm::Store,
}

/// What [`Store::obtain`] is doing. Sizes are in bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process, or a prefetch, has the same build in work.
    Waiting,
    /// An archive is being downloaded and unpacked.
    Download {
        /// Its name.
        name: &'a str,
        /// Bytes there.
        done: u64,
        /// Bytes in all, if known.
        total: Option<u64>,
    },
    /// The connection broke or the host asked to wait; the download goes on where it stopped.
    Retry {
        /// What happened.
        reason: &'a str,
        /// When it goes on.
        after: Duration,
    },
    /// A build was removed to make room.
    Evicted {
        /// The build.
        id: &'a str,
    },
}

/// Gets the events, possibly from several threads at once.
pub type Progress<'a> = dyn Fn(Event<'_>) + Sync + 'a;

/// A build that can be run. As long as this value lives, the build is not evicted.
#[derive(Debug)]
pub struct Obtained {
    /// The prefix: it holds `lib/`. A Debian root for a Debian release.
    pub prefix: PathBuf,
    /// The same as a stack.
    pub stack: Stack,
    /// The archives with their sha256, as they came; empty for folders and Debian releases.
    pub sha256: Vec<(String, String)>,
    /// Its commits, where it holds a manifest.
    pub components: Option<Components>,
    /// Bytes downloaded for this call.
    pub downloaded: u64,
}

impl Store {
    /// The store beside the fetched stacks.
    pub fn new(stacks: rocm::Store) -> Self {
        Self { stacks }
    }

    /// Makes a build usable, fetching it where it is not there.
    ///
    /// # Errors
    /// [`Unusable`]; [`Unusable::is_environment`] tells the machine's trouble from the build's.
    pub fn obtain(&self, build: &Build, _progress: &Progress<'_>) -> Result<Obtained, Unusable> {
        let mut last = Unusable::NotFound { url: build.id.clone() };
        for place in &build.places {
            let stack = match place {
                Place::Directory(path) => {
                    rocm::locate(&Spec::Directory(path.clone()), &self.stacks)
                }
                Place::Debian(spec) => spec.parse().and_then(|spec| {
                    rocm::fetch(&spec, &Default::default(), &self.stacks, &|_| ())
                }),
                Place::Archives { .. } => continue,
            };
            match stack {
                Ok(stack) => {
                    return Ok(Obtained {
                        prefix: stack.root.clone(),
                        components: Components::of_prefix(&stack.root),
                        stack,
                        sha256: Vec::new(),
                        downloaded: 0,
                    });
                }
                Err(error) => last = Unusable::DoesNotLoad { reason: error.to_string() },
            }
        }
        Err(last)
    }
}
