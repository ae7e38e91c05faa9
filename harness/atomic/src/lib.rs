//! Files that appear whole or not at all, also where their writer is killed.
//!
//! A [`NewFile`] has no name while it is written (`O_TMPFILE`), so a killed writer leaves nothing. Where the file system has
//! no such files, the file has a name beside its target, `.TARGET.rocrepro-PID-N`, and a killed writer leaves it. Nobody
//! removes it later, because a name does not show whose file it is.

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

/// A file that is being written and has not got its name yet.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    target: PathBuf,
    /// The name that it has meanwhile; none where the file system needs none.
    temporary: Option<PathBuf>,
}

impl NewFile {
    /// Begins a file that will be called `target`. Its rights are those of any file that the user makes.
    ///
    /// # Errors
    /// A folder that is missing or cannot be written to.
    pub fn create(target: &Path) -> io::Result<NewFile> {
        NewFile::create_with(target, true)
    }

    fn create_with(target: &Path, nameless: bool) -> io::Result<NewFile> {
        if target.file_name().is_none() {
            return Err(ErrorKind::InvalidInput.into());
        }
        if nameless && let Some(file) = without_a_name(&folder(target))? {
            return Ok(NewFile { file, target: target.to_owned(), temporary: None });
        }
        let temporary = temporary(target);
        let file = File::options().write(true).create_new(true).open(&temporary)?;
        Ok(NewFile { file, target: target.to_owned(), temporary: Some(temporary) })
    }

    /// Gives the file its name, in place of a file that has it. The rights of that file stay.
    ///
    /// # Errors
    /// The disk is full, or the folder does not let it.
    pub fn replace(mut self) -> io::Result<()> {
        if let Ok(old) = fs::metadata(&self.target) {
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

    /// Gives the file its name, which nothing may have.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] where something has it, a link that leads nowhere, too; else as for [`replace`](Self::replace).
    pub fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        match &self.temporary {
            None => self.link(&self.target),
            // A link and not a rename, which would replace what is there.
            Some(temporary) => fs::hard_link(temporary, &self.target),
        }
    }

    /// Gives a nameless file a name.
    fn link(&self, name: &Path) -> io::Result<()> {
        // See open(2), O_TMPFILE: by its descriptor a file is linked only with a capability.
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
    /// Removes the name that the file has meanwhile.
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes a file in place of one that is there: a reader finds the old bytes or the new ones. A symbolic link goes on to lead to the
/// file. What is not a plain file, such as a pipe or `/dev/stdout`, is written to as it is.
///
/// # Errors
/// Those of [`NewFile`].
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        return fs::write(path, bytes);
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut file = NewFile::create(&path)?;
    file.write_all(bytes.as_ref())?;
    file.replace()
}

/// Writes a file that is not there yet.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] where something has its name; else those of [`NewFile`].
pub fn write_new(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.publish()
}

/// Opens a file without a name; none where the file system, or a kernel that shows no `/proc`, has no way to name it later.
fn without_a_name(folder: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(folder, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => {
            let file = File::from(file);
            let named = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
            Ok(fs::metadata(named).is_ok().then_some(file))
        }
        // Kernels and file systems that do not know the flag; see open(2).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn folder(target: &Path) -> PathBuf {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Returns a temporary name beside a target.
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
