//! Another view of the file system, for one process and its children.
//!
//! A program that is to find other libraries than the machine's, and whose children are to find them too, cannot be started through
//! a loader with options: those reach one program only. In a mount namespace of its own it finds them where it looks anyway.
//! What is mounted there is seen by nobody outside, and goes with the last process inside.

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

/// What a process and its children find instead of what is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// An empty folder. In the view it holds what is `made`, and nothing of that is written to a disk.
    pub place: PathBuf,
    /// Files and links, by their paths below the place.
    pub made: BTreeMap<PathBuf, Made>,
    /// Folders that show more than they hold, in the order in which they come to be. What each holds itself is what it held
    /// before the first.
    pub laid: Vec<Laid>,
    /// Variables that only programs inside get.
    pub environment: BTreeMap<String, String>,
    /// What is told of a program that is started without the view, where that cannot be entered. Without it there is no such start.
    pub otherwise: Option<String>,
}

/// What a view holds that is nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Made {
    /// A file with this text.
    Text(String),
    /// A symbolic link to this.
    Link(PathBuf),
}

/// A folder with others laid over and under it. Of files of one name the uppermost is seen; folders of one name are one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Laid {
    /// The folder.
    pub folder: PathBuf,
    /// Those above it, the uppermost first.
    pub over: Vec<PathBuf>,
    /// Those below it, the lowest last.
    pub under: Vec<PathBuf>,
}

/// The step that failed.
#[derive(Debug)]
pub(crate) struct NoView(String);

impl fmt::Display for NoView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for NoView {
    fn from(why: String) -> Self {
        NoView(why)
    }
}

/// Says what was tried when an error came.
fn failed<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> NoView {
    move |error| NoView(format!("{what}: {error}"))
}

impl View {
    /// Moves this process into the view. It must have one thread, as the kernel wants for a user namespace.
    ///
    /// There is no way back: where it fails midway, the process is good for nothing but to say so.
    pub(crate) fn enter(&self) -> Result<(), NoView> {
        let directory = env::current_dir().ok();
        leave_the_mounts_of_others()?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(failed("cannot keep mounts to itself"))?;
        // Each as it is now, not as an earlier one leaves it: the kernel stacks few of them upon each other.
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
        .map_err(failed(format_args!("cannot mount memory on `{}`", self.place.display())))?;
        self.make()?;
        for (laid, folder) in self.laid.iter().zip(&opened) {
            let inner: Vec<_> = outermost_below(&laid.folder, &mounts)
                .map(|point| Ok((point, open(point)?)))
                .collect::<Result<_, NoView>>()?;
            laid.lay(folder)?;
            // What was mounted below the folder is no part of it, and stays where it was.
            for (point, descriptor) in inner {
                mount_bind_recursive(path_of(&descriptor), point)
                    .map_err(failed(format_args!("cannot keep `{}`", point.display())))?;
            }
        }
        // By its path it may be another one now.
        if let Some(directory) = directory {
            env::set_current_dir(&directory)
                .map_err(failed(format_args!("cannot go back to `{}`", directory.display())))?;
        }
        Ok(())
    }

    fn make(&self) -> Result<(), NoView> {
        for (name, made) in &self.made {
            let path = self.place.join(name);
            let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
            let done = parent.and_then(|()| match made {
                Made::Text(text) => fs::write(&path, text),
                Made::Link(target) => symlink(target, &path),
            });
            done.map_err(failed(format_args!("cannot make `{}`", path.display())))?;
        }
        Ok(())
    }

    /// As a word of a command.
    pub(crate) fn to_word(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads [`to_word`](Self::to_word).
    pub(crate) fn from_word(word: &OsStr) -> Result<Self, String> {
        serde_json::from_slice(word.as_bytes()).map_err(|error| format!("the view: {error}"))
    }

    /// Whether a process like this one can enter it: a child does, as there is no way back. `starter` are the first words of this
    /// program's command line that make it a starter.
    pub(crate) fn try_it(&self, starter: &[OsString]) -> Result<(), NoView> {
        let mut command = Command::new("/proc/self/exe");
        command.args(starter).args([TRY, &self.to_word()]).stdin(Stdio::null());
        let tried = command.output().map_err(failed("cannot try it"))?;
        if tried.status.success() {
            return Ok(());
        }
        Err(NoView(String::from_utf8_lossy(&tried.stderr).trim().to_owned()))
    }
}

/// The word in front of a view that a starter is only to try.
pub(crate) const TRY: &str = "--try-view";

impl Laid {
    fn lay(&self, folder: &OwnedFd) -> Result<(), NoView> {
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
        let options = CString::new(options).map_err(failed("a path with a zero byte"))?;
        mount("rocrepro", &self.folder, "overlay", MountFlags::empty(), options.as_c_str())
            .map_err(failed(format_args!("cannot lay anything over `{}`", self.folder.display())))
    }
}

/// Gives this process mounts of its own, and the right to make some: as the one who may, or else in a user namespace, in which
/// everybody stays who they are.
fn leave_the_mounts_of_others() -> Result<(), NoView> {
    let unshare = |flags| {
        // SAFETY: the table of descriptors, which another thread could miss, stays shared.
        unsafe { unshare_unsafe(flags) }
    };
    match unshare(UnshareFlags::NEWNS) {
        Err(Errno::PERM) => {}
        done => return done.map_err(failed("no mount namespace")),
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(failed("no user namespace"))?;
    let write = |file: &str, text: String| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(failed(format_args!("cannot write `{path}`")))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

fn open(folder: &Path) -> Result<OwnedFd, NoView> {
    rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .or_else(|_| rustix::fs::open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))
        .map_err(failed(format_args!("cannot open `{}`", folder.display())))
}

fn path_of(descriptor: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

/// Where something is mounted, see proc_pid_mountinfo(5).
fn mount_points() -> Result<Vec<PathBuf>, NoView> {
    let table =
        fs::read("/proc/self/mountinfo").map_err(failed::<io::Error>("no list of mounts"))?;
    let point = |line: &[u8]| Some(unescaped(line.split(|byte| *byte == b' ').nth(4)?));
    Ok(table.split(|byte| *byte == b'\n').filter_map(point).collect())
}

/// Blanks and the like are written in octal: `\040`.
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

/// Of the mount points below a folder those that are below no other one of them.
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
    fn mount_points_are_read_as_they_are_written() {
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
    fn only_the_outermost_mounts_below_a_folder_are_kept() {
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
