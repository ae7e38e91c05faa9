//! Downloads packages whose digests are known. Each package comes from the first mirror that has it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use download::{DownloadError, Http, SizeLimit};

use crate::debian::planned::{Absent, Planned, verify};
use crate::keep::folder::{create, no_link};
use crate::transfer::{CopyError, copy};
use crate::{FetchError, FetchEvent, FetchProgress, watch::watched};

/// Time to wait before the second attempt to download a file. It doubles before each further attempt.
const BACKOFF: Duration = Duration::from_millis(250);

/// Maximum number of simultaneous downloads. Most packages are small, so most of the time is spent waiting for hosts.
const CONNECTIONS: usize = 4;

/// The mirrors, the preferred one first.
pub(crate) struct Mirrors<'a> {
    http: Http,
    each: Vec<Mirror<'a>>,
}

struct Mirror<'a> {
    address: &'a str,
    /// Reason why the mirror failed; `None` if it has not failed. A mirror that has failed once is not used again.
    silent: Mutex<Option<String>>,
}

impl<'a> Mirrors<'a> {
    pub(crate) fn new(addresses: &'a [String]) -> Self {
        let mirror = |address: &'a String| Mirror { address, silent: Mutex::default() };
        Self { http: Http::new(BACKOFF), each: addresses.iter().map(mirror).collect() }
    }

    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.each.iter().map(|mirror| mirror.address).collect();
        names.join(", ")
    }

    /// Reads a file from the first mirror that has it, and returns the result of `reader`, which receives the content.
    /// At most `bound` bytes are read. `None` if no mirror has the file.
    pub(crate) fn read<T>(
        &self,
        path: &str,
        bound: SizeLimit,
        stop: &AtomicBool,
        mut reader: impl FnMut(&mut dyn Read) -> T,
    ) -> Option<T> {
        self.each.iter().filter(|mirror| !mirror.is_silent()).find_map(|mirror| {
            match mirror.place(path) {
                Place::File(_, path) => {
                    Some(reader(&mut File::open(path).ok()?.take(bound.max_bytes())))
                }
                Place::Url(url) => {
                    let opened = self.http.open(&url, path, bound, stop, &|_| ());
                    opened.ok().map(|mut download| reader(&mut download))
                }
            }
        })
    }

    /// Downloads the packages that are not in the folder. Returns the addresses of the mirrors that were used.
    pub(crate) fn download(
        &self,
        plan: &[&Planned],
        folder: &Path,
        stop: &AtomicBool,
        progress: &FetchProgress<'_>,
    ) -> Result<Vec<String>, Absent> {
        fs::create_dir_all(folder).map_err(FetchError::io("create", folder))?;
        let total = plan.iter().map(|package| package.size).sum();
        let there = |package: &&Planned| fs::metadata(part(package, folder)).map_or(0, |p| p.len());
        fits(total - plan.iter().map(there).sum::<u64>().min(total), folder)?;
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let failed = AtomicBool::new(false);
        let results = Mutex::new(Vec::new());
        let tell = || {
            let done = done.load(Ordering::Relaxed).min(total);
            progress(FetchEvent::Download { done, total });
        };
        tell();
        let work = || {
            while !failed.load(Ordering::Relaxed) {
                let Some(package) = plan.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                let result = self.one(package, folder, &failed, &|bytes| {
                    done.fetch_add(bytes, Ordering::Relaxed);
                    tell();
                });
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                results.lock().unwrap_or_else(|e| e.into_inner()).push(result);
            }
        };
        // All downloads check the same flag. A failed download sets the flag, so that the other downloads stop. A
        // cancellation by the caller sets the flag too.
        let had_enough = || failed.store(true, Ordering::Relaxed);
        watched(stop, had_enough, || download::run_on_threads(CONNECTIONS.min(plan.len()), work));
        if stop.load(Ordering::Relaxed) {
            return Err(FetchError::Cancelled.into());
        }
        let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
        let mut from: Vec<_> = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        from.sort();
        from.dedup();
        Ok(from.into_iter().flatten().collect())
    }

    /// Downloads one package. Returns the address of the mirror that had it, or `None` if `cancel` became true. `read`
    /// is called with the number of bytes after each read.
    fn one(
        &self,
        package: &Planned,
        folder: &Path,
        cancel: &AtomicBool,
        read: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<String>, Absent> {
        let mut damaged = None;
        let mut answered = false;
        for mirror in &self.each {
            if mirror.is_silent() {
                continue;
            }
            let left = fs::metadata(part(package, folder)).is_ok_and(|part| part.len() > 0);
            let mut result = self.from(mirror, package, folder, cancel, read);
            // The partial file of an earlier process may belong to another file. If the result is damaged, the download
            // is repeated from the start.
            if let (true, Err(Trouble::Damaged(_))) = (left, &result) {
                result = self.from(mirror, package, folder, cancel, read);
            }
            match result {
                Ok(()) => return Ok(Some(mirror.address.to_owned())),
                Err(Trouble::Missing) => answered = true,
                // The mirror may be in the middle of an update, or may have returned a login page. The next mirror may
                // have the package.
                Err(Trouble::Damaged(error)) => damaged = Some(error),
                Err(Trouble::Silent(reason)) => {
                    if let Ok(mut silent) = mirror.silent.lock() {
                        *silent = Some(reason);
                    }
                }
                Err(Trouble::Cancelled) => return Ok(None),
                Err(Trouble::Disk(error)) => return Err(error.into()),
            }
        }
        if let Some(error) = damaged {
            return Err(error.into());
        }
        if answered {
            let package = format!("{} {}", package.name, package.version);
            return Err(Absent::Gone { package });
        }
        Err(self.silence().into())
    }

    fn silence(&self) -> FetchError {
        let of = |mirror: &Mirror<'_>| {
            Some((mirror.address.to_owned(), mirror.silent.lock().ok()?.clone()?))
        };
        let each: Vec<_> = self.each.iter().filter_map(of).collect();
        let names: Vec<_> = each.iter().map(|(address, _)| address.as_str()).collect();
        let reasons: Vec<_> = each.iter().map(|(_, reason)| reason.as_str()).collect();
        FetchError::Mirror { mirror: names.join(" and "), detail: reasons.join("; ") }
    }

    fn from(
        &self,
        mirror: &Mirror<'_>,
        package: &Planned,
        folder: &Path,
        cancel: &AtomicBool,
        read: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Trouble> {
        let part = part(package, folder);
        let disk = |action| {
            let path = part.clone();
            move |error| Trouble::Disk(FetchError::io(action, &path)(error))
        };
        let count = |chunk: &[u8]| read(chunk.len() as u64);
        let written = match mirror.place(&package.path) {
            Place::File(root, path) => {
                let from = match File::open(&path) {
                    Ok(file) => file,
                    Err(error) if root.is_dir() => {
                        return Err(match error.kind() {
                            io::ErrorKind::NotFound => Trouble::Missing,
                            _ => Trouble::Silent(format!("{}: {error}", path.display())),
                        });
                    }
                    Err(error) => {
                        return Err(Trouble::Silent(format!("{}: {error}", root.display())));
                    }
                };
                let mut to = create(&part).map_err(disk("create"))?;
                // One byte more than the expected size is read, to detect a file that is longer than expected.
                copy(&mut from.take(package.size.saturating_add(1)), &mut to, count)
            }
            Place::Url(address) => {
                let mut to = no_link(File::options().create(true).read(true).append(true))
                    .open(&part)
                    .map_err(disk("create"))?;
                let have = to.metadata().map_err(disk("read"))?.len();
                // A partial file that is longer than the package belongs to another file.
                let have = if have > package.size {
                    to.set_len(0).map_err(disk("write"))?;
                    0
                } else {
                    have
                };
                read(have);
                let quiet = |_: download::DownloadEvent<'_>| ();
                let file = part.clone();
                let part =
                    download::PartialDownload { there: have, size: Some(package.size), etag: None };
                let bound =
                    SizeLimit::new(package.size, "that is the size of the package that is wanted");
                let opened = self.http.resume(&address, &package.name, part, bound, cancel, &quiet);
                let trouble = |failure| match failure {
                    DownloadError::TooLong { .. } => {
                        let (path, detail) = (file.clone(), failure.to_string());
                        // Without the partial file, the download from the next mirror starts at the beginning.
                        let _ = fs::remove_file(&path);
                        Trouble::Damaged(FetchError::Damaged { path, detail })
                    }
                    other => trouble(other),
                };
                let mut from = opened.map_err(trouble)?;
                let written = copy(&mut from, &mut to, count);
                if let Some(failure) = from.failure.take() {
                    return Err(trouble(failure));
                }
                written
            }
        };
        if let Err(CopyError::Read(error) | CopyError::Write(error)) = written {
            return Err(disk("write")(error));
        }
        if let Err(error) = verify(package, &part, cancel) {
            if !matches!(error, FetchError::Cancelled) {
                let _ = fs::remove_file(&part);
            }
            return Err(Trouble::Damaged(error));
        }
        fs::rename(&part, folder.join(package.file())).map_err(disk("rename"))
    }
}

enum Place {
    /// A file on this machine: the folder of the mirror, and the path of the file.
    File(PathBuf, PathBuf),
    Url(String),
}

impl Mirror<'_> {
    fn is_silent(&self) -> bool {
        self.silent.lock().is_ok_and(|silent| silent.is_some())
    }

    fn place(&self, path: &str) -> Place {
        match self.address.strip_prefix("file:") {
            Some(root) => Place::File(root.into(), Path::new(root).join(path)),
            None => Place::Url(format!("{}/{path}", self.address.trim_end_matches('/'))),
        }
    }
}

/// Checks that the disk that contains the folder has at least this much free space, in bytes.
fn fits(bytes: u64, folder: &Path) -> Result<(), FetchError> {
    let free = SizeLimit::new(bytes, "").within_free_space(folder).max_bytes();
    if free < bytes { Err(FetchError::DiskFull { path: folder.to_owned() }) } else { Ok(()) }
}

/// Returns the path of the file into which a package is downloaded until it is complete.
fn part(package: &Planned, folder: &Path) -> PathBuf {
    folder.join(format!("{}.part", package.file()))
}

/// Reason why a package could not be downloaded from one mirror.
enum Trouble {
    Missing,
    /// The mirror's file differs from the expected package.
    Damaged(FetchError),
    /// The mirror does not respond.
    Silent(String),
    /// The download of another package failed, or the caller cancelled.
    Cancelled,
    /// An operation on a file of this machine failed.
    Disk(FetchError),
}

fn trouble(failure: DownloadError) -> Trouble {
    match failure {
        DownloadError::Missing { .. } => Trouble::Missing,
        DownloadError::Cancelled => Trouble::Cancelled,
        other => Trouble::Silent(other.to_string()),
    }
}
