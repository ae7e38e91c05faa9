//! Tests temporary files: a run removes its own and those of killed runs, and does not touch other files.

use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::common::wait_until;

const TRIAL: &str = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";

fn run(temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["run", TRIAL, "--rocm", "debian:7.2.4", "--device", "emulated"]);
    command.args(arguments).env("TMPDIR", temporary).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn files(at: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(at).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[test]
fn removes_temporary_files_of_a_killed_run() {
    let temporary = tempfile::tempdir().expect("a folder");
    let checkout = temporary.path().join("rocrepro-main/src");
    std::fs::create_dir_all(&checkout).expect("a folder");
    std::fs::write(checkout.join("lib.rs"), "mine").expect("a file");
    let before = files(temporary.path());

    let mut killed = run(temporary.path(), &["--fault", "call.hang", "--timeout", "60"])
        .spawn()
        .expect("it starts");
    // A folder without a marker file has no known owner and is never removed, so the test waits for the file.
    let marked = || files(temporary.path()).iter().any(|f| f.ends_with(".rocrepro-scratch"));
    wait_until("no folder was marked", marked);
    killed.kill().expect("it runs");
    assert_eq!(killed.wait().expect("it ended").signal(), Some(9));
    assert_ne!(files(temporary.path()), before, "a killed run cannot clean up");

    // A folder whose owner has ended is removed, however old it is.
    assert_eq!(run(temporary.path(), &[]).status().expect("it starts").code(), Some(0));
    assert_eq!(files(temporary.path()), before);
}
