//! Gives one process and its children a changed view of the file system.
//!
//! A program and its children may have to find libraries other than those of the machine. The options of a dynamic
//! loader affect only one program and not its children. In a mount namespace, all of them find the libraries at the
//! usual paths. The mounts are invisible outside the namespace and disappear with its last process.

use std::{
    collections::BTreeMap,
    env,
    ffi::{CString, OsStr, OsString},
    fmt, fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, ffi::OsStringExt as _, fs::symlink},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change},
    process::{getgid, getuid},
    thread::{UnshareFlags, unshare_unsafe},
};
use serde::{Deserialize, Serialize};

/// Changes that a process and its children see in the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// An empty folder. In the view, an in-memory file system that contains `made` is mounted on it.
    pub place: PathBuf,
    /// Files and links that exist only in the view, by their paths relative to `place`.
    pub made: BTreeMap<PathBuf, ViewEntry>,
    /// Folders that are overlaid with others, in the order of mounting. Each overlay includes the original content of
    /// its folder, even if an earlier entry changed the folder.
    pub laid: Vec<Overlay>,
    /// Environment variables for programs inside the view.
    pub environment: BTreeMap<String, String>,
    /// Message to print if the process cannot enter the view. The program is then started without the view. If this
    /// is `None`, the program is not started.
    pub otherwise: Option<String>,
}

/// A file or link that exists only in the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ViewEntry {
    /// A file with this content.
    Text(String),
    /// A symbolic link to this path.
    Link(PathBuf),
}

/// A folder that is overlaid with others. If several contain a file with the same name, the uppermost one is visible.
/// Folders with the same name are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// The folder that is overlaid.
    pub folder: PathBuf,
    /// Folders above `folder`, the uppermost first.
    pub over: Vec<PathBuf>,
    /// Folders below `folder`, the lowest last.
    pub under: Vec<PathBuf>,
}

/// Error of entering a view, with the step that failed and the reason.
#[derive(Debug)]
pub(crate) struct ViewError(String);

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for ViewError {
    fn from(why: String) -> Self {
        ViewError(why)
    }
}

/// Returns a function that converts an error into a [`ViewError`]. `what` describes the step that failed.
fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> ViewError {
    move |error| ViewError(format!("{what}: {error}"))
}

impl View {
    /// Moves this process into the view. The process must have only one thread, because Linux requires that for a user
    /// namespace.
    ///
    /// Entering cannot be undone. If entering fails halfway, the process can only report the error.
    pub(crate) fn enter(&self) -> Result<(), ViewError> {
        let directory = env::current_dir().ok();
        unshare_mounts()?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(failed("cannot make its mounts private"))?;
        // Each folder is opened in its original state, before an earlier overlay changes it, because Linux allows only
        // a few nested overlays.
        let opened: Vec<_> =
            self.laid.iter().map(|laid| open(&laid.folder)).collect::<Result<_, _>>()?;
        let mounts = mount_points()?;
        mount(
            "rocrepro",
            &self.place,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            c"mode=755",
        )
        .map_err(failed(format_args!("cannot mount a tmpfs on `{}`", self.place.display())))?;
        self.make()?;
        for (laid, folder) in self.laid.iter().zip(&opened) {
            let inner: Vec<_> = outermost_below(&laid.folder, &mounts)
                .map(|point| Ok((point, open(point)?)))
                .collect::<Result<_, ViewError>>()?;
            laid.mount(folder)?;
            // An overlay hides the mounts below its folder, so these are mounted again.
            for (point, descriptor) in inner {
                mount_bind_recursive(path_of(&descriptor), point)
                    .map_err(failed(format_args!("cannot remount `{}`", point.display())))?;
            }
        }
        // The path of the working directory may now lead to another folder.
        if let Some(directory) = directory {
            env::set_current_dir(&directory)
                .map_err(failed(format_args!("cannot go back to `{}`", directory.display())))?;
        }
        Ok(())
    }

    fn make(&self) -> Result<(), ViewError> {
        for (name, made) in &self.made {
            let path = self.place.join(name);
            let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
            let done = parent.and_then(|()| match made {
                ViewEntry::Text(text) => fs::write(&path, text),
                ViewEntry::Link(target) => symlink(target, &path),
            });
            done.map_err(failed(format_args!("cannot create `{}`", path.display())))?;
        }
        Ok(())
    }

    pub(crate) fn to_word(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn from_word(word: &OsStr) -> Result<Self, String> {
        serde_json::from_slice(word.as_bytes())
            .map_err(|error| format!("invalid description of the namespace: {error}"))
    }

    /// Tries to enter the view in a child process, because entering cannot be undone. `starter` contains the program
    /// and the first arguments of this process's command line, which make it a starter.
    pub(crate) fn try_enter(&self, starter: &[OsString]) -> Result<(), ViewError> {
        let mut command = Command::new("/proc/self/exe");
        command.args(starter).args([TRY_VIEW, &self.to_word()]).stdin(Stdio::null());
        let tried = command.output().map_err(failed("cannot test namespaces"))?;
        if tried.status.success() {
            return Ok(());
        }
        Err(ViewError(String::from_utf8_lossy(&tried.stderr).trim().to_owned()))
    }
}

/// Argument that makes the starter only test whether it can enter a view. The next argument describes the view.
pub(crate) const TRY_VIEW: &str = "--try-view";

impl Overlay {
    fn mount(&self, folder: &OwnedFd) -> Result<(), ViewError> {
        let itself = path_of(folder);
        let layers = self.over.iter().chain([&itself]).chain(&self.under);
        let mut options = b"lowerdir=".to_vec();
        for (index, layer) in layers.enumerate() {
            if index > 0 {
                options.push(b':');
            }
            for byte in layer.as_os_str().as_bytes() {
                if matches!(byte, b':' | b',' | b'\\') {
                    options.push(b'\\');
                }
                options.push(*byte);
            }
        }
        let options = CString::new(options).map_err(failed("a path contains a zero byte"))?;
        mount("rocrepro", &self.folder, "overlay", MountFlags::empty(), options.as_c_str())
            .map_err(failed(format_args!("cannot mount over `{}`", self.folder.display())))
    }
}

/// Gives this process a mount namespace of its own and the right to mount. A process without the privilege also gets a
/// user namespace, in which user and group ids stay the same.
fn unshare_mounts() -> Result<(), ViewError> {
    let unshare = |flags| {
        // SAFETY: the file descriptor table, which another thread could lose, remains shared.
        unsafe { unshare_unsafe(flags) }
    };
    match unshare(UnshareFlags::NEWNS) {
        Err(Errno::PERM) => {}
        done => return done.map_err(failed("cannot create a mount namespace")),
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
        .map_err(failed("cannot create a user namespace"))?;
    let write = |file: &str, text: String| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(failed(format_args!("cannot write `{path}`")))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

fn open(folder: &Path) -> Result<OwnedFd, ViewError> {
    rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .or_else(|_| rustix::fs::open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))
        .map_err(failed(format_args!("cannot open `{}`", folder.display())))
}

fn path_of(descriptor: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

/// Returns the mount points of this process; see proc_pid_mountinfo(5).
fn mount_points() -> Result<Vec<PathBuf>, ViewError> {
    let table = fs::read("/proc/self/mountinfo")
        .map_err(failed::<io::Error>("cannot read the list of mounts"))?;
    let point = |line: &[u8]| Some(unescaped(line.split(|byte| *byte == b' ').nth(4)?));
    Ok(table.split(|byte| *byte == b'\n').filter_map(point).collect())
}

/// Decodes octal escapes in a mount point, for example `\040` for a space.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let number = (*first == b'\\').then(|| str::from_utf8(after.get(..3)?).ok()).flatten();
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                rest = &after[3..];
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(path).into()
}

/// Returns the mount points below a folder, except those that are below another returned mount point.
fn outermost_below<'a>(folder: &'a Path, mounts: &'a [PathBuf]) -> impl Iterator<Item = &'a Path> {
    let below = |point: &Path, folder: &Path| point != folder && point.starts_with(folder);
    let inside: Vec<&Path> =
        mounts.iter().map(PathBuf::as_path).filter(|point| below(point, folder)).collect();
    let mut outermost: Vec<&Path> = inside
        .iter()
        .copied()
        .filter(|point| !inside.iter().any(|other| below(point, other)))
        .collect();
    outermost.sort();
    outermost.dedup();
    outermost.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_mount_points() {
        for (text, path) in [
            ("/a", "/a"),
            ("/with\\040blank", "/with blank"),
            ("/back\\134slash", "/back\\slash"),
            ("/odd\\9", "/odd\\9"),
        ] {
            assert_eq!(unescaped(text.as_bytes()), Path::new(path));
        }
        assert!(mount_points().unwrap().contains(&PathBuf::from("/")));
    }

    #[test]
    fn finds_the_outermost_mounts_below_a_folder() {
        let mounts: Vec<PathBuf> = [
            "/",
            "/usr",
            "/usr/local",
            "/usr/local/x",
            "/usr/share",
            "/usr/share",
            "/usrx",
            "/opt",
        ]
        .map(PathBuf::from)
        .into();
        let below: Vec<_> = outermost_below(Path::new("/usr"), &mounts).collect();
        assert_eq!(below, [Path::new("/usr/local"), Path::new("/usr/share")]);
    }
}
