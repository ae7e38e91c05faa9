//! Unpacks tarballs and wheels into the prefix of a build.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ruzstd::decoding::errors::FrameDecoderError;

use super::budget::{Budget, CompressedReader, DecompressedReader, Ended, RejectedMember};
use super::decode::{MEMORY, xz, zstd};
use super::paths::{LinkError, leads_inside, make_link, make_room, relative, stays_inside};
use crate::ObtainError;
use crate::keep::{AddError, Blobs};

/// Format of an archive, determined by the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    TarGz,
    TarXz,
    TarZst,
    Wheel,
}

impl Format {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let endings = [
            (".tar.gz", Self::TarGz),
            (".tgz", Self::TarGz),
            (".tar.xz", Self::TarXz),
            (".tar.zst", Self::TarZst),
            (".whl", Self::Wheel),
        ];
        endings.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
    }
}

/// Name of the first member of an archive that a CI run published. The member lists folders of the build tree, one per
/// line. These folders are removed from the beginnings of the other members' paths (TheRock's `fileset_tool.py
/// artifact-flatten`).
const PART_MANIFEST: &str = "artifact_manifest.txt";

/// Error message for a link that leads out of the prefix.
const OUTSIDE: &str = "links to a path outside the prefix";

/// Maximum size of the member [`PART_MANIFEST`], which has a few lines.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// Unpacks the archives of a build into one prefix.
pub(crate) struct Unpacker<'a> {
    /// Path of the prefix, absolute and without symbolic links.
    pub(crate) prefix: &'a Path,
    pub(crate) blobs: &'a Blobs,
    stop: &'a AtomicBool,
    /// Symbolic links that must still be created. They are created last, so that nothing is ever written through a
    /// link.
    links: Vec<(PathBuf, PathBuf)>,
}

impl<'a> Unpacker<'a> {
    /// Returns an unpacker that ends early once `stop` is true.
    pub(crate) fn new(prefix: &'a Path, blobs: &'a Blobs, stop: &'a AtomicBool) -> Self {
        Self { prefix, blobs, stop, links: Vec::new() }
    }

    /// Unpacks a compressed tar and reads it to its last byte, so that damage after the last member is detected too.
    ///
    /// # Errors
    /// The archive is damaged or must not be unpacked, a file cannot be written, [`ObtainError::Memory`], or
    /// [`ObtainError::Cancelled`].
    pub(crate) fn tar(
        &mut self,
        name: &str,
        format: Format,
        from: &mut dyn Read,
    ) -> Result<(), ObtainError> {
        let budget = Budget::new(self.stop);
        self.members_of_tar(name, format, from, &budget)
            .map_err(|error| reason(error, name, &budget))
    }

    fn members_of_tar(
        &mut self,
        name: &str,
        format: Format,
        from: &mut dyn Read,
        budget: &Budget<'_>,
    ) -> Result<(), ObtainError> {
        let from = BufReader::with_capacity(1 << 16, CompressedReader { inner: from, budget });
        let broken = |error: &dyn ToString| damaged(name, error);
        let plain: Box<dyn Read + '_> = match format {
            Format::TarGz => Box::new(flate2::bufread::MultiGzDecoder::new(from)),
            Format::TarXz => Box::new(xz(from)),
            Format::TarZst => Box::new(zstd(from).map_err(|error| match error {
                FrameDecoderError::WindowSizeTooBig { .. } => too_much_memory(name),
                error => broken(&error),
            })?),
            Format::Wheel => return Err(damaged(name, "a wheel is not a tar")),
        };
        let mut plain = DecompressedReader { inner: plain, budget };
        let mut strip: Vec<PathBuf> = Vec::new();
        let mut first = true;
        let mut archive = tar::Archive::new(&mut plain);
        let refused = |named: &Path, error| refused(name, named, error);
        let members = budget.each_of_tar(&mut archive, &refused, &mut |path, entry| {
            if std::mem::take(&mut first) && path == Path::new(PART_MANIFEST) {
                let mut text = String::new();
                let mut limited = entry.take(MAX_MANIFEST_BYTES);
                limited.read_to_string(&mut text).map_err(|error| broken(&error))?;
                strip = text.lines().filter(|l| !l.is_empty()).map(PathBuf::from).collect();
                return Ok(());
            }
            let inner = strip.iter().find_map(|s| path.strip_prefix(s).ok());
            let inner = inner.map_or_else(|| path.clone(), Path::to_owned);
            self.entry(name, inner, entry, budget)
        })?;
        if members == 0 {
            return Err(damaged(name, "it is empty"));
        }
        // Padding and the checksum of the compression follow the last member.
        io::copy(&mut plain, &mut io::sink()).map_err(|error| broken(&error))?;
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        name: &str,
        path: PathBuf,
        entry: &mut tar::Entry<'_, R>,
        budget: &Budget<'_>,
    ) -> Result<(), ObtainError> {
        let hostile = || hostile(name, &path, "leads out of the prefix");
        let at = self.prefix.join(&path);
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            return fs::create_dir_all(&at).map_err(ObtainError::io("create", &at));
        }
        if path.as_os_str().is_empty() {
            return Err(hostile());
        }
        if kind.is_symlink() || kind.is_hard_link() {
            let target = entry.link_name().map_err(|error| damaged(name, &error))?;
            let target = target.ok_or_else(hostile)?.into_owned();
            if kind.is_symlink() {
                self.link(name, path, target)
            } else {
                let source = self.prefix.join(relative(&target).ok_or_else(hostile)?);
                make_room(self.prefix, &at)?;
                fs::hard_link(&source, &at).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => damaged(name, "a hard link has no target"),
                    _ => ObtainError::io("create", &at)(error),
                })
            }
        } else if kind.is_file() || kind.is_gnu_sparse() || kind.is_contiguous() {
            let mode = entry.header().mode().map_err(|error| damaged(name, &error))?;
            // The holes of a sparse file are not in the archive, so its bytes are counted when they are written. Bytes
            // that are in the archive are thus counted twice.
            self.file(
                name,
                &at,
                &mut DecompressedReader { inner: entry, budget },
                mode & 0o111 != 0,
            )
        } else {
            Err(self::hostile(name, &path, "is neither a file nor a link"))
        }
    }

    /// Unpacks a wheel, which is a zip file.
    ///
    /// # Errors
    /// The errors of [`Unpacker::tar`].
    pub(crate) fn wheel(&mut self, name: &str, file: File) -> Result<(), ObtainError> {
        let budget = Budget::new(self.stop);
        self.members_of_wheel(name, file, &budget).map_err(|error| reason(error, name, &budget))
    }

    fn members_of_wheel(
        &mut self,
        name: &str,
        file: File,
        budget: &Budget<'_>,
    ) -> Result<(), ObtainError> {
        let broken = |error: zip::result::ZipError| damaged(name, &error);
        budget.read(file.metadata().map_or(0, |data| data.len()));
        let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(broken)?;
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).map_err(broken)?;
            let named = PathBuf::from(&*entry.name().map_err(broken)?);
            let path = budget.member(&named).map_err(|error| refused(name, &named, error))?;
            let at = self.prefix.join(&path);
            let mode = entry.unix_mode().unwrap_or(0o644);
            // S_IFMT and S_IFLNK of stat(2): the member is a symbolic link.
            if mode & 0o170_000 == 0o120_000 {
                let mut target = String::new();
                let mut limited = (&mut entry).take(4096);
                limited.read_to_string(&mut target).map_err(|error| damaged(name, &error))?;
                self.link(name, path, target.into())?;
            } else if entry.is_dir() {
                fs::create_dir_all(&at).map_err(ObtainError::io("create", &at))?;
            } else {
                let mut content = DecompressedReader { inner: &mut entry, budget };
                self.file(name, &at, &mut content, mode & 0o111 != 0)?;
            }
        }
        Ok(())
    }

    fn link(&mut self, name: &str, path: PathBuf, target: PathBuf) -> Result<(), ObtainError> {
        if !stays_inside(&path, &target) {
            return Err(hostile(name, &path, OUTSIDE));
        }
        self.links.push((path, target));
        Ok(())
    }

    fn file(
        &self,
        name: &str,
        at: &Path,
        content: &mut dyn Read,
        executable: bool,
    ) -> Result<(), ObtainError> {
        make_room(self.prefix, at)?;
        self.blobs.add(content, at, executable).map_err(|error| match error {
            AddError::Read(error) => damaged(name, &error),
            AddError::Write(error) => error.into(),
        })
    }

    /// Creates the symbolic links of all unpacked archives. `name` is the archive's name in messages.
    ///
    /// # Errors
    /// A link leads out of the prefix, [`ObtainError::Cancelled`], and I/O errors.
    pub(crate) fn finish(self, name: &str) -> Result<(), ObtainError> {
        let budget = Budget::new(self.stop);
        let go_on = || budget.go_on().map_err(|_| ObtainError::Cancelled);
        for (path, target) in &self.links {
            go_on()?;
            make_link(self.prefix, path, target).map_err(|error| match error {
                LinkError::BelowLink => hostile(name, path, "is below a symbolic link"),
                LinkError::Taken => {
                    damaged(name, &format!("{} is both a link and another member", path.display()))
                }
                LinkError::File(error) => error.into(),
            })?;
        }
        for (path, _) in &self.links {
            go_on()?;
            if !leads_inside(self.prefix, path).map_err(ObtainError::from)? {
                return Err(hostile(name, path, OUTSIDE));
            }
        }
        Ok(())
    }
}

/// Returns the error for a member that must not be unpacked.
fn refused(name: &str, named: &Path, error: RejectedMember) -> ObtainError {
    match error {
        RejectedMember::Archive(error) => damaged(name, &error),
        RejectedMember::Outside => hostile(name, named, "leads out of the prefix"),
        RejectedMember::Deep => hostile(name, named, "is in too many folders"),
    }
}

/// Replaces `error` by the true reason if unpacking was cancelled or needed too much memory.
fn reason(error: ObtainError, name: &str, budget: &Budget<'_>) -> ObtainError {
    match budget.ended() {
        Some(Ended::Cancelled) => ObtainError::Cancelled,
        Some(Ended::Starved) => too_much_memory(name),
        None => error,
    }
}

fn too_much_memory(name: &str) -> ObtainError {
    ObtainError::Memory { name: name.into(), limit: MEMORY.into() }
}

fn hostile(name: &str, entry: &Path, reason: &str) -> ObtainError {
    ObtainError::Hostile { name: name.into(), reason: format!("{} {reason}", entry.display()) }
}

fn damaged(name: &str, reason: &(impl ToString + ?Sized)) -> ObtainError {
    ObtainError::Damaged { name: name.into(), reason: reason.to_string() }
}
