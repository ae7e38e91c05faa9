//! Reads the source file of a program, to be quoted in an issue.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Size of the largest source file that an issue quotes, in bytes.
const LONGEST: u64 = 64 << 10;

/// The source of a program, and the name of its file.
#[derive(Clone, Debug)]
pub(crate) struct ProgramText {
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    /// Name of the programming language for a Markdown code block; empty if it is unknown.
    pub(crate) language: &'static str,
}

/// Reads the source of a program; `None` if the file is too large or not text.
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
