//! Creates, reads and writes evidence folders, into which minimise, bisect, report and others put their results.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use report::evidence::{
    BisectEvidence, Evidence, ExportEvidence, MinimiseEvidence, MinimisedProgram, Mitigations,
    folder_name,
};

use thiserror::Error;

use crate::{FailedOperation, FailureClass};

/// An error that prevents the use of an evidence folder.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The folder contains files that rocrepro did not write.
    #[error(
        "`{}` contains files that rocrepro did not write",
        folder.display()
    )]
    Foreign {
        /// The folder.
        folder: PathBuf,
    },
    /// A file in the folder is a symbolic link, whose target would be overwritten.
    #[error("`{}` is a symbolic link", path.display())]
    Link {
        /// Path of the link.
        path: PathBuf,
    },
    /// A file in the folder is a pipe, socket or device. Opening a pipe can block for ever.
    #[error("`{}` is neither a file nor a folder", path.display())]
    Special {
        /// Path of the file.
        path: PathBuf,
    },
    /// Another version of rocrepro wrote a file in the folder.
    #[error(
        "`{}` does not have the format of this version: {error}",
        path.display()
    )]
    OtherVersion {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        error: String,
    },
    /// A file operation failed.
    #[error("cannot {what} `{}`: {error}", path.display())]
    Failed {
        /// The operation, for messages.
        what: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The cause.
        error: String,
    },
}

impl FailedOperation for EvidenceError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            EvidenceError::Foreign { .. } => {
                "give `--out` a new or an empty folder, or one that an earlier command made"
            }
            EvidenceError::Link { .. } | EvidenceError::Special { .. } => {
                "remove it, or give `--out` another folder"
            }
            EvidenceError::OtherVersion { .. } => "create it again, or remove it",
            EvidenceError::Failed { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// Name of the file that marks a folder as an evidence folder.
const PRIVATE_FILE: &str = "PRIVATE.txt";
const PRIVATE: &str = "\
report.md and the program beside it are for others to read. Everything else in this folder is as it was measured: it may name people, machines
and paths. `rocrepro records redact FOLDER --out NEW` makes a copy that can be published.
";

/// Names of files that only evidence folders contain. A published copy of an evidence folder has no marker file, but is
/// recognised by these files.
const EVIDENCE_FILES: [&str; 7] = [
    MinimiseEvidence::FILE,
    MinimisedProgram::FILE,
    Mitigations::FILE,
    BisectEvidence::FILE,
    ExportEvidence::FILE,
    "minimise.jsonl",
    "bisect.jsonl",
];

/// Returns the folder that the user named, or by default one with the name of the case.
///
/// # Errors
/// Returns an error if the folder contains files and is not an evidence folder.
pub fn folder(out: Option<&Path>, case: &str) -> Result<PathBuf, EvidenceError> {
    let folder = out.map_or_else(|| PathBuf::from(folder_name(case)), Path::to_path_buf);
    let files = || folder.read_dir().map_or(0, Iterator::count);
    let mark = folder.join(PRIVATE_FILE);
    let is_plain = std::fs::symlink_metadata(&mark).is_ok_and(|about| about.is_file());
    let text = if is_plain { std::fs::read_to_string(&mark).ok() } else { None };
    let foreign = match text {
        Some(text) if text == PRIVATE => false,
        // A process that was killed may have written only the beginning of the marker file.
        Some(text) => !PRIVATE.starts_with(&text) || files() > 1,
        None if EVIDENCE_FILES.iter().any(|file| folder.join(file).exists()) => false,
        None => files() > 0,
    };
    if foreign {
        return Err(EvidenceError::Foreign { folder });
    }
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => return Err(EvidenceError::Link { path }),
            Ok(kind) if !kind.is_file() && !kind.is_dir() => {
                return Err(EvidenceError::Special { path });
            }
            _ => {}
        }
    }
    Ok(folder)
}

/// Creates the folder and its marker file. A complete marker file is kept as it is, because a process that is killed
/// while it writes the file again would damage it.
pub fn make(folder: &Path) -> Result<(), EvidenceError> {
    let mark = folder.join(PRIVATE_FILE);
    if std::fs::read_to_string(&mark).is_ok_and(|text| text == PRIVATE) {
        return Ok(());
    }
    std::fs::create_dir_all(folder)
        .and_then(|()| atomic::write(&mark, PRIVATE))
        .map_err(|e| cannot("make", folder, &e))
}

/// Writes a result into its file in the folder, and creates the folder if it does not exist.
pub fn write<E: Evidence>(folder: &Path, found: &E) -> Result<PathBuf, EvidenceError> {
    let text = found.to_json().map_err(|e| cannot("write", &folder.join(E::FILE), &e))?;
    write_text(folder, E::FILE, &text)
}

/// Writes a text file, and creates the folder if it does not exist. An earlier file stays until the new one is
/// complete.
pub fn write_text(folder: &Path, name: &str, text: &str) -> Result<PathBuf, EvidenceError> {
    write_bytes(folder, name, text.as_bytes())
}

/// Writes a file into the folder, like [`write_text`].
pub(crate) fn write_bytes(
    folder: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<PathBuf, EvidenceError> {
    make(folder)?;
    let path = folder.join(name);
    atomic::write(&path, bytes).map_err(|e| cannot("write", &path, &e))?;
    Ok(path)
}

/// Reads a result from its file in the folder; `None` if the folder has no such file.
pub fn read<E: Evidence>(folder: &Path) -> Result<Option<E>, EvidenceError> {
    let path = folder.join(E::FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => E::from_json(&text)
            .map(Some)
            .map_err(|error| EvidenceError::OtherVersion { path, error: error.to_string() }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(cannot("read", &path, &e)),
    }
}

fn cannot(what: &'static str, path: &Path, error: &dyn std::error::Error) -> EvidenceError {
    EvidenceError::Failed { what, path: path.to_owned(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_an_earlier_file_until_the_new_one_is_complete() {
        use std::io::Read as _;

        let folder = tempfile::tempdir().unwrap();
        let path = write_text(folder.path(), "report.md", "old").unwrap();
        let mut earlier = std::fs::File::open(&path).unwrap();
        write_text(folder.path(), "report.md", "new").unwrap();
        let mut text = String::new();
        earlier.read_to_string(&mut text).unwrap();
        assert_eq!(
            (text.as_str(), std::fs::read_to_string(path).unwrap().as_str()),
            ("old", "new")
        );
    }

    #[test]
    fn accepts_partly_marked_folders_and_rejects_foreign_ones() {
        let folder = tempfile::tempdir().unwrap();
        let is_ours = || super::folder(Some(folder.path()), "a/b").is_ok();
        let mark = folder.path().join(PRIVATE_FILE);
        assert!(is_ours());
        for begun in [0, 1, PRIVATE.len() / 2] {
            std::fs::write(&mark, &PRIVATE[..begun]).unwrap();
            assert!(is_ours(), "{begun}");
        }
        std::fs::write(folder.path().join("theirs"), "").unwrap();
        assert!(!is_ours());
        std::fs::write(&mark, "Keep out").unwrap();
        assert!(!is_ours());
        std::fs::remove_file(folder.path().join("theirs")).unwrap();
        assert!(!is_ours());
        std::fs::write(&mark, PRIVATE).unwrap();
        let written = mark.metadata().unwrap().modified().unwrap();
        make(folder.path()).unwrap_or_else(|stop| panic!("{stop:?}"));
        assert!(is_ours() && mark.metadata().unwrap().modified().unwrap() == written);
    }

    #[test]
    fn rejects_folders_with_links() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path()).unwrap();
        std::os::unix::fs::symlink("/elsewhere", folder.path().join("report.md")).unwrap();
        let error = super::folder(Some(folder.path()), "a/b").unwrap_err();
        assert!(matches!(error, EvidenceError::Link { path } if path.ends_with("report.md")));
    }
}
