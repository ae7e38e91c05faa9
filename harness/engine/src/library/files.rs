//! Reads cases, GPU kernels and programs from the files of a user.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io::{self, Read},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use case::{FILE_ENDINGS, Kernels, forbidden_construct};
use plan::FileContent;
use rustix::fs::{Mode, OFlags};
use thiserror::Error;

use super::{CasesFrom, Source, in_parallel};
use crate::{
    FailedOperation, FailureClass, Stop,
    recording::{self, ConvertedCase},
};

/// A mistake in the files of cases.
#[derive(Debug, Error)]
pub(super) enum CaseFileError {
    #[error("cannot read `{0}`: {1}")]
    Unreadable(String, io::Error),
    /// The name of a file contains a control character, which could change the state of a terminal.
    #[error("the file name `{0}` contains a control character")]
    ControlCharacter(String),
    /// The name begins with `-`, so a command that is printed for the user would contain it as an option.
    #[error("the file name `{0}` begins with `-`, like a command-line option")]
    Option(String),
    #[error("no case (*.yaml) in `{}`", .0.display())]
    NoCase(PathBuf),
    #[error("more than {MAX_FILES} files in `{}`", .0.display())]
    TooMany(PathBuf),
    #[error("`{}` is below more than {MAX_DEPTH} folders", .0.display())]
    TooDeep(PathBuf),
    #[error("the cases, kernels and programs below `{}` have more than {} MiB", .0.display(), MAX_TOTAL_BYTES >> 20)]
    TooLarge(PathBuf),
    /// A symbolic link leads to a folder that has already been read.
    #[error("`{}` leads to a folder that was already read", .0.display())]
    FolderTwice(PathBuf),
    #[error("`{}` and `{}` define the same case `{}`", .0.display(), .1.display(), .2)]
    CaseTwice(PathBuf, PathBuf, String),
    #[error("`{}`: another kernel `{}` already exists", .0.display(), .1)]
    KernelTwice(PathBuf, String),
    #[error("`{}`: another file with this name has different content", .0.display())]
    ContentTwice(PathBuf),
    /// An untrusted GPU kernel uses a feature that only trusted kernels may use. The fields are the file and a
    /// description of the feature.
    #[error("`{}` {}", .0.display(), .1)]
    ForeignKernel(PathBuf, String),
    /// An untrusted recording has code objects and contents of memory.
    #[error("`{}` has kernels of its own, whose code nothing checks", .0.display())]
    ForeignRecording(PathBuf),
    /// In untrusted cases, a symbolic link leads out of the folder. The fields are the link and the folder.
    #[error("`{}` is a link to a place outside of `{}`", .0.display(), .1.display())]
    Outside(PathBuf, PathBuf),
}

impl CaseFileError {
    fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Unreadable(report::one_line(&path.display().to_string()), error)
    }
}

impl FailedOperation for CaseFileError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::ControlCharacter(_) | Self::Option(_) => "rename the file",
            Self::TooMany(_) | Self::TooLarge(_) | Self::TooDeep(_) => {
                "name the folder of the cases"
            }
            Self::CaseTwice(..) => "rename one",
            Self::KernelTwice(..) | Self::ContentTwice(_) => "rename this one",
            Self::ForeignKernel(..) | Self::ForeignRecording(_) => {
                "if you trust it like a program of your own, add `--trust`"
            }
            Self::Outside(..) => "if you trust it, add `--trust`",
            Self::Unreadable(..) | Self::NoCase(_) | Self::FolderTwice(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// Size of the largest case or kernel file that is accepted, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

pub(super) const PROGRAMS: [&str; 4] = ["cc", "cpp", "cxx", "py"];

/// Size of the largest code object or content of a buffer that is accepted, in bytes.
const MAX_CONTENT_BYTES: u64 = 64 << 20;

/// Largest total size of all files that are read, in bytes.
const MAX_TOTAL_BYTES: u64 = 256 << 20;

/// Maximum nesting depth of folders.
const MAX_DEPTH: usize = 256;

/// Largest number of files. If there are more, the user probably did not mean this folder.
const MAX_FILES: usize = 100_000;

/// Converts a recording to a case. Returns the name of the case, and adds the files of the case to `kernels`.
pub(super) fn read_recording(
    from: &CasesFrom,
    kernels: &mut Kernels,
) -> Result<(String, ConvertedCase), Stop> {
    let id = recording::case_name(&from.path);
    if let Some(mistake) = bad_name(&id) {
        return Err(mistake.into());
    }
    let converted = recording::case_of(&from.path, kernels)?;
    if !from.trusted && !converted.files.is_empty() {
        return Err(CaseFileError::ForeignRecording(from.path.clone()).into());
    }
    kernels.files.extend(converted.files.clone());
    Ok((id, converted))
}

/// Reads one case file, or all cases and GPU kernels below a folder, and returns the mistakes in them.
pub(super) fn read(
    from: &CasesFrom,
    sources: &mut BTreeMap<String, Source>,
    programs: &mut BTreeMap<String, String>,
    kernels: &mut Kernels,
) -> Result<Vec<CaseFileError>, CaseFileError> {
    let path = &from.path;
    let kind = fs::metadata(path).map_err(|e| CaseFileError::unreadable(path, e))?;
    if !kind.is_dir() {
        let text = read_text(path, None).map_err(|e| CaseFileError::unreadable(path, e))?;
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(mistake) = bad_name(&id) {
            return Err(mistake);
        }
        sources.insert(id, Source { path: path.display().to_string(), text });
        // Another file in the same folder may contain the program of the case.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut contents = Vec::new();
        let entries =
            fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
        for other in entries.map(|entry| path.with_file_name(entry.file_name())) {
            if from.trusted
                && (is_program(&other) || is_hip(&other))
                && let Ok(text) = read_text(&other, None)
            {
                programs.insert(other.display().to_string(), text);
            } else if is_content(&other) {
                contents.push(other);
            }
        }
        return Ok(read_contents(from, contents, sources, kernels));
    }
    let root = fs::canonicalize(path).map_err(|e| CaseFileError::unreadable(path, e))?;
    let (seen, own, cases, contents, mistakes) = Default::default();
    let mut walk = CaseFileWalk {
        from,
        root,
        seen,
        cases,
        programs,
        kernels,
        contents,
        own,
        mistakes,
        files: 0,
        bytes: 0,
    };
    walk.folder(path.clone())?;
    let inside = walk.confining_folder().map(Path::to_path_buf);
    let CaseFileWalk { cases, contents, mut mistakes, .. } = walk;
    let texts = in_parallel(&cases, |_, path| read_text(path, inside.as_deref()));
    for ((id, path), text) in cases.into_iter().zip(texts) {
        match text {
            Ok(text) => {
                sources.insert(id, Source { path: path.display().to_string(), text });
            }
            Err(error) => mistakes.push(CaseFileError::unreadable(&path, error)),
        }
    }
    mistakes.extend(read_contents(from, contents, sources, kernels));
    if sources.is_empty() && mistakes.is_empty() {
        return Err(CaseFileError::NoCase(path.clone()));
    }
    Ok(mistakes)
}

struct CaseFileWalk<'w> {
    from: &'w CasesFrom,
    /// Path of the folder, with symbolic links resolved.
    root: PathBuf,
    /// Paths of the folders that have been read, with symbolic links resolved.
    seen: HashSet<PathBuf>,
    cases: BTreeMap<String, PathBuf>,
    programs: &'w mut BTreeMap<String, String>,
    kernels: &'w mut Kernels,
    /// Files to which a case may refer. Only those that a case names are read.
    contents: Vec<PathBuf>,
    own: HashSet<String>,
    mistakes: Vec<CaseFileError>,
    files: usize,
    bytes: u64,
}

impl CaseFileWalk<'_> {
    fn folder(&mut self, folder: PathBuf) -> Result<(), CaseFileError> {
        let mut pending = vec![(folder, String::new())];
        while let Some((current, prefix)) = pending.pop() {
            let once = self.resolve_path(&current).and_then(|whole| {
                let again = || Err(CaseFileError::FolderTwice(current.clone()));
                if self.seen.insert(whole) { Ok(()) } else { again() }
            });
            if let Err(mistake) = once {
                self.mistakes.push(mistake);
                continue;
            }
            let unreadable = |error| CaseFileError::unreadable(&current, error);
            for entry in fs::read_dir(&current).map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let path = entry.path();
                self.files += 1;
                if self.files > MAX_FILES {
                    return Err(CaseFileError::TooMany(self.from.path.clone()));
                }
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                // A file that is not a link is inside the folder, whose path is resolved. Resolving the path of each
                // file would take long.
                let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink());
                let is_folder = kind.map_or_else(|| path.is_dir(), |kind| kind.is_dir());
                if !is_folder && is_read(&path) {
                    self.bytes += fs::metadata(&path).map_or(0, |about| about.len());
                    if self.bytes > MAX_TOTAL_BYTES {
                        return Err(CaseFileError::TooLarge(self.from.path.clone()));
                    }
                }
                if (is_folder || is_read(&path))
                    && let Some(mistake) = bad_name(&stem)
                {
                    self.mistakes.push(mistake);
                } else if is_folder {
                    if prefix.matches('/').count() >= MAX_DEPTH {
                        return Err(CaseFileError::TooDeep(path));
                    }
                    let name = entry.file_name();
                    pending.push((path, format!("{prefix}{}/", name.to_string_lossy())));
                } else {
                    self.file(&path, kind.is_none(), &format!("{prefix}{stem}"), stem);
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, link: bool, id: &str, stem: String) {
        let inside = |walk: &Self| if link { walk.resolve_path(path).map(drop) } else { Ok(()) };
        if is_program(path) {
            // An untrusted case with a program is rejected in a later step.
            let text =
                inside(self).ok().and_then(|()| read_text(path, self.confining_folder()).ok());
            self.programs.extend(text.map(|text| (path.display().to_string(), text)));
            return;
        }
        if is_content(path) {
            self.contents.push(path.to_owned());
        }
        if !is_read(path) {
            return;
        }
        let read = inside(self).and_then(|()| {
            if is_hip(path) {
                let text = read_text(path, self.confining_folder())
                    .map_err(|e| CaseFileError::unreadable(path, e))?;
                // A file with a `main` function is a program, not a kernel.
                let is_program = text.contains("main(");
                self.programs.insert(path.display().to_string(), text.clone());
                return if is_program { Ok(()) } else { self.kernel(path, stem, text) };
            }
            let Some(other) = self.cases.insert(id.to_owned(), path.to_owned()) else {
                return Ok(());
            };
            Err(CaseFileError::CaseTwice(path.to_owned(), other, id.to_owned()))
        });
        self.mistakes.extend(read.err());
    }

    fn kernel(&mut self, path: &Path, name: String, text: String) -> Result<(), CaseFileError> {
        if !self.from.trusted
            && let Some(what) = forbidden_construct(&text)
        {
            return Err(CaseFileError::ForeignKernel(path.to_owned(), what));
        }
        let again = !self.own.insert(name.clone());
        match self.kernels.insert(name.clone(), text.clone()) {
            // Trusted cases may replace a GPU kernel of rocrepro.
            Some(other) if other != text && (again || !self.from.trusted) => {
                Err(CaseFileError::KernelTwice(path.to_owned(), name))
            }
            _ => Ok(()),
        }
    }

    /// Returns the folder that contains all untrusted files; `None` for trusted files.
    fn confining_folder(&self) -> Option<&Path> {
        (!self.from.trusted).then_some(self.root.as_path())
    }

    /// Resolves the symbolic links in a path. Returns an error for an untrusted file whose path leads out of the
    /// folder.
    fn resolve_path(&self, path: &Path) -> Result<PathBuf, CaseFileError> {
        let whole = fs::canonicalize(path).map_err(|e| CaseFileError::unreadable(path, e))?;
        if self.from.trusted || whole.starts_with(&self.root) {
            return Ok(whole);
        }
        Err(CaseFileError::Outside(path.to_owned(), self.from.path.clone()))
    }
}

/// Reads those files among `paths` that a case names as code objects or as contents of buffers, and adds them to
/// `kernels`. The files of untrusted cases are not read, because rocrepro cannot check that their content obeys the
/// rules for untrusted cases. Returns an error for each file that cannot be read, and for each file that has the name
/// of another file but not its content.
fn read_contents(
    from: &CasesFrom,
    paths: Vec<PathBuf>,
    sources: &BTreeMap<String, Source>,
    kernels: &mut Kernels,
) -> Vec<CaseFileError> {
    let mut mistakes = Vec::new();
    for path in paths.into_iter().filter(|_| from.trusted) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !sources.values().any(|source| source.text.contains(&name)) {
            continue;
        }
        match read_file(&path, None, MAX_CONTENT_BYTES) {
            Ok(bytes) => {
                let content = FileContent::from(bytes);
                let before = kernels.files.insert(name, content.clone());
                if before.is_some_and(|before| before != content) {
                    mistakes.push(CaseFileError::ContentTwice(path));
                }
            }
            Err(error) => mistakes.push(CaseFileError::unreadable(&path, error)),
        }
    }
    mistakes
}

/// Returns true for files that contain a code object, or bytes of a buffer.
fn is_content(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    FILE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn is_program(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| PROGRAMS.contains(&ending))
}

/// Returns true for files that contain a kernel or a program in HIP.
fn is_hip(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "hip")
}

fn is_read(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    is_program(path) || is_hip(path) || matches!(ending, Some("yaml" | "yml"))
}

fn bad_name(name: &str) -> Option<CaseFileError> {
    let shown = report::one_line(name);
    if shown != name {
        return Some(CaseFileError::ControlCharacter(shown.to_string()));
    }
    name.starts_with('-').then(|| CaseFileError::Option(name.to_owned()))
}

/// Returns the text of a regular file, without a byte order mark. Returns an error if `folder` is given and the file is
/// not below it.
fn read_text(path: &Path, folder: Option<&Path>) -> io::Result<String> {
    let bytes = read_file(path, folder, MAX_FILE_BYTES)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Returns the bytes of a regular file. Returns an error if the file has more than `most` bytes, or if `folder` is
/// given and the file is not below it.
///
/// The open file is checked for being in the folder, because another process may replace a file by a link after the
/// folder was listed.
fn read_file(path: &Path, folder: Option<&Path>, most: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe would block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if let Some(folder) = folder
        && !fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?.starts_with(folder)
    {
        return Err(io::Error::other("it was replaced by a link that leads out of the folder"));
    }
    let mut bytes = Vec::with_capacity(about.len().min(most) as usize + 1);
    if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_link_that_took_the_place_of_a_file() {
        let outside = tempfile::NamedTempFile::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let path = root.join("a.yaml");
        fs::write(&path, "title: a\n").unwrap();
        assert_eq!(read_text(&path, Some(&root)).unwrap(), "title: a\n");
        std::os::unix::fs::symlink(&path, root.join("b.yaml")).unwrap();
        assert!(read_text(&root.join("b.yaml"), Some(&root)).is_ok());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(outside.path(), &path).unwrap();
        let error = read_text(&path, Some(&root)).unwrap_err();
        assert!(error.to_string().contains("out of the folder"), "{error}");
        assert!(read_text(&path, None).is_ok());
    }
}
