//! Files kept once: neighbouring nightlies share most of theirs.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::Xxh3;

use crate::ObtainError;

/// A folder of files named by their content, which prefixes hold hard links to. A file is linked from a prefix before
/// it is named here, so that one link alone means that nothing uses it any more.
///
/// Files are read-only: a program that changed its prefix would change that of other builds.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    folder: PathBuf,
}

/// What went wrong when a file was added: with what it was read from, or on this machine.
pub(crate) enum Trouble {
    Read(io::Error),
    Write(ObtainError),
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Trouble {
    move |error| Trouble::Write(ObtainError::io(action, path)(error))
}

impl Blobs {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes a file of a prefix; `at` must not be there.
    pub(crate) fn add(
        &self,
        content: &mut dyn Read,
        at: &Path,
        executable: bool,
    ) -> Result<(), Trouble> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!(".{}.{number}", std::process::id()));
        let result = self.write(content, &temporary, at, executable);
        // It is gone where all went well and the content was new.
        let _ = fs::remove_file(&temporary);
        result
    }

    fn write(
        &self,
        content: &mut dyn Read,
        temporary: &Path,
        at: &Path,
        executable: bool,
    ) -> Result<(), Trouble> {
        fs::create_dir_all(&self.folder).map_err(failed("create", &self.folder))?;
        let mut file = File::create(temporary).map_err(failed("create", temporary))?;
        let mut hash = Xxh3::new();
        let mut length = 0u64;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let n = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Trouble::Read(error)),
            };
            hash.update(&buffer[..n]);
            length += n as u64;
            file.write_all(&buffer[..n]).map_err(failed("write", temporary))?;
        }
        let mode = if executable { 0o555 } else { 0o444 };
        file.set_permissions(Permissions::from_mode(mode)).map_err(failed("write", temporary))?;
        let name = format!("{:032x}-{length:x}-{mode:o}", hash.digest128());
        let folder = self.folder.join(&name[..2]);
        let blob = folder.join(&name);
        if fs::hard_link(&blob, at).is_ok() {
            return Ok(());
        }
        fs::rename(temporary, at).map_err(failed("create", at))?;
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        // Without its name here a file is only not shared: another process was first, or the file system has a
        // limit on links.
        let _ = fs::hard_link(at, &blob);
        Ok(())
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.each().map(|(_, metadata)| metadata.len()).sum()
    }

    /// Removes files that no prefix holds.
    pub(crate) fn sweep(&self) {
        for (path, metadata) in self.each() {
            if metadata.nlink() == 1 {
                // It may have been taken by another process just now; that one has its own link.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn each(&self) -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders = folders.filter(|entry| entry.path().is_dir());
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
        files.filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.path(), entry.metadata().ok()?))
        })
    }
}
