//! Generates docs/matrix.html, which shows the results of all cases on all releases. Also updates the output of
//! commands in the tutorial.

use std::fs;

use xshell::{Shell, cmd};

use crate::{TaskResult, build_program};

/// Releases in the matrix, each with architectures that the HIP runtime of the release supports.
const COLUMNS: [(&str, &[&str]); 4] = [
    ("7.2.4", &["gfx1151", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"]),
    ("6.4.3", &["gfx1151", "gfx90a", "gfx1030", "gfx1100"]),
    ("5.7.1", &["gfx1100", "gfx908", "gfx90a", "gfx1030"]),
    ("5.2.3", &["gfx90a", "gfx906", "gfx908", "gfx1030"]),
];

/// Folder that contains the records, the results store and the page. If a run is interrupted, the next run resumes it
/// from this folder.
const FOLDER: &str = "target/evidence";

/// Path of the published matrix page.
pub(crate) const MATRIX_PAGE: &str = "docs/matrix.html";

/// Maximum size of the matrix page, in bytes.
const MAX_PAGE_BYTES: u64 = 2_000_000;

/// Runs `rocrepro matrix` and copies the resulting page. `more` contains additional options, for example `--jobs=1`.
pub(crate) fn evidence(sh: &Shell, more: &[String]) -> TaskResult {
    let program = build_program(sh)?;
    let on = |(release, gfx): &(&str, &[&str])| -> Vec<String> {
        gfx.iter().map(|gfx| format!("--on=debian:{release}@{gfx}")).collect()
    };
    let on: Vec<String> = COLUMNS.iter().flat_map(on).collect();
    // The short timeout saves time, because some trials are expected to hang on the oldest release.
    let how = ["--quiet-timeout=8", "--out", FOLDER, "--store", "target/evidence/results.db"];
    let ran = cmd!(sh, "{program} matrix {on...} {how...} {more...}").ignore_status();
    ran.run()?;
    let page = sh.current_dir().join(FOLDER).join("index.html");
    let bytes = fs::metadata(&page)?.len();
    if bytes >= MAX_PAGE_BYTES {
        return Err(format!("the page {MATRIX_PAGE} is too large: {bytes} bytes").into());
    }
    sh.copy_file(page, MATRIX_PAGE)?;
    println!("{MATRIX_PAGE}: {bytes} bytes; read the page before you commit it");
    Ok(())
}

/// Tutorial that shows the output of [`RUN`] and [`TEST`].
const FIRST_RUN: &str = "docs/first-run.md";
const RUN: &str = "cargo run --release -- run --rocm debian:7.2.4";
const TEST: &str = "cargo test";

/// Updates the output in [`FIRST_RUN`]. The commands run with an empty cache, as for a new user.
pub(crate) fn first_run(sh: &Shell) -> TaskResult {
    let cache = sh.create_temp_dir()?;
    let _cache = sh.push_env("XDG_CACHE_HOME", cache.path());
    // The command reports downloads on standard error, so both output streams are read.
    let run = cmd!(sh, "sh -c").arg(format!("{RUN} 2>&1")).read()?;
    let begun = run.lines().position(|line| line.starts_with("debian:")).unwrap_or(0);
    // A slow run prints progress lines, which the tutorial does not show.
    let on_the_way = |line: &&str| line.contains(" finished after ");
    let run: Vec<&str> = run.lines().skip(begun).filter(|line| !on_the_way(line)).collect();
    let tests = cmd!(sh, "cargo test --quiet --test cases -- --format pretty").read()?;
    let result = tests.lines().rfind(|line| line.starts_with("test result: "));
    let result =
        result.ok_or("`cargo test` ran no test")?.split("; finished").next().unwrap_or_default();
    let of_tests = ["...", "test kernels/saxpy[n=65536,block=1024] ... ok", "", result];
    let text = sh.read_file(FIRST_RUN)?;
    let text = with_block(&text, RUN, &run)?;
    sh.write_file(FIRST_RUN, with_block(&text, TEST, &of_tests)?)?;
    println!("{FIRST_RUN}: read the page before you commit it");
    Ok(())
}

/// Returns the text of the tutorial, with `lines` in place of the output that follows the command. Returns an error if
/// the text does not contain the command.
fn with_block(text: &str, command: &str, lines: &[&str]) -> Result<String, String> {
    let head = format!("```console\n$ {command}\n");
    let lacks = || format!("{FIRST_RUN} has no block with the output of `{command}`");
    let (before, rest) = text.split_once(&head).ok_or_else(lacks)?;
    let (_, after) = rest.split_once("\n```").ok_or_else(lacks)?;
    Ok(format!("{before}{head}{}\n```{after}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_output_below_a_command() {
        let text = "a\n```console\n$ cargo test\nold\nolder\n```\nb\n```console\n$ x\ny\n```\n";
        let new = with_block(text, "cargo test", &["new"]).expect("the page has the block");
        assert_eq!(new, "a\n```console\n$ cargo test\nnew\n```\nb\n```console\n$ x\ny\n```\n");
        assert!(with_block(text, "cargo run", &[]).is_err());
        let readme = include_str!("../../docs/first-run.md");
        assert!([RUN, TEST].iter().all(|command| with_block(readme, command, &[]).is_ok()));
    }
}
