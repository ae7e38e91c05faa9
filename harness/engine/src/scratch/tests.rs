use std::os::unix::fs::symlink;

use super::*;

/// A process id that is larger than any in Linux, so no such process exists.
const NOBODY: u32 = (1 << 22) + 1;

fn marked(home: &Path, name: &str, change: impl FnOnce(&mut Mark)) -> PathBuf {
    let folder = home.join(name);
    fs::create_dir_all(folder.join("trial-1/deep")).unwrap();
    fs::write(folder.join("trial-1/deep/file"), "of a trial").unwrap();
    let mut mark = Mark::current(&open_folder(&folder).unwrap()).unwrap();
    change(&mut mark);
    mark.write(&folder).unwrap();
    folder
}

fn tree(at: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::symlink_metadata(&path).unwrap();
        let what = if data.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else if data.is_dir() {
            found.extend(tree(&path));
            "folder".to_owned()
        } else if data.is_file() {
            fs::read_to_string(&path).unwrap()
        } else {
            "special".to_owned()
        };
        found.push(format!("{} {what}", path.display()));
    }
    found.sort();
    found
}

#[test]
fn run_removes_its_folder() {
    let base = tempfile::tempdir().unwrap();
    let scratch = create_in(base.path(), &Arc::default()).unwrap();
    let folder = scratch.path().to_owned();
    assert!(folder.join(mark::FILE).is_file());
    let trial = scratch.trial().unwrap();
    fs::write(trial.path().join("spooled"), "bytes").unwrap();
    let other = create_in(base.path(), &Arc::default()).unwrap();
    drop(trial);
    drop(scratch);
    assert!(!folder.exists(), "the other run's folder keeps the home only");
    drop(other);
    assert_eq!(tree(base.path()), [""; 0]);
}

#[test]
fn removes_folders_of_killed_runs_only() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let home = base.join(home_name());
    own_folder(&home).unwrap();

    for folder in ["rocrepro-main/.git", "rocrepro-small-sizes", "rocrepro-scratch", ".tmpAbCdEf"] {
        fs::create_dir_all(base.join(folder)).unwrap();
        fs::write(base.join(folder).join("bisect.jsonl"), "evidence").unwrap();
    }
    fs::write(base.join("rocrepro-notes.txt"), "notes").unwrap();
    fs::create_dir(home.join("run-unmarked")).unwrap();
    fs::write(home.join("run-unmarked/file"), "of a user").unwrap();
    fs::write(home.join("run-file"), "a file").unwrap();
    // A run that was killed before it wrote its marker file leaves such a folder behind, but the folder may also be the
    // user's.
    fs::create_dir(home.join("run-empty")).unwrap();
    let two_hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    open_folder(&home.join("run-empty")).unwrap().set_modified(two_hours_ago).unwrap();
    for (name, text) in [("empty", ""), ("garbage", "{\"pid\": 1}"), ("words", mark::FILE)] {
        fs::create_dir(home.join(name)).unwrap();
        fs::write(home.join(name).join(mark::FILE), text).unwrap();
    }
    // A folder of an ended run in another place, and links to it and to its marker file.
    let outside = marked(base, "rocrepro-outside", |mark| mark.pid = NOBODY);
    symlink(&outside, home.join("run-link")).unwrap();
    fs::create_dir(home.join("run-linked-mark")).unwrap();
    symlink(outside.join(mark::FILE), home.join("run-linked-mark").join(mark::FILE)).unwrap();
    fs::create_dir(home.join("run-pipe")).unwrap();
    let pipe = home.join("run-pipe").join(mark::FILE);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    symlink("loop", home.join("loop")).unwrap();
    // A copy of an ended run's folder, as `cp -r` makes it.
    let copied = home.join("run-copied");
    fs::create_dir(&copied).unwrap();
    fs::copy(outside.join(mark::FILE), copied.join(mark::FILE)).unwrap();
    // Folders of runs that are, or may be, still running.
    marked(&home, "run-lives", |_| ());
    let locked = marked(&home, "run-locked", |mark| mark.pid = NOBODY);
    let lock = open_folder(&locked).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockShared).unwrap();
    marked(&home, "run-in-container", |mark| (mark.pid, mark.namespace) = (NOBODY, 1));
    marked(&home, "run-on-other-host", |mark| {
        (mark.pid, mark.host, mark.boot) = (NOBODY, "elsewhere".into(), "other".into());
    });

    let before = tree(base);
    let dead = marked(&home, "run-dead", |mark| mark.pid = NOBODY);
    symlink(base.join("rocrepro-main"), dead.join("trial-1/link")).unwrap();
    symlink("/", dead.join("root")).unwrap();
    let gone = [
        dead,
        marked(&home, "run-reused-pid", |mark| mark.started += 1),
        marked(&home, "run-before-boot", |mark| mark.boot = "other".into()),
    ];
    drop(create_in(base, &Arc::default()).unwrap());
    for folder in gone {
        assert!(!folder.exists(), "{} is left", folder.display());
    }
    assert_eq!(tree(base), before);
    drop(lock);
    drop(create_in(base, &Arc::default()).unwrap());
    assert!(!locked.exists(), "its lock is released");
}

#[test]
fn rejects_a_folder_that_others_can_write_to() {
    use std::os::unix::fs::PermissionsExt;
    let base = tempfile::tempdir().unwrap();
    let home = base.path().join(home_name());
    let refused = |why: &str| {
        let error = create_in(base.path(), &Arc::default()).err().expect(why).to_string();
        assert!(error.contains("is not a folder that only this user can access"), "{why}: {error}");
    };
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
    refused("open to all");
    fs::remove_dir(&home).unwrap();
    fs::write(&home, "").unwrap();
    refused("a file");
    fs::remove_file(&home).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), &home).unwrap();
    refused("a link");
    assert_eq!(tree(elsewhere.path()), [""; 0]);
}
