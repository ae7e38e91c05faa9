//! Downloads that a later process can resume. Until an archive is complete, the store keeps the bytes that have been
//! downloaded.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use download::{Download, DownloadError, DownloadProgress, Http, PartialDownload, SizeLimit};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::folder::{Entry, create, entries, no_link};
use crate::transfer::hex;
use crate::{FileLock as Lock, LockMode};

/// Age at which an unfinished download is removed. A nightly build is usually tested within days.
const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Description of a file, as the host reported it when the download began.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct FileDescription {
    url: String,
    size: Option<u64>,
    etag: Option<String>,
}

/// An archive that is being downloaded. Reading from it first returns the bytes that an earlier process has downloaded,
/// then the rest from the host.
pub(crate) struct Partial<'a> {
    bytes: PathBuf,
    known: PathBuf,
    /// Bytes of the earlier process that have not been read yet.
    there: Option<io::Take<File>>,
    /// Locked file to which new bytes are appended. `None` if the disk is full, the host sends no ETag, or another
    /// process is downloading the same archive.
    keep: Option<(File, Lock)>,
    hash: Sha256,
    pub(crate) download: Download<'a>,
}

impl<'a> Partial<'a> {
    /// Begins a download, or resumes one whose first bytes are in the folder. `url` is the address of the archive,
    /// `name` is its name in messages, and `bound` is its maximum size.
    ///
    /// # Errors
    /// [`DownloadError`] if the download cannot begin.
    pub(crate) fn open(
        folder: &Path,
        http: &'a Http,
        (url, name): (&'a str, &'a str),
        bound: SizeLimit,
        cancel: &'a AtomicBool,
        progress: &'a DownloadProgress<'a>,
    ) -> Result<Self, DownloadError> {
        sweep(folder);
        let (bytes, known) = (folder.join(stem(url)), folder.join(stem(url) + ".json"));
        let mut lock = alone(&bytes);
        let before = left(&bytes, &known).filter(|(before, _)| before.url == url);
        if let Some((before, there)) = before
            && lock.is_some()
        {
            let part = PartialDownload { there, size: before.size, etag: before.etag };
            match http.resume(url, name, part, bound, cancel, progress) {
                Ok(download) => {
                    let opened = File::open(&bytes).map(|file| file.take(there));
                    let keep = no_link(File::options().append(true)).open(&bytes);
                    if let (Ok(file), Ok(keep)) = (opened, keep) {
                        let (there, keep) = (Some(file), lock.take().map(|lock| (keep, lock)));
                        let hash = Sha256::new();
                        return Ok(Self { bytes, known, there, keep, hash, download });
                    }
                }
                // The host now has another file at this address, so the kept bytes cannot be used.
                Err(DownloadError::Changed { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let opened = http.open(url, name, bound, cancel, progress);
        let again = opened.as_ref().ok().and_then(|download| {
            let (size, etag) = (download.size(), download.etag().map(str::to_owned));
            etag.is_some().then(|| FileDescription { url: url.to_owned(), size, etag })
        });
        let begin = |again: FileDescription| {
            atomic::write(&known, serde_json::to_vec(&again).ok()?).ok()?;
            create(&bytes).ok()
        };
        let keep = lock.and_then(|lock| match again.and_then(begin) {
            Some(file) => Some((file, lock)),
            None => {
                remove(&bytes, &known);
                None
            }
        });
        let (there, hash) = (None, Sha256::new());
        Ok(Self { bytes, known, there, keep, hash, download: opened? })
    }

    /// Returns the SHA-256 of all bytes that have been read, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    /// Removes the kept bytes, because the archive is complete or the bytes cannot be used.
    pub(crate) fn forget(&mut self) {
        if let Some((_, _lock)) = self.keep.take() {
            remove(&self.bytes, &self.known);
        }
    }
}

impl Read for Partial<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(there) = &mut self.there {
            let n = there.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                self.hash.update(&buffer[..n]);
                return Ok(n);
            }
            let missing = there.limit();
            self.there = None;
            if missing > 0 {
                return Err(io::Error::other(
                    "the partial download became shorter while it was read",
                ));
            }
        }
        let n = self.download.read(buffer)?;
        self.hash.update(&buffer[..n]);
        // If writing fails, for example on a full disk, the download continues, but a later process cannot resume it.
        if self.keep.as_mut().is_some_and(|(file, _)| file.write_all(&buffer[..n]).is_err()) {
            self.forget();
        }
        Ok(n)
    }
}

/// Returns the description and the number of kept bytes of a download that an earlier process began; `None` if no
/// download can be resumed.
fn left(bytes: &Path, known: &Path) -> Option<(FileDescription, u64)> {
    let before: FileDescription = serde_json::from_slice(&fs::read(known).ok()?).ok()?;
    let there = no_link(File::options().read(true)).open(bytes).ok()?.metadata().ok()?.len();
    let fits = before.etag.is_some() && before.size.is_none_or(|size| there <= size);
    (there > 0 && fits).then_some((before, there))
}

/// Returns the file name, without extension, under which the download of an address is kept.
fn stem(url: &str) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(url.as_bytes()))
}

/// Locks the file of a download. Returns `None` if another process has the lock.
fn alone(bytes: &Path) -> Option<Lock> {
    let lock = Lock::open(bytes.to_owned()).ok()?;
    lock.try_hold(LockMode::Alone).is_ok_and(|free| free).then_some(lock)
}

/// Removes the kept bytes of a download, and its description. Errors are ignored, because a file that remains is
/// checked before it is used.
fn remove(bytes: &Path, known: &Path) {
    let _ = fs::remove_file(bytes);
    let _ = fs::remove_file(known);
}

/// Returns the regular files in the folder, the oldest first.
fn files(folder: &Path) -> Vec<Entry> {
    let mut files = entries(folder);
    files.retain(|entry| entry.kind == FileType::RegularFile);
    files.sort_by(|a, b| (a.modified, &a.name).cmp(&(b.modified, &b.name)));
    files
}

/// Returns the total size of the kept downloads and their descriptions in bytes.
pub(crate) fn bytes(folder: &Path) -> u64 {
    files(folder).iter().map(|file| file.bytes).sum()
}

/// Removes the oldest kept download that no process has locked and whose address is not in `spared`. Returns the
/// address; `None` if every download is locked or spared.
pub(crate) fn evict(folder: &Path, spared: &[&str]) -> Option<String> {
    let parts = files(folder).into_iter().filter(|file| file.path.extension().is_none());
    parts.map(|part| part.path).find_map(|bytes| {
        let known = bytes.with_extension("json");
        let _lock = alone(&bytes)?;
        let text = fs::read(&known).unwrap_or_default();
        let url = serde_json::from_slice(&text)
            .map_or_else(|_| String::new(), |k: FileDescription| k.url);
        if spared.contains(&url.as_str()) {
            return None;
        }
        remove(&bytes, &known);
        Some(url)
    })
}

fn sweep(folder: &Path) {
    for file in files(folder) {
        if SystemTime::now().duration_since(file.modified).is_ok_and(|age| age > MAX_AGE) {
            let _ = fs::remove_file(file.path);
        }
    }
}
