//! Checks rules of the project that other tools do not check, for example the maximum number of lines in a file.

use xshell::{Shell, cmd};

const MAX_LINES: usize = 600;

/// Files that may write to standard output and standard error directly. Their functions escape text from outside, and
/// handle closed and full streams. All other files call these functions.
const SINKS: [&str; 6] = [
    "harness/report/src/sink.rs",
    // The functions in this file write output for programs, without changing a byte.
    "harness/cli/src/outputs.rs",
    // The remaining files belong to processes whose output only rocrepro reads.
    "harness/worker/src/tell.rs",
    "harness/supervise/src/start.rs",
    "harness/supervise/src/stacks/looker.rs",
    "harness/aql/src/report.rs",
];

/// Checks all files that git tracks.
///
/// # Errors
/// Lists every violation with its file.
pub(crate) fn check(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let files = cmd!(sh, "git ls-files").read()?;
    let mut problems = Vec::new();
    for file in files.lines().filter(|f| f.ends_with(".rs")) {
        problems.extend(problems_of(file, &sh.read_file(file)?));
    }
    for file in files.lines().filter(|f| f.ends_with("Cargo.toml") && is_library(f)) {
        problems.extend(commands_of(file, &sh.read_file(file)?));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

fn problems_of(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!(
            "{file}: the file has {lines} lines; split the file (at most {MAX_LINES} lines)"
        ));
    }
    let mut tests = false;
    for (number, line) in text.lines().enumerate() {
        tests |= line == "mod tests {";
        let mut broken = |rule: &str| {
            problems.push(format!("{file}:{}: {rule}: {}", number + 1, line.trim()));
        };
        let stub = ["todo!(", "unimplemented!(", "#[ignore", "dbg!("];
        // `tidy.rs` itself contains the forbidden words, in the list above.
        if stub.iter().any(|s| line.contains(s)) && file != "ci/src/tidy.rs" {
            broken("unfinished code (a stub)");
        }
        if is_product(file) && has_space_run(line) {
            broken("several spaces within a sentence");
        }
        // Both functions panic if the machine cannot start a thread. `std::thread::Builder` returns an error instead.
        let spawns = ["thread::spawn(", "scope.spawn("];
        if is_product(file) && !tests && spawns.iter().any(|way| line.contains(way)) {
            broken("start the thread with std::thread::Builder");
        }
        if is_product(file) && writes_output(line) && !SINKS.contains(&file) {
            broken("print with report::print, report::note or a similar function");
        }
    }
    if is_library(file) {
        problems.extend(commands_of(file, text));
    }
    problems
}

/// Crates that the command line uses as libraries. They must neither print nor read the command line.
const LIBRARIES: [&str; 2] = ["harness/engine/", "harness/bisect/"];

fn is_library(file: &str) -> bool {
    LIBRARIES.iter().any(|library| file.starts_with(library))
}

/// Returns the lines of a library crate that are allowed only in the crate `cli`: lines that print, end the process or
/// use clap.
fn commands_of(file: &str, text: &str) -> Vec<String> {
    const WAYS: [&str; 4] = ["clap", "report::print(", "report::note(", "process::exit("];
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let has = |code: &str, way: &str| {
        code.match_indices(way).any(|(at, _)| {
            let after = &code[at + way.len()..];
            !code[..at].ends_with(is_word) && (way.ends_with('(') || !after.starts_with(is_word))
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let code = line.split("//").next().unwrap_or_default();
        WAYS.iter().any(|way| has(code, way))
    });
    lines
        .map(|(n, line)| {
            format!("{file}:{}: only the crate `cli` may do this: {}", n + 1, line.trim())
        })
        .collect()
}

/// Returns true if a file is part of the product: of the command, the worker or the device. Tests and tools for
/// developers may print directly.
fn is_product(file: &str) -> bool {
    let mut parts = file.split('/');
    let crates = parts.next() == Some("harness");
    let name = parts.next().unwrap_or_default();
    crates
        && !["chaos", "isa-verify"].contains(&name)
        && parts.next() == Some("src")
        && !file.ends_with("tests.rs")
}

/// Returns true if a string in the line contains a run of spaces between two words. Such a run remains if a long string
/// was split and joined again. Tables in strings are not affected, because they begin on lines of their own.
fn has_space_run(line: &str) -> bool {
    let texts = line.split('"').skip(1).step_by(2);
    let gap = " ".repeat(6);
    texts.filter_map(|text| text.split_once(&gap)).any(|(before, after)| {
        let begins = |c: char| c.is_alphabetic() || c == '(';
        before.contains(char::is_alphabetic) && after.trim_start().starts_with(begins)
    })
}

/// Returns true if a line writes to standard output or standard error directly.
fn writes_output(line: &str) -> bool {
    const WAYS: [&str; 4] = ["println!(", "print!(", "::stdout()", "::stderr()"];
    // The following uses of the streams are allowed: checks for a terminal, progress bars and raw file descriptors.
    const OTHERS: [&str; 3] = ["is_terminal", "ProgressDrawTarget::", "rustix::stdio::"];
    let code = line.split("//").next().unwrap_or_default();
    WAYS.iter().any(|way| code.contains(way)) && !OTHERS.iter().any(|other| code.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_direct_output() {
        let check = |file: &str, line: &str, problems: usize| {
            assert_eq!(problems_of(file, line).len(), problems, "{file}: {line}");
        };
        let cli = "harness/cli/src/commands/run.rs";
        for line in [
            "    eprintln!(\"{error}\");",
            "    anstream::println!(\"{error}\");",
            "    writeln!(io::stderr(), \"{error}\")?;",
            "    let mut out = std::io::stdout().lock();",
        ] {
            check(cli, line, 1);
            check("harness/report/src/issue/write.rs", line, 1);
            check("harness/worker/src/lib.rs", line, 1);
            check("harness/report/src/sink.rs", line, 0);
            check("harness/chaos/src/lib.rs", line, 0);
            check("harness/cli/tests/cli/command.rs", line, 0);
            check("ci/src/main.rs", line, 0);
        }
        for line in [
            "    // eprintln! is forbidden",
            "    if std::io::stderr().is_terminal() {",
            "    println(x);",
            "    note(\"text\");",
        ] {
            check(cli, line, 0);
        }
    }

    #[test]
    fn finds_threads_that_may_panic_at_start() {
        let check = |text: &str, problems: usize| {
            assert_eq!(
                problems_of("harness/stacks/src/debian/fetch.rs", text).len(),
                problems,
                "{text}"
            );
        };
        check("    let thread = std::thread::spawn(work);", 1);
        check("        scope.spawn(work);", 1);
        check("    std::thread::Builder::new().spawn(work)?;", 0);
        check("#[cfg(test)]\nmod tests {\n    std::thread::spawn(work);\n}", 0);
    }

    #[test]
    fn finds_strings_with_repeated_spaces() {
        let check = |line: &str, problems: usize| {
            assert_eq!(problems_of("harness/cli/src/stop.rs", line).len(), problems, "{line}");
        };
        check("    note(\"begin anew in another          folder\");", 1);
        check("    note(\"      a line of its own\");", 0);
        check("    let x = 1;      // a comment", 0);
    }

    #[test]
    fn finds_printing_and_clap_in_libraries() {
        let check = |file: &str, line: &str, problems: usize| {
            assert_eq!(problems_of(file, line).len(), problems, "{file}: {line}");
        };
        for line in [
            "use clap::Parser;",
            "    report::note(\"text\");",
            "    std::process::exit(2);",
            "    print!(\"text\");",
        ] {
            check("harness/engine/src/batch.rs", line, 1);
            check("harness/bisect/src/search.rs", line, 1);
        }
        check("harness/cli/src/args.rs", "use clap::Parser;", 0);
        check("harness/engine/src/batch.rs", "    let clapped = overlap(a); // clap", 0);
        assert_eq!(commands_of("harness/engine/Cargo.toml", "clap.workspace = true").len(), 1);
        assert!(commands_of("harness/engine/Cargo.toml", "rustix = \"1\"").is_empty());
    }

    #[test]
    fn finds_long_files_and_stubs() {
        assert_eq!(problems_of("ci/src/a.rs", &"x\n".repeat(MAX_LINES)).len(), 0);
        assert_eq!(problems_of("ci/src/a.rs", &"x\n".repeat(MAX_LINES + 1)).len(), 1);
        assert_eq!(problems_of("ci/src/a.rs", concat!("to", "do!()")).len(), 1);
    }
}
