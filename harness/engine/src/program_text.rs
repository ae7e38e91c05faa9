//! The text of a program's file.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Largest text of a program in an issue, in bytes.
const LONGEST: u64 = 64 << 10;

/// A program's file with its text.
#[derive(Clone, Debug)]
pub(crate) struct ProgramText {
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    /// The language, as Markdown spells it; empty if it is unknown.
    pub(crate) language: &'static str,
}

/// Reads the text of a file; none if the file is too long or not text.
pub(crate) fn read_text(file: &Path) -> Option<ProgramText> {
    let size = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
    let text = (size <= LONGEST).then(|| fs::read_to_string(file).ok()).flatten()?;
    let language = match file.extension().and_then(|ending| ending.to_str()) {
        Some("py") => "python",
        Some("cpp" | "cc" | "cxx" | "hip" | "h" | "hpp" | "cu") => "cpp",
        Some("c") => "c",
        Some("sh") => "sh",
        _ => "",
    };
    Some(ProgramText { file: file.to_owned(), text, language })
}
