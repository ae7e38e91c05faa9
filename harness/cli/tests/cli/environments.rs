//! Environments of Python packages, without any network: the package is a wheel made here.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

fn rocrepro(cache: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    cache.map(|cache| command.env("XDG_CACHE_HOME", cache));
    command.args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

#[track_caller]
fn check(cache: Option<&Path>, arguments: &[&str], code: i32, said: &str) -> String {
    let output = rocrepro(cache, arguments);
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let shown = format!("{arguments:?}: {}\n{stdout}\n--- stderr\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    assert!(stdout.contains(said) || stderr.contains(said), "no {said:?}: {shown}");
    stdout.trim_end().to_owned()
}

/// Whether this machine's Python can do what `env create` asks of it.
fn python_makes_environments() -> bool {
    let mut command = Command::new("python3");
    command.args(["-c", "import venv, ensurepip"]);
    command.output().is_ok_and(|output| output.status.success())
}

/// A wheel of one module that says `42`.
fn wheel(folder: &Path) -> String {
    let info = folder.join("tiny-1.0.dist-info");
    fs::create_dir(&info).unwrap();
    fs::write(folder.join("tiny.py"), "ANSWER = 42\n").unwrap();
    fs::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n").unwrap();
    fs::write(info.join("WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        .unwrap();
    fs::write(info.join("RECORD"), "").unwrap();
    let mut zip = Command::new("python3");
    zip.args(["-m", "zipfile", "-c", "tiny-1.0-py3-none-any.whl", "tiny.py", "tiny-1.0.dist-info"]);
    assert!(zip.current_dir(folder).status().unwrap().success());
    folder.join("tiny-1.0-py3-none-any.whl").to_str().unwrap().to_owned()
}

#[test]
fn an_environment_is_made_used_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Some(folder.path());
    check(cache, &["env", "create", "../x", "tiny"], 2, "no name of an environment");
    check(cache, &["env", "path", "a"], 2, "no environment is called `a`: there is none");
    check(cache, &["exec", "--in", "a", "true"], 2, "no environment is called `a`");
    if !python_makes_environments() {
        let refused = rocrepro(cache, &["env", "create", "a", "tiny==1.0"]);
        assert!(matches!(refused.status.code(), Some(2 | 3)), "{refused:?}");
        return;
    }
    let wheel = wheel(folder.path());
    let venv = check(cache, &["env", "create", "a", &wheel], 0, "/environments/a/venv");
    assert_eq!(check(cache, &["env", "path", "a"], 0, ""), venv);
    check(cache, &["env", "create", "a", "tiny"], 2, "there is `");
    let lock = fs::read_to_string(Path::new(&venv).with_file_name("requirements.txt")).unwrap();
    assert!(lock.starts_with("tiny @ file://") && lock.contains(" --hash=sha256:"), "{lock}");
    // What fails is not taken for an environment.
    check(cache, &["env", "create", "b", "/nonexistent.whl"], 3, "error:");
    check(cache, &["exec", "--in", "b", "true"], 2, "was not finished");
    let listed = check(cache, &["env", "list"], 0, "(not finished)");
    assert!(listed.starts_with("a  "), "{listed}");

    // The stack is that of everybody.
    let stack = check(None, &["rocm", "path", "debian:7.2.4"], 0, "/");
    let on = ["exec", "--rocm", &stack, "--device", "emulated", "--in", "a", "--"];
    let script = "import sys, tiny; print(tiny.ANSWER, sys.prefix)";
    check(cache, &[&on[..], &["python3", "-c", script]].concat(), 0, &format!("42 {venv}"));
    check(cache, &["env", "remove", "a"], 0, "");
    check(cache, &["env", "remove", "b"], 0, "");
    check(cache, &["env", "list"], 0, "");
    assert!(!Path::new(&venv).exists());
}
