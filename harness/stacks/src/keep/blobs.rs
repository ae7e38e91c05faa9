//! Stores files under a hash of their content, so that files which neighbouring nightly builds have in common take up
//! disk space only once.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::FileType;
use xxhash_rust::xxh3::Xxh3;

use super::folder::{Entry, Folder, create};
use crate::PathError;
use crate::transfer::{CopyError, copy};
use crate::watch::CleanupLimit;

/// Folder of files whose names are a hash of their content. The folder into which a build is unpacked, its prefix,
/// contains hard links to these files. A file is linked into a prefix before it is linked into this folder, so a file
/// with only one link is unused.
///
/// The files are read-only, because a program that changed a file of its prefix would change the file in other builds.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    folder: PathBuf,
}

pub(crate) enum AddError {
    /// The content of the new file could not be read.
    Read(io::Error),
    /// The new file could not be written.
    Write(PathError),
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AddError {
    move |error| AddError::Write(PathError::new(action, path, error))
}

impl Blobs {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes `content` to a file of a prefix. If a file with the same content is stored already, the new file is a
    /// hard link to it. No file may exist at the path `at` yet.
    pub(crate) fn add(
        &self,
        content: &mut dyn Read,
        at: &Path,
        executable: bool,
    ) -> Result<(), AddError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!(".{}.{number}", std::process::id()));
        let result = self.write(content, &temporary, at, executable);
        // If the content was new, the temporary file has been renamed and no longer exists. Errors are therefore
        // ignored.
        let _ = fs::remove_file(&temporary);
        result
    }

    fn write(
        &self,
        content: &mut dyn Read,
        temporary: &Path,
        at: &Path,
        executable: bool,
    ) -> Result<(), AddError> {
        fs::create_dir_all(&self.folder).map_err(failed("create", &self.folder))?;
        let mut file = create(temporary).map_err(failed("create", temporary))?;
        let mut hash = Xxh3::new();
        let mut length = 0u64;
        copy(content, &mut file, |chunk| {
            hash.update(chunk);
            length += chunk.len() as u64;
        })
        .map_err(|error| match error {
            CopyError::Read(error) => AddError::Read(error),
            CopyError::Write(error) => failed("write", temporary)(error),
        })?;
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
        // Without this link, the file is not shared with other builds, but is otherwise usable. The reason may be
        // another process that was faster, or the file system's limit on the number of links.
        let _ = fs::hard_link(at, &blob);
        Ok(())
    }

    /// Returns the total size of all files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.each().map(|(_, file)| file.bytes).sum()
    }

    /// Removes files that no prefix uses. When the time limit `patience` has expired, the remaining files are left to a
    /// later sweep.
    pub(crate) fn sweep<S: Deref<Target = AtomicBool>>(&self, patience: &CleanupLimit<S>) {
        for (folder, file) in self.each().take_while(|_| !patience.is_over()) {
            if file.links == 1 {
                // Another process that has just begun to use the file has a link of its own.
                let _ = folder.remove_file(&file);
            }
        }
    }

    /// Returns each file, together with an open handle of its folder.
    fn each(&self) -> impl Iterator<Item = (Rc<Folder>, Entry)> {
        let folders = Folder::open(&self.folder).ok().into_iter().flat_map(|top| {
            let entries = top.entries().unwrap_or_default();
            entries.into_iter().filter_map(move |entry| top.folder(&entry).ok())
        });
        let files = folders.flat_map(|folder| {
            let folder = Rc::new(folder);
            let entries = folder.entries().unwrap_or_default();
            entries.into_iter().map(move |entry| (Rc::clone(&folder), entry))
        });
        files.filter(|(_, entry)| entry.kind == FileType::RegularFile)
    }
}
