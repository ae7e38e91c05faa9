//! Tests reports about programs: `exec --report`, `report`, `minimise` and `mitigate`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use super::shown;
use crate::exec::namespaces;

/// Program that uses the device. It exits with 7 in the runs whose numbers are its arguments, and counts the runs in a
/// file in its folder.
const SOMETIMES: &str = "\
import ctypes, os, sys
hip = ctypes.CDLL('libamdhip64.so')
place = ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)) == 0
run = int(open('runs').read()) + 1 if os.path.exists('runs') else 1
open('runs', 'w').write(str(run))
print('run', run, 'password=hunter2', file=sys.stderr)
sys.exit(7 if str(run) in sys.argv[1:] else 0)
";

fn exec(folder: &Path, words: &[&str]) -> Output {
    let on = ["exec", "--rocm", "debian:7.2.4", "--device", "emulated"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(on).args(words).current_dir(folder).stdin(Stdio::null());
    command.output().expect("it starts")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("some.py"), SOMETIMES).expect("a program");
    folder
}

#[test]
fn writes_an_issue_with_true_counts() {
    if !namespaces() {
        return;
    }
    let folder = folder();
    let words = ["--report", "--env", "LICENCE=hunter3", "--also", "debian:7.2.4@gfx90a"];
    let program = ["--", "python3", "some.py", "1", "3", "5", "7"];
    let output = exec(folder.path(), &[&words[..], &program].concat());
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let report = fs::read_to_string(folder.path().join("rocrepro-some/report.md")).unwrap();
    for text in [
        "the program ends with exit status 7 (ROCm 7.2.4, emulated gfx1151)",
        "The program ended with exit status 7 instead of 0.",
        "**This is not an issue yet, because nothing shows that ROCm caused this failure.**",
        "it failed as described in 2 of 3. Its rate is 2/3 (95 %",
        // Runs 4 and 5 are made for the log of HIP calls, until one fails; runs 6 to 8 on gfx90a, and run 7 fails.
        "| the same program on ROCm 7.2.4 on the emulated gfx90a | 1/3 | `exit:7:run-#-password` |",
        "run 1 password=<secret>",
        "python3 some.py 1 3 5 7\n```",
        "rocrepro exec --rocm debian:7.2.4 --device emulated --gfx gfx1151 --env \"LICENCE=$LICENCE\" -- python3 some.py 1 3 5 7\n```",
        "sys.exit(7 if str(run) in sys.argv[1:] else 0)",
        "| libamdhip64.so.7",
        "Interpreter of the program:",
    ] {
        assert!(
            report.contains(text) != (text == "Interpreter of the program:"),
            "{text}: {report}"
        );
    }
    assert!(!report.contains("hunter"), "{report}");
    let records = fs::read_to_string(folder.path().join("rocrepro-some/record.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 3);
}

/// On both architectures the exit status is the same, but the exception differs.
#[test]
fn distinguishes_another_failure_elsewhere() {
    if !namespaces() {
        return;
    }
    let used = "import ctypes, os\nhip = ctypes.CDLL('libamdhip64.so')\nplace = ctypes.c_void_p()\n\
                hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64))\nelsewhere = os.path.exists('before')\n\
                open('before', 'w').close()\n";
    let check = |end: &str, reported: &str, control: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("some.py"), format!("{used}{end}")).expect("a program");
        let also = ["--report", "--repeat", "1", "--also", "debian:7.2.4@gfx90a"];
        let output = exec(folder.path(), &[&also[..], &["--", "python3", "some.py"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
        let report = fs::read_to_string(folder.path().join("rocrepro-some/report.md")).unwrap();
        let on = "| the same program on ROCm 7.2.4 on the emulated gfx90a | 1/1 |";
        for text in
            [&format!("| as reported | **1/1** | `{reported}` |"), &format!("{on} {control} |")]
        {
            assert!(report.contains(text), "{text}: {report}");
        }
        assert!(
            shown(&output).contains(&control.replace('`', "")) || shown(&output).contains(control)
        );
    };
    check(
        "def f():\n    open('/none') if elsewhere else hip.x\nf()\n",
        "exception:AttributeError:some.py:8:f",
        "another failure: `exception:FileNotFoundError:some.py:8:f`",
    );
    check("{}['a']\n", "exception:KeyError:some.py:7", "`exception:KeyError:some.py:7`");
    check("os._exit(3)\n", "exit:3", "`exit:3`, only an exit status, so perhaps another failure");
}

#[test]
fn writes_no_report_for_passing_or_unproven_programs() {
    if !namespaces() {
        return;
    }
    let folder = folder();
    for (program, words) in [
        (["python3", "some.py", "9"], "the program did not fail; it passed in 3 of 3 runs"),
        (["sh", "-c", "exit 3"], "3 runs gave no verdict; no-verdict:device"),
    ] {
        let output = exec(folder.path(), &[&["--report", "--"][..], &program].concat());
        let printed = shown(&output);
        assert_eq!(output.status.code(), Some(3), "{printed}");
        assert!(printed.contains(words), "{printed}");
    }
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("rocrepro")), "{left:?}");
}

#[test]
fn judges_stated_output_and_exit_status() {
    if !namespaces() {
        return;
    }
    let folder = folder();
    let check = |more: &[&str], words: &str| {
        let output = exec(
            folder.path(),
            &[&["--report", "--repeat", "1"], more, &["--", "python3", "some.py", "$HOME"]]
                .concat(),
        );
        assert!(shown(&output).contains(words), "{}", shown(&output));
    };
    check(&["--says", "no such text"], "the output lacks a required text (ROCm 7.2.4, ");
    check(&["--never", "run"], "the output contains a forbidden text (ROCm 7.2.4, ");
    check(
        &["--says", "run", "--never", "$HOME"],
        "the program did not fail; it passed in 1 of 1 run",
    );
    check(&["--exit", "7"], "the program ends with exit status 0 (ROCm 7.2.4, ");
}

#[test]
fn reports_all_command_line_mistakes_at_once() {
    let words = [
        "--report",
        "--also",
        "debian:1@gfx1",
        "--also",
        "x:y",
        "--for",
        "z",
        "--home",
        "loader",
        "true",
    ];
    let output = exec(Path::new("."), &words);
    let printed = shown(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    for text in ["`--also debian:1@gfx1`", "`--also x:y`", "`z`", "omit `--home loader`"] {
        assert!(printed.contains(text), "no {text:?}: {printed}");
    }
    // This option is valid only together with `--report`.
    assert_eq!(exec(Path::new("."), &["--says", "a", "true"]).status.code(), Some(2));
}

#[test]
fn writes_an_issue_for_a_program_case() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let case = "programs/ctypes-copies[bytes=64]";
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--fault", "copy.zero"];
    let run = |words: &[&str], more: &[&str]| {
        let output = super::rocrepro(&[words, &on, &["--out", out], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    };
    run(&["minimise", case, "--reducer", "none"], &["--budget-seconds", "60"]);
    run(&["report", case, "--budget-seconds", "1"], &["--repeat", "2"]);
    let report = fs::read_to_string(folder.path().join("report.md")).unwrap();
    for text in [
        "INJECTED, do not file",
        "| no fault injected | 0/2 | passes |",
        "\npython3 -u case.py\n```",
        "The program is `case.py`, printed above. `rocrepro minimise` shortened it from 15 lines",
        "it failed as described in 2 of 2.",
        "Interpreter of the program: Python 3.",
    ] {
        assert!(report.contains(text), "no {text:?}: {report}");
    }
    // The command that the report prints for rocrepro runs the shorter program.
    let mut again = report.lines().filter(|line| line.contains("--cases-from case.yaml"));
    let again = again.next().unwrap_or_else(|| panic!("no command: {report}"));
    let words = again.split("   # ").next().unwrap_or_default().split(' ').skip(1);
    // The name of a trial is quoted for a shell.
    let words: Vec<_> = words.map(|word| word.trim_matches('\'')).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    let output = command.args(words).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{again}: {}", shown(&output));
}

/// Returns a program that fails under `copy.zero`, with additional lines that are not needed.
fn padded() -> String {
    "title: A\nsource: [this test]\nprogram:\n  python: |\n    import ctypes\n    import rocrepro\n    def padding():\n        \
                return 1\n    hip = ctypes.CDLL('libamdhip64.so')\n    place, back = ctypes.c_void_p(), ctypes.create_string_buffer(64)\n    \
                rocrepro.equal('idle', padding(), 1)\n    rocrepro.must(hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)))\n    \
                rocrepro.must(hip.hipMemcpy(place, b'x' * 64, ctypes.c_size_t(64), 1))\n    \
                rocrepro.must(hip.hipMemcpy(back, place, ctypes.c_size_t(64), 2))\n    rocrepro.equal('bytes', back.raw, b'x' * 64)\n    \
                rocrepro.done()\nfaults: [copy.zero]\n".to_owned()
}

#[test]
fn shortens_a_program_that_keeps_its_failure() {
    if !namespaces() {
        return;
    }
    let text = &padded();
    let (folder, file) = super::case("shorter", text);
    let out = folder.path().join("out");
    let [file, out_text] = [&file, &out].map(|path| path.to_str().expect("text"));
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--fault", "copy.zero", "--trust"];
    let words = ["minimise", "--reducer", "none", "--cases-from", file, "--out", out_text];
    let output = super::rocrepro(&[&words, &on[..]].concat());
    let printed = shown(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("fails as    wrong-data:bytes:zero, in 3 of 3 runs"), "{printed}");
    assert!(printed.contains("passes      without the fault"), "{printed}");
    // The unneeded lines and their check are gone, and the lines that the failure needs remain.
    let whole: Vec<&str> = text.lines().map(str::trim).collect();
    let left: Vec<&str> = [4, 5, 8, 9, 11, 12, 13, 14, 15].map(|n| whole[n]).into();
    let shorter = fs::read_to_string(out.join("program.py")).unwrap();
    assert_eq!(shorter.lines().collect::<Vec<_>>(), left, "{printed}");
    let (code, records) = super::run(&out.join("case.yaml"), &["--fault", "copy.zero"]);
    assert_eq!(code, Some(1));
    assert_eq!(super::signature(&records["case"]), "wrong-data:bytes:zero");
}

/// A program in which one line gives the variable `extra` its value. The program would fail in the same way with any
/// other value.
const WITH_A_VALUE: &str = r#"title: A
source: [this test]
needs: {with: dev}
faults: [copy.zero]
program:
  cpp: |
    #include "rocrepro.h"
    int main() {
      using namespace rocrepro;
      int *place, back = 0, five = 5, extra;
      extra = 1;
      holds("needless", five == 5, "it is five");
      must(hipMalloc(&place, 64 + (extra & 3)));
      must(hipMemcpy(place, &five, 4, hipMemcpyHostToDevice));
      must(hipMemcpy(&back, place, 4, hipMemcpyDeviceToHost));
      equal("five", back, 5);
      return done();
    }
"#;

#[test]
fn shorter_program_uses_no_variable_without_a_value() {
    if !namespaces() {
        return;
    }
    let (folder, file) = super::case("value", WITH_A_VALUE);
    let out = folder.path().join("out");
    let [file, out_text] = [&file, &out].map(|path| path.to_str().expect("text"));
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--fault", "copy.zero", "--trust"];
    let words = ["minimise", "--reducer", "none", "--cases-from", file, "--out", out_text];
    let output = super::rocrepro(&[&words, &on[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let shorter = fs::read_to_string(out.join("program.cpp")).expect("a program");
    assert!(shorter.contains("extra = 1;") && !shorter.contains("needless"), "{shorter}");
}

/// Program whose checks print a line, and whose last line makes the exit status 1 if a check failed.
const CHECKED: &str = "\
import ctypes
import rocrepro
hip = ctypes.CDLL('libamdhip64.so')
place, back = ctypes.c_void_p(), ctypes.create_string_buffer(64)
padding = 1
rocrepro.must(hip.hipMalloc(ctypes.byref(place), ctypes.c_size_t(64)))
rocrepro.must(hip.hipMemcpy(place, b'x' * 64, ctypes.c_size_t(64), 1))
rocrepro.must(hip.hipMemcpy(back, place, ctypes.c_size_t(64), 2))
rocrepro.equal('bytes', back.raw, b'x' * 64)
rocrepro.done()
";

#[test]
fn shortened_program_keeps_its_exit_status() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("checked.py"), CHECKED).expect("a program");
    let minimise = ["minimise", "--reducer", "none", "--fault", "copy.zero"];
    on_program(folder.path(), &minimise, "checked.py", 0);
    let shorter = fs::read_to_string(folder.path().join("rocrepro-checked/checked.py")).unwrap();
    assert!(shorter.ends_with("rocrepro.done()\n"), "{shorter}");
    assert!(!shorter.contains("padding"), "{shorter}");
}

/// Imitation of C-Vise. It accepts the arguments of C-Vise and tries to shorten a name in the program. If the program
/// contains `FOREVER`, it tries the same text again and again without end.
const REDUCER: &str = r#"#!/usr/bin/env python3
import pathlib, subprocess, sys, tempfile
assert sys.argv[1:-2] == ["--n", "1", "--tidy", "--timeout", "86400", "--not-c"], sys.argv
script, name = sys.argv[-2:]
text = pathlib.Path(name).read_text()
def still(text):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, name).write_text(text)
        return subprocess.run([script], cwd=folder).returncode == 0
assert still(text) and not still("import no_such_module\n")
short = text.replace("place", "p")
if still(short):
    pathlib.Path(name).write_text(short)
while "FOREVER" in text:
    still(text)
"#;

#[test]
fn runs_an_external_reducer_first() {
    if !namespaces() {
        return;
    }
    let (folder, file) = super::case("reduced", &padded());
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("cvise"), REDUCER).unwrap();
    fs::set_permissions(tools.join("cvise"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let minimise = |file: &Path, out: &str, more: &[&str], code: i32| {
        let out = folder.path().join(out).display().to_string();
        let file = file.display().to_string();
        let words = ["minimise", "--cases-from", &file, "--out", &out, "--trust"];
        let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--fault", "copy.zero"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        command.args([&words[..], &on, more].concat()).env("PATH", &path);
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let printed = shown(&output);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        printed
    };
    let printed = minimise(&file, "whole", &["--reducer", "cvise"], 0);
    assert!(printed.contains("made by    cvise, then by removing lines"), "{printed}");
    let left = fs::read_to_string(folder.path().join("whole/program.py")).unwrap();
    assert!(left.contains("byref(p)") && !left.contains("padding"), "{left}");
    // The case that was written contains the shorter program and fails in the same way.
    let case = folder.path().join("whole/case.yaml");
    let (code, records) = super::run(&case, &["--fault", "copy.zero"]);
    assert_eq!(code, Some(1));
    assert_eq!(super::signature(&records["case"]), "wrong-data:bytes:zero");

    // A reducer that does not end is stopped by the time limit, and its result so far is kept.
    let endless = folder.path().join("endless.yaml");
    fs::write(&endless, padded().replace("import ctypes", "import ctypes  # FOREVER")).unwrap();
    let budget = ["--reducer", "cvise", "--budget-runs", "12"];
    let printed = minimise(&endless, "endless", &budget, 1);
    assert!(printed.contains("cvise, which was stopped early"), "{printed}");
    let left = fs::read_to_string(folder.path().join("endless/program.py")).unwrap();
    assert!(left.contains("byref(p)"), "{left}");
}

/// A case whose copies are large enough for the copy engine (SDMA).
const HELPED: &str = "\
title: Zeros of the copy engine
source: [this test]
faults: [copy.zero]
program:
  python: |
    import ctypes
    import rocrepro

    hip = ctypes.CDLL('libamdhip64.so')
    size = ctypes.c_size_t(1 << 18)
    place, back = ctypes.c_void_p(), ctypes.create_string_buffer(size.value)
    rocrepro.must(hip.hipMalloc(ctypes.byref(place), size))
    rocrepro.must(hip.hipMemcpy(place, b'x' * size.value, size, 1))
    rocrepro.must(hip.hipMemcpy(back, place, size, 2))
    rocrepro.equal('bytes', back.raw, b'x' * size.value)
    rocrepro.done()
";

#[test]
fn finds_mitigations_of_a_program() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("zeros.yaml"), HELPED).expect("a case");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["mitigate", "zeros", "--cases-from", "zeros.yaml", "--rocm", "debian:7.2.4"]);
    command.args(["--device", "emulated", "--fault", "sdma.zero", "--failures", "3", "--trust"]);
    let output = command.current_dir(folder.path()).stdin(Stdio::null()).output();
    let output = output.expect("it starts");
    let printed = shown(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let helps = |name: &str| printed.lines().any(|l| l.contains("helps") && l.contains(name));
    assert!(helps("HSA_ENABLE_SDMA=0") && !helps("AMD_DIRECT_DISPATCH"), "{printed}");
    assert!(printed.contains("This points to: copy engine (SDMA)"), "{printed}");
    assert!(!printed.contains("TRITON"), "{printed}");
}

/// Program that fails under `sdma.zero`. Some of its lines are not needed for the failure.
const PLAIN: &str = "\
import ctypes
hip = ctypes.CDLL('libamdhip64.so')
def padding():
    return 1
size = ctypes.c_size_t(1 << 18)
place, back = ctypes.c_void_p(), ctypes.create_string_buffer(size.value)
x = padding()
assert hip.hipMalloc(ctypes.byref(place), size) == 0
assert hip.hipMemcpy(place, b'x' * size.value, size, 1) == 0
assert hip.hipMemcpy(back, place, size, 2) == 0
if back.raw != b'x' * size.value:
    raise ValueError('wrong bytes')
";

/// Runs a command of rocrepro on the command line `python3 FILE` in a folder, checks the exit code, and returns the
/// output.
fn on_program(folder: &Path, words: &[&str], file: &str, code: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(words).args(["--rocm", "debian:7.2.4", "--device", "emulated", "--"]);
    command.args(["python3", file]).current_dir(folder).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let printed = shown(&output);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {printed}");
    printed
}

/// The report of a command line contains the results of `mitigate` and `minimise`, and is about the shorter program.
#[test]
fn reports_what_earlier_commands_found_about_a_program() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plain.py"), PLAIN).expect("a program");
    let fault = ["--fault", "sdma.zero"];
    let printed = on_program(
        folder.path(),
        &[&["mitigate", "--failures", "3"], &fault[..]].concat(),
        "plain.py",
        0,
    );
    assert!(printed.contains("HSA_ENABLE_SDMA=0"), "{printed}");
    let minimise = [&["minimise", "--reducer", "none"], &fault[..]].concat();
    let printed = on_program(folder.path(), &minimise, "plain.py", 0);
    for text in ["plain: 9 lines of 12", "passes      without the fault", "plain.py"] {
        assert!(printed.contains(text), "no {text:?}: {printed}");
    }
    // The file of the user's program was not changed.
    assert_eq!(fs::read_to_string(folder.path().join("plain.py")).unwrap(), PLAIN);
    on_program(
        folder.path(),
        &[&["report", "--budget-seconds", "1"], &fault[..]].concat(),
        "plain.py",
        0,
    );
    let out = folder.path().join("rocrepro-plain");
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    let shorter = fs::read_to_string(out.join("plain.py")).unwrap();
    assert!(report.contains(&format!("```python\n{}\n```", shorter.trim_end())), "{report}");
    for text in [
        "shortened it from 12 lines to 9",
        "`HSA_ENABLE_SDMA=0` (0/",
        "| no fault injected | 0/3 | passes |",
        "it failed as described in 3 of 3.",
        "--fault sdma.zero -- python3 rocrepro-plain/plain.py",
        "exception:ValueError:plain.py:9",
    ] {
        assert!(report.contains(text), "no {text:?}: {report}");
    }
    assert!(!report.contains("padding") && !report.contains("not finished"), "{report}");

    // The user may have received the folder from another person, so a program with other lines is not run.
    fs::write(out.join("plain.py"), format!("open('seen', 'w')\n{shorter}")).unwrap();
    let printed = on_program(
        folder.path(),
        &[&["report", "--budget-seconds", "1"], &fault[..]].concat(),
        "plain.py",
        0,
    );
    assert!(printed.contains("the report does not use the shortened program"), "{printed}");
    assert!(!folder.path().join("seen").exists());
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("padding") && !report.contains("shortened it"), "{report}");
}

/// Program that copies a buffer while another stream may still write it, and that fails for another reason.
const RACE: &str = "\
import ctypes
hip = ctypes.CDLL('libamdhip64.so')
size = ctypes.c_size_t(1 << 20)
place, back, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(place), size) == 0
assert hip.hipHostMalloc(ctypes.byref(back), size, 0) == 0
assert hip.hipStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
assert hip.hipMemset(place, 7, size) == 0
assert hip.hipMemcpyAsync(back, place, size, 2, stream) == 0
assert hip.hipStreamSynchronize(stream) == 0
raise ValueError('it fails')
";

#[test]
fn writes_no_issue_for_a_race_of_the_program() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("race.py"), RACE).expect("a program");
    let printed = on_program(folder.path(), &["report"], "race.py", 3);
    for text in
        ["the sanitizer found an error in the program itself", "unordered accesses", "--anyway"]
    {
        assert!(printed.contains(text), "no {text:?}: {printed}");
    }
    assert!(!folder.path().join("rocrepro-race").exists());
    on_program(folder.path(), &["report", "--anyway", "--budget-seconds", "1"], "race.py", 0);
    let report = fs::read_to_string(folder.path().join("rocrepro-race/report.md")).unwrap();
    assert!(
        report.contains("**The most likely cause is the program itself, not ROCm:**"),
        "{report}"
    );
}

#[test]
fn refuses_a_case_and_a_program_together() {
    let check = |words: &[&str], text: &str| {
        let output = super::rocrepro(words);
        let printed = shown(&output);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(text), "no {text:?}: {printed}");
    };
    check(&["report", "copies/small-sizes", "--", "true"], "cannot be used with");
    check(&["mitigate"], "required");
    check(&["minimise", "copies", "--", "true"], "both a case (`copies`) and a program are given");
    check(&["minimise", "copies", "--says", "a"], "`--says` needs a program");
    check(&["report", "copies", "--title", "A"], "`--title` needs a program");
}
