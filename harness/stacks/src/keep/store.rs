//! Stores builds on this machine: downloads, verifies and unpacks them, and locks them while they are in use.

mod evict;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use download::{DownloadError, Http, SizeLimit};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{
    blobs::Blobs,
    folder::{check_no_links, create, remove_folder},
    partial::Partial,
    prefix::{cleaned, empty, key},
};
use crate::{
    Archive, Build, BuildLocation, Components, FetchError, FetchOptions, FileLock as Lock,
    LockMode, MAX_LOCK_WAIT, ObtainError, Spec, Stack, StackCache,
    locate::check_loads,
    unpack::prefix::{Format, Unpacker},
    watch::CleanupLimit,
};

/// Name of the file that is written last into a prefix, the folder of one build. The file contains a [`Record`]. A
/// prefix without this file is incomplete.
const RECORD: &str = ".rocrepro-build.json";

/// Estimated ratio of the size of an archive's content to the size of the archive. For gfx1150 7.11.0, the sizes are 13
/// GB and 2.3 GB.
const UNPACKED: u64 = 6;

/// Maximum size of an archive whose listing contains no size. The largest known archive has 11 GB.
const ARCHIVE: SizeLimit = SizeLimit::new(64 << 30, "no archive of ROCm is larger");

const CHECKSUM: SizeLimit = SizeLimit::new(1 << 20, "a checksum is shorter");

/// Time to wait before the second attempt of a download. It doubles before each further attempt.
const BACKOFF: Duration = Duration::from_secs(1);

/// Store of builds. Archives are downloaded once, and files that several builds contain are stored once. If the disk
/// budget is exceeded, builds that are neither pinned nor in use are removed.
///
/// The store is the folder `builds/` next to the fetched stacks. Its subfolders are: `prefixes/` with one folder per
/// build, the prefix of the build; `files/`, which stores each file once, under a hash of its content; `seen/` with the
/// SHA-256 of every archive that was ever downloaded; and `partial/` with unfinished downloads.
#[derive(Clone, Debug)]
pub struct BuildStore {
    stacks: StackCache,
    folder: PathBuf,
    budget: Option<u64>,
    http: Http,
    pins: Arc<Mutex<Vec<Lock>>>,
    /// Ids of the builds that this process is prefetching.
    pub(super) ahead: Arc<Mutex<Vec<String>>>,
}

/// Progress of [`BuildStore::obtain`]. Sizes are in bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BuildEvent<'a> {
    /// A prefetch of this process is already downloading the same build in the background.
    WaitingForPrefetch {
        /// Id of the build.
        id: &'a str,
    },
    /// Another process is downloading the same build.
    Waiting {
        /// Name of the other process, for example `rocrepro (process 4711)`.
        holder: &'a str,
    },
    /// An archive is being downloaded and unpacked.
    Download {
        /// Name of the archive.
        name: &'a str,
        /// Number of bytes downloaded so far.
        done: u64,
        /// Size of the archive; `None` if it is unknown.
        total: Option<u64>,
    },
    /// The connection broke, or the host asked the client to wait. The download will continue where it stopped.
    Retry {
        /// Description of the failure.
        reason: &'a str,
        /// Time until the download continues.
        after: Duration,
    },
    /// A build or an unfinished download was removed in order to free space.
    Evicted {
        /// Name of the build, or a description of the download.
        id: &'a str,
    },
}

/// Callback that receives the progress, possibly from several threads at the same time.
pub type BuildProgress<'a> = dyn Fn(BuildEvent<'_>) + Sync + 'a;

/// A build that is ready to be run. The build is not removed from the store while this value exists.
#[derive(Debug)]
pub struct ObtainedBuild {
    /// Id of the build.
    pub id: String,
    /// Folder that contains `lib/`, or the root folder of a Debian release.
    pub prefix: PathBuf,
    /// The ROCm user space in the prefix.
    pub stack: Stack,
    /// Name and SHA-256 of each archive, in the order of download. Empty for folders and Debian releases.
    pub sha256: Vec<(String, String)>,
    /// Commits of the components; `None` if the build contains no manifest.
    pub components: Option<Components>,
    /// Number of bytes of archives that were downloaded to obtain the build.
    pub downloaded: u64,
    /// Shared lock, which prevents the removal of the prefix.
    _lock: Option<Lock>,
}

/// Origin of the content of a prefix: the archives that were unpacked into it. Stored as JSON in the file [`RECORD`] of
/// the prefix.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    id: String,
    archives: Vec<Fetched>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Fetched {
    name: String,
    url: String,
    sha256: String,
    bytes: u64,
}

impl BuildStore {
    /// Returns the store in the folder `builds/` next to the fetched stacks.
    pub fn new(stacks: StackCache) -> Self {
        let folder = stacks.path().join("builds");
        let (pins, ahead) = Default::default();
        Self { stacks, folder, budget: None, http: Http::new(BACKOFF), pins, ahead }
    }

    /// Sets the maximum disk space of builds and unfinished downloads, in bytes. Builds that are pinned or in use are
    /// kept even if they exceed the maximum.
    pub fn with_budget(mut self, bytes: u64) -> Self {
        self.budget = Some(bytes);
        self
    }

    /// Sets the time to wait before the second attempt of a download.
    pub fn with_backoff(mut self, backoff: Duration) -> Self {
        self.http = Http::new(backoff);
        self
    }

    /// Sets the time after which a connection without new bytes is closed.
    pub fn with_stall(mut self, stall: Duration) -> Self {
        self.http = self.http.with_stall(stall);
        self
    }

    /// Protects these builds from removal by any process, until the next call of this function or the end of this
    /// process. A bisect protects the last good and the first bad build.
    ///
    /// # Errors
    /// [`ObtainError::File`] if a lock file cannot be created.
    pub fn pin(&self, builds: &[&Build]) -> Result<(), ObtainError> {
        let mut locks = Vec::new();
        for build in builds {
            let lock = self.lock(&key(build))?;
            // If another process has an exclusive lock, it is still creating the build, so there is nothing to protect
            // yet.
            if lock.try_hold(LockMode::Shared)? {
                locks.push(lock);
            }
        }
        *self.pins.lock() = locks;
        Ok(())
    }

    /// Returns true if a build can be obtained without a download.
    pub fn has(&self, build: &Build) -> bool {
        build.places.iter().any(|place| match place {
            BuildLocation::Directory(path) => path.is_dir(),
            BuildLocation::Debian(spec) => {
                spec.parse::<Spec>().is_ok_and(|spec| crate::locate(&spec, &self.stacks).is_ok())
            }
            BuildLocation::Archives { .. } => self.record(&key(build), build).is_some(),
        })
    }

    /// Returns a build. If the build is not in the store, downloads it first.
    ///
    /// # Errors
    /// [`ObtainError`]. [`ObtainError::is_environment`] distinguishes failures of the machine from failures of the
    /// build.
    pub fn obtain(
        &self,
        build: &Build,
        progress: &BuildProgress<'_>,
    ) -> Result<ObtainedBuild, ObtainError> {
        self.obtain_unless(build, &AtomicBool::new(false), progress)
    }

    /// Returns a build like [`BuildStore::obtain`], but ends early when `cancel` becomes true.
    ///
    /// # Errors
    /// The errors of [`BuildStore::obtain`], and [`ObtainError::Cancelled`].
    pub fn obtain_unless(
        &self,
        build: &Build,
        cancel: &AtomicBool,
        progress: &BuildProgress<'_>,
    ) -> Result<ObtainedBuild, ObtainError> {
        let mut missing = ObtainError::NotFound { url: build.id.clone() };
        for place in &build.places {
            let result = match place {
                BuildLocation::Directory(path) if !path.is_dir() => {
                    Err(ObtainError::NotFound { url: path.display().to_string() })
                }
                BuildLocation::Directory(path) => {
                    self.opened(&build.id, path).and_then(|obtained| {
                        check_loads(&obtained.stack)?;
                        Ok(obtained)
                    })
                }
                BuildLocation::Debian(spec) => self.debian(&build.id, spec),
                BuildLocation::Archives { archives, .. } => {
                    self.archives(build, archives, cancel, progress)
                }
            };
            match result {
                Err(error @ ObtainError::NotFound { .. }) => missing = error,
                other => return other,
            }
        }
        Err(missing)
    }

    fn debian(&self, id: &str, spec: &str) -> Result<ObtainedBuild, ObtainError> {
        let failed = |error: &dyn std::error::Error| ObtainError::Network {
            url: spec.to_owned(),
            reason: error.to_string(),
        };
        let parsed = spec.parse::<Spec>().map_err(|error| failed(&error))?;
        // A stack that has been fetched before needs no network.
        let stack = match crate::locate(&parsed, &self.stacks) {
            Ok(stack) => stack,
            Err(_) => crate::fetch(&parsed, &FetchOptions::default(), &self.stacks, &|_| ())
                .map_err(|error| match error {
                    FetchError::Gone { .. } => ObtainError::NotFound { url: error.to_string() },
                    other => failed(&other),
                })?,
        };
        Ok(ObtainedBuild::new(id, stack))
    }

    fn opened(&self, id: &str, prefix: &Path) -> Result<ObtainedBuild, ObtainError> {
        let stack = crate::locate(&Spec::Directory(prefix.to_owned()), &self.stacks);
        let fails =
            |error: crate::LocateError| ObtainError::DoesNotLoad { reason: error.to_string() };
        Ok(ObtainedBuild::new(id, stack.map_err(fails)?))
    }

    fn archives(
        &self,
        build: &Build,
        archives: &[Archive],
        cancel: &AtomicBool,
        progress: &BuildProgress<'_>,
    ) -> Result<ObtainedBuild, ObtainError> {
        let key = key(build);
        let lock = self.lock(&key)?;
        let waiting = |holder: &str| {
            let ahead = self.ahead.lock().contains(&build.id);
            progress(match ahead {
                true => BuildEvent::WaitingForPrefetch { id: &build.id },
                false => BuildEvent::Waiting { holder },
            });
        };
        let mut downloaded = 0;
        loop {
            lock.hold(LockMode::Shared, MAX_LOCK_WAIT, cancel, &waiting)?;
            if let Some(record) = self.record(&key, build) {
                let prefix = self.prefix(&key);
                if let Ok(file) = File::options().write(true).open(prefix.join(RECORD)) {
                    // The time of this file shows when the build was last used. If the time cannot be set, the build is
                    // only removed earlier.
                    let _ = file.set_modified(SystemTime::now());
                }
                let mut obtained = self.opened(&build.id, &prefix)?;
                obtained.sha256 = record.archives.into_iter().map(|a| (a.name, a.sha256)).collect();
                obtained.downloaded = downloaded;
                obtained._lock = Some(lock);
                return Ok(obtained);
            }
            lock.hold(LockMode::Alone, MAX_LOCK_WAIT, cancel, &waiting)?;
            if self.record(&key, build).is_some() {
                continue;
            }
            let expected: u64 = archives.iter().filter_map(|archive| archive.size).sum();
            self.keep_to_budget(expected.saturating_mul(UNPACKED), archives, cancel, progress);
            downloaded = match self.make(build, &key, archives, cancel, progress) {
                Err(ObtainError::NoSpace { .. })
                    if self.evict(0, archives, cancel, progress) > 0 =>
                {
                    self.make(build, &key, archives, cancel, progress)?
                }
                other => other?,
            };
            self.keep_to_budget(0, archives, cancel, progress);
        }
    }

    /// Downloads and unpacks a build into the prefix with the name `key`. The caller must hold an exclusive lock on the
    /// build. Returns the number of downloaded bytes.
    fn make(
        &self,
        build: &Build,
        key: &str,
        archives: &[Archive],
        cancel: &AtomicBool,
        progress: &BuildProgress<'_>,
    ) -> Result<u64, ObtainError> {
        let work = self.prefixes().join(format!(".{key}.work"));
        let made = self
            .unpacked(build, &work, archives, cancel, progress)
            .and_then(|bytes| self.publish(&work, key, cancel).map(|()| bytes));
        if made.is_err() {
            let patience = CleanupLimit::new(cancel);
            let _ = remove_folder(&work, &patience);
            self.blobs().sweep(&patience);
        }
        made
    }

    fn unpacked(
        &self,
        build: &Build,
        work: &Path,
        archives: &[Archive],
        cancel: &AtomicBool,
        progress: &BuildProgress<'_>,
    ) -> Result<u64, ObtainError> {
        let prefix = empty(work, cancel)?;
        let blobs = self.blobs();
        let mut unpacker = Unpacker::new(&prefix, &blobs, cancel);
        let mut fetched: Vec<Fetched> = Vec::new();
        for archive in archives {
            let one = self.fetch(archive, &mut unpacker, cancel, progress)?;
            fetched.push(one);
        }
        unpacker.finish(archives.first().map_or("", |archive| archive.name.as_str()))?;
        check_loads(&self.opened(&build.id, &prefix)?.stack)?;
        let bytes = fetched.iter().map(|archive| archive.bytes).sum();
        self.write_record(&prefix, &Record { id: build.id.clone(), archives: fetched })?;
        Ok(bytes)
    }

    fn fetch(
        &self,
        archive: &Archive,
        unpacker: &mut Unpacker<'_>,
        cancel: &AtomicBool,
        progress: &BuildProgress<'_>,
    ) -> Result<Fetched, ObtainError> {
        let (name, url) = (&archive.name, &archive.url);
        let format = Format::from_name(name).ok_or_else(|| ObtainError::Damaged {
            name: name.clone(),
            reason: "unknown archive extension".into(),
        })?;
        let told = |event: download::DownloadEvent<'_>| match event {
            download::DownloadEvent::Download { name, done, total } => {
                progress(BuildEvent::Download { name, done, total });
            }
            download::DownloadEvent::Retry { reason, after } => {
                progress(BuildEvent::Retry { reason, after })
            }
            _ => {}
        };
        let listed = |size| SizeLimit::new(size, "that is the size in the listing");
        let bound = archive.size.map_or(ARCHIVE, listed).within_free_space(unpacker.prefix);
        let mut download =
            Partial::open(&self.partial(), &self.http, (url, name), bound, cancel, &told)
                .map_err(|failure| self.unusable(failure))?;
        let unpacked = if format == Format::Wheel {
            // A wheel is downloaded to a file before it is unpacked, because the directory of a zip file is at its end.
            let at = unpacker.prefix.with_extension("whl");
            let result = self.whole(&mut download, &at).and_then(|file| unpacker.wheel(name, file));
            let _ = fs::remove_file(&at);
            result
        } else {
            unpacker.tar(name, format, &mut download)
        };
        // The checksum covers all bytes, including those after the end of the archive.
        let rest = unpacked.is_ok().then(|| io::copy(&mut download, &mut io::sink()));
        if let Some(failure) = download.download.failure.take() {
            // After these failures, the kept bytes belong to another file, so the next process must not resume the
            // download.
            let other = |failure: &DownloadError| {
                matches!(
                    failure,
                    DownloadError::Changed { .. }
                        | DownloadError::Page { .. }
                        | DownloadError::TooLong { .. }
                )
            };
            if other(&failure) {
                download.forget();
            }
            return Err(self.unusable(failure));
        }
        // The downloaded bytes are kept, so that the next fetch can resume the download.
        if matches!(unpacked, Err(ObtainError::Cancelled)) {
            return Err(ObtainError::Cancelled);
        }
        // The archive is complete, or another download would result in the same damaged bytes, so the kept bytes are
        // removed.
        download.forget();
        let sha256 = download.sha256();
        let complete = unpacked.and_then(|()| match rest {
            Some(Err(error)) => {
                Err(ObtainError::Network { url: url.clone(), reason: error.to_string() })
            }
            _ => Ok(()),
        });
        complete?;
        if let Some(want) = self.published(archive, cancel)?.filter(|want| *want != sha256) {
            return Err(ObtainError::Checksum { url: url.clone(), want, got: sha256 });
        }
        self.first_sight(url, &sha256)?;
        let bytes = download.download.bytes();
        Ok(Fetched { name: name.clone(), url: url.clone(), sha256, bytes })
    }

    fn unusable(&self, failure: DownloadError) -> ObtainError {
        match failure {
            DownloadError::NoSpace { .. } => ObtainError::NoSpace { path: self.folder.clone() },
            other => other.into(),
        }
    }

    fn whole(&self, from: &mut dyn io::Read, at: &Path) -> Result<File, ObtainError> {
        let mut file = create(at).map_err(ObtainError::io("create", at))?;
        io::copy(from, &mut file).map_err(ObtainError::io("write", at))?;
        File::open(at).map_err(ObtainError::io("open", at))
    }

    /// Returns the published SHA-256 of an archive; `None` if no SHA-256 is published.
    fn published(
        &self,
        archive: &Archive,
        cancel: &AtomicBool,
    ) -> Result<Option<String>, ObtainError> {
        let (None, Some(url)) = (&archive.sha256, &archive.sha256_url) else {
            return Ok(archive.sha256.as_ref().map(|sum| sum.to_lowercase()));
        };
        match self.http.text(url, "text/plain", CHECKSUM, cancel) {
            // The file has the format of `sha256sum`: the digest, then the file name.
            Ok((text, _)) => Ok(text.split_whitespace().next().map(str::to_lowercase)),
            Err(DownloadError::Missing { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Stores the SHA-256 of an archive when it is downloaded for the first time, and compares later downloads with it.
    ///
    /// # Errors
    /// [`ObtainError::Republished`] if a later download has another SHA-256, and I/O errors.
    fn first_sight(&self, url: &str, sha256: &str) -> Result<(), ObtainError> {
        let folder = self.folder.join("seen");
        let record = folder.join(format!("{:032x}", xxhash_rust::xxh3::xxh3_128(url.as_bytes())));
        if let Ok(text) = fs::read_to_string(&record) {
            let before = text.split_whitespace().next().unwrap_or_default();
            return if before == sha256 {
                Ok(())
            } else {
                Err(ObtainError::Republished {
                    url: url.to_owned(),
                    before: before.to_owned(),
                    now: sha256.to_owned(),
                    record,
                })
            };
        }
        fs::create_dir_all(&folder).map_err(ObtainError::io("create", &folder))?;
        atomic::write(&record, format!("{sha256}  {url}\n"))
            .map_err(ObtainError::io("write", &record))
    }

    fn write_record(&self, prefix: &Path, record: &Record) -> Result<(), ObtainError> {
        let path = prefix.join(RECORD);
        let text = serde_json::to_string_pretty(record).map_err(io::Error::from);
        text.and_then(|text| atomic::write(&path, text)).map_err(ObtainError::io("write", &path))
    }

    /// Returns the origin of the prefix with the name `key`; `None` if the prefix is not complete, or if its archives
    /// come from none of the locations of `build`.
    ///
    /// Archives from every location are accepted. Otherwise, a build that came from its second location would be
    /// downloaded again. This needs an exclusive lock, and a process that already uses the build would wait for its own
    /// lock.
    fn record(&self, key: &str, build: &Build) -> Option<Record> {
        let text = fs::read(self.prefix(key).join(RECORD)).ok()?;
        let record: Record = serde_json::from_slice(&text).ok()?;
        let from = |place: &BuildLocation| match place {
            BuildLocation::Archives { archives, .. } => {
                let urls = record.archives.iter().map(|archive| &archive.url);
                urls.eq(archives.iter().map(|archive| &archive.url))
            }
            _ => false,
        };
        build.places.iter().any(from).then_some(record)
    }

    /// Renames a finished folder, so that it becomes the prefix with the name `key`. An earlier prefix with this name
    /// is removed.
    fn publish(&self, work: &Path, key: &str, stop: &AtomicBool) -> Result<(), ObtainError> {
        let prefix = self.prefix(key);
        let patience = CleanupLimit::new(stop);
        match remove_folder(&prefix, &patience) {
            Err(_) if patience.is_over() => return Err(ObtainError::Cancelled),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ObtainError::io("replace", &prefix)(error));
            }
            _ => {}
        }
        fs::rename(work, &prefix).map_err(ObtainError::io("publish", &prefix))
    }

    /// Creates a build with the name `id` without a download. `fill` receives the path of an empty folder, and must
    /// write all files of the build into it.
    pub(crate) fn assembled(
        &self,
        id: &str,
        fill: impl FnOnce(&Path) -> Result<(), ObtainError>,
    ) -> Result<ObtainedBuild, ObtainError> {
        let key = cleaned(id);
        let lock = self.lock(&key)?;
        let never = AtomicBool::new(false);
        lock.hold(LockMode::Alone, MAX_LOCK_WAIT, &never, &|_| ())?;
        let work = self.prefixes().join(format!(".{key}.work"));
        let made = empty(&work, &never).and_then(|prefix| {
            fill(&prefix)?;
            self.write_record(&prefix, &Record { id: id.to_owned(), archives: Vec::new() })?;
            self.publish(&work, &key, &never)
        });
        if made.is_err() {
            let _ = remove_folder(&work, &CleanupLimit::new(&never));
        }
        made?;
        lock.hold(LockMode::Shared, MAX_LOCK_WAIT, &never, &|_| ())?;
        let mut obtained = self.opened(id, &self.prefix(&key))?;
        obtained._lock = Some(lock);
        Ok(obtained)
    }

    fn blobs(&self) -> Blobs {
        Blobs::at(self.folder.join("files"))
    }

    fn partial(&self) -> PathBuf {
        self.folder.join("partial")
    }

    fn prefixes(&self) -> PathBuf {
        self.folder.join("prefixes")
    }

    fn prefix(&self, key: &str) -> PathBuf {
        self.prefixes().join(key)
    }

    /// Opens the lock file of a build, without locking it yet. Fails if a folder of the store is a symbolic link,
    /// because the store could then remove files outside its own folder.
    fn lock(&self, key: &str) -> Result<Lock, ObtainError> {
        for folder in [self.prefixes(), self.partial(), self.folder.join("files")] {
            check_no_links(self.stacks.path(), &folder)?;
        }
        Ok(Lock::open(self.prefixes().join(format!(".{key}.lock")))?)
    }
}

impl ObtainedBuild {
    fn new(id: &str, stack: Stack) -> Self {
        Self {
            id: id.to_owned(),
            prefix: stack.root.clone(),
            components: Components::of_prefix(&stack.root),
            stack,
            sha256: Vec::new(),
            downloaded: 0,
            _lock: None,
        }
    }
}
