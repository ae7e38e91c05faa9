//! Cases, kernels and programs from a user's files.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use case::{Kernels, foreign_kernel};
use rustix::fs::{Mode, OFlags};

use super::{CasesFrom, Source, in_parallel};
use crate::Stop;

/// Largest size of a case or kernel in bytes; those of the library have a few thousand.
const MOST_BYTES: u64 = 4 << 20;

pub(super) const PROGRAMS: [&str; 2] = ["py", "cpp"];

/// Largest number of files and folders. A folder with more is probably not the one that was meant.
const MOST_FILES: usize = 100_000;

/// Reads one case file, or all cases and kernels below a folder. Mistakes of single files of a folder are collected in
/// `mistakes`.
pub(super) fn read(
    from: &CasesFrom,
    sources: &mut BTreeMap<String, Source>,
    programs: &mut BTreeMap<String, String>,
    kernels: &mut Kernels,
    mistakes: &mut Vec<String>,
) -> Result<(), Stop> {
    let path = &from.path;
    let kind = fs::metadata(path).map_err(|e| Stop::usage(cannot(path, &e)))?;
    if !kind.is_dir() {
        let text = read_text(path).map_err(|e| Stop::usage(cannot(path, &e)))?;
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(mistake) = bad_name(&id) {
            return Err(Stop::usage(mistake));
        }
        sources.insert(id, Source { path: path.display().to_string(), text });
        // A file in the same folder may be the program of the case.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let entries =
            fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
        for other in entries.map(|entry| path.with_file_name(entry.file_name())) {
            if from.trusted
                && is_program(&other)
                && let Ok(text) = read_text(&other)
            {
                programs.insert(other.display().to_string(), text);
            }
        }
        return Ok(());
    }
    let root = fs::canonicalize(path).map_err(|e| Stop::usage(cannot(path, &e)))?;
    let (seen, own, cases) = Default::default();
    let mut walk = Walk { from, root, seen, cases, programs, kernels, own, mistakes, files: 0 };
    walk.folder(path.clone())?;
    let Walk { cases, .. } = walk;
    let texts = in_parallel(&cases, |_, path| read_text(path));
    for ((id, path), text) in cases.into_iter().zip(texts) {
        match text {
            Ok(text) => {
                sources.insert(id, Source { path: path.display().to_string(), text });
            }
            Err(error) => mistakes.push(cannot(&path, &error)),
        }
    }
    if sources.is_empty() && mistakes.is_empty() {
        return Err(Stop::usage(format!("error: no case (*.yaml) below `{}`", path.display())));
    }
    Ok(())
}

struct Walk<'w> {
    from: &'w CasesFrom,
    /// The folder without symbolic links.
    root: PathBuf,
    /// Folders that were read, without symbolic links.
    seen: HashSet<PathBuf>,
    cases: BTreeMap<String, PathBuf>,
    programs: &'w mut BTreeMap<String, String>,
    kernels: &'w mut Kernels,
    own: HashSet<String>,
    mistakes: &'w mut Vec<String>,
    files: usize,
}

impl Walk<'_> {
    fn folder(&mut self, folder: PathBuf) -> Result<(), Stop> {
        let mut pending = vec![(folder, String::new())];
        while let Some((current, prefix)) = pending.pop() {
            let once = self.whole(&current).and_then(|whole| {
                let way = current.display();
                let again = format!("error: `{way}` leads to a folder that was already read");
                if self.seen.insert(whole) { Ok(()) } else { Err(again) }
            });
            if let Err(mistake) = once {
                self.mistakes.push(mistake);
                continue;
            }
            let entries = fs::read_dir(&current).map_err(|e| Stop::usage(cannot(&current, &e)))?;
            for entry in entries {
                let entry = entry.map_err(|e| Stop::usage(cannot(&current, &e)))?;
                let path = entry.path();
                self.files += 1;
                if self.files > MOST_FILES {
                    let folder = self.from.path.display();
                    return Err(Stop::usage(format!(
                        "error: more than {MOST_FILES} files below `{folder}`; name the folder of the cases"
                    )));
                }
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                // A file that is not a link lies in this folder, which is already resolved. Resolving each of many
                // files takes long.
                let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink());
                let is_folder = kind.map_or_else(|| path.is_dir(), |kind| kind.is_dir());
                if (is_folder || is_read(&path))
                    && let Some(mistake) = bad_name(&stem)
                {
                    self.mistakes.push(mistake);
                } else if is_folder {
                    pending.push((path, format!("{prefix}{stem}/")));
                } else {
                    self.file(&path, kind.is_none(), &format!("{prefix}{stem}"), stem);
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, link: bool, id: &str, stem: String) {
        let inside = |walk: &Self| if link { walk.whole(path).map(drop) } else { Ok(()) };
        if is_program(path) {
            // An untrusted case with a program is rejected later.
            let text = inside(self).ok().and_then(|()| read_text(path).ok());
            self.programs.extend(text.map(|text| (path.display().to_string(), text)));
            return;
        }
        if !is_read(path) {
            return;
        }
        let read = inside(self).and_then(|()| {
            if path.extension().is_some_and(|ending| ending == "hip") {
                let text = read_text(path).map_err(|e| cannot(path, &e))?;
                return self.kernel(path, stem, text);
            }
            let Some(other) = self.cases.insert(id.to_owned(), path.to_owned()) else {
                return Ok(());
            };
            let (path, other) = (path.display(), other.display());
            Err(format!("error: `{path}` and `{other}` are both the case `{id}`; rename one"))
        });
        self.mistakes.extend(read.err());
    }

    fn kernel(&mut self, path: &Path, name: String, text: String) -> Result<(), String> {
        let path = path.display();
        if !self.from.trusted
            && let Some(what) = foreign_kernel(&text)
        {
            return Err(format!(
                "error: `{path}` {what}; if you trust it as a program, give `--trust`"
            ));
        }
        let again = !self.own.insert(name.clone());
        match self.kernels.insert(name.clone(), text.clone()) {
            // Trusted cases may replace a kernel of the library.
            Some(other) if other != text && (again || !self.from.trusted) => {
                Err(format!("error: `{path}`: there is another kernel `{name}`; rename this one"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the path without symbolic links.
    ///
    /// # Errors
    /// Returns an error if an untrusted path leads out of the given folder.
    fn whole(&self, path: &Path) -> Result<PathBuf, String> {
        let whole = fs::canonicalize(path).map_err(|e| cannot(path, &e))?;
        if self.from.trusted || whole.starts_with(&self.root) {
            return Ok(whole);
        }
        Err(format!(
            "error: `{}` leads out of `{}`; if you trust it, give `--trust`",
            path.display(),
            self.from.path.display()
        ))
    }
}

fn is_program(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| PROGRAMS.contains(&ending))
}

/// Returns true for cases, kernels and programs; other files are ignored.
fn is_read(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    is_program(path) || matches!(ending, Some("yaml" | "yml" | "hip"))
}

/// Returns an error for a name with control characters, which could act on a terminal.
fn bad_name(name: &str) -> Option<String> {
    let shown = report::one_line(name);
    (shown != name)
        .then(|| format!("error: the name `{shown}` has a control character; rename the file"))
}

fn cannot(path: &Path, error: &io::Error) -> String {
    let path = report::one_line(&path.display().to_string());
    format!("error: cannot read `{path}`: {error}")
}

/// Returns the text of a regular file, without the byte order mark that some editors write.
fn read_text(path: &Path) -> io::Result<String> {
    // Opening a pipe would block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    // With enough capacity the file is read in one call.
    let mut text = String::with_capacity(about.len().min(MOST_BYTES) as usize + 1);
    if file.take(MOST_BYTES + 1).read_to_string(&mut text)? as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("it has more than {} MiB", MOST_BYTES >> 20)));
    }
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
