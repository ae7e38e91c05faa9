//! The quick check, for frequent use. It takes about two minutes after the tests have been built once.
//!
//! The quick check runs all checks of source texts, the tests of the crates that changed, and a sample of the case
//! library. The sampled cases use every crate that takes part in running a case, from its YAML file to its record.

use std::{collections::BTreeSet, time::Instant};

use xshell::{Shell, cmd};

use crate::{TaskResult, architectures, circles, module_cycles, reports, style, tidy};

/// Family of cases that uses every crate from reading a case to writing its record.
const SAMPLE: &str = "copies/";

/// Integration tests that take longer than the whole quick check.
const SLOW_TESTS: &[&str] = &["chaos", "cases", "cli"];

pub(crate) fn run(sh: &Shell) -> TaskResult {
    let files = changed_files(sh)?;
    let folders: BTreeSet<&str> = files.iter().filter_map(|file| folder_of_crate(file)).collect();
    let tests = tests_of(sh, &folders)?;
    println!("ci quick: {} changed files; crates: {}", files.len(), list(&folders));
    let sample = ["--test", "cases", "--", SAMPLE];
    let steps: [(&str, &dyn Fn() -> TaskResult); 4] = [
        ("texts", &|| check_texts(sh)),
        ("formatting", &|| Ok(cmd!(sh, "cargo fmt --all --check").quiet().run()?)),
        ("tests of the crates", &|| cargo_test(sh, &tests)),
        ("sample of the case library", &|| cargo_test(sh, &sample)),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        let begun = Instant::now();
        let done = step();
        let end = if done.is_ok() { "succeeded" } else { "failed" };
        println!("ci quick: {name} {end} after {} s", begun.elapsed().as_secs());
        if let Err(error) = done {
            println!("{error}");
            failed.push(name);
        }
    }
    let not_run: Vec<&str> =
        SLOW_TESTS.iter().copied().filter(|_| folders.contains("harness/cli")).collect();
    if !not_run.is_empty() {
        println!("ci quick: these tests of the crate `cli` were not run: {}", not_run.join(", "));
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("these checks failed: {}", failed.join(", ")).into())
    }
}

/// Runs all checks of source texts, which do not need a compiler.
pub(crate) fn check_texts(sh: &Shell) -> TaskResult {
    let checks: [fn(&Shell) -> TaskResult; 6] = [
        tidy::check,
        architectures::check,
        style::check,
        reports::check,
        circles::check,
        module_cycles::check,
    ];
    let errors: Vec<String> =
        checks.iter().filter_map(|check| check(sh).err()).map(|error| error.to_string()).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n").into()) }
}

/// Runs `cargo test` with the same features for all crates, so that shared dependencies are built only once.
fn cargo_test(sh: &Shell, arguments: &[impl AsRef<std::ffi::OsStr>]) -> TaskResult {
    Ok(cmd!(sh, "cargo test --quiet --locked -p rocrepro {arguments...}").quiet().run()?)
}

/// Returns the files that differ from the last commit, including new files. If no file differs, returns the files that
/// the last commit changed.
fn changed_files(sh: &Shell) -> Result<Vec<String>, xshell::Error> {
    let new = cmd!(sh, "git ls-files --others --exclude-standard").quiet().read()?;
    let edited = cmd!(sh, "git diff --name-only HEAD").quiet().read()?;
    let mut files: Vec<String> = new.lines().chain(edited.lines()).map(str::to_owned).collect();
    if files.is_empty() {
        let last = cmd!(sh, "git diff --name-only HEAD~1").quiet().read()?;
        files.extend(last.lines().map(str::to_owned));
    }
    Ok(files)
}

/// Returns the folder of the crate to which a file belongs; `None` if it belongs to no crate. Cases and kernels belong
/// to the crate `cli`, which embeds them.
fn folder_of_crate(file: &str) -> Option<&str> {
    match file.split('/').next()? {
        "harness" => file.match_indices('/').nth(1).map(|(end, _)| &file[..end]),
        "ci" => Some("ci"),
        "cases" | "kernels" => Some("harness/cli"),
        _ => None,
    }
}

/// Returns the arguments of `cargo test` for the unit tests and the short integration tests of the crates in these
/// folders.
fn tests_of(
    sh: &Shell,
    folders: &BTreeSet<&str>,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut arguments = vec!["--lib".to_owned()];
    for folder in folders {
        let manifest: toml::Table = sh.read_file(format!("{folder}/Cargo.toml"))?.parse()?;
        let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
        arguments
            .extend(["-p".to_owned(), name.ok_or("Cargo.toml has no package name")?.to_owned()]);
        if *folder == "ci" {
            arguments.extend(["--bin".to_owned(), "ci".to_owned()]);
        }
        let tests = sh.read_dir(format!("{folder}/tests")).unwrap_or_default();
        for test in tests.iter().filter(|path| is_test(path)) {
            let name = test.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if !SLOW_TESTS.contains(&name) {
                arguments.extend(["--test".to_owned(), name.to_owned()]);
            }
        }
    }
    Ok(arguments)
}

/// Returns true if Cargo builds an integration test from the file or folder at this path.
fn is_test(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists()
}

fn list(folders: &BTreeSet<&str>) -> String {
    let names: Vec<&str> = folders.iter().filter_map(|folder| folder.rsplit('/').next()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_crate_of_a_file() {
        let folders = ["harness/plan/src/lib.rs", "harness/plan/Cargo.toml", "ci/src/main.rs"];
        assert_eq!(
            folders.map(folder_of_crate),
            [Some("harness/plan"), Some("harness/plan"), Some("ci")]
        );
        let others = ["cases/copies/odd-sizes.yaml", "README.md", "docs/README.md"];
        assert_eq!(others.map(folder_of_crate), [Some("harness/cli"), None, None]);
    }

    #[test]
    fn finds_the_short_tests_of_a_crate() {
        let sh = Shell::new().unwrap();
        sh.change_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let tests = tests_of(&sh, &["harness/cli", "harness/plan"].into()).unwrap();
        let expected = "--lib -p rocrepro -p plan --test oracle --test regressions";
        assert_eq!(tests.join(" "), expected);
    }
}
