//! Reads the files that a worker wrote. They may come from a malicious case, so no link is followed and no read blocks.

use std::{
    fs::File,
    io::Read,
    path::{Component, Path},
};

use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags, open, openat},
};

/// The folder of a trial. It is opened before the worker runs, so that a folder that replaces it is not read.
pub(crate) struct Spool {
    folder: Option<OwnedFd>,
    most: u64,
}

impl Spool {
    pub(crate) fn new(folder: &Path, most: u64) -> Spool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Spool { folder: open(folder, flags, Mode::empty()).ok(), most }
    }

    /// Returns the content of a regular file in the folder; `None` if the folder has no such file, or if it is too
    /// large.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
            return None;
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(self.folder.as_ref()?, name, flags, Mode::empty()).ok()?);
        let found = file.metadata().ok()?;
        if !found.is_file() || found.len() > self.most {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(self.most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn reads_only_regular_files_of_the_folder() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("trial");
        fs::create_dir(&folder).unwrap();
        fs::write(base.path().join("secret"), "secret").unwrap();
        fs::write(folder.join("1-0-1.bin"), "bytes").unwrap();
        fs::write(folder.join("large"), "123456789").unwrap();
        fs::create_dir(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/file"), "below").unwrap();
        symlink("../secret", folder.join("link")).unwrap();
        symlink("sub", folder.join("folder")).unwrap();
        symlink("/dev/zero", folder.join("device")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap();
        assert!(fifo.success());
        let spool = Spool::new(&folder, 8);
        assert_eq!(spool.read("1-0-1.bin").as_deref(), Some(b"bytes".as_slice()));
        let secret = base.path().join("secret");
        for name in [
            "link",
            "device",
            "fifo",
            "large",
            "sub",
            "sub/file",
            "folder/file",
            "../secret",
            "..",
            "",
            secret.to_str().unwrap(),
        ] {
            assert_eq!(spool.read(name), None, "{name}");
        }
        // The opened folder must be read, not the folder that has its name now.
        fs::rename(&folder, base.path().join("moved")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("1-0-1.bin"), "other").unwrap();
        assert_eq!(spool.read("1-0-1.bin").as_deref(), Some(b"bytes".as_slice()));
        symlink("/", base.path().join("root")).unwrap();
        assert_eq!(Spool::new(&base.path().join("root"), 8).read("etc"), None);
    }
}
