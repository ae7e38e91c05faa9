use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    process::{Command, Stdio},
};

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// The test writes the file in both ways: with a temporary name and without a name.
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
        assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o640, "the permissions are kept");
        assert_eq!(names(folder.path()), ["target"]);
    }
}

#[test]
fn keeps_the_files_of_other_writers() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let own = format!(".target.rocrepro-{}", std::process::id());
    let kept = [".target.rocrepro-1-0".to_owned(), format!("{own}-x"), ".target.tmp".to_owned()];
    for name in &kept {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let alive = NewFile::create_with(&target, false).unwrap();
    write(&target, "text").unwrap();
    assert_eq!(names(folder.path()).len(), kept.len() + 2);
    alive.replace().unwrap();
    let mut left = kept.to_vec();
    left.push("target".to_owned());
    left.sort();
    assert_eq!((names(folder.path()), fs::read(&target).unwrap()), (left, Vec::new()));
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
