//! Tests the programs in issues: runs them exactly as the issue prints them.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use super::shown;
use crate::exec::namespaces;

const ON: [&str; 6] = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];

/// Runs rocrepro in a folder. Its output is a pipe.
fn rocrepro(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.output().expect("it starts")
}

/// A program in the form in which an issue contains it, and the issue.
struct Printed {
    report: String,
    file: String,
    text: String,
    commands: Vec<String>,
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?}: {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after:?}: {rest}")).0
}

impl Printed {
    fn read(report: &Path) -> Printed {
        let report = fs::read_to_string(report).expect("a report");
        let commands = between(
            &report,
            "To run it directly, on a machine with ROCm and a GPU:\n\n```sh\n",
            "\n```",
        );
        let commands = commands.lines().map(str::to_owned).collect();
        // A long program is folded, and a short one is not.
        let (file, block) = match report.split_once("<details><summary><code>") {
            Some((_, rest)) => (between(rest, "", "</code>"), between(rest, "\n\n```", "\n```\n")),
            None => {
                let before = report.split_once("`:\n\n```").expect("a program").0;
                (
                    before.rsplit('`').next().unwrap_or_default(),
                    between(&report, "`:\n\n```", "\n```\n"),
                )
            }
        };
        let (file, block) = (file.to_owned(), block.to_owned());
        let text = block.split_once('\n').expect("a language").1.to_owned();
        Printed { report, file, text, commands }
    }

    /// Runs the printed commands with `rocrepro exec` in an empty folder, and returns the output of the last one.
    fn run(&self, fault: &[&str]) -> Output {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(&self.file), &self.text).expect("a program");
        let mut last = None;
        for command in &self.commands {
            let words = shell::split(command).expect("words");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let variables = words.iter().take_while(|word| word.contains('=')).count();
            let (variables, words) = words.split_at(variables);
            let variables: Vec<&str> = variables.iter().flat_map(|word| ["--env", word]).collect();
            let words = [&["exec"], &ON[..], fault, &variables, &["--"], words].concat();
            let output = rocrepro(folder.path(), &words);
            let is_last = Some(command) == self.commands.last();
            assert!(is_last || output.status.success(), "{command}: {}", shown(&output));
            last = Some(output);
        }
        last.expect("a command")
    }

    /// Asserts that the program needs no file of rocrepro, and that it fails as the issue states.
    fn fails_as_stated(&self, fault: &[&str], end: &str) -> Output {
        let stated = between(
            &self.report,
            "and it failed as described: ",
            ".\n\nTo run it on the emulated device",
        );
        for text in ["import rocrepro", "from rocrepro", "rocrepro.h\"", "ROCREPRO_"] {
            assert!(!self.text.contains(text), "{text}: {}", self.text);
        }
        assert!(!self.commands.concat().contains("ROCREPRO_"), "{:?}", self.commands);
        let output = self.run(fault);
        let printed = shown(&output);
        let got = match (output.status.code(), output.status.signal()) {
            (Some(status), _) => format!("it ended with exit status {status}"),
            (None, Some(signal)) => format!("it died of {}", judge::signal(signal)),
            (None, None) => panic!("{printed}"),
        };
        assert_eq!(got, end, "{printed}");
        let (stated, line) =
            stated.split_once("; the last line of its output was `").expect("a line");
        assert_eq!(stated, end, "{printed}");
        let line = line.trim_end_matches('`');
        assert!(printed.lines().any(|printed| printed.trim() == line), "no {line:?}: {printed}");
        output
    }
}

/// Writes the report of a case, and returns the program in it; `None` if the stack has no compiler.
fn reported(cases: Option<&str>, case: &str, fault: &[&str]) -> Option<Printed> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut words = vec!["report", case, "--repeat", "1", "--budget-seconds", "1", "--out", "out"];
    if let Some(text) = cases {
        fs::write(folder.path().join("cases.yaml"), text).expect("a case");
        words.extend(["--cases-from", "cases.yaml", "--trust"]);
    }
    let output = rocrepro(folder.path(), &[&words[..], &ON, fault].concat());
    if output.status.code() == Some(3) && shown(&output).contains("--with dev") {
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    Some(Printed::read(&folder.path().join("out/report.md")))
}

const ZERO: [&str; 2] = ["--fault", "copy.zero"];

#[test]
fn python_programs_fail_as_printed() {
    if !namespaces() {
        return;
    }
    let printed = reported(None, "programs/ctypes-copies[bytes=64]", &ZERO).expect("a report");
    assert_eq!(printed.commands, ["python3 -u ctypes-copies.py"]);
    let output = printed.fails_as_stated(&ZERO, "it ended with exit status 1");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.contains("back: 64 of 64 wrong, got[0] is 0, expected 1\n"), "{out}");
    // Without the injected fault, the same program passes.
    let output = printed.run(&[]);
    assert!(output.status.success(), "{}", shown(&output));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("all checks ok\n"));
}

#[test]
fn cpp_programs_fail_as_printed() {
    if !namespaces() {
        return;
    }
    let Some(printed) = reported(None, "programs/struct-by-value[n=1000]", &ZERO) else { return };
    let build = "hipcc -std=c++17 --offload-arch=gfx1151 struct-by-value.cpp -o struct-by-value";
    assert_eq!(printed.commands, [build, "./struct-by-value"]);
    let output = printed.fails_as_stated(&ZERO, "it ended with exit status 1");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.contains("sum: got[0] is 0, expected 9\n"), "{out}");
}

/// A program that prints a text without a newline and then crashes.
const DIES: &str = "\
title: Ends of programs
source: [this test]
matrix: {what: [one]}
environment: {EXTRA: 'two words'}
program:
  python: |
    import ctypes, os
    from rocrepro import equal, must, phase, parameter
    hip = ctypes.CDLL('libamdhip64.so')
    place = ctypes.c_void_p()
    must(hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)))
    equal('one', 1, 1)
    phase('end')
    print('lost?', parameter('what'), os.environ['EXTRA'], end='')
    os.abort()
faults: [copy.zero]
";

const DIES_IN_CPP: &str = "\
title: Ends of programs
source: [this test]
needs: {with: dev}
program:
  cpp: |
    #include \"rocrepro.h\"
    using namespace rocrepro;
    int main() {
      void *place;
      must(hipMalloc(&place, 64));
      equal(\"one\", 1, 1);
      phase(\"end\");
      std::printf(\"lost?\");
      std::abort();
    }
faults: [copy.zero]
";

#[test]
fn output_before_a_crash_is_not_lost() {
    if !namespaces() {
        return;
    }
    // A printed program in C++ has no phases.
    for (case, right) in [(DIES, "one: ok\nphase: end\nlost?"), (DIES_IN_CPP, "one: ok\nlost?")] {
        let Some(printed) = reported(Some(case), "cases", &[]) else { continue };
        let output = printed.fails_as_stated(&[], "it died of SIGABRT");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(out.starts_with(right), "{out}");
    }
}

/// Writes the report of a user's program into a folder of its own, and returns the program in it.
fn reported_by_exec(text: &str) -> Printed {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("own")).expect("a folder");
    fs::write(folder.path().join("own/some.py"), text).expect("a program");
    let words =
        ["--report", "--repeat", "1", "--out", "out", "--", "python3", "own/some.py", "a b"];
    let output = rocrepro(folder.path(), &[&["exec"], &ON[..], &words].concat());
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    Printed::read(&folder.path().join("out/report.md"))
}

const USES: &str = "import ctypes, sys\nhip = ctypes.CDLL('libamdhip64.so')\nplace = ctypes.c_void_p()\n\
                    assert hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)) == 0\n";

#[test]
fn programs_of_users_fail_as_printed() {
    if !namespaces() {
        return;
    }
    let check = "import rocrepro as r\nr.equal('words', sys.argv[1], 'c')\nr.done()\n";
    let printed = reported_by_exec(&format!("{USES}{check}"));
    assert_eq!(printed.commands, ["python3 some.py 'a b'"]);
    printed.fails_as_stated(&[], "it ended with exit status 1");

    // The issue does not contain this file, without which the program fails in another way.
    let needs_a_file = format!(
        "{USES}import rocrepro\nopen('own/some.py')\nrocrepro.holds('a', False)\nrocrepro.done()\n"
    );
    let printed = reported_by_exec(&needs_a_file);
    let stated = "and **it did not fail as described**: it ended with exit status 1; the last line of its output was \
                  `FileNotFoundError: ";
    assert!(printed.report.contains(stated), "{}", printed.report);

    // A program that cannot be rewritten needs rocrepro's helper, which the issue then names.
    let all = format!("{USES}from rocrepro import *\nholds('a', False)\ndone()\n");
    let printed = reported_by_exec(&all);
    for text in [
        "It checks its results with `rocrepro.py` of rocrepro",
        "These commands were not run for this report: the program needs rocrepro.py.",
        "from rocrepro import *",
    ] {
        assert!(printed.report.contains(text), "{text}: {}", printed.report);
    }
}
