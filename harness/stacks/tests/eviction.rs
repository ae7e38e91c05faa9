//! Tests of the disk budget: which builds and downloads are removed when the budget is exceeded, and what may not be
//! removed.

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{Mutex, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use stacks::{Build, BuildEvent, BuildLocation, BuildStore, FileLock, LockMode, ObtainError};
use standin::{Fake, Server, Site, Trouble};

use common::{A, build, store};

/// Starts a server with builds named `0`, `1`, and so on. All builds have the same size. Each has one file of its own
/// and shares the rest with the other builds.
fn row(count: usize) -> (Server, Vec<Build>) {
    let mut site = Site::default();
    let path = |n: usize| format!("/row/{n}.tar.gz");
    for n in 0..count {
        site.file(&path(n), Fake::new(&format!("1.0.{n}")).tarball());
    }
    let server = site.serve();
    let builds =
        (0..count).map(|n| build(&server, &n.to_string(), &[(path(n).as_str(), None)])).collect();
    (server, builds)
}

/// Returns the total size of the files of all builds in a store, in bytes.
fn stored_bytes(cache: &Path) -> u64 {
    let entries = |folder: &Path| -> Vec<fs::DirEntry> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect()
    };
    let folders = entries(&cache.join("cache/builds/files"));
    let files = folders.iter().flat_map(|folder| entries(&folder.path()));
    files.map(|file| file.metadata().unwrap().len()).sum()
}

/// Obtains a build, and returns the names of the builds and downloads that were removed to make room for it.
fn evicted_for(store: &BuildStore, build: &Build) -> Vec<String> {
    let evicted = Mutex::new(Vec::new());
    let progress = |event: BuildEvent<'_>| {
        if let BuildEvent::Evicted { id } = event {
            evicted.lock().unwrap().push(id.to_owned());
        }
    };
    store.obtain(build, &progress).unwrap();
    evicted.into_inner().unwrap()
}

/// Moves the modification time of a file into the past by `age`. For the record of a build, this is the time at which
/// the build was last used; for a partial download, the time of the last write.
fn set_age(path: &Path, age: Duration) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn evicts_only_the_least_recently_used_build() {
    let (_server, builds) = row(4);
    let whole = tempfile::tempdir().unwrap();
    for build in &builds {
        store(whole.path()).obtain(build, &|_| ()).unwrap();
    }
    // The budget is one byte smaller than all four builds together.
    let budget = stored_bytes(whole.path()) - 1;
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).with_budget(budget);
    for n in [0, 1, 2] {
        assert!(evicted_for(&store, &builds[n]).is_empty());
    }
    // The order in which the builds were last used differs from the order of their names and from that of first use.
    for (n, hours) in [(0, 2), (1, 3), (2, 1)] {
        let record = format!("cache/builds/prefixes/{n}-gfx1151/.rocrepro-build.json");
        set_age(&folder.path().join(record), Duration::from_secs(hours * 3600));
    }
    assert_eq!(evicted_for(&store, &builds[3]), ["1-gfx1151"]);
    let present: Vec<bool> = builds.iter().map(|build| store.has(build)).collect();
    assert_eq!(present, [true, false, true, true]);
}

#[test]
fn using_a_build_makes_it_the_most_recently_used() {
    let (_server, builds) = row(3);
    let whole = tempfile::tempdir().unwrap();
    for build in &builds {
        store(whole.path()).obtain(build, &|_| ()).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).with_budget(stored_bytes(whole.path()) - 1);
    for n in [0, 1] {
        store.obtain(&builds[n], &|_| ()).unwrap();
        let record = format!("cache/builds/prefixes/{n}-gfx1151/.rocrepro-build.json");
        set_age(&folder.path().join(record), Duration::from_secs(7200));
    }
    store.obtain(&builds[0], &|_| ()).unwrap();
    assert_eq!(evicted_for(&store, &builds[2]), ["1-gfx1151"]);
}

#[test]
fn makes_room_for_six_times_the_listed_size_before_a_download() {
    const LISTED: u64 = 100_000;
    let evicted_with = |missing: u64| {
        let (_server, mut builds) = row(2);
        let folder = tempfile::tempdir().unwrap();
        store(folder.path()).obtain(&builds[0], &|_| ()).unwrap();
        if let BuildLocation::Archives { archives, .. } = &mut builds[1].places[0] {
            archives[0].size = Some(LISTED);
        }
        let budget = stored_bytes(folder.path()) + 6 * LISTED - missing;
        evicted_for(&store(folder.path()).with_budget(budget), &builds[1])
    };
    assert!(evicted_with(0).is_empty());
    assert_eq!(evicted_with(1), ["0-gfx1151"]);
}

#[test]
fn evicts_the_oldest_unfinished_download_first() {
    let (server, builds) = row(3);
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join("cache/builds/partial");
    // The host breaks off each download in the middle, and does not respond afterwards.
    for (n, build) in builds[..2].iter().enumerate() {
        let path = format!("/row/{n}.tar.gz");
        server.change(|site| {
            site.trouble(&path, &[Trouble::Cut(400)]);
            site.trouble(&path, &vec![Trouble::Busy(None); 9]);
        });
        store(folder.path()).obtain(build, &|_| ()).unwrap_err();
    }
    let url = |n: usize| server.url(&format!("/row/{n}.tar.gz"));
    let mut oldest = String::new();
    for entry in fs::read_dir(&partial).unwrap() {
        let path = entry.unwrap().path();
        let first = fs::read_to_string(path.with_extension("json")).unwrap().contains(&url(0));
        if path.extension().is_none() {
            set_age(&path, Duration::from_secs(if first { 60 } else { 7200 }));
            oldest = url(1);
        }
    }
    assert!(!oldest.is_empty(), "both downloads are kept");
    let used: u64 =
        fs::read_dir(&partial).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    let evicted = evicted_for(&store(folder.path()).with_budget(used - 1), &builds[2]);
    assert_eq!(evicted[0], format!("the partial download of {oldest}"));
}

#[test]
fn recognises_a_build_by_the_addresses_of_its_archives() {
    let (other_path, other) = ("/b/two.tar.gz", Fake::new("2.0.0").tarball());
    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball()).file(other_path, other.clone());
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let first = build(&server, "one", &[(A, None)]);
    let second = build(&server, "one", &[(other_path, None)]);
    store.obtain(&first, &|_| ()).unwrap();
    assert_eq!((store.has(&first), store.has(&second)), (true, false));
    let got = store.obtain(&second, &|_| ()).unwrap();
    assert_eq!(got.sha256, [("two.tar.gz".to_owned(), standin::sha256(&other))]);
}

#[test]
fn dropping_a_prefetch_cancels_it() {
    let mut site = Site::default();
    // The host accepts the request and never responds.
    site.file(A, Fake::new("1.0.0").tarball()).ill(A, Trouble::Silent);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let prefetch = store(folder.path()).prefetch(&build(&server, "one", &[(A, None)]));
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let lock = folder.path().join("cache/builds/prefixes/.one-gfx1151.lock");
    let lock = FileLock::open(lock).unwrap();
    assert!(!lock.try_hold(LockMode::Shared).unwrap(), "the prefetch works on the build");
    drop(prefetch);
    // The download alone would wait for one minute before it gives up on the silent host.
    let wait = Duration::from_secs(20);
    lock.hold(LockMode::Alone, wait, &AtomicBool::new(false), &|_| ()).unwrap();
}

#[test]
fn keeps_nothing_of_a_download_that_a_login_page_replaced() {
    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball()).trouble(A, &[Trouble::Cut(400), Trouble::Portal]);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let error =
        store(folder.path()).obtain(&build(&server, "one", &[(A, None)]), &|_| ()).unwrap_err();
    assert!(matches!(error, ObtainError::Network { .. }), "{error}");
    let partial = folder.path().join("cache/builds/partial");
    assert_eq!(fs::read_dir(partial).unwrap().count(), 0);
}

#[test]
fn removes_unfinished_downloads_after_two_weeks() {
    let kept_after = |days: u64| {
        let (server, builds) = row(2);
        server.change(|site| {
            site.trouble("/row/0.tar.gz", &[Trouble::Cut(400)]);
            site.trouble("/row/0.tar.gz", &vec![Trouble::Busy(None); 9]);
        });
        let folder = tempfile::tempdir().unwrap();
        store(folder.path()).obtain(&builds[0], &|_| ()).unwrap_err();
        let partial = folder.path().join("cache/builds/partial");
        for entry in fs::read_dir(&partial).unwrap() {
            set_age(&entry.unwrap().path(), Duration::from_secs(days * 24 * 3600));
        }
        store(folder.path()).obtain(&builds[1], &|_| ()).unwrap();
        fs::read_dir(partial).unwrap().count()
    };
    assert_eq!((kept_after(13), kept_after(15)), (2, 0));
}

/// Obtains build 0, and then build 1 with a budget of zero, while the cache contains symbolic links to folders of the
/// user.
#[test]
fn keeps_what_links_in_the_cache_lead_to() {
    let (server, builds) = row(2);
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    let precious = theirs.join("sub/precious");
    fs::create_dir_all(theirs.join("sub")).unwrap();
    fs::write(&precious, "x").unwrap();
    fs::write(theirs.join("precious"), "x").unwrap();
    let old = Duration::from_secs(100 * 24 * 3600);
    set_age(&precious, old);
    set_age(&theirs.join("precious"), old);
    let at = |path: &str| folder.path().join("cache/builds").join(path);
    let kept = || precious.exists() && theirs.join("precious").exists();
    drop(store(folder.path()).obtain(&builds[0], &|_| ()).unwrap());
    for link in ["files/mine", "partial/mine", "prefixes/mine", "prefixes/.mine.work"] {
        fs::create_dir_all(at(link).parent().unwrap()).unwrap();
        symlink(&theirs, at(link)).unwrap();
    }
    symlink(theirs.join("precious"), at("partial/file")).unwrap();
    symlink(theirs.join("precious"), at("files/file")).unwrap();
    symlink(&theirs, at("prefixes/0-gfx1151/mine")).unwrap();
    let tight = store(folder.path()).with_budget(1);
    assert_eq!(evicted_for(&tight, &builds[1]), ["0-gfx1151"]);
    assert!(kept(), "an eviction");
    let missing = build(&server, "2", &[("/row/2.tar.gz", None)]);
    tight.obtain(&missing, &|_| ()).unwrap_err();
    assert!(kept(), "a fetch that fails");

    // The folders into which a build is unpacked are symbolic links.
    for link in ["prefixes/.0-gfx1151.work", "prefixes/0-gfx1151"] {
        symlink(&theirs, at(link)).unwrap();
        let error = tight.obtain(&builds[0], &|_| ()).unwrap_err();
        assert!(matches!(error, ObtainError::File(_)), "{error:?}");
        assert!(kept(), "{link}");
        fs::remove_file(at(link)).unwrap();
    }
    // A folder of the store is a symbolic link.
    for name in ["files", "partial", "prefixes"] {
        let (real, aside) = (at(name), folder.path().join("aside"));
        fs::rename(&real, &aside).unwrap();
        symlink(&theirs, &real).unwrap();
        let error = tight.obtain(&builds[0], &|_| ()).unwrap_err();
        assert!(matches!(error, ObtainError::File(error) if error.path() == real));
        assert!(kept(), "{name}");
        fs::remove_file(&real).unwrap();
        fs::rename(&aside, &real).unwrap();
    }
    tight.obtain(&builds[0], &|_| ()).unwrap();
    assert!(kept(), "the last fetch");
}
