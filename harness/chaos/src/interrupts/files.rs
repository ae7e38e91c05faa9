//! Checks of the files that an interrupted command leaves behind.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(walk(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

/// Returns a description of each file or folder that is left in a folder of temporary files.
pub(super) fn leftovers(temporary: &Path) -> Vec<String> {
    let entries = fs::read_dir(temporary).into_iter().flatten().flatten();
    entries.map(|entry| format!("left in TMPDIR: {}", entry.file_name().display())).collect()
}

/// Returns a mistake for each incomplete file: records and evidence that are not valid JSON, a report that ends in the
/// middle, and unfinished files next to them.
pub(super) fn incomplete_files(work: &Path) -> Vec<String> {
    walk(work).iter().filter_map(|path| file_mistake(path)).collect()
}

fn file_mistake(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with('.') || name.ends_with(".tmp") || name.ends_with(".part") {
        return Some(format!("an unfinished file is left: {}", path.display()));
    }
    let text = || fs::read_to_string(path).unwrap_or_default();
    let wrong = match path.extension()?.to_str()? {
        "jsonl" => {
            let text = text();
            let bad = text.lines().find(|line| serde_json::from_str::<Value>(line).is_err());
            bad.map(str::to_owned)
                .or_else(|| (!text.is_empty() && !text.ends_with('\n')).then_some(text))
        }
        "json" => serde_json::from_str::<Value>(&text()).err().map(|error| error.to_string()),
        "md" => {
            let text = text();
            let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
            (!text.ends_with('\n') || fences % 2 != 0)
                .then(|| "the text stops in the middle".to_owned())
        }
        "html" => (!text().trim_end().ends_with("</html>"))
            .then(|| "`</html>` is missing at the end".to_owned()),
        _ => None,
    };
    wrong.map(|why| format!("{} is not complete: {why}", path.display()))
}

/// Returns the number before `words` in the last line that contains both, for example 3 in `12 runs: 3 calls left`.
pub(super) fn last_number(said: &str, words: &[&str]) -> Option<usize> {
    let of = |line: &str| {
        let before = words
            .iter()
            .find_map(|word| line.split(word).next().filter(|b| b.len() < line.len()))?;
        before.rsplit(' ').next()?.parse().ok()
    };
    said.lines().rev().find_map(of)
}
