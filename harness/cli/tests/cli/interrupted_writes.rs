//! Tests writers that are killed in the middle of a file, locked stores, and damaged downloads.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use rustix::fs::{FlockOperation, fcntl_lock};

use crate::common::{CASE, output_text, repeat_record};

const ROCREPRO: &str = env!("CARGO_BIN_EXE_rocrepro");

fn rocrepro(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(ROCREPRO);
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns true if the process has a file in the folder open for writing, including unnamed files.
fn writes_in(process: u32, folder: &Path) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.map(|entry| entry.path()).any(|file| {
        let below = fs::read_link(&file).is_ok_and(|path| path.starts_with(folder));
        let description = file.to_string_lossy().replace("/fd/", "/fdinfo/");
        // The last octal digit of the flags is the access mode; see proc_pid_fdinfo(5).
        let flags = fs::read_to_string(description).unwrap_or_default();
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0");
        let is_written = flags.ends_with(['1', '2']);
        below && is_written && fs::metadata(&file).is_ok_and(|data| data.len() > 0)
    })
}

#[test]
fn leaves_no_partial_file_when_killed() {
    const RECORDS: usize = 3000;

    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().canonicalize().expect("it is there");
    fs::write(at.join("case.yaml"), CASE).expect("a file");
    let run =
        ["run", "--cases-from", "case.yaml", "--rocm", "debian:7.2.4", "--device", "emulated"];
    let run = [&run[..], &["--record", "one"]].concat();
    let done = rocrepro(&at, &run).output().expect("it starts");
    assert!(done.status.success(), "{}", output_text(&done));
    let text = fs::read_to_string(at.join("one")).expect("records");
    let many = repeat_record(&text, RECORDS, |_| ());
    fs::write(at.join("many"), many).expect("there is room");
    let before = names(&at);
    let mut merge =
        rocrepro(&at, &["merge", "many", "--out", "merged"]).spawn().expect("it starts");
    while !writes_in(merge.id(), &at) {
        assert!(merge.try_wait().expect("a child").is_none(), "it ended too early");
        sleep(Duration::from_millis(1));
    }
    merge.kill().expect("it is there");
    assert_eq!(merge.wait().expect("a child").code(), None);
    assert_eq!(names(&at), before);
}

#[test]
fn reports_that_it_waits_for_a_locked_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    drop(store::Store::open_or_make(&at.join("results.db")).expect("a store"));
    let list = ["store", "list", "--store", "results.db"];
    let free = rocrepro(at, &list).output().expect("it starts");
    assert!(free.status.success() && free.stderr.is_empty(), "{}", output_text(&free));
    // While SQLite writes, it locks only a part of the file. This test locks the whole file.
    let file = fs::File::options().write(true).open(at.join("results.db")).expect("it is there");
    fcntl_lock(&file, FlockOperation::LockExclusive).expect("the file is unlocked");
    let locked = rocrepro(at, &list).output().expect("it starts");
    let text = output_text(&locked);
    assert_eq!(locked.status.code(), Some(3), "{text}");
    assert!(text.contains("waiting for another process that is writing to the store"), "{text}");
    assert!(text.contains("error: another process is writing to the store"), "{text}");
}

#[test]
fn exits_3_for_a_damaged_download() {
    let folder = tempfile::tempdir().expect("a folder");
    let (at, mirror) = (folder.path(), folder.path().join("mirror"));
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stacks/locks/5.2.3.json");
    let lock = fs::read_to_string(lock).expect("it is a part of the project");
    for path in lock.split("\"path\":\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        let file = mirror.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is ours");
        fs::write(file, "damaged").expect("it is ours");
    }
    let mirror = format!("file:{}", mirror.display());
    let fetch = ["rocm", "fetch", "debian:5.2.3", "--mirror", &mirror];
    let output = rocrepro(at, &fetch).env("XDG_CACHE_HOME", at).output().expect("it starts");
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("is damaged"), "{text}");
}
