//! Tests the lines of `rocrepro run`: results as they end, folders and skips.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{CASE, check_command};

const QUICK: &str = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";

fn rocrepro(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(words).stdin(Stdio::null()).env("ROCREPRO_DEVICE_KIND", "emulated");
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn results_are_printed_as_they_end() {
    let mut command = rocrepro(&["run", QUICK, "graphs/long-chain[nodes=30000]", "-j1"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut first = String::new();
    lines.read_line(&mut first).expect("a line");
    let running = child.try_wait().expect("it can be asked").is_none();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("text");
    child.wait().expect("it ends");
    assert_eq!(first, "ok         copies/small-sizes: 1 of 1 trial passed\n");
    assert!(running, "the first line came at the end, with: {rest}");
    let known = "known      graphs/long-chain (1 of 1): hipGraphInstantiate of a chain of 30000 nodes overflows the \
                 stack: SIGSEGV (ROCm/ROCm#6602)\n\n2 trials of 2 cases: 1 passed, 1 failed as known in ";
    assert!(rest.starts_with(known), "{rest}");
}

#[test]
fn signatures_and_passing_cases_are_shown_on_request() {
    let words = ["run", QUICK, "capture/unjoined-fork", "capture/begin-twice"];
    let short = rocrepro(&words).output().expect("it starts");
    let short = String::from_utf8_lossy(&short.stdout);
    let long = rocrepro(&[&words[..], &["-v"]].concat()).output().expect("it starts");
    let long = String::from_utf8_lossy(&long.stdout);
    let signature = " [unexpected-value:hipStreamIsCapturing:active]\n";
    assert!(long.contains(signature) && !short.contains(signature), "{short}\n{long}");
    let case = "ok         capture/begin-twice: 3 of 3 trials passed\n";
    assert!(long.contains(case) && !short.contains(case), "{short}\n{long}");
    assert!(short.contains("ok         capture: 3 of 5 trials passed\n"), "{short}");
}

fn cases(at: &Path) -> String {
    for (name, needs) in [("a", "gfx: gfx90a"), ("b", "rocm: '>=99'"), ("c", "rocm: '>=5'")] {
        let case = CASE.replace("buffers:", &format!("needs: {{{needs}}}\nbuffers:"));
        fs::write(at.join(format!("{name}.yaml")), case).expect("it is written");
    }
    at.display().to_string()
}

#[test]
fn skips_are_counted_and_explained_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = cases(folder.path());
    let words = ["run", "--gfx", "gfx1151", "--cases-from", &from];
    let line =
        "\nskip       2 trials, for 2 reasons: add `--explain-skips` to the command for a list\n";
    check_command(rocrepro(&words), 0, &["ok         c: 1 of 1 trial passed\n", line], &[]);
    let reasons = [
        "skip       1 trial of a: needs gfx90a, but this is gfx1151\n",
        "skip       1 trial of b: needs ROCm >=99, but this is 7.2.4\n",
        "2 of 3 trials would be skipped; nothing was run\n",
    ];
    let explained = [&words[..], &["--explain-skips"]].concat();
    let output = check_command(rocrepro(&explained), 0, &reasons, &[]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("passed"), "{output:?}");
    // One reason needs no second command.
    let one = [&words[..], &["a", "c"]].concat();
    check_command(rocrepro(&one), 0, &reasons[..1], &[]);
}

#[test]
fn explains_missing_libraries_and_packages_before_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = "title: t\nsource: [this test]\nprogram:\n  packages: [no-such-package]\n  python: |\n    import rocrepro\n    \
                   rocrepro.equal('a', [1], [1])\nfaults: [copy.zero]\n";
    fs::write(folder.path().join("p.yaml"), program).expect("it is written");
    let from = folder.path().display().to_string();
    let words = ["run", "--cases-from", &from, "--trust", "--explain-skips"];
    let why = "skip       1 trial of p: no environment contains no-such-package; create one with";
    check_command(rocrepro(&words), 0, &[why, "1 of 1 trial would be skipped"], &[]);
}
