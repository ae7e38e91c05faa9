//! Tests that rocrepro replaces only files that it wrote itself.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::exec::namespaces;

const MINE: &str = "mine, and nowhere else\n";

fn rocrepro(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.env("ROCREPRO_ROCM", "debian:7.2.4").env("ROCREPRO_DEVICE_KIND", "emulated");
    command.output().expect("it starts")
}

#[test]
fn refuses_to_overwrite_foreign_files() {
    let trial = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
    let commands: [&[&str]; 10] = [
        &["run", "errors/names", "--record", "mine"],
        &["run", "errors/names", "--junit", "mine"],
        &["run", "errors/names", "--tap", "mine"],
        &["run", "errors/names", "--annotations", "mine"],
        &["export", trial, "--out", "mine"],
        &["matrix", "errors/names", "--rocm", "debian:7.2.4", "--out", "site"],
        &["minimise", trial, "--fault", "copy.zero", "--out", "evidence"],
        &["mitigate", trial, "--fault", "copy.zero", "--out", "evidence"],
        &["report", trial, "--fault", "copy.zero", "--budget-seconds", "20", "--out", "evidence"],
        &["exec", "--report", "--out", "evidence", "--", "false"],
    ];
    for words in commands {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let files = ["mine", "site/index.html", "evidence/case.yaml"].map(|name| at.join(name));
        for file in &files {
            fs::create_dir_all(file.parent().expect("it has one")).expect("a folder");
            fs::write(file, MINE).expect("a file");
        }
        let output = rocrepro(at, words);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        let why = ["of rocrepro", "that rocrepro did not write"];
        assert!(why.iter().any(|why| printed.contains(why)), "{words:?}: {printed}");
        for file in &files {
            assert_eq!(fs::read_to_string(file).expect("it is there"), MINE, "{words:?}");
            let beside = file.parent().expect("it has one").read_dir().expect("a folder");
            let wanted = if file.ends_with("mine") { 3 } else { 1 };
            assert_eq!(beside.count(), wanted, "{words:?} leaves something beside {file:?}");
        }
    }
}

#[test]
fn replaces_files_that_rocrepro_wrote() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let commands: [&[&str]; 5] = [
        &["run", "errors/names", "--record", "records", "--junit", "junit.xml", "--tap", "run.tap"],
        &["run", "errors/names", "--annotations", "run.annotations"],
        &["export", "errors/names", "--out", "program.cpp"],
        &["matrix", "errors/names", "--rocm", "debian:7.2.4", "--gfx", "gfx1151", "--out", "site"],
        &[
            "report",
            "errors/names",
            "--budget-seconds",
            "20",
            "--fault",
            "value.wrong",
            "--out",
            "evidence",
        ],
    ];
    for words in commands.iter().chain(&commands) {
        let output = rocrepro(at, words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    }
    let lines = fs::read_to_string(at.join("records")).expect("records").lines().count();
    assert_eq!(lines % 2, 0, "records of two runs");
}

#[test]
fn gives_programs_an_empty_standard_input() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let reads = "import ctypes, sys\n\
                 hip = ctypes.CDLL('libamdhip64.so')\n\
                 assert hip.hipInit(0) == 0\n\
                 sys.exit(0 if sys.stdin.read() == '' else 5)\n";
    fs::write(folder.path().join("reads.py"), reads).expect("a program");
    let words = ["exec", "--report", "--repeat", "1", "--", "python3", "reads.py"];
    let output = rocrepro(folder.path(), &words);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("the program did not fail; it passed in 1 of 1 run"), "{output:?}");
}
