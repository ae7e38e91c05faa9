//! Files that appear whole or not at all, also where their writer is killed.
//!
//! A [`NewFile`] has no name while it is written (`O_TMPFILE`), so that a writer that is killed leaves nothing. Where the file system
//! has no such files, it has a name of its own beside its target, `.TARGET.rocrepro-PID-N`, and a lock that the kernel lets go of when
//! the writer ends: the next writer of the same target removes what has that form and no lock.

#![forbid(unsafe_code)]

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, open},
    io::Errno,
};

/// Separator between the name of a target and the number of a writer.
const MARK: &str = ".rocrepro-";

/// A file that is being written and has not got its name yet.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    target: PathBuf,
    /// The name that it has meanwhile; none where the file system needs none.
    temporary: Option<PathBuf>,
}

impl NewFile {
    /// Begins a file that will be called `target`. Its rights are those of any file that the user makes. Removes what a writer of the
    /// same target left that was killed.
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
        remove_abandoned(target);
        if nameless && let Some(file) = without_a_name(&folder(target))? {
            return Ok(NewFile { file, target: target.to_owned(), temporary: None });
        }
        loop {
            let temporary = temporary(target);
            let file = File::options().write(true).create_new(true).open(&temporary)?;
            lock(&file)?;
            // Another writer may have removed it between the two steps.
            if file.metadata()?.nlink() > 0 {
                return Ok(NewFile { file, target: target.to_owned(), temporary: Some(temporary) });
            }
        }
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
                lock(&self.file)?;
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

/// A lock that lasts as long as the file is open. A file system without locks has none, and then nothing is removed there.
fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::LockExclusive) {
        Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL) => Ok(()),
        other => Ok(other?),
    }
}

fn folder(target: &Path) -> PathBuf {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Returns the prefix of the temporary names of a target.
fn prefix(target: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push(MARK);
    prefix
}

fn temporary(target: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = prefix(target);
    name.push(format!("{}-{number}", std::process::id()));
    folder(target).join(name)
}

/// Returns true for a name that [`temporary`] gives.
fn is_temporary(name: &OsStr, prefix: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(prefix.as_bytes());
    let rest = rest.and_then(|rest| std::str::from_utf8(rest).ok());
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.and_then(|rest| rest.split_once('-')).is_some_and(|(pid, n)| number(pid) && number(n))
}

/// Removes the temporary files of a target whose writers have ended.
fn remove_abandoned(target: &Path) {
    let prefix = prefix(target);
    for entry in fs::read_dir(folder(target)).into_iter().flatten().flatten() {
        if !is_temporary(&entry.file_name(), &prefix)
            || !entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            continue;
        }
        // The lock is held until the name is gone: of two that look at once one removes it.
        let locked = File::open(entry.path())
            .ok()
            .filter(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok());
        if locked.is_some() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
