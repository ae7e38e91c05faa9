//! Runs every command of README.md as a new user would: in the root of a new Debian, where nothing but Python is
//! installed, as an ordinary user, with an empty cache. Compares the output with the output that README.md shows, and
//! runs each cell of its table.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::{TaskResult, recipes, wheel};

const README: &str = "README.md";
const FOUND: &str = "docs/found-in-releases.md";

/// Folder with the new Debian in which the commands run. Later runs use this folder again, but replace the user's home
/// folder in it.
const ROOT: &str = "target/readme/root";

/// Source of a program as a user may have it: asks HIP for the number of devices, and succeeds if there is one.
const OWN_PROGRAM: &str = "extern \"C\" int hipGetDeviceCount(int *);\n\
     int main() { int n = 0; return hipGetDeviceCount(&n) != 0 || n != 1; }\n";

/// A command of README.md, and the output that README.md shows below it.
#[derive(Debug, PartialEq)]
struct ShownCommand {
    command: String,
    /// Each line of the output, with its line number.
    output: Vec<(usize, String)>,
}

/// A row of the table in README.md.
#[derive(Debug, PartialEq)]
struct TableRow {
    /// Name of the case, as the table in [`FOUND`] contains it.
    case: String,
    /// Release and content of each cell.
    cells: Vec<(String, String)>,
}

/// Runs all commands and all cells of the table. `program` is a program to test instead of the release build.
pub(crate) fn readme(sh: &Shell, program: Option<&String>) -> TaskResult {
    let root = root(sh)?;
    let home = root.join("home/user");
    let own = |path: &Path| cmd!(sh, "chown -R 1000:1000 {path}").run();
    sh.remove_path(&home)?;
    sh.create_dir(&home)?;
    let program = match program {
        Some(program) => sh.current_dir().join(program),
        None => {
            cmd!(sh, "cargo build --release --locked -p rocrepro").run()?;
            sh.current_dir().join(crate::target_folder()).join("release/rocrepro")
        }
    };
    wheel::write_wheel(sh, &program, &home)?;
    own_program(sh, &program, &home)?;
    own(&home)?;
    in_root(sh, &root, "python3 -m venv venv")?;
    let mut wrong = Vec::new();
    for ShownCommand { command, output } in commands(&sh.read_file(README)?) {
        if command.starts_with("cargo ") {
            println!("not run, because the root has no Rust: {command}");
            continue;
        }
        let begun = Instant::now();
        match in_root(sh, &root, &command) {
            Err(error) => wrong.push(format!("`{command}`: {error}")),
            Ok(printed) => wrong.extend(recipes::stale(&output, &printed, README)),
        }
        println!("{:6.1} s  {command}", begun.elapsed().as_secs_f64());
    }
    for TableRow { case, cells } in rows(&sh.read_file(README)?, &sh.read_file(FOUND)?)? {
        for (release, cell) in cells {
            let seen = verdict(sh, &root, &case, &release)?;
            println!("{case} on {release}: {seen}; README.md: {cell}");
            if seen != wanted(&cell) {
                wrong.push(format!("{case} on {release}: {seen}, but README.md says `{cell}`"));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Returns the folder with the new Debian and Python. Creates the folder if it does not exist.
fn root(sh: &Shell) -> Result<PathBuf, Box<dyn Error>> {
    let root = sh.current_dir().join(ROOT);
    if !root.join("home").is_dir() {
        sh.remove_path(&root)?;
        sh.create_dir(&root)?;
        let more = "--include=ca-certificates,python3-venv";
        cmd!(sh, "debootstrap --variant=minbase {more} bookworm {root}").ignore_stdout().run()?;
    }
    Ok(root)
}

/// Runs a shell command in the Debian in the folder `root`: as an ordinary user, in the home folder of this user, with
/// the user's virtual environment first on PATH. Returns the standard output.
///
/// # Errors
/// Fails if the command does not end with exit status 0.
fn in_root(sh: &Shell, root: &Path, command: &str) -> Result<String, Box<dyn Error>> {
    // The mounts exist only in the namespace of this command, so they end with it. A process in a chroot could not make
    // user namespaces, so the root is exchanged.
    const ENTER: &str = "set -e; cp /etc/resolv.conf \"$1/etc/resolv.conf\"; mount --bind \"$1\" \"$1\"; cd \"$1\"; \
        mount -t proc proc proc; mount --rbind /dev dev; mount --rbind /sys sys; mount -t tmpfs tmp tmp; chmod 1777 tmp; \
        pivot_root . mnt; umount --lazy /mnt; cd /home/user; \
        exec setpriv --reuid 1000 --regid 1000 --clear-groups env -i HOME=/home/user LANG=C.UTF-8 \
        PATH=/home/user/venv/bin:/usr/bin:/bin bash -c \"$2\"";
    let printed =
        cmd!(sh, "unshare --mount --propagation private bash -c {ENTER} bash {root} {command}");
    Ok(printed.quiet().ignore_stderr().read()?)
}

/// Compiles the user's own program on this machine, which has a compiler.
fn own_program(sh: &Shell, program: &Path, home: &Path) -> TaskResult {
    let stack = cmd!(sh, "{program} stack fetch debian:7.2.4").quiet().ignore_stderr().read()?;
    let stack = stack.lines().next().unwrap_or_default();
    let found = cmd!(sh, "find {stack} -name libamdhip64.so.7").read()?;
    let library = found.lines().next().ok_or("the stack has no libamdhip64.so.7")?;
    let source = home.join("my-hip-program.cpp");
    let made = home.join("my-hip-program");
    fs::write(&source, OWN_PROGRAM)?;
    let others = "-Wl,--allow-shlib-undefined";
    Ok(cmd!(sh, "g++ -static-libstdc++ -static-libgcc {source} {library} {others} -o {made}")
        .run()?)
}

/// Returns the commands in the code blocks of README.md that begin with `console`.
fn commands(readme: &str) -> Vec<ShownCommand> {
    let mut commands: Vec<ShownCommand> = Vec::new();
    let mut inside = false;
    for (number, line) in readme.lines().enumerate() {
        match (line.strip_prefix("```"), line.strip_prefix("$ ")) {
            (Some(kind), _) => inside = kind == "console",
            (None, Some(command)) if inside => {
                let command = command.split("  #").next().unwrap_or_default().trim().to_owned();
                commands.push(ShownCommand { command, output: Vec::new() });
            }
            (None, None) if inside && !["", "..."].contains(&line.trim()) => {
                if let Some(last) = commands.last_mut() {
                    last.output.push((number, line.trim().to_owned()));
                }
            }
            _ => {}
        }
    }
    commands
}

/// Returns the rows of the table in README.md. The page [`FOUND`] contains the same rows, and also names the case of
/// each one.
///
/// # Errors
/// Fails if a row is not in [`FOUND`], or has another content there.
fn rows(readme: &str, found: &str) -> Result<Vec<TableRow>, String> {
    let found = table(found);
    let rows = table(readme).into_iter().filter(|row| row.len() == 4);
    let mut releases: Option<Vec<String>> = None;
    let mut all = Vec::new();
    for row in rows {
        let Some(releases) = &releases else {
            releases = Some(row[1..].to_vec());
            continue;
        };
        let text = row[0].split(" (").next().unwrap_or_default();
        let same = found.iter().find(|other| {
            other[0].split_once(": ").is_some_and(|(_, rest)| rest.split(" (").next() == Some(text))
        });
        let same = same.ok_or_else(|| format!("{FOUND} has no row `{text}`"))?;
        if !same.ends_with(&row[1..]) {
            return Err(format!("`{text}`: {:?} in {README}, {same:?} in {FOUND}", &row[1..]));
        }
        let case = same[0].split('`').nth(1).unwrap_or_default().to_owned();
        all.push(TableRow {
            case,
            cells: releases.iter().cloned().zip(row[1..].to_vec()).collect(),
        });
    }
    Ok(all)
}

/// Returns the rows of all tables of a page, without the lines below the headings.
fn table(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let cells = |line: &str| {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    lines.map(cells).collect()
}

/// Runs a case of the table in the root. Returns the verdict of its trials: `pass`, `skip` if all trials were skipped, or
/// the kind of the first other verdict.
fn verdict(sh: &Shell, root: &Path, case: &str, release: &str) -> Result<String, Box<dyn Error>> {
    let command = format!(
        "rm -f cell.jsonl; rocrepro run '{case}' --rocm debian:{release} --record cell.jsonl"
    );
    // The exit code is 4 if all trials are skipped. The record has the verdicts.
    let _ = in_root(sh, root, &command);
    let record = fs::read_to_string(root.join("home/user/cell.jsonl"))?;
    let mut kinds = Vec::new();
    for line in record.lines() {
        let line: Value = serde_json::from_str(line)?;
        kinds.extend(line["verdict"]["kind"].as_str().map(str::to_owned));
    }
    let other = kinds.iter().find(|kind| !["pass", "skip"].contains(&kind.as_str()));
    let passed = kinds.iter().find(|kind| *kind == "pass");
    Ok(other.or(passed).or(kinds.first()).ok_or("the run has no trial")?.clone())
}

/// Returns the verdict that a cell of the table claims.
fn wanted(cell: &str) -> &str {
    match cell {
        "ok" => "pass",
        "not run" => "skip",
        _ => "known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../README.md");
    const FOUND_TEXT: &str = include_str!("../../docs/found-in-releases.md");

    #[test]
    fn commands_and_their_output_are_read() {
        let page = "$ no\n```console\n$ a b   # why\n$ c\nout 1\n...\n\n    out 2\n```\n```yaml\n$ d\n```\n";
        let command = |command: &str, output: &[(usize, &str)]| ShownCommand {
            command: command.to_owned(),
            output: output.iter().map(|(number, line)| (*number, (*line).to_owned())).collect(),
        };
        assert_eq!(
            commands(page),
            [command("a b", &[]), command("c", &[(4, "out 1"), (7, "out 2")])]
        );
    }

    /// If the format of README.md changed, no command would be found, and README.md would silently not be tested.
    #[test]
    fn the_commands_of_readme_are_found() {
        let commands = commands(TEXT);
        let of_us = commands.iter().filter(|shown| shown.command.starts_with("rocrepro ")).count();
        let lines: usize = commands.iter().map(|shown| shown.output.len()).sum();
        assert_eq!((commands.len(), of_us, lines), (14, 11, 10), "{commands:#?}");
    }

    /// Claims of README.md that need no run.
    #[test]
    fn counts_in_readme_are_right() {
        // No released HIP runtime knows gfx1250, so README.md does not count it.
        let counted = device::Arch::ALL.iter().filter(|arch| **arch != device::Arch::Gfx1250);
        let archs: Vec<_> = counted.collect();
        let names = (archs[0].name(), archs[archs.len() - 1].name());
        assert_eq!((archs.len(), names), (15, ("gfx906", "gfx1201")));
        assert!(TEXT.contains("fifteen architectures (gfx906 to gfx1201)"));
        let found = FOUND_TEXT.split("## Differences").next().unwrap_or_default();
        assert!(table(found).len() > 31, "a heading and more than thirty cases");
        assert!(TEXT.contains(
            "More than thirty cases fail on at least one of four released ROCm versions"
        ));
    }

    #[test]
    fn the_rows_of_readme_are_those_of_the_page() {
        let rows = rows(TEXT, FOUND_TEXT).expect("each row is on the page");
        assert_eq!(rows.len(), 5);
        let cell = |release: &str, text: &str| (release.to_owned(), text.to_owned());
        assert_eq!(rows[0].case, "graphs/long-chain");
        let cells = [
            cell("5.7.1", "ok"),
            cell("6.4.3", "ok"),
            cell("7.2.4", "SIGSEGV in hipGraphInstantiate"),
        ];
        assert_eq!(rows[0].cells, cells);
        let wrong = TEXT.replace("| ok | ok | SIGSEGV", "| ok | crash | SIGSEGV");
        assert!(super::rows(&wrong, FOUND_TEXT).is_err());
    }
}
