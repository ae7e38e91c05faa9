//! Tests the command with unusual folders for its files. Some have malicious names, and some contain files of other
//! programs, which the command must not remove.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::{
    row::{Row, row},
    setup::{RunSetup, write_file},
};

const WORKS: &[&str] = &["pass"];
const STOPPED: &[&str] = &["stopped"];
const REFUSED: &[&str] = &["refused"];

pub(crate) const ROWS: &[Row] = &[
    row(
        "folder/checkout-in-tmp",
        |s| decoy(s, "rocrepro-main", &[".git/config", "README.md", "cases/a.yaml"]),
        WORKS,
    ),
    row(
        "folder/results-of-minimise-in-tmp",
        |s| decoy(s, "rocrepro-minimise", &["minimised.yaml", "evidence.json"]),
        WORKS,
    ),
    row("folder/results-of-report-in-tmp", |s| decoy(s, "rocrepro-report", &["report.md"]), WORKS),
    row(
        "folder/evidence-of-a-bisect-in-tmp",
        |s| decoy(s, "rocrepro-bisect-1", &["bisect.json", "journal.jsonl"]),
        WORKS,
    ),
    row(
        "folder/like-a-temporary-folder",
        |s| decoy(s, "rocrepro-a1B2c3", &["trial-x/important"]),
        WORKS,
    ),
    row("folder/scratch-of-somebody", |s| decoy(s, "rocrepro/scratch", &["important"]), WORKS),
    row(
        "folder/scratch-with-a-forged-lock",
        |s| decoy(s, "rocrepro-a1B2c4", &["lock", ".lock", "pid", "owner"]),
        WORKS,
    ),
    row(
        "folder/empty-one-in-tmp",
        |s| {
            let _ = fs::create_dir(s.folder.join("tmp/rocrepro-empty"));
            make_old(&s.folder.join("tmp/rocrepro-empty"))
        },
        WORKS,
    ),
    row(
        "folder/file-in-tmp",
        |s| {
            let file = s.decoy("rocrepro-file", b"important");
            make_old(&file)
        },
        WORKS,
    ),
    row("folder/link-in-tmp", link, WORKS),
    row(
        "folder/link-loop-in-tmp",
        |s| {
            let _ = symlink("rocrepro-loop", s.folder.join("tmp/rocrepro-loop"));
        },
        WORKS,
    ),
    row("folder/trial-folder-in-tmp", |s| decoy(s, "trial-abc", &["important"]), WORKS),
    row("folder/tmp-is-missing", |s| s.variable("TMPDIR", "/proc/nonexistent"), STOPPED)
        .says(&["TMPDIR"]),
    row(
        "folder/tmp-is-a-file",
        |s| {
            let file = s.work("file", b"");
            s.variable("TMPDIR", file)
        },
        STOPPED,
    ),
    row(
        "folder/tmp-is-empty-text",
        |s| {
            s.variable("TMPDIR", "");
        },
        STOPPED,
    ),
    row(
        "folder/tmp-is-relative",
        |s| redirect_variable(s, "TMPDIR", "work/relative".into(), Some("relative")),
        WORKS,
    ),
    row(
        "folder/tmp-with-spaces",
        |s| redirect_variable(s, "TMPDIR", "a b 'c' \"d\"".into(), None),
        WORKS,
    ),
    row("folder/tmp-with-a-colon", |s| redirect_variable(s, "TMPDIR", "a:b".into(), None), WORKS),
    row(
        "folder/tmp-with-a-newline",
        |s| redirect_variable(s, "TMPDIR", "a\nb".into(), None),
        WORKS,
    ),
    row(
        "folder/tmp-with-bytes",
        |s| redirect_variable(s, "TMPDIR", OsString::from_vec(vec![b'a', 0xff, 0xfe]), None),
        WORKS,
    ),
    row(
        "folder/tmp-with-an-escape",
        |s| redirect_variable(s, "TMPDIR", "\u{1b}[31mred".into(), None),
        WORKS,
    ),
    row(
        "folder/tmp-with-a-long-name",
        |s| redirect_variable(s, "TMPDIR", long_path(12), None),
        WORKS,
    ),
    row(
        "folder/tmp-is-a-link",
        |s| {
            let real = s.folder.join("tmp");
            let link = s.folder.join("link");
            let _ = symlink(real, &link);
            s.variable("TMPDIR", link)
        },
        WORKS,
    ),
    row("folder/cache-with-spaces", |s| cache(s, "a b 'c' \"d\"".into()), WORKS),
    row("folder/cache-with-a-colon", |s| cache(s, "a:b".into()), REFUSED),
    row("folder/cache-with-a-newline", |s| cache(s, "a\nb".into()), WORKS),
    row("folder/cache-with-bytes", |s| cache(s, OsString::from_vec(vec![b'a', 0xff, 0xfe])), WORKS),
    row("folder/cache-with-an-origin", |s| cache(s, "$ORIGIN".into()), REFUSED),
    row("folder/cache-with-a-long-name", |s| cache(s, long_path(12)), WORKS),
    row(
        "folder/cache-is-relative",
        |s| {
            s.variable("XDG_CACHE_HOME", "relative");
            s.outputs.push(s.folder.join("home/.cache"))
        },
        WORKS,
    ),
    row("folder/cache-is-missing", |s| s.variable("XDG_CACHE_HOME", "/proc/nonexistent"), STOPPED),
    row(
        "folder/cache-is-a-link-loop",
        |s| {
            let link = s.folder.join("loop");
            let _ = symlink(&link, &link);
            s.variable("XDG_CACHE_HOME", link)
        },
        STOPPED,
    ),
    row("folder/foreign-files-in-the-cache", foreign_cache, WORKS),
    row(
        "folder/record-of-somebody-else",
        |s| {
            let path = s.record();
            write_file(&path, b"{\"somebody\":\"else\"}\n");
            s.afterwards(move |_| kept(&path))
        },
        &["refused"],
    )
    .alone(),
    row(
        "folder/record-in-a-missing-folder",
        |s| s.words = words(s, &["--record", "missing/record.jsonl"]),
        &["refused"],
    )
    .alone(),
    row("folder/record-is-a-folder", |s| s.words = words(s, &["--record", "."]), &["refused"])
        .alone(),
    row(
        "folder/record-is-dev-full",
        |s| s.words = words(s, &["--record", "/dev/full"]),
        &["stopped"],
    )
    .alone(),
    row(
        "folder/junit-in-a-missing-folder",
        |s| s.words = words(s, &["--junit", "missing/junit.xml"]),
        &["refused"],
    )
    .alone(),
    row(
        "folder/junit-is-dev-full",
        |s| s.words = words(s, &["--junit", "/dev/full"]),
        &["stopped"],
    )
    .alone(),
    row(
        "folder/stack-with-a-colon",
        |s| {
            let root = s.folder.join("a:b");
            let _ = symlink(&s.tools.stack, &root);
            s.stack(root)
        },
        WORKS,
    ),
    row(
        "folder/stack-with-spaces",
        |s| {
            let root = s.folder.join("a 'b'");
            let _ = symlink(&s.tools.stack, &root);
            s.stack(root)
        },
        WORKS,
    ),
    row(
        "folder/stack-is-a-loop",
        |s| {
            let root = s.folder.join("loop");
            let _ = symlink(&root, &root);
            s.stack(root)
        },
        &["refused"],
    ),
    row(
        "folder/stack-is-a-file",
        |s| {
            let root = s.work("stack", b"no stack");
            s.stack(root)
        },
        &["refused"],
    ),
    row(
        "folder/stack-is-empty",
        |s| {
            let root = s.folder.join("nothing");
            let _ = fs::create_dir(&root);
            s.stack(root)
        },
        &["refused"],
    ),
    row(
        "folder/after-a-killed-run",
        |s| {
            s.times = 1;
            abandoned(s)
        },
        WORKS,
    )
    .alone(),
];

/// Sets the modification time of a file so far back that the file cannot belong to a running command.
fn make_old(path: &Path) {
    let file = fs::File::open(path).expect("the file exists");
    file.set_modified(SystemTime::now() - Duration::from_secs(86_400 * 30))
        .expect("the file is writable");
}

/// Creates a folder in TMPDIR that belongs to another program and is a month old.
fn decoy(setup: &mut RunSetup<'_>, name: &str, files: &[&str]) {
    for file in files {
        let path = setup.decoy(&format!("{name}/{file}"), b"important");
        make_old(&path);
        make_old(path.parent().expect("the path has a parent folder"));
    }
    make_old(&setup.folder.join("tmp").join(name));
}

fn link(setup: &mut RunSetup<'_>) {
    let precious = write_file(&setup.folder.join("work/precious/file"), b"important");
    let folder = precious.parent().expect("the path has a parent folder");
    make_old(folder);
    let _ = symlink(folder, setup.folder.join("tmp/rocrepro-link"));
}

fn long_path(parts: usize) -> OsString {
    vec!["x".repeat(200); parts].join("/").into()
}

/// Creates a folder with this name in the folder of the run, and sets an environment variable to `value`. If `value` is
/// `None`, sets the variable to the path of the created folder.
fn redirect_variable(
    setup: &mut RunSetup<'_>,
    variable: &str,
    name: OsString,
    value: Option<&str>,
) {
    let folder = setup.folder.join(name);
    fs::create_dir_all(&folder).expect("the folder can be created");
    match value {
        Some(value) => setup.variable(variable, value),
        None => setup.variable(variable, folder),
    }
}

fn cache(setup: &mut RunSetup<'_>, name: OsString) {
    let folder = setup.folder.join(&name);
    fs::create_dir_all(&folder).expect("the folder can be created");
    let first: PathBuf = Path::new(&name).components().take(1).collect();
    setup.outputs.push(setup.folder.join(first));
    setup.variable("XDG_CACHE_HOME", folder);
}

/// Creates files of other programs next to the command's files in the cache. When the command cleans the cache, it must
/// not remove the files of other programs.
fn foreign_cache(setup: &mut RunSetup<'_>) {
    let cache = setup.warm_cache();
    let places = [
        "notes.txt",
        "code/notes.txt",
        "code/tmp/notes.txt",
        "stacks/mine/notes.txt",
        "device/notes.txt",
    ];
    let files: Vec<PathBuf> =
        places.map(|place| write_file(&cache.join(place), b"important")).to_vec();
    files.iter().for_each(|file| make_old(file));
    setup.afterwards(move |_| {
        let gone = files
            .iter()
            .find(|file| fs::read(file).is_ok_and(|content| content == b"important").eq(&false))?;
        Some(format!("a foreign file in the cache was touched: {}", gone.display()))
    });
}

fn kept(record: &Path) -> Option<String> {
    let text = fs::read_to_string(record).unwrap_or_default();
    (!text.starts_with("{\"somebody\":\"else\"}\n"))
        .then(|| "the earlier content of the record is gone".to_owned())
}

/// Returns the arguments of a run of [`crate::shared_tools::TRIAL`] with these options.
fn words(setup: &RunSetup<'_>, options: &[&str]) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["run", crate::shared_tools::TRIAL, "--device", "emulated", "--rocm"]
            .map(OsString::from)
            .to_vec();
    words.push(setup.tools.stack.clone().into());
    words.extend(options.iter().map(OsString::from));
    words
}

/// Kills a run. The next run must remove the files of the killed run, because they are marked as files of the command.
fn abandoned(setup: &mut RunSetup<'_>) {
    let mut first = std::process::Command::new(&setup.tools.program);
    let trouble = format!("LD_PRELOAD={}", setup.tools.trouble.display());
    let pid = setup.folder.join(crate::processes::WORKER);
    setup.outputs.push(pid.clone());
    let point = format!("CHAOS_TROUBLE=pid={}@body,hang@body", pid.display());
    first
        .args(words(setup, &["--env", &trouble, "--env", &point]))
        .env_clear()
        .envs(setup.environment());
    let null = std::process::Stdio::null;
    let mut child =
        first.stdin(null()).stdout(null()).stderr(null()).spawn().expect("the command starts");
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while !pid.exists() && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    // The next run may remove the files of the killed run.
    let tmp = setup.folder.join("tmp");
    for entry in fs::read_dir(&tmp).into_iter().flatten().flatten() {
        if let Ok(folder) = fs::File::open(entry.path()) {
            let _ = folder.set_modified(SystemTime::now() - Duration::from_secs(600));
        }
    }
    setup.outputs.push(tmp.clone());
    setup.afterwards(move |_| {
        let left = crate::folder_snapshot::snapshot(&tmp);
        let file =
            left.iter().find(|(_, entry)| **entry != crate::folder_snapshot::Entry::Folder)?;
        Some(format!("a file of the killed run still exists: {}", file.0.display()))
    });
}
