//! Reads and writes the marker file of a temporary folder made by rocrepro.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::fs::{Mode, OFlags, openat};
use serde::{Deserialize, Serialize};

use crate::machine;

pub(super) const FILE: &str = ".rocrepro-scratch";

const WORDS: &str = "scratch of a rocrepro run; it goes when the run has ended";

const MAX_BYTES: u64 = 4096;

/// The content of a marker file: the owner of one folder. A copy of the folder has another inode, so the marker file
/// does not apply to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    mark: String,
    pub(super) pid: u32,
    /// Start time of the process in ticks after boot, which distinguishes it from a later process with the same id.
    pub(super) started: u64,
    /// Boot id of the Linux kernel.
    pub(super) boot: String,
    pub(super) host: String,
    /// Inode of the process id (pid) namespace.
    pub(super) namespace: u64,
    /// Inode of the folder.
    pub(super) inode: u64,
}

impl Mark {
    pub(super) fn current(folder: &File) -> io::Result<Mark> {
        let pid = std::process::id();
        let started =
            started(pid)?.ok_or_else(|| io::Error::other("cannot find this process in /proc"))?;
        Ok(Mark {
            mark: WORDS.to_owned(),
            pid,
            started,
            boot: machine::boot(),
            host: host(),
            namespace: namespace()?,
            inode: folder.metadata()?.ino(),
        })
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        fs::write(folder.join(FILE), text)
    }

    /// Returns the content of the marker file; `None` if the file is invalid or belongs to another user.
    pub(super) fn read(folder: &File) -> Option<Mark> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(folder, FILE, flags, Mode::empty()).ok()?);
        let (of_file, of_folder) = (file.metadata().ok()?, folder.metadata().ok()?);
        let user = rustix::process::getuid().as_raw();
        if !of_file.is_file() || of_file.uid() != user || of_folder.uid() != user {
            return None;
        }
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let mark: Mark = serde_json::from_str(&text).ok()?;
        (mark.mark == WORDS && mark.inode == of_folder.ino()).then_some(mark)
    }

    pub(super) fn owner_is_gone(&self) -> bool {
        let (boot, Ok(namespace)) = (machine::boot(), namespace()) else { return false };
        // If /proc is mounted with `subset=pid`, it does not contain the boot id.
        if self.host != host() || self.boot.is_empty() != boot.is_empty() {
            return false;
        }
        if self.boot != boot {
            return true;
        }
        // Processes in another pid namespace are not visible.
        self.namespace == namespace
            && started(self.pid).is_ok_and(|started| started != Some(self.started))
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// Returns the start time of a process, see `/proc/pid/stat` in proc(5); `None` if it has ended.
fn started(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read(format!("/proc/{pid}/stat")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // The process ended while its file was read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        stat => stat?,
    };
    let stat = String::from_utf8_lossy(&stat);
    // The name of the program may contain parentheses.
    let after = stat.rsplit_once(')').map(|(_, after)| after);
    let field = after.and_then(|after| after.split_ascii_whitespace().nth(19));
    let ticks = field.and_then(|field| field.parse().ok());
    ticks
        .map(Some)
        .ok_or_else(|| io::Error::other(format!("unexpected format of /proc/{pid}/stat")))
}
