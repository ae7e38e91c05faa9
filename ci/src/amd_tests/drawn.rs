//! Draws tests at random from AMD's own test programs for the libraries that use HIP. Runs each test in a process of
//! its own with a time limit, and counts the outcomes.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::Output,
};

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_program};

/// Test suites: each library, named as in `--with`, and the folder of its tests below the stack's `usr/libexec/rocm`.
const SUITES: &[(&str, &str)] = &[
    ("hipblas", "libhipblas3-tests"),
    ("hipcub", "libhipcub-tests"),
    ("hipfft", "libhipfft0-tests"),
    ("hiprand", "libhiprand1-tests"),
    ("hipsolver", "libhipsolver1-tests"),
    ("hipsparse", "libhipsparse4-tests"),
    ("rocfft", "librocfft0-tests"),
    ("rocprim", "librocprim-tests"),
    ("rocsolver", "librocsolver0-tests"),
    ("rocsparse", "librocsparse1-tests"),
    ("rocthrust", "librocthrust-tests"),
    ("rocwmma", "librocwmma-tests"),
];

/// Suites whose programs select some of their tests at random and accept a seed for this selection.
const SEEDED: &[&str] = &["hipfft", "rocfft"];

/// Environment variables that name the folders in which Debian installs the data of the test programs. The folders are
/// relative to the root of the stack.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("HIPSOLVER_TEST_DATA", "usr/share/libhipsolver1-tests/data"),
    ("ROCSPARSE_CLIENTS_TEST_DATA_DIR", "usr/share/librocsparse1-tests/data/"),
];

/// Time limit for listing the tests of one program, in seconds. Some programs read their tests from a file of 300 MB.
const LISTING: &str = "300";

#[derive(Debug, PartialEq)]
pub(super) struct SampleOptions {
    seed: u64,
    gfx: Vec<String>,
    /// Maximum number of tests to draw from each program.
    tests: usize,
    /// Time limit of each test, in seconds.
    limit: u32,
    /// Names of suites or programs to draw from, for example `rocprim` or `rocprim/test_block_scan`. An empty list
    /// selects all.
    names: Vec<String>,
}

impl SampleOptions {
    /// Parses the arguments of a draw: `seed=7 gfx=gfx1151,gfx90a tests=24 limit=60 NAME...`.
    pub(super) fn parse(words: &[String]) -> Result<Self, String> {
        let mut draw =
            Self { seed: 1, gfx: vec!["gfx1151".into()], tests: 24, limit: 60, names: vec![] };
        let number = |word: &str, text: &str| {
            text.parse::<u32>().map_err(|_| format!("{word}: {text:?} is not a number"))
        };
        for word in words {
            match word.split_once('=') {
                Some(("seed", text)) => draw.seed = number(word, text)?.into(),
                Some(("tests", text)) => draw.tests = number(word, text)? as usize,
                Some(("limit", text)) => draw.limit = number(word, text)?,
                Some(("gfx", text)) => draw.gfx = text.split(',').map(str::to_owned).collect(),
                None if suite_of(word).is_some() => draw.names.push(word.clone()),
                _ => {
                    let suites: Vec<_> = SUITES.iter().map(|(name, _)| *name).collect();
                    return Err(format!(
                        "{word:?} is neither seed=, gfx=, tests= or limit=, nor NAME or NAME/PROGRAM; \
                         the names are {}",
                        suites.join(", ")
                    ));
                }
            }
        }
        Ok(draw)
    }

    /// Returns true if tests must be drawn from this program of this suite.
    fn includes(&self, suite: &str, program: &str) -> bool {
        let path = format!("{suite}/{program}");
        self.names.is_empty() || self.names.iter().any(|name| name == suite || *name == path)
    }

    /// Draws tests from `listed`, the tests that a program lists. Equal lists result in equal tests, for example if a
    /// program lists the same tests on two architectures.
    fn choose_tests<'a>(&self, listed: &[&'a str]) -> Vec<&'a str> {
        draw_tests(self.seed, listed, self.tests)
    }
}

/// Draws `number` of the listed names, or all if there are fewer. The result depends only on the seed and the names.
pub(crate) fn draw_tests<'a>(seed: u64, listed: &[&'a str], number: usize) -> Vec<&'a str> {
    let key = |name: &&str| {
        name.bytes().fold(device::mix(seed), |hash, byte| device::mix(hash ^ u64::from(byte)))
    };
    let mut drawn = listed.to_vec();
    drawn.sort_by_cached_key(key);
    drawn.truncate(number);
    drawn
}

fn suite_of(name: &str) -> Option<&'static (&'static str, &'static str)> {
    let suite = name.split('/').next().unwrap_or(name);
    SUITES.iter().find(|(known, _)| *known == suite)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Passed,
    /// The program skipped the test.
    Skipped,
    /// The test did not end within the time limit.
    Unfinished,
    Failed,
    /// The emulated device reported an unsupported feature.
    Gap,
    /// The program ended without a result for the test, or failed after the test's result.
    Crashed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped by the program",
            Self::Unfinished => "unfinished",
            Self::Failed => "failed",
            Self::Gap => "needs an unsupported feature of the device",
            Self::Crashed => "crashed",
        })
    }
}

impl Outcome {
    /// Determines the outcome of a test from the output and the exit status of `timeout`, which runs the program.
    /// `status` is `None` if a signal ended `timeout`. `test` is `None` for a program that cannot list its tests; the
    /// outcome then depends only on the status.
    fn from_status(status: Option<i32>, said: &str, test: Option<&str>) -> Self {
        let reported = |word: &str| {
            said.lines().any(|line| {
                let rest = line.trim_start().strip_prefix(word).map(str::trim_start);
                let name = rest.map(|rest| rest.split([' ', ',']).next().unwrap_or(rest));
                name.is_some_and(|name| Some(name) == test)
            })
        };
        let ended = status == Some(0);
        if said.contains("rocrepro-device: gap") {
            Self::Gap
        } else if matches!(status, Some(124 | 137)) {
            Self::Unfinished
        } else if reported("[  FAILED  ]") {
            Self::Failed
        } else if ended && reported("[  SKIPPED ]") {
            Self::Skipped
        } else if ended && (test.is_none() || reported("[       OK ]")) {
            Self::Passed
        } else {
            Self::Crashed
        }
    }

    /// Returns true for outcomes that make the task fail.
    pub(crate) fn is_bad(self) -> bool {
        self >= Self::Failed
    }
}

/// Returns the tests in the output of `--gtest_list_tests`, without the tests that AMD has disabled.
fn parse_listing(text: &str) -> Vec<String> {
    let mut suite = None;
    let mut tests = Vec::new();
    for line in text.lines() {
        let name = line.trim_start().split(' ').next().unwrap_or_default();
        if !line.starts_with("  ") {
            suite = name.strip_suffix('.');
        } else if let Some(suite) = suite.filter(|_| !name.is_empty()) {
            tests.push(format!("{suite}.{name}"));
        }
    }
    tests.retain(|test| !test.contains("DISABLED_"));
    tests
}

/// Draws tests, runs them and prints their outcomes.
pub(super) fn run(sh: &Shell, draw: &SampleOptions) -> TaskResult {
    let program = build_program(sh)?;
    let suites: Vec<_> = SUITES
        .iter()
        .filter(|(name, _)| {
            let names = draw.names.iter().filter_map(|wanted| suite_of(wanted));
            draw.names.is_empty() || names.into_iter().any(|(wanted, _)| wanted == name)
        })
        .collect();
    let mut with = vec!["tests"];
    with.extend(suites.iter().map(|(name, _)| *name));
    let (with, gfx) = (with.join(","), draw.gfx.join(","));
    cmd!(sh, "{program} rocm fetch {STACK} --with {with} --gfx {gfx}").run()?;
    let root = cmd!(sh, "{program} rocm path {STACK}").quiet().read()?;
    let mut environment =
        ["--rocm", STACK, "--env", "GTEST_LISTENER=PASS_LINE_IN_LOG"].map(str::to_owned).to_vec();
    for (name, path) in ENVIRONMENT {
        environment.extend(["--env".to_owned(), format!("{name}={root}/{path}")]);
    }
    let (program, environment) = (&program, &environment);
    let limit = draw.limit.to_string();
    let mut bad = 0;
    for gfx in &draw.gfx {
        let mut total = BTreeMap::<Outcome, usize>::new();
        for (suite, folder) in &suites {
            let folder = Path::new(&root).join("usr/libexec/rocm").join(folder);
            let mut own = Vec::new();
            if SEEDED.contains(suite) {
                own.push(format!("--seed={}", draw.seed));
            }
            // Some programs have libraries of their own in the folder of the program. AMD's `run-tests` scripts also
            // set this variable.
            let beside = format!("LD_LIBRARY_PATH={}", folder.display());
            let on = ["--device", "emulated", "--gfx", gfx, "--env", &beside];
            let exec = |limit: &str, test: &PathBuf, arguments: &[String]| {
                let program = [program.as_os_str(), "exec".as_ref()];
                let own = own.iter().chain(arguments);
                cmd!(sh, "timeout --kill-after=5 {limit} {program...} {on...} {environment...} -- {test} {own...}")
                    .quiet()
                    .ignore_status()
                    .output()
            };
            for name in test_programs(&folder)?.iter().filter(|name| draw.includes(suite, name)) {
                let test = folder.join(name);
                let output = exec(LISTING, &test, &["--gtest_list_tests".to_owned()])?;
                let list = parse_listing(&String::from_utf8_lossy(&output.stdout));
                let list: Vec<&str> = list.iter().map(String::as_str).collect();
                let mut counts = BTreeMap::<Outcome, usize>::new();
                let mut worth = Vec::new();
                let mut count = |outcome: Outcome, one: &str| {
                    *counts.entry(outcome).or_default() += 1;
                    if outcome.is_bad() || outcome == Outcome::Unfinished {
                        worth.push(format!("  {outcome}: {one}"));
                    }
                };
                // A program without GoogleTest ignores the option and runs all its tests, so the list may be empty or
                // incomplete.
                if list.is_empty() || !output.status.success() {
                    count(outcome(&output, None), "the whole program");
                }
                for one in draw.choose_tests(&list) {
                    let output = exec(limit.as_str(), &test, &[format!("--gtest_filter={one}")])?;
                    count(outcome(&output, Some(one)), one);
                }
                println!(
                    "{suite}/{name} on {gfx}: {}; the program lists {} tests",
                    format_counts(&counts),
                    list.len()
                );
                worth.iter().for_each(|line| println!("{line}"));
                for (outcome, count) in counts {
                    *total.entry(outcome).or_default() += count;
                }
            }
        }
        println!("{gfx}, seed {}: {}", draw.seed, format_counts(&total));
        bad += total.iter().filter(|(outcome, _)| outcome.is_bad()).map(|(_, n)| n).sum::<usize>();
    }
    if bad > 0 {
        return Err(format!(
            "{bad} tests failed, crashed or need an unsupported feature of the device"
        )
        .into());
    }
    Ok(())
}

fn outcome(output: &Output, test: Option<&str>) -> Outcome {
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    Outcome::from_status(output.status.code(), &String::from_utf8_lossy(&said), test)
}

/// Formats the number of tests with each outcome, for example `23 passed, 1 failed`.
pub(crate) fn format_counts(counts: &BTreeMap<Outcome, usize>) -> String {
    let parts: Vec<_> =
        counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    if parts.is_empty() { "no test was drawn".to_owned() } else { parts.join(", ") }
}

/// Returns the test programs in a folder, sorted by name. Scripts and libraries are left out.
fn test_programs(folder: &Path) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut start = [0; 4];
        let is_file = entry.file_type()?.is_file() && !name.ends_with(".so");
        if is_file && File::open(entry.path())?.read(&mut start)? == 4 && start == *b"\x7fELF" {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn parses_the_parameters_of_a_draw() {
        let draw =
            SampleOptions::parse(&words("seed=7 gfx=gfx90a,gfx1201 tests=3 limit=9 rocprim"))
                .unwrap();
        assert_eq!((draw.seed, draw.tests, draw.limit), (7, 3, 9));
        assert_eq!(draw.gfx, ["gfx90a", "gfx1201"]);
        assert!(draw.includes("rocprim", "test_x") && !draw.includes("hipcub", "test_x"));
        let one = SampleOptions::parse(&words("hipcub/test_y")).unwrap();
        assert!(one.includes("hipcub", "test_y") && !one.includes("hipcub", "test_z"));
        assert!(SampleOptions::parse(&[]).unwrap().includes("rocfft", "rocfft-test"));
        for wrong in ["seeds=7", "seed=x", "rocfast", "tests="] {
            SampleOptions::parse(&words(wrong)).unwrap_err();
        }
    }

    #[test]
    fn draws_by_the_seed_alone() {
        let all: Vec<String> = (0..500).map(|n| format!("Suite/{n}.Test")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let draw = |seed: &str| SampleOptions::parse(&words(seed)).unwrap();
        let first = draw("seed=1 tests=20").choose_tests(&all);
        assert_eq!(first.len(), 20);
        let mut turned = all.clone();
        turned.reverse();
        assert_eq!(
            draw("seed=1 tests=20").choose_tests(&turned),
            first,
            "the draw must not depend on the order of the list"
        );
        assert_eq!(
            draw("seed=1 tests=30").choose_tests(&all)[..20],
            first,
            "a larger draw must begin with the smaller one"
        );
        assert_ne!(draw("seed=2 tests=20").choose_tests(&all), first);
        assert_eq!(draw("tests=20").choose_tests(&all[..3]).len(), 3);
    }

    #[test]
    fn lists_tests_as_googletest_does() {
        let text = "Running main() from gtest_main.cc\nA/0.  # TypeParam = p<int, 4u>\n  One\n  \
                    DISABLED_Two\nB.\n  Three/0  # GetParam() = 7\nDISABLED_C.\n  Four\n";
        assert_eq!(parse_listing(text), ["A/0.One", "B.Three/0"]);
        assert!(parse_listing("error while loading shared libraries\n").is_empty());
    }

    #[test]
    fn passes_only_tests_that_report_it() {
        let of = |status, said: &str| Outcome::from_status(status, said, Some("A.B"));
        let ok = "[ RUN      ] A.B\n[       OK ] A.B (3 ms)\n[  PASSED  ] 1 test.\n";
        assert_eq!(of(Some(0), ok), Outcome::Passed);
        assert_eq!(of(Some(139), ok), Outcome::Crashed, "crash after the end of the test");
        assert_eq!(of(None, ok), Outcome::Crashed);
        assert_eq!(
            of(Some(0), "[       OK ] A.BC (3 ms)\n"),
            Outcome::Crashed,
            "the line is about another test"
        );
        assert_eq!(of(Some(0), "[ RUN      ] A.B\n"), Outcome::Crashed);
        assert_eq!(of(Some(0), "[  PASSED  ] 0 tests.\n"), Outcome::Crashed);
        assert_eq!(of(Some(1), "[  FAILED  ] A.B, where TypeParam = x (3 ms)\n"), Outcome::Failed);
        assert_eq!(of(Some(0), "[  SKIPPED ] A.B (0 ms)\n"), Outcome::Skipped);
        assert_eq!(of(Some(124), "[ RUN      ] A.B\n"), Outcome::Unfinished);
        let gap = format!("rocrepro-device: gap: kernel k: x\n{ok}");
        assert_eq!(
            of(Some(0), &gap),
            Outcome::Gap,
            "an unsupported feature invalidates the result"
        );
        assert_eq!(Outcome::from_status(Some(0), "", None), Outcome::Passed);
        assert_eq!(Outcome::from_status(Some(1), "", None), Outcome::Crashed);
        assert!(Outcome::Failed.is_bad() && !Outcome::Unfinished.is_bad());
    }
}
