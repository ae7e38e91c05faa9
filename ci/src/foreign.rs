//! Runs the tests of frameworks on the emulated device. A seed determines which test files and which tests of each file
//! are drawn. The drawn tests of a file run in one process with a time limit. The test files come from a checkout of
//! the framework that the user names, because this repository contains no copy of them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use xshell::{Shell, cmd};

use crate::{
    STACK, TaskResult,
    amd_tests::{Outcome, draw_tests, format_counts},
    build_program,
    frameworks::FRAMEWORKS,
};

/// A framework whose tests run with pytest.
struct Suite {
    name: &'static str,
    /// Additional packages that the tests import.
    packages: &'static [&'static str],
    /// Environment variables with which the tests run.
    environment: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite { name: "cupy", packages: &["pytest", "scipy"], environment: &[] },
    Suite {
        name: "jax",
        packages: &["pytest", "absl-py", "hypothesis"],
        environment: &[
            "XLA_PYTHON_CLIENT_PREALLOCATE=false",
            "JAX_PLATFORMS=rocm,cpu",
            // Autotuning takes long, and its result means nothing on an emulated device.
            "XLA_FLAGS=--xla_gpu_autotune_level=0",
        ],
    },
];

/// Shell script that merges the standard output and standard error of a command. Therefore messages of the device
/// appear after the name of the test that is running.
const MERGE_OUTPUT: &str = r#"exec "$@" 2>&1"#;

#[derive(Debug, PartialEq)]
struct SampleOptions {
    /// Index in [`SUITES`].
    suite: usize,
    /// Folder `tests` in a checkout of the framework.
    at: PathBuf,
    seed: u64,
    gfx: String,
    /// Maximum number of test files to draw.
    files: usize,
    /// Maximum number of tests to draw from each file.
    tests: usize,
    /// Time limit of each process, in seconds.
    limit: u32,
    /// Prefixes of the paths of test files, relative to `at`. An empty list selects all files.
    names: Vec<String>,
}

impl SampleOptions {
    /// Parses the arguments of a draw: `cupy at=FOLDER seed=7 gfx=gfx90a files=20 tests=15 limit=120 NAME...`.
    fn parse(words: &[String]) -> Result<Self, String> {
        let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        let first = words.first().map_or("", String::as_str);
        let suite = known.iter().position(|name| *name == first);
        let suite = suite.ok_or_else(|| {
            format!("{first:?} is not a test suite; the suites are {}", known.join(", "))
        })?;
        let mut draw = Self {
            suite,
            at: PathBuf::new(),
            seed: 1,
            gfx: "gfx90a".into(),
            files: 20,
            tests: 15,
            limit: 120,
            names: vec![],
        };
        let number = |word: &str, text: &str| {
            text.parse::<u32>().map_err(|_| format!("{word}: {text:?} is not a number"))
        };
        for word in &words[1..] {
            match word.split_once('=') {
                Some(("at", text)) => draw.at = text.into(),
                Some(("seed", text)) => draw.seed = number(word, text)?.into(),
                Some(("gfx", text)) => draw.gfx = text.into(),
                Some(("files", text)) => draw.files = number(word, text)? as usize,
                Some(("tests", text)) => draw.tests = number(word, text)? as usize,
                Some(("limit", text)) => draw.limit = number(word, text)?,
                Some(_) => {
                    return Err(format!(
                        "{word:?} is not one of at=, seed=, gfx=, files=, tests= and limit="
                    ));
                }
                None => draw.names.push(word.clone()),
            }
        }
        if draw.at.as_os_str().is_empty() {
            let why =
                "at=FOLDER is missing; FOLDER is the folder `tests` of the framework's source code";
            return Err(why.to_owned());
        }
        Ok(draw)
    }
}

/// Draws tests, runs them and prints their outcomes.
pub(crate) fn foreign(sh: &Shell, words: &[String]) -> TaskResult {
    let draw = SampleOptions::parse(words)?;
    let suite = &SUITES[draw.suite];
    let program = build_program(sh)?;
    let (name, gfx) = (suite.name, &draw.gfx);
    cmd!(sh, "{program} rocm fetch {STACK} --with {name} --gfx {gfx}").run()?;
    let venv = format!("{name}-tests");
    if cmd!(sh, "{program} env path {venv}").quiet().ignore_stdout().ignore_stderr().run().is_err()
    {
        let framework = FRAMEWORKS
            .iter()
            .find(|it| it.name == name)
            .ok_or("the list of frameworks does not contain the suite")?;
        let packages = [framework.packages, suite.packages].concat();
        cmd!(sh, "{program} env create {venv} {packages...}").run()?;
    }
    let logs = sh.current_dir().join("target/foreign").join(name);
    fs::create_dir_all(&logs)?;
    sh.change_dir(&draw.at);
    let pytest = |limit: u32, words: &[&str]| {
        let mut environment = vec!["--env", "PYTHONUNBUFFERED=1"];
        for variable in suite.environment {
            environment.extend(["--env", *variable]);
        }
        let limit = limit.to_string();
        let on = ["--rocm", STACK, "--device", "emulated", "--gfx", gfx.as_str()];
        cmd!(sh, "sh -c {MERGE_OUTPUT} sh timeout --kill-after=5 {limit} {program} exec {on...} --with {name} --in {venv} {environment...} -- python3 -m pytest --rootdir . -p no:cacheprovider -W ignore {words...}")
            .quiet()
            .ignore_status()
            .output()
    };
    let mut files = Vec::new();
    find_test_files(&draw.at, "", &mut files)?;
    files.retain(|file| {
        draw.names.is_empty() || draw.names.iter().any(|name| file.starts_with(name.as_str()))
    });
    let listed: Vec<&str> = files.iter().map(String::as_str).collect();
    let mut total = BTreeMap::<Outcome, usize>::new();
    for file in draw_tests(draw.seed, &listed, draw.files) {
        let output = pytest(draw.limit, &["-q", "--collect-only", file])?;
        let text = stdout_text(&output);
        let tests = collected_tests(&text, file);
        let mut left = draw_tests(draw.seed, &tests, draw.tests);
        let mut log = if tests.is_empty() { text.clone() } else { String::new() };
        let mut counts = BTreeMap::<Outcome, usize>::new();
        let mut worth = Vec::new();
        while !left.is_empty() {
            let words = ["-v", "-s", "--tb=short", "-rfE"].iter().chain(&left);
            let output = pytest(draw.limit, &words.copied().collect::<Vec<_>>())?;
            let text = stdout_text(&output);
            let late = matches!(output.status.code(), Some(124 | 137));
            let became = parse_outcomes(&text, &left, late);
            log.push_str(&text);
            for (test, outcome) in &became {
                *counts.entry(*outcome).or_default() += 1;
                if outcome.is_bad() || *outcome == Outcome::Unfinished {
                    worth.push(format!("  {outcome}: {test}{}", failure_reason(&text, test)));
                }
            }
            left.retain(|test| !became.iter().any(|(done, _)| done == test));
        }
        fs::write(logs.join(file.replace('/', "-")).with_extension("log"), log)?;
        println!(
            "{name}/{file} on {gfx}: {}; the file lists {} tests",
            format_counts(&counts),
            tests.len()
        );
        worth.iter().for_each(|line| println!("{line}"));
        for (outcome, count) in counts {
            *total.entry(outcome).or_default() += count;
        }
    }
    println!("{name} on {gfx}, seed {}: {}", draw.seed, format_counts(&total));
    println!("the output of each process is in {}", logs.display());
    let bad = total.iter().filter(|(outcome, _)| outcome.is_bad()).map(|(_, n)| n).sum::<usize>();
    if bad > 0 {
        return Err(format!(
            "{bad} tests failed, crashed or need an unsupported feature of the device"
        )
        .into());
    }
    Ok(())
}

fn stdout_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Adds the pytest files in the folder `at` and its subfolders to `files`, sorted by name. `below` is the prefix of
/// their paths in `files`: empty, or a path with a `/` at the end.
fn find_test_files(at: &Path, below: &str, files: &mut Vec<String>) -> TaskResult {
    let mut entries = Vec::new();
    for entry in fs::read_dir(at).map_err(|error| format!("{}: {error}", at.display()))? {
        entries.push(entry?);
    }
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{below}{name}");
        if entry.file_type()?.is_dir() {
            find_test_files(&entry.path(), &format!("{path}/"), files)?;
        } else if let Some(stem) = name.strip_suffix(".py")
            && (stem.starts_with("test_") || stem.ends_with("_test"))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the tests of a file from the output of `pytest -q --collect-only`.
fn collected_tests<'a>(text: &'a str, file: &str) -> Vec<&'a str> {
    let is_of = |line: &&str| line.strip_prefix(file).is_some_and(|rest| rest.starts_with("::"));
    text.lines().filter(is_of).collect()
}

/// Parses the outcomes of tests from the output of `pytest -v -s`. pytest prints the name of a test before the test
/// begins, and the result after the output of the test. `late` is true if the time limit ended the process. If no test
/// began, the first test gets an outcome nevertheless, so that each process makes progress. A test that the time limit
/// ended gets an outcome only if it was the first one in its process. Otherwise it runs again in another process.
fn parse_outcomes<'a>(text: &str, tests: &[&'a str], late: bool) -> Vec<(&'a str, Outcome)> {
    // pytest prints its summary of the failures after the output of the tests.
    let run = text.split("\n=== short test summary").next().unwrap_or(text);
    let run = run.split("= FAILURES =").next().unwrap_or(run);
    let mut begun: Vec<(usize, usize, &str)> = Vec::new();
    let mut at = 0;
    for line in run.split_inclusive('\n') {
        let is_of =
            |test: &&&str| line.strip_prefix(**test).is_some_and(|rest| rest.starts_with(' '));
        // The name of one test may be a prefix of another name, so the longest matching name is used.
        let test = tests.iter().filter(is_of).max_by_key(|test| test.len());
        if let Some(test) = test.filter(|test| !begun.iter().any(|(.., known)| known == *test)) {
            begun.push((at, at + test.len(), test));
        }
        at += line.len();
    }
    let mut became = Vec::new();
    for (nth, (_, from, test)) in begun.iter().enumerate() {
        let to = begun.get(nth + 1).map_or(run.len(), |(at, ..)| *at);
        let said = &run[*from..to];
        let outcome = match said.split_whitespace().rev().find_map(parse_outcome) {
            _ if said.contains("rocrepro-device: gap") => Outcome::Gap,
            Some(outcome) => outcome,
            None if !late => Outcome::Crashed,
            None if nth == 0 => Outcome::Unfinished,
            None => continue,
        };
        became.push((*test, outcome));
    }
    if became.is_empty() {
        let first = if late { Outcome::Unfinished } else { Outcome::Crashed };
        became.extend(tests.first().map(|test| (*test, first)));
    }
    became
}

/// Converts the word with which pytest reports a result to an outcome. Expected failures (`xfail`) count as skipped.
fn parse_outcome(said: &str) -> Option<Outcome> {
    match said {
        "PASSED" | "XPASS" => Some(Outcome::Passed),
        "SKIPPED" | "XFAIL" => Some(Outcome::Skipped),
        "FAILED" | "ERROR" => Some(Outcome::Failed),
        _ => None,
    }
}

/// Returns the reason for a test's failure from pytest's summary; an empty text if the summary does not contain the
/// test.
fn failure_reason<'a>(text: &'a str, test: &str) -> &'a str {
    ["FAILED", "ERROR"]
        .iter()
        .find_map(|word| text.lines().find_map(|line| line.strip_prefix(&format!("{word} {test}"))))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_parameters_of_a_draw() {
        let parse = |text: &str| {
            SampleOptions::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let draw =
            parse("jax at=/there seed=7 files=3 tests=4 limit=9 gfx=gfx1151 fft_test").unwrap();
        assert_eq!((SUITES[draw.suite].name, draw.at.to_str()), ("jax", Some("/there")));
        assert_eq!((draw.seed, draw.files, draw.tests, draw.limit), (7, 3, 4, 9));
        assert_eq!((draw.gfx.as_str(), draw.names), ("gfx1151", vec!["fft_test".to_owned()]));
        for wrong in ["", "cupy", "torch at=/x", "cupy at=/x seeds=1", "cupy at=/x tests=many"] {
            parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn lists_tests_as_pytest_does() {
        let text =
            "rocrepro: note\na/test_b.py::C::test_d[1 2]\na/test_b.pyx::no\n\n1 test collected\n";
        assert_eq!(collected_tests(text, "a/test_b.py"), ["a/test_b.py::C::test_d[1 2]"]);
    }

    #[test]
    fn passes_only_tests_that_report_it() {
        use Outcome::{Crashed, Failed, Gap, Passed, Skipped, Unfinished};
        let tests = ["f.py::a", "f.py::a b", "f.py::c"];
        let of = |text: &str, late| parse_outcomes(text, &tests, late);
        let whole = "collecting\n\nf.py::a PASSED\nf.py::a b words\nPASSED by the way\nFAILED\n\
                     f.py::c SKIPPED (why)\n\n=== FAILURES ===\nf.py::c PASSED\n";
        let wanted = [(tests[0], Passed), (tests[1], Failed), (tests[2], Skipped)];
        assert_eq!(of(whole, false), wanted);
        let died = "\nf.py::a PASSED\nf.py::a b Fatal Python error: Segmentation fault\n";
        assert_eq!(of(died, false), [(tests[0], Passed), (tests[1], Crashed)]);
        // The second test was not the first one in its process, so it runs again.
        assert_eq!(of(died, true), [(tests[0], Passed)]);
        assert_eq!(of("\nf.py::a b words\n", true), [(tests[1], Unfinished)]);
        assert_eq!(
            of("ImportError\n", false),
            [(tests[0], Crashed)],
            "the process failed before the first test"
        );
        assert_eq!(of("", true), [(tests[0], Unfinished)]);
        let gap = "\nf.py::a rocrepro-device: gap: kernel k\nPASSED\n";
        assert_eq!(
            of(gap, false),
            [(tests[0], Gap)],
            "an unsupported feature invalidates the result"
        );
        assert_eq!(failure_reason("x\nFAILED f.py::c - E: 1\n", "f.py::c"), " - E: 1");
    }
}
