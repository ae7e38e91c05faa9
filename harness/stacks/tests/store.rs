//! Tests of the store of builds with failing hosts and invalid archives.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stacks::{
    Build, BuildEvent, BuildLocation, BuildQuery, Component, Hint as _, History, ObtainError,
    ObtainedBuild, Sources, list_builds,
};
use standin::{Entry, Fake, Listing, Server, Site, Trouble, pack, runtime, tar};

use common::{A, build, store};

fn told(result: Result<ObtainedBuild, ObtainError>) -> String {
    result.map_or_else(|e| format!("{e}"), |o| format!("{} from {} archives", o.id, o.sha256.len()))
}

/// Obtains the fake build whose archives are `archives`, and compares the result with `expected`. Afterwards, the store
/// must not contain unfinished files.
fn check(prepare: &dyn Fn(&mut Site, &str), archives: &[(&str, Option<&str>)], expected: &str) {
    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball());
    prepare(&mut site, A);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let got = told(store.obtain(&build(&server, "one", archives), &|_| ()));
    assert!(got.contains(expected), "{got:?}, not {expected:?}; {:?}", server.requests());
    let prefixes = folder.path().join("cache/builds/prefixes");
    let names: Vec<_> = fs::read_dir(prefixes)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".lock"))
        .collect();
    let complete: &[&str] = if got.contains("archives") { &["one-gfx1151"] } else { &[] };
    assert_eq!(names, complete, "{expected}");
}

#[test]
fn survives_troubles_of_hosts() {
    let plain = |_: &mut Site, _: &str| ();
    let one = &[(A, None)][..];
    let fine = "one from 1 archives";
    check(&plain, one, fine);
    let with = |troubles: &[Trouble], expected: &str| {
        let prepare = |site: &mut Site, path: &str| {
            site.trouble(path, troubles);
        };
        check(&prepare, one, expected);
    };
    with(&[Trouble::Busy(Some(0)), Trouble::Busy(None)], fine);
    with(&[Trouble::Cut(100), Trouble::Cut(50), Trouble::Busy(Some(0)), Trouble::Cut(1)], fine);
    with(&vec![Trouble::Busy(None); 9], "503 Service Unavailable after 5 attempts");
    with(&[Trouble::Cut(0), Trouble::Cut(0)], fine);
    with(
        &[Trouble::ChangesAfter(100, Fake::new("2.0.0").tarball())],
        "it changed on the host while it was downloaded",
    );
    let moved = |site: &mut Site, path: &str| {
        site.file("/elsewhere.tar.gz", Fake::new("1.0.0").tarball());
        site.trouble(path, &[Trouble::MovedTo("/elsewhere.tar.gz".into())]);
    };
    check(&moved, one, fine);
    let no_ranges = |site: &mut Site, path: &str| {
        site.without_ranges(path).trouble(path, &[Trouble::Cut(100)]);
    };
    check(&no_ranges, one, fine);
    let ghost = |site: &mut Site, path: &str| {
        site.ghost(path);
    };
    check(&ghost, one, "/a/one.tar.gz: not found");
    // No server listens on port 9 (discard).
    let folder = tempfile::tempdir().unwrap();
    let mut nowhere = build(&Site::default().serve(), "x", one);
    if let BuildLocation::Archives { archives, .. } = &mut nowhere.places[0] {
        archives[0].url = "http://127.0.0.1:9/x.tar.gz".into();
    }
    let error = store(folder.path()).obtain(&nowhere, &|_| ()).unwrap_err();
    assert!(error.is_environment(), "{error}");
}

#[test]
fn stops_an_endless_archive_at_its_listed_size() {
    let mut site = Site::default();
    // A wheel is unpacked after its download is complete.
    const WHEEL: &str = "/a/one-1.0-py3-none-any.whl";
    site.ill(WHEEL, Trouble::Endless);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let mut one = build(&server, "one", &[(WHEEL, None)]);
    if let BuildLocation::Archives { archives, .. } = &mut one.places[0] {
        archives[0].size = Some(1000);
    }
    let error = store(folder.path()).obtain(&one, &|_| ()).unwrap_err();
    let told = "the response has more than 1000 bytes; that is the size in the listing";
    assert!(error.to_string().contains(told), "{error}");
    assert!(server.sent() < 64 << 20, "{}", server.sent());
}

#[test]
fn resumes_a_cut_download() {
    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball()).trouble(A, &[Trouble::Cut(100)]);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let events = Mutex::new(Vec::new());
    let progress = |event: BuildEvent<'_>| events.lock().unwrap().push(format!("{event:?}"));
    let one = build(&server, "one", &[(A, None)]);
    store(folder.path()).obtain(&one, &progress).unwrap();
    assert_eq!(server.requests(), ["GET /a/one.tar.gz", "GET /a/one.tar.gz bytes=100-"]);
    let events = events.into_inner().unwrap().join("\n");
    assert!(events.contains("Retry") && events.contains("Download"), "{events}");
}

#[test]
fn archives_are_not_trusted() {
    let packed = |entries: Vec<Entry>| {
        move |site: &mut Site, path: &str| {
            site.file(path, pack(&entries, "tar.gz"));
        }
    };
    let evil =
        |entries: Vec<Entry>, expected: &str| check(&packed(entries), &[(A, None)], expected);
    let link = |path: &str, target: &str| Entry::Link(path.into(), target.into());
    evil(vec![Entry::file("../evil", "x")], "../evil leads out of the prefix");
    evil(vec![Entry::file("lib/../../evil", "x")], "leads out of the prefix");
    evil(vec![Entry::file("/evil", "x")], "/evil leads out of the prefix");
    evil(vec![link("lib/evil", "/etc")], "links to a path outside");
    evil(vec![link("lib/evil", "../../etc")], "links to a path outside");
    evil(
        vec![link("a", "lib"), link("a/b", "x"), Entry::file("lib/x", "x")],
        "below a symbolic link",
    );
    // Each link is harmless on its own, but `evil` leads through the other link and out of the prefix.
    evil(
        vec![Entry::file("top/x", "x"), link("p/q/r", "../../top"), link("evil", "p/q/r/../..")],
        "links to a path outside",
    );
    // The target of the last link is missing, and would be outside the prefix.
    evil(
        vec![link("p/q/r/s", "../../.."), link("p/q/r/leak", "s/../../../later")],
        "p/q/r/leak links to a path outside",
    );
    // The third link would be created in a folder outside the prefix.
    evil(
        vec![
            link("p/q/r/s", "../../.."),
            link("p/q/r/leak", "s/../.."),
            link("p/q/r/leak/new/link", "x"),
        ],
        "below a symbolic link",
    );
    let deep = vec![Entry::file(&format!("_rocm_sdk_core/{}f", "d/".repeat(900)), "x")];
    check(
        &move |site: &mut Site, _: &str| {
            site.file("/a/one.whl", pack(&deep, "whl"));
        },
        &[("/a/one.whl", None)],
        "is in too many folders",
    );
    evil(vec![Entry::Hard("evil".into(), "../../x".into())], "leads out of the prefix");
    evil(vec![Entry::Hard("evil".into(), "not-there".into())], "a hard link has no target");
    evil(vec![Entry::Pipe("pipe".into())], "pipe is neither a file nor a link");
    evil(vec![Entry::Device("null".into())], "null is neither a file nor a link");
    evil(vec![], "it is empty");
    let fake = Fake::new("1.0.0");
    let check_bytes = |bytes: Vec<u8>, expected: &str| {
        let prepare = |site: &mut Site, path: &str| {
            site.file(path, bytes.clone());
        };
        check(&prepare, &[(A, None)], expected);
    };
    let whole = fake.tarball();
    check_bytes(whole[..whole.len() / 2].to_vec(), "is damaged");
    check_bytes(whole[..whole.len() - 4].to_vec(), "is damaged");
    check_bytes(b"<html>not found</html>".to_vec(), "is damaged");
    let mut flipped = whole.clone();
    let last = flipped.len() - 6;
    flipped[last] ^= 1;
    check_bytes(flipped, "is damaged");
    check_bytes(tar(&fake.entries()), "is damaged");
}

#[test]
fn reports_runtimes_that_cannot_load() {
    let with_runtime = |content: Vec<u8>| {
        let entry = Entry::file("lib/libamdhip64.so", content);
        move |site: &mut Site, path: &str| {
            site.file(path, pack(std::slice::from_ref(&entry), "tar.gz"));
        }
    };
    let check_runtime = |content: Vec<u8>, expected: &str| {
        check(&with_runtime(content), &[(A, None)], expected);
    };
    check_runtime(runtime("good"), "one from 1 archives");
    check_runtime(b"text".to_vec(), "it cannot be loaded: libamdhip64.so: not a library");
    check_runtime(runtime("a longer text")[..125].to_vec(), "the file is truncated");
    let mut program = runtime("x");
    program[16] = 2;
    check_runtime(program, "not a shared library for x86-64");
    let without = |site: &mut Site, path: &str| {
        site.file(path, pack(&[Entry::file("share/x", "x")], "tar.gz"));
    };
    check(&without, &[(A, None)], "it cannot be loaded: no ROCm in");
}

#[test]
fn checksums_are_checked_and_remembered() {
    let right = standin::sha256(&Fake::new("1.0.0").tarball());
    let plain = |_: &mut Site, _: &str| ();
    check(&plain, &[(A, Some(&right))], "one from 1 archives");
    check(&plain, &[(A, Some(&right.to_uppercase()))], "one from 1 archives");
    check(&plain, &[(A, Some(&"0".repeat(64)))], "was published");

    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball());
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let one = build(&server, "one", &[(A, None)]);
    let first = store.obtain(&one, &|_| ()).unwrap();
    assert_eq!(first.sha256, [("one.tar.gz".to_owned(), right)]);
    drop(first);
    server.change(|site| {
        site.file(A, Fake::new("2.0.0").tarball());
    });
    assert!(store.obtain(&one, &|_| ()).is_ok(), "what is there stays");
    fs::remove_dir_all(folder.path().join("cache/builds/prefixes/one-gfx1151")).unwrap();
    let error = store.obtain(&one, &|_| ()).unwrap_err();
    let ObtainError::Republished { record, .. } = &error else { panic!("{error}") };
    assert!(!error.is_environment());
    assert_eq!(
        error.hint(),
        Some(format!("delete {} to accept the new content", record.display()))
    );
    fs::remove_file(record).unwrap();
    assert!(store.obtain(&one, &|_| ()).is_ok(), "a person can accept it");
}

#[test]
fn every_archive_format_makes_the_same_prefix() {
    let entries = Fake::new("1.0.0").entries();
    // An archive of a CI run begins with a list of folders. Their names are removed from the beginnings of the other
    // paths.
    let part = |entries: &[Entry]| {
        let strip = |entry: &Entry| match entry.clone() {
            Entry::File(path, content, x) => {
                Entry::File(format!("core/hip/stage/{path}"), content, x)
            }
            Entry::Link(path, target) => Entry::Link(format!("core/hip/stage/{path}"), target),
            other => other,
        };
        let mut all =
            vec![Entry::file("artifact_manifest.txt", "core/hip/stage\ncore/other/stage\n")];
        all.extend(entries.iter().filter(|e| !matches!(e, Entry::Hard(..))).map(strip));
        all
    };
    let sdk = |entry: &Entry| match entry.clone() {
        Entry::File(path, content, x) => {
            Some(Entry::File(format!("_rocm_sdk_core/{path}"), content, x))
        }
        // Wheels contain no links, so each library is stored under its soname.
        _ => None,
    };
    let mut wheel: Vec<_> = entries.iter().filter_map(sdk).collect();
    wheel.push(Entry::file("_rocm_sdk_core/lib/libamdhip64.so.7", runtime("1.0.0")));
    let table = [
        ("tar.gz", pack(&entries, "tar.gz"), ""),
        ("tar.xz", pack(&entries, "tar.xz"), ""),
        ("tar.zst", pack(&entries, "tar.zst"), ""),
        ("tar.zst", pack(&part(&entries), "tar.zst"), ""),
        ("tar.xz", pack(&part(&entries), "tar.xz"), ""),
        ("whl", pack(&wheel, "whl"), "_rocm_sdk_core/"),
    ];
    for (ending, bytes, at) in table {
        let path = format!("/x.{ending}");
        let mut site = Site::default();
        site.file(&path, bytes).trouble(&path, &[Trouble::Cut(90)]);
        let server = site.serve();
        let folder = tempfile::tempdir().unwrap();
        let obtained =
            store(folder.path()).obtain(&build(&server, "x", &[(&path, None)]), &|_| ()).unwrap();
        let prefix = obtained.prefix.join(at);
        assert!(prefix.join("lib/libamdhip64.so.7").is_file(), "{ending}");
        let probe = fs::metadata(prefix.join("bin/probe")).unwrap();
        assert_eq!(probe.mode() & 0o777, 0o555, "{ending}: read-only and executable");
        assert_eq!(obtained.stack.rocm.unwrap().to_string(), "1.0.0", "{ending}");
    }
}

/// A wheel of a release may contain the symbolic links of its libraries. A zip file marks them in the mode of a member.
#[test]
fn wheels_keep_links_and_modes() {
    let wheel = [
        Entry::file("_rocm_sdk_core/lib/libamdhip64.so.7", runtime("1.0.0")),
        Entry::Link("_rocm_sdk_core/lib/libamdhip64.so".into(), "libamdhip64.so.7".into()),
        Entry::file("_rocm_sdk_core/.info/version", "1.0.0\n"),
        Entry::File("_rocm_sdk_core/bin/probe".into(), b"#!/bin/sh\n".into(), true),
    ];
    let mut site = Site::default();
    site.file("/x.whl", pack(&wheel, "whl"));
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let one = build(&server, "x", &[("/x.whl", None)]);
    let core = store(folder.path()).obtain(&one, &|_| ()).unwrap().prefix.join("_rocm_sdk_core");
    let link = fs::read_link(core.join("lib/libamdhip64.so")).unwrap();
    assert_eq!(link.to_str(), Some("libamdhip64.so.7"));
    let mode = |file: &str| fs::metadata(core.join(file)).unwrap().mode() & 0o777;
    assert_eq!(mode(".info/version"), 0o444);
    assert_eq!(mode("bin/probe"), 0o555);
}

#[test]
fn several_archives_and_their_published_sums() {
    let fake = Fake::new("1.0.0");
    let (lib, rest): (Vec<_>, Vec<_>) = fake.entries().into_iter().partition(
        |entry| matches!(entry, Entry::File(p, ..) | Entry::Link(p, _) if p.starts_with("lib/")),
    );
    let (lib, rest) = (pack(&lib, "tar.zst"), pack(&rest, "tar.zst"));
    let mut site = Site::default();
    site.file(
        "/r/lib.tar.zst.sha256sum",
        format!("{}  lib.tar.zst\n", standin::sha256(&lib)).into(),
    );
    site.file("/r/bad.tar.zst.sha256sum", format!("{}  bad.tar.zst\n", "0".repeat(64)).into());
    site.file("/r/lib.tar.zst", lib)
        .file("/r/rest.tar.zst", rest.clone())
        .file("/r/bad.tar.zst", rest);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let with_sums = |id: &str, second: &str| {
        let mut build = build(&server, id, &[("/r/lib.tar.zst", None), (second, None)]);
        if let BuildLocation::Archives { archives, .. } = &mut build.places[0] {
            archives.iter_mut().for_each(|a| a.sha256_url = Some(format!("{}.sha256sum", a.url)));
        }
        build
    };
    let got = store.obtain(&with_sums("two", "/r/rest.tar.zst"), &|_| ()).unwrap();
    assert_eq!(got.sha256.len(), 2);
    assert_eq!(got.components.unwrap().therock, fake.therock);
    let got = told(store.obtain(&with_sums("bad", "/r/bad.tar.zst"), &|_| ()));
    assert!(got.contains("was published"), "{got}");
}

#[test]
fn the_next_place_serves_what_the_first_lacks() {
    let mut site = Site::default();
    let name = "therock-dist-linux-gfx1151-7.15.0a20260702.tar.gz";
    site.file(&format!("/old/{name}"), Fake::new("7.15.0a20260702").tarball());
    site.ghost(&format!("/new/{name}"));
    site.listing("/old/", Listing::Index).listing("/new/", Listing::Index);
    let server = site.serve();
    let names = [server.url("/old/"), server.url("/new/")].map(|url| format!("index-html={url}"));
    let sources = Sources::load(None).unwrap().select(&names).unwrap();
    let wanted =
        BuildQuery { gfx: "gfx1151".into(), from: None, to: None, beside_main: Vec::new() };
    let History { builds, .. } = list_builds(&sources, &wanted, &AtomicBool::new(false)).unwrap();
    assert_eq!(builds[0].places.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    assert!(store(folder.path()).obtain(&builds[0], &|_| ()).is_ok());
}

/// Starts a server with builds named `0`, `1`, and so on. Each build has one file of its own, and shares all other
/// files with the other builds.
fn row(count: usize) -> (Server, Vec<Build>) {
    let mut site = Site::default();
    let path = |n: usize| format!("/row/{n}.tar.gz");
    for n in 0..count {
        site.file(&path(n), Fake::new(&format!("1.0.{n}")).tarball());
    }
    let server = site.serve();
    let one = |n: usize| build(&server, &n.to_string(), &[(path(n).as_str(), None)]);
    let builds = (0..count).map(one).collect();
    (server, builds)
}

#[test]
fn builds_share_files() {
    let (server, builds) = row(2);
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let prefixes: Vec<_> =
        builds.iter().map(|b| store.obtain(b, &|_| ()).unwrap().prefix).collect();
    let inode = |n: usize, path: &str| fs::metadata(prefixes[n].join(path)).unwrap().ino();
    for (path, shared) in [("lib/libhsa-runtime64.so.1", true), (".info/version", false)] {
        assert_eq!(inode(0, path) == inode(1, path), shared, "{path}");
    }
    let before = server.requests().len();
    let again = store.obtain(&builds[0], &|_| ()).unwrap();
    assert_eq!((again.downloaded, server.requests().len()), (0, before));
    assert!(store.has(&builds[0]));
}

#[test]
fn the_budget_spares_what_is_pinned_and_in_use() {
    let (_server, builds) = row(5);
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).with_budget(1);
    let evicted = Mutex::new(Vec::new());
    let progress = |event: BuildEvent<'_>| {
        if let BuildEvent::Evicted { id } = event {
            evicted.lock().unwrap().push(id.to_owned());
        }
    };
    let in_use = store.obtain(&builds[0], &progress).unwrap();
    drop(store.obtain(&builds[1], &progress).unwrap());
    store.pin(&[&builds[1]]).unwrap();
    drop(store.obtain(&builds[2], &progress).unwrap());
    drop(store.obtain(&builds[3], &progress).unwrap());
    let there = |n: usize| store.has(&builds[n]);
    assert!(there(0) && there(1), "in use and pinned");
    assert!(!there(2), "the longest unused goes");
    assert!(in_use.prefix.join("lib/libamdhip64.so").is_file());
    drop(in_use);
    store.pin(&[]).unwrap();
    drop(store.obtain(&builds[4], &progress).unwrap());
    let left: Vec<_> = (0..5).filter(|n| there(*n)).collect();
    assert_eq!(left, [4], "evicted {:?}", evicted.lock().unwrap());
    // Files that no prefix uses are removed.
    let files = folder.path().join("cache/builds/files");
    for folder in fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path()) {
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            assert!(file.metadata().unwrap().nlink() > 1, "{file:?}");
        }
    }
}

#[test]
fn waits_for_a_prefetch_or_cancels_it() {
    let (server, builds) = row(2);
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let ahead = store.prefetch(&builds[0]);
    assert_eq!(ahead.id(), "0");
    store.obtain(&builds[0], &|_| ()).unwrap();
    let fetches = server.requests().iter().filter(|r| r.contains("/row/0")).count();
    assert_eq!(fetches, 1, "obtained twice but fetched once");

    // A background download that waits for a busy host can be cancelled.
    server.change(|site| {
        site.trouble("/row/1.tar.gz", &[Trouble::Busy(Some(100))]);
    });
    let ahead = store.prefetch(&builds[1]);
    while !server.requests().iter().any(|r| r.contains("/row/1")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!ahead.is_finished());
    drop(ahead);
    store.obtain(&builds[1], &|_| ()).unwrap();
}

#[test]
fn one_component_is_exchanged() {
    let mut site = Site::default();
    site.file("/x/0.tar.gz", Fake::new("1.0.0").tarball());
    let mut bad = Fake::new("2.0.0").entries();
    bad.push(Entry::file("lib/rocblas/library/k.co", "kernel"));
    site.file("/x/1.tar.gz", pack(&bad, "tar.gz"));
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let obtain = |n: &str| {
        let path = format!("/x/{n}.tar.gz");
        store.obtain(&build(&server, n, &[(path.as_str(), None)]), &|_| ()).unwrap()
    };
    let (good, bad) = (obtain("0"), obtain("1"));
    let crossed = store.cross(&good, &bad, Component::Hip).unwrap();
    assert_eq!(crossed.id, "cross-0-1-hip");
    let same = |path: &str, other: &ObtainedBuild| {
        fs::read(crossed.prefix.join(path)).unwrap() == fs::read(other.prefix.join(path)).unwrap()
    };
    assert!(same("lib/libamdhip64.so.7", &bad) && !same("lib/libamdhip64.so.7", &good));
    assert!(same(".info/version", &good));
    assert!(store.cross(&good, &bad, Component::Libraries).is_err(), "the good one has none");
}

/// The first location of the build does not have it, and the second one serves it. A second caller finds the build in
/// the store while the first caller is still using it.
#[test]
fn does_not_wait_for_a_build_from_its_second_location() {
    let mut site = Site::default();
    site.ghost("/first/one.tar.xz").file(A, Fake::new("1.0.0").tarball());
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut one = build(&server, "one", &[("/first/one.tar.xz", None)]);
    one.places.extend(build(&server, "one", &[(A, None)]).places);
    let held = store.obtain(&one, &|_| ()).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn({
        let (store, one) = (store.clone(), one.clone());
        move || done.send(store.obtain(&one, &|_| ()).map(|again| again.downloaded))
    });
    let again = ended.recv_timeout(Duration::from_secs(20)).expect("it waits for its own lock");
    assert_eq!(again.unwrap(), 0);
    drop(held);
}

/// A checksum file whose transfer stops in the middle is requested again.
#[test]
fn repeats_a_stalled_request_for_a_checksum() {
    let tarball = Fake::new("1.0.0").tarball();
    let sum = format!("{}  one.tar.gz\n", standin::sha256(&tarball));
    let mut site = Site::default();
    site.file(A, tarball).file("/a/sum", sum.into()).trouble("/a/sum", &[Trouble::Stall(10)]);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let mut one = build(&server, "one", &[(A, None)]);
    if let BuildLocation::Archives { archives, .. } = &mut one.places[0] {
        archives[0].sha256_url = Some(server.url("/a/sum"));
    }
    let store = store(folder.path()).with_stall(Duration::from_millis(200));
    assert_eq!(told(store.obtain(&one, &|_| ())), "one from 1 archives");
    assert_eq!(server.requests().iter().filter(|r| r.contains("/a/sum")).count(), 2);
}

/// A connection on which no new bytes arrive is closed, and the download continues with a range request.
#[test]
fn closes_a_stalled_connection() {
    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball()).trouble(A, &[Trouble::Stall(300)]);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).with_stall(Duration::from_millis(200));
    let reasons = std::sync::Mutex::new(Vec::new());
    let got = store.obtain(&build(&server, "one", &[(A, None)]), &|event| {
        if let stacks::BuildEvent::Retry { reason, .. } = event {
            reasons.lock().unwrap().push(reason.to_owned());
        }
    });
    assert_eq!(told(got), "one from 1 archives");
    assert_eq!(*reasons.lock().unwrap(), ["no data received for 0 s"]);
    assert_eq!(server.requests()[1..], [format!("GET {A} bytes=300-")]);
}

/// Cancelling takes effect before the time limit for connections without new bytes.
#[test]
fn cancels_a_silent_download_at_once() {
    let mut site = Site::default();
    site.file(A, Fake::new("1.0.0").tarball()).trouble(A, &[Trouble::Silent]);
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let one = build(&server, "one", &[(A, None)]);
    let cancel = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| store(folder.path()).obtain_unless(&one, &cancel, &|_| ()));
        while server.requests().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let asked = Instant::now();
        cancel.store(true, Ordering::Relaxed);
        assert!(matches!(waits.join().unwrap(), Err(ObtainError::Cancelled)));
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    });
}

/// A GNU long name is read into memory as a whole, so a name that is too long must be rejected.
#[test]
fn rejects_archives_with_endless_headers() {
    let tar = |length: usize| {
        let mut tar = Vec::new();
        let mut header = tar::Header::new_gnu();
        header.set_path("././@LongLink").unwrap();
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_size(length as u64);
        header.set_cksum();
        tar.extend_from_slice(header.as_bytes());
        tar.resize(512 + length.next_multiple_of(512), b'a');
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &tar).unwrap();
        packed.finish().unwrap()
    };
    let mut site = Site::default();
    site.file(A, tar(5 << 20));
    let server = site.serve();
    let folder = tempfile::tempdir().unwrap();
    let build = build(&server, "one", &[(A, None)]);
    let error = store(folder.path()).obtain(&build, &|_| ()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("one of its headers has more than"), "{error}");
}
