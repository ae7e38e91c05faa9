//! Writes files that appear completely or not at all, even if the writing process is killed.
//!
//! A [`NewFile`] has no name while it is being written (`O_TMPFILE`), so a killed process leaves no file behind. If the
//! file system does not support files without a name, the file is in the folder of the target and has the name
//! `.TARGET.rocrepro-PID-N`. In that case, a killed process leaves the file behind. Later runs do not remove the file,
//! because its name does not prove which program created it.

#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, linkat, open},
    io::Errno,
};

/// A file that is being written and that does not have its final name yet.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    target: PathBuf,
    /// Temporary name of the file; `None` if the file has no name yet.
    temporary: Option<PathBuf>,
}

impl NewFile {
    /// Creates a file that will have the name `target`. Its permissions are those of any new file of the user.
    ///
    /// # Errors
    /// Fails if the folder is missing or not writable.
    pub fn create(target: &Path) -> io::Result<NewFile> {
        NewFile::create_with(target, true)
    }

    fn create_with(target: &Path, nameless: bool) -> io::Result<NewFile> {
        if target.file_name().is_none() {
            return Err(ErrorKind::InvalidInput.into());
        }
        if nameless && let Some(file) = create_unnamed(&folder(target))? {
            return Ok(NewFile { file, target: target.to_owned(), temporary: None });
        }
        let temporary = temporary(target);
        let file = File::options().write(true).create_new(true).open(&temporary)?;
        Ok(NewFile { file, target: target.to_owned(), temporary: Some(temporary) })
    }

    /// Gives the file its final name. If a file with this name exists, it is replaced, and the new file gets the
    /// permissions of the old one.
    ///
    /// # Errors
    /// Fails if the disk is full or the folder is not writable.
    pub fn replace(mut self) -> io::Result<()> {
        // A confined worker may not change permissions. It replaces only files of its own, which already have the same
        // permissions.
        if let Ok(old) = fs::metadata(&self.target)
            && old.permissions() != self.file.metadata()?.permissions()
        {
            self.file.set_permissions(old.permissions())?;
        }
        self.file.sync_all()?;
        let temporary = match self.temporary.clone() {
            Some(temporary) => temporary,
            None => {
                let temporary = temporary(&self.target);
                self.link(&temporary)?;
                self.temporary = Some(temporary.clone());
                temporary
            }
        };
        fs::rename(&temporary, &self.target)?;
        self.temporary = None;
        Ok(())
    }

    /// Gives the file its final name, which must not exist yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::AlreadyExists`] if the name exists, even as a symbolic link without a target. Returns other
    /// errors as [`replace`](Self::replace) does.
    pub fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        match &self.temporary {
            None => self.link(&self.target),
            // The name is created as a hard link, because a rename would replace an existing file.
            Some(temporary) => fs::hard_link(temporary, &self.target),
        }
    }

    fn link(&self, name: &Path) -> io::Result<()> {
        // The link is created through /proc, because linking a file descriptor directly needs a capability (open(2),
        // O_TMPFILE).
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(linkat(CWD, own, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes a file, or replaces an existing one. A reader always finds either the old content or the new content. A
/// symbolic link is kept, and its target is replaced. A target that is not a regular file, such as a pipe or
/// `/dev/stdout`, is written directly.
///
/// # Errors
/// The errors of [`NewFile::create`] and [`NewFile::replace`], and those of writing to the file.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        return fs::write(path, bytes);
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let replaced = |nameless: bool| {
        let mut file = NewFile::create_with(&path, nameless)?;
        file.write_all(bytes.as_ref())?;
        file.replace()
    };
    match replaced(true) {
        // A process that is not permitted to create links, such as a confined worker, cannot give the file its name
        // later.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => replaced(false),
        done => done,
    }
}

/// Writes a file that must not exist yet.
///
/// # Errors
/// Returns [`ErrorKind::AlreadyExists`] if the name exists. The other errors are those of [`NewFile::create`] and
/// [`NewFile::publish`], and those of writing to the file.
pub fn write_new(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.publish()
}

/// Opens a file that has no name. Returns `None` if the file could not get a name later, because the file system does
/// not support this or `/proc` is not mounted.
fn create_unnamed(folder: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(folder, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => {
            let file = File::from(file);
            let named = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
            Ok(fs::metadata(named).is_ok().then_some(file))
        }
        // Linux or the file system does not support O_TMPFILE; see open(2).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn folder(target: &Path) -> PathBuf {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

fn temporary(target: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".rocrepro-{}-{number}", std::process::id()));
    folder(target).join(name)
}

#[cfg(test)]
mod tests;
