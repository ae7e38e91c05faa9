//! Downloads that a later process goes on with: what came of an archive is kept beside the store until the archive is whole.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use download::{Download, Failure, Http, Part, Progress};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// After this nobody goes on with a download: nights are looked for within days.
const OLD: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// What a host said of the file when its download began.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    url: String,
    size: Option<u64>,
    etag: Option<String>,
}

/// An archive as it comes: first what an earlier process left of it, then the rest.
pub(crate) struct Partial<'a> {
    bytes: PathBuf,
    known: PathBuf,
    /// What is there and was not read yet.
    there: Option<io::Take<File>>,
    /// Where new bytes go; none where the disk does not take them, or the host does not say by what to know the file again.
    keep: Option<File>,
    hash: Sha256,
    /// The rest.
    pub(crate) download: Download<'a>,
}

impl<'a> Partial<'a> {
    /// Begins, or goes on with what is in the folder.
    ///
    /// # Errors
    /// [`Failure`], where the host has no answer that a download could begin with.
    pub(crate) fn open(
        folder: &Path,
        http: &'a Http,
        (url, name): (&'a str, &'a str),
        cancel: &'a AtomicBool,
        progress: &'a Progress<'a>,
    ) -> Result<Self, Failure> {
        sweep(folder);
        let stem = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(url.as_bytes()));
        let (bytes, known) = (folder.join(&stem), folder.join(format!("{stem}.json")));
        let forget = || [&bytes, &known].map(|path| fs::remove_file(path).is_ok());
        let before = left(&bytes, &known).filter(|(before, _)| before.url == url);
        if let Some((before, there)) = before {
            let part = Part { there, size: before.size, etag: before.etag };
            match http.resume(url, name, part, cancel, progress) {
                Ok(download) => {
                    let opened = File::open(&bytes).map(|file| file.take(there));
                    let keep = File::options().append(true).open(&bytes);
                    if let (Ok(file), Ok(keep)) = (opened, keep) {
                        let (there, keep) = (Some(file), Some(keep));
                        let hash = Sha256::new();
                        return Ok(Self { bytes, known, there, keep, hash, download });
                    }
                }
                // Another file by now: what is there is of no use.
                Err(Failure::Changed { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        forget();
        let download = http.open(url, name, cancel, progress)?;
        let (size, etag) = (download.size(), download.etag().map(str::to_owned));
        let again = etag.is_some().then(|| Known { url: url.to_owned(), size, etag });
        let keep = again.and_then(|again| {
            fs::create_dir_all(folder).ok()?;
            fs::write(&known, serde_json::to_vec(&again).ok()?).ok()?;
            File::create(&bytes).ok()
        });
        Ok(Self { bytes, known, there: None, keep, hash: Sha256::new(), download })
    }

    /// Everything's sha256, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Forgets what was kept: the archive is whole, or is of no use.
    pub(crate) fn forget(&mut self) {
        self.keep = None;
        // What stays is found not to fit by whoever goes on with it.
        let _ = fs::remove_file(&self.bytes);
        let _ = fs::remove_file(&self.known);
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
                return Err(io::Error::other("what was kept of the download was cut meanwhile"));
            }
        }
        let n = self.download.read(buffer)?;
        self.hash.update(&buffer[..n]);
        // A full disk costs the next process the bytes, and not this one the build.
        if self.keep.as_mut().is_some_and(|file| file.write_all(&buffer[..n]).is_err()) {
            self.forget();
        }
        Ok(n)
    }
}

/// What an earlier process left: what it knew, and how many bytes there are.
fn left(bytes: &Path, known: &Path) -> Option<(Known, u64)> {
    let before: Known = serde_json::from_slice(&fs::read(known).ok()?).ok()?;
    let there = fs::metadata(bytes).ok()?.len();
    let fits = before.etag.is_some() && before.size.is_none_or(|size| there <= size);
    (there > 0 && fits).then_some((before, there))
}

/// Removes what nobody went on with.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let touched = entry.metadata().and_then(|metadata| metadata.modified());
        let age = touched.ok().and_then(|touched| SystemTime::now().duration_since(touched).ok());
        if age.is_some_and(|age| age > OLD) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
