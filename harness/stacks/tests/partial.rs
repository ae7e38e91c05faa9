//! Tests of downloads that break off or are refused, that a later process resumes, and of the disk space that partial
//! downloads need.

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use stacks::{Build, BuildEvent, ObtainError, ObtainedBuild};
use standin::{Entry, Fake, Server, Site, Trouble, pack};

use common::{A, build, store};

/// A large build whose download a first process has begun but not finished.
struct Unfinished {
    server: Server,
    build: Build,
    whole: Vec<u8>,
    folder: tempfile::TempDir,
}

impl Unfinished {
    fn new() -> Unfinished {
        let mut entries = Fake::new("1.0.0").entries();
        // The content is pseudo-random, so that it can hardly be compressed.
        let noise = (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes());
        entries.push(Entry::file("lib/large", noise.collect::<Vec<u8>>()));
        let whole = pack(&entries, "tar.gz");
        let mut site = Site::default();
        site.file(A, whole.clone()).slow(400_000);
        let server = site.serve();
        let build = build(&server, "one", &[(A, None)]);
        let folder = tempfile::tempdir().unwrap();
        let cancel = AtomicBool::new(false);
        let progress = |event: BuildEvent<'_>| {
            if matches!(event, BuildEvent::Download { done, .. } if done > 100_000) {
                cancel.store(true, Ordering::Relaxed);
            }
        };
        let got = store(folder.path()).obtain_unless(&build, &cancel, &progress);
        assert!(matches!(got, Err(ObtainError::Cancelled)), "{got:?}");
        server.change(|site| {
            site.slow(100_000_000);
        });
        Unfinished { server, build, whole, folder }
    }

    fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("cache/builds/partial")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn obtain(&self) -> Result<ObtainedBuild, ObtainError> {
        store(self.folder.path()).obtain(&self.build, &|_| ())
    }

    /// Returns the offset of the first byte that the last request asked for.
    fn start(&self) -> usize {
        let last = self.server.requests().pop().unwrap();
        let range =
            last.split_once(" bytes=").map_or("0", |(_, range)| range.trim_end_matches('-'));
        range.parse().unwrap()
    }
}

#[test]
fn resumes_the_download_of_an_earlier_process() {
    let one = Unfinished::new();
    let got = one.obtain().unwrap();
    assert!(one.start() > 100_000 && one.start() < one.whole.len(), "{:?}", one.server.requests());
    assert_eq!(got.sha256[0].1, standin::sha256(&one.whole));
    assert_eq!(got.downloaded, one.whole.len() as u64);
    assert!(one.kept().is_empty(), "{:?}", one.kept());
}

#[test]
fn discards_the_part_of_another_file() {
    let one = Unfinished::new();
    let other = Fake::new("2.0.0").tarball();
    one.server.change(|site| {
        site.file(A, other.clone());
    });
    assert_eq!(one.obtain().unwrap().sha256[0].1, standin::sha256(&other));
    assert_eq!(one.start(), 0, "{:?}", one.server.requests());
}

#[test]
fn discards_a_damaged_part() {
    let one = Unfinished::new();
    let part = one.kept().into_iter().find(|path| path.extension().is_none()).unwrap();
    let mut bytes = fs::read(&part).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&part, bytes).unwrap();
    let damaged = one.obtain().unwrap_err().to_string();
    assert!(damaged.contains("is damaged"), "{damaged}");
    assert_eq!(one.obtain().unwrap().sha256[0].1, standin::sha256(&one.whole));
    assert_eq!(one.start(), 0, "{:?}", one.server.requests());
}

/// Unfinished downloads count towards the budget, and are removed before any build. The download that is being resumed
/// is kept.
#[test]
fn counts_unfinished_downloads_for_the_budget() {
    let one = Unfinished::new();
    let folder = one.folder.path();
    let other = "/a/other.tar.gz";
    one.server.change(|site| {
        site.file(other, Fake::new("2.0.0").tarball());
    });
    let evicted = Mutex::new(Vec::new());
    let progress = |event: BuildEvent<'_>| {
        if let BuildEvent::Evicted { id } = event {
            evicted.lock().unwrap().push(id.to_owned());
        }
    };
    // The archive of a build (1 MB) and the partial download of the other build (more than 100 kB) fit into 2 MB.
    // Together with the unpacked content, they do not.
    let small = build(&one.server, "other", &[(other, None)]);
    let roomy = store(folder).with_budget(2_000_000);
    drop(roomy.obtain_unless(&small, &AtomicBool::new(false), &progress).unwrap());
    assert!(!one.kept().is_empty() && evicted.lock().unwrap().is_empty());
    let tight = store(folder).with_budget(100_000);
    assert!(tight.has(&small));
    let again = tight.obtain_unless(&one.build, &AtomicBool::new(false), &progress).unwrap();
    assert!(one.start() > 100_000, "{:?}", one.server.requests());
    assert_eq!(evicted.lock().unwrap().as_slice(), ["other-gfx1151"]);
    drop(again);
    let unfinished = Unfinished::new();
    let tight = store(unfinished.folder.path()).with_budget(100_000);
    unfinished.server.change(|site| {
        site.file(other, Fake::new("2.0.0").tarball());
    });
    let small = build(&unfinished.server, "other", &[(other, None)]);
    drop(tight.obtain_unless(&small, &AtomicBool::new(false), &progress).unwrap());
    assert!(unfinished.kept().is_empty(), "{:?}", unfinished.kept());
    assert_eq!(
        evicted.lock().unwrap()[1],
        format!("the partial download of {}", unfinished.server.url(A))
    );
}

#[test]
fn leaves_a_locked_download_alone() {
    let one = Unfinished::new();
    let part = one.kept().into_iter().find(|path| path.extension().is_none()).unwrap();
    let before = fs::read(&part).unwrap();
    let held = fs::File::open(&part).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let got = store(one.folder.path()).with_budget(1).obtain(&one.build, &|_| ()).unwrap();
    assert_eq!(got.sha256[0].1, standin::sha256(&one.whole));
    assert_eq!((one.start(), fs::read(&part).unwrap() == before), (0, true));
}

#[test]
fn distinguishes_a_file_that_breaks_off_from_a_broken_network() {
    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball()).trouble(A, &vec![Trouble::Cut(0); 9]);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let error = store(folder.path()).obtain(&build(&server, "one", &[(A, None)]), &|_| ());
    let error = error.unwrap_err();
    assert!(!error.is_environment(), "{error}");
    let why = "after 5 attempts, although the host answers other requests";
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn gives_a_refusing_host_fewer_attempts_until_it_answers() {
    let path = |n: usize| format!("/row/{n}.tar.gz");
    let mut site = Site::default();
    for n in 0..4 {
        site.file(&path(n), Fake::new("1.0.0").tarball());
        if n != 2 {
            site.trouble(&path(n), &vec![Trouble::Busy(None); 9]);
        }
    }
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    // The third archive can be downloaded, so the fourth one gets as many attempts as the first one.
    for (n, attempts) in [5, 2, 1, 5].into_iter().enumerate() {
        let got = store.obtain(&build(&server, &n.to_string(), &[(&path(n), None)]), &|_| ());
        assert_eq!(got.is_ok(), n == 2, "{n}");
        let requests = server.requests().iter().filter(|it| it.contains(&path(n))).count();
        assert_eq!(requests, attempts, "{n}: {:?}", server.requests());
    }
}
