//! Rules of the house that no other tool checks.

use xshell::{Shell, cmd};

/// A file has one reason to exist and fits in a head.
const MAX_LINES: usize = 600;

/// Checks the files that git tracks.
///
/// # Errors
/// Every broken rule with its file.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let files = cmd!(sh, "git ls-files").read()?;
    let mut problems = Vec::new();
    for file in files.lines().filter(|f| f.ends_with(".rs")) {
        let text = sh.read_file(file)?;
        let lines = text.lines().count();
        if lines > MAX_LINES {
            problems.push(format!("{file}: {lines} lines; split it ({MAX_LINES} at most)"));
        }
        for (number, line) in text.lines().enumerate() {
            let stub = ["todo!(", "unimplemented!(", "#[ignore", "dbg!("];
            // This list itself is the one place where the words may stand.
            if stub.iter().any(|s| line.contains(s)) && file != "ci/src/tidy.rs" {
                problems.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}
