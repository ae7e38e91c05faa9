use std::{
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use super::*;

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Both ways to write a file leave the same behind.
#[test]
fn writes_a_file_completely_or_not_at_all() {
    for nameless in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let mut given_up = NewFile::create_with(&target, nameless).unwrap();
        given_up.write_all(b"half").unwrap();
        assert!(!target.exists());
        drop(given_up);
        assert_eq!(names(folder.path()), [""; 0]);

        let mut first = NewFile::create_with(&target, nameless).unwrap();
        first.write_all(b"first").unwrap();
        first.publish().unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        let mut second = NewFile::create_with(&target, nameless).unwrap();
        second.write_all(b"second").unwrap();
        let refused = NewFile::create_with(&target, nameless).unwrap().publish().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"first");
        second.replace().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"second");
        assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o640, "its rights stay");
        assert_eq!(names(folder.path()), ["target"]);
    }
}

#[test]
fn removes_only_what_a_killed_writer_of_the_same_file_left() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let target = at("target");
    let kept = [".other.rocrepro-1-0", ".target.rocrepro-1", ".target.rocrepro-x-0", ".target.tmp"];
    for name in kept.into_iter().chain([".target.rocrepro-1-0", ".target.rocrepro-77-12"]) {
        fs::write(at(name), "").unwrap();
    }
    fs::create_dir(at(".target.rocrepro-2-0")).unwrap();
    let alive = NewFile::create_with(&target, false).unwrap();
    let own = alive.temporary.clone().unwrap();
    write(&target, "text").unwrap();
    let mut left: Vec<String> = kept.map(str::to_owned).into();
    left.extend([".target.rocrepro-2-0".to_owned(), "target".to_owned()]);
    left.push(own.file_name().unwrap().to_str().unwrap().to_owned());
    left.sort();
    assert_eq!(names(folder.path()), left);
    // That of a writer that lives still gets its name.
    alive.replace().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[test]
fn links_lead_on_and_pipes_are_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "old").unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    write(&at("link"), "new").unwrap();
    assert_eq!(fs::read(at("file")).unwrap(), b"new");
    assert!(at("link").is_symlink());
    std::os::unix::fs::symlink("nothing", at("nowhere")).unwrap();
    let refused = write_new(&at("nowhere"), "x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(!at("nothing").exists());

    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let reader = Command::new("cat").arg(at("pipe")).stdout(Stdio::piped()).spawn().unwrap();
    write(&at("pipe"), "through").unwrap();
    assert_eq!(reader.wait_with_output().unwrap().stdout, b"through");
    assert!(write(&folder.path().join("missing/file"), "x").is_err());
}
