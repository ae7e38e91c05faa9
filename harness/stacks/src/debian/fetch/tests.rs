//! Tests of fetches from repositories that the tests create, in folders and on a loopback server. Tests of replaced
//! packages need apt. Without apt, they report that they were skipped.

use std::fs;
use std::sync::Mutex;

use standin::{Server, Site, Trouble};

use super::*;
use crate::LocateError;
use crate::hint::in_full;
use crate::unpack::testing::{Item, deb, repository};

const PACKAGE: &str = "/debian/libamdhip64-5_5.7.1-6_amd64.deb";
const LIBRARIES: &str = "./usr/lib/x86_64-linux-gnu";

struct World {
    directory: tempfile::TempDir,
    store: StackCache,
    release: &'static Release,
    events: Mutex<Vec<String>>,
    lock: ReleaseLock,
    mirrors: Vec<String>,
    /// Function that returns which signatures are required. Most tests require none, because the packages of the tests
    /// are not signed.
    trust: fn() -> Result<Trust, FetchError>,
    stop: Arc<AtomicBool>,
    /// Expected total of the event [`FetchEvent::Unpack`] in bytes; `None` if the test does not check it.
    unpacks: Option<u64>,
}

impl World {
    /// Creates a mirror of Debian 13 that contains this version of the runtime, and a lock file with its packages.
    fn new(version: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| format!("{LIBRARIES}/{name}");
        let kernel = |name: &str| file(&format!("rocblas/2.47.0/library/{name}"));
        let packages = [
            (
                "libamdhip64-5",
                version,
                deb(&[
                    Item::File(&file("libamdhip64.so.5.7.1"), "hip"),
                    Item::Link(&file("libamdhip64.so.5"), "libamdhip64.so.5.7.1"),
                ]),
            ),
            ("libhiprand1", "5.7.1-6", deb(&[Item::File(&file("libhiprand.so.1"), "rand")])),
            ("librocrand1", "5.7.1-6", deb(&[Item::File(&file("librocrand.so.1"), "rand")])),
            (
                "librocblas0",
                "5.5.1-7",
                deb(&[
                    Item::File(&kernel("Kernels_gfx90a.hsaco"), "k"),
                    Item::File(&kernel("Kernels_gfx1030.hsaco"), "k"),
                ]),
            ),
        ];
        repository(&directory.path().join("mirror"), "trixie", &packages);
        let release = RELEASES.iter().find(|r| r.version == "5.7.1").unwrap();
        let plans = ExtraGroup::all(release).into_iter().map(|group| {
            let of = |name: &str| match name {
                "libamdhip64-5" => true,
                "librocblas0" => group.extras().contains(&Extra::Rocblas),
                _ => group.extras().contains(&Extra::Hiprand),
            };
            let plan =
                packages.iter().filter(|(name, ..)| of(name)).map(|(name, version, deb)| Planned {
                    name: (*name).to_owned(),
                    version: (*version).to_owned(),
                    path: format!("{name}_{version}_amd64.deb"),
                    size: deb.len() as u64,
                    sha256: standin::sha256(deb),
                });
            (group.clone(), plan.collect())
        });
        let lock = ReleaseLock::join(release, "20261121T000000Z".into(), plans).unwrap();
        let mirror = format!("file:{}", directory.path().join("mirror").display());
        Self {
            store: StackCache::at(directory.path().join("cache")),
            release,
            events: Mutex::new(Vec::new()),
            lock,
            mirrors: vec![mirror],
            trust: || Ok(Trust::Unsigned),
            stop: Arc::default(),
            unpacks: None,
            directory,
        }
    }

    fn mirror(&self) -> PathBuf {
        self.directory.path().join("mirror")
    }

    fn site(&self) -> Site {
        let mut site = Site::default();
        for entry in fs::read_dir(self.mirror()).unwrap().flatten() {
            let path = format!("/debian/{}", entry.file_name().display());
            if entry.path().is_file() {
                site.file(&path, fs::read(entry.path()).unwrap());
            }
        }
        site
    }

    /// Starts a fetch, and cancels it shortly after `so_far` has become true.
    #[track_caller]
    fn assert_cancels(&self, so_far: impl Fn() -> bool) {
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| self.fetch(&[], &[]).0);
            while !so_far() {
                assert!(!waits.is_finished(), "the fetch ended too early");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
            let asked = std::time::Instant::now();
            self.stop.store(true, Ordering::Relaxed);
            let error = waits.join().unwrap().unwrap_err();
            assert!(matches!(error, FetchError::Cancelled) && error.is_environment(), "{error}");
            // The server stays silent for longer than ten seconds, so the fetch ended because of the cancellation.
            assert!(asked.elapsed() < std::time::Duration::from_secs(10), "{:?}", asked.elapsed());
        });
    }

    fn fetch(
        &self,
        with: &[Extra],
        architectures: &[&str],
    ) -> (Result<Stack, FetchError>, Vec<String>) {
        let options = FetchOptions {
            mirrors: Vec::new(),
            with: with.to_vec(),
            architectures: architectures.iter().map(|a| (*a).to_owned()).collect(),
            stop: Arc::clone(&self.stop),
        };
        let progress = |event: FetchEvent<'_>| {
            if let (FetchEvent::Unpack { total, .. }, Some(expected)) = (&event, self.unpacks) {
                assert_eq!(*total, expected);
            }
            let text = format!("{event:?}");
            let word = text.split(' ').next().unwrap_or_default().to_owned();
            let mut events = self.events.lock().unwrap();
            if events.last() != Some(&word) {
                events.push(word);
            }
        };
        let source =
            || Source { lock: self.lock.clone(), mirrors: self.mirrors.clone(), trust: self.trust };
        let result = fetch_release(self.release, &options, &self.store, &progress, source);
        (result, std::mem::take(&mut self.events.lock().unwrap()))
    }

    fn archive(&self, name: &str) -> PathBuf {
        let entries = fs::read_dir(self.store.apt(self.release).join("archives")).unwrap();
        let found = entries.filter_map(|e| Some(e.ok()?.path())).find(|path| {
            path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
        });
        found.unwrap_or_else(|| panic!("no {name} was kept"))
    }

    fn forget_stack(&self) {
        fs::remove_dir_all(self.store.path().join("stacks")).unwrap();
    }
}

fn runtime(server: &Server) -> Vec<String> {
    server.requests().into_iter().filter(|request| request.contains(PACKAGE)).collect()
}

#[test]
fn adds_nothing_unrequested_to_a_fetched_stack() {
    let world = World::new("5.7.1-6");
    let lock = world.store.lock(world.release, &world.stop, &|_| ()).unwrap();
    let root = world.store.new_root(world.release, &lock).unwrap();
    let library = root.join("usr/lib/x86_64-linux-gnu");
    fs::create_dir_all(&library).unwrap();
    fs::write(library.join("libamdhip64.so.5"), "hip").unwrap();
    let manifest = Manifest {
        spec: world.release.to_string(),
        rocm: world.release.version(),
        fetched: 1,
        mirror: String::new(),
        suites: Vec::new(),
        with: Vec::new(),
        architectures: Vec::new(),
        packages: Vec::new(),
    };
    manifest.write(&root).unwrap();
    world.store.publish(world.release, &root, &lock).unwrap();
    drop(lock);
    let (stack, events) = world.fetch(&[], &[]);
    assert_eq!((stack.unwrap().manifest.unwrap().with, events.len()), (Vec::new(), 0));
    let stack = world.fetch(&[Extra::Hiprand], &[]).0.unwrap();
    assert_eq!(stack.manifest.unwrap().with, [Extra::Hiprand]);
}

#[test]
fn fetches_a_complete_stack_only_once() {
    let world = World::new("5.7.1-6");
    let (stack, events) = world.fetch(&[], &[]);
    let stack = stack.unwrap();
    assert_eq!(events, ["Download", "Unpack"]);
    assert!(stack.library("libhiprand.so").is_some(), "hipRAND is a default extra");
    assert_eq!(stack.rocm.as_ref().unwrap().to_string(), "5.7.1");
    assert!(stack.library("libamdhip64.so").is_some());
    let manifest = stack.manifest.unwrap();
    assert_eq!(manifest.spec, "debian:5.7.1");
    let package = manifest.package("libamdhip64-5").unwrap();
    assert_eq!((package.version.as_str(), package.sha256.len()), ("5.7.1-6", 64));

    let (again, events) = world.fetch(&[], &[]);
    assert_eq!((again.unwrap().root, events.len()), (stack.root, 0));
    assert_eq!(
        crate::list_stacks(&world.store).debian.iter().filter(|f| f.stack.is_some()).count(),
        1
    );
}

#[test]
fn libraries_add_up() {
    let world = World::new("5.7.1-6");
    world.fetch(&[Extra::Rocblas], &["gfx90a"]).0.unwrap();
    let stack = world.fetch(&[Extra::Hiprand], &["gfx1030"]).0.unwrap();
    let manifest = stack.manifest.as_ref().unwrap();
    assert_eq!(manifest.with, [Extra::Hiprand, Extra::Rocblas]);
    assert_eq!(manifest.architectures, ["gfx90a"]);
    assert_eq!(manifest.package("librocblas0").unwrap().architectures, ["gfx1030", "gfx90a"]);
    let kernels = fs::read_dir(stack.libraries[0].join("rocblas/2.47.0/library")).unwrap();
    assert_eq!(kernels.count(), 1);
    let (stack, _) = world.fetch(&[Extra::Rocblas], &["gfx1030"]);
    assert_eq!(stack.unwrap().manifest.unwrap().architectures, ["gfx1030", "gfx90a"]);
    let (_, events) = world.fetch(&[Extra::Rocblas], &["gfx1030"]);
    assert!(events.is_empty(), "everything was there before: {events:?}");
    let (_, events) = world.fetch(&[Extra::Hiprand], &["gfx906"]);
    assert!(events.is_empty(), "kernels of hipRAND are in its library: {events:?}");
    let error = in_full(&world.fetch(&[Extra::Hipblaslt], &[]).0.unwrap_err());
    assert!(error.contains("debian:7.2.4"), "{error}");
    let error = world.fetch(&[Extra::Rocblas], &["1030"]).0.unwrap_err();
    assert!(matches!(error, FetchError::Architecture { .. }), "{error}");
}

/// The new root shares the files of the previous stack. Of a package with kernel files, only the files for the new
/// architecture are unpacked.
#[test]
fn adding_an_architecture_unpacks_only_what_is_missing() {
    let mut world = World::new("5.7.1-6");
    let before = world.fetch(&[Extra::Rocblas], &["gfx90a"]).0.unwrap();
    // After this, neither the mirror nor the download folder contains the other packages.
    fs::rename(world.mirror(), world.directory.path().join("gone")).unwrap();
    let (runtime, blas) = (world.archive("libamdhip64-5"), world.archive("librocblas0"));
    for name in ["libamdhip64-5", "libhiprand1", "librocrand1"] {
        fs::remove_file(world.archive(name)).unwrap();
    }
    let size = fs::metadata(&blas).unwrap().len();
    world.unpacks = Some(size);
    let (after, events) = world.fetch(&[Extra::Rocblas], &["gfx1030"]);
    let after = after.unwrap();
    assert_eq!(events, ["Unpack"]);
    assert!(!runtime.exists() && after.root != before.root);
    let inode = |stack: &Stack, name: &str| {
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(stack.libraries[0].join(name)).unwrap())
    };
    for name in ["libamdhip64.so.5", "rocblas/2.47.0/library/Kernels_gfx90a.hsaco"] {
        assert_eq!(inode(&before, name), inode(&after, name), "{name}");
    }
    assert!(after.root.join("lib/x86_64-linux-gnu/libamdhip64.so.5.7.1").is_file());
    let kernels = fs::read_dir(after.libraries[0].join("rocblas/2.47.0/library")).unwrap();
    assert_eq!(kernels.count(), 2);
    let [before, after] = [before, after].map(|stack| stack.manifest.unwrap());
    assert_eq!(before.packages, after.packages);
    assert_eq!(after.architectures, ["gfx1030", "gfx90a"]);
}

#[test]
fn damaged_packages_are_downloaded_again() {
    let world = World::new("5.7.1-6");
    world.fetch(&[], &[]).0.unwrap();
    let package = world.archive("libamdhip64-5");
    let whole = fs::read(&package).unwrap();
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &flipped] {
        world.forget_stack();
        fs::write(&package, damaged).unwrap();
        let (stack, events) = world.fetch(&[], &[]);
        stack.unwrap();
        assert_eq!(events, ["Download", "Unpack"]);
        assert_eq!(fs::read(&package).unwrap(), whole);
    }
}

#[test]
fn packages_of_an_earlier_fetch_serve_without_the_mirror() {
    let world = World::new("5.7.1-6");
    world.fetch(&[], &[]).0.unwrap();
    fs::rename(world.mirror(), world.directory.path().join("gone")).unwrap();
    world.forget_stack();
    let (stack, events) = world.fetch(&[], &[]);
    stack.unwrap();
    assert_eq!(events, ["Unpack"]);

    world.forget_stack();
    fs::remove_file(world.archive("libamdhip64-5")).unwrap();
    let error = world.fetch(&[], &[]).0.unwrap_err();
    assert!(matches!(error, FetchError::Mirror { .. }), "{error}");
    assert!(!world.store.path().join("stacks/debian-5.7.1").exists());
}

/// Fetches from a mirror on which all packages have been replaced by the version `to`.
fn moved(
    to: &str,
    trust: fn() -> Result<Trust, FetchError>,
) -> (Result<Stack, FetchError>, Vec<String>) {
    let mut world = World::new("5.7.1-6");
    let newer = World::new(to);
    world.mirrors = newer.mirrors.clone();
    world.trust = trust;
    world.fetch(&[], &[])
}

/// Calls [`moved`] with unsigned indexes. Returns `None` if apt is not installed.
fn moved_with_apt(to: &str) -> Option<(Result<Stack, FetchError>, Vec<String>)> {
    there_is_apt().then(|| moved(to, || Ok(Trust::Unsigned)))
}

fn there_is_apt() -> bool {
    let there = std::process::Command::new("apt-get").arg("--version").output().is_ok();
    if !there {
        println!("not tried: this machine has no apt-get");
    }
    there
}

#[test]
fn another_revision_of_a_release_takes_the_place_of_one_that_is_gone() {
    let Some((stack, events)) = moved_with_apt("5.7.1-7") else { return };
    let manifest = stack.unwrap().manifest.unwrap();
    assert_eq!(manifest.package("libamdhip64-5").unwrap().version, "5.7.1-7");
    assert_eq!(events, ["Download", "Moved", "Download", "Unpack"]);
}

/// apt does not list a package that is already downloaded, but the stack needs that package too.
#[test]
fn keeps_downloaded_packages_in_a_stack_of_another_revision() {
    if !there_is_apt() {
        return;
    }
    let mut world = World::new("5.7.1-6");
    world.fetch(&[], &[]).0.unwrap();
    world.forget_stack();
    fs::remove_file(world.archive("libamdhip64-5")).unwrap();
    let newer = World::new("5.7.1-7");
    world.mirrors = newer.mirrors.clone();
    let stack = world.fetch(&[], &[]).0.unwrap();
    assert!(stack.library("libhiprand.so").is_some() && stack.library("librocrand.so").is_some());
    let manifest = stack.manifest.unwrap();
    assert_eq!(manifest.package("libamdhip64-5").unwrap().version, "5.7.1-7");
    assert_eq!(manifest.packages.len(), 3);
}

#[test]
fn lists_the_offered_versions_if_a_release_is_gone() {
    let Some((stack, _)) = moved_with_apt("6.1.0-1") else { return };
    let error = stack.unwrap_err();
    assert!(matches!(error, FetchError::Gone { .. }), "{error}");
    let error = in_full(&error);
    for part in ["libamdhip64-5 5.7.1*", "trixie now: 6.1.0; use a mirror", "--mirror"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Without apt and Debian's keys, no unsigned package is installed. The error lists the versions that the mirror
/// offers.
#[test]
fn without_apt_a_package_that_is_gone_is_told_with_what_there_is() {
    let none = || Err(FetchError::NoKeyring { looked: String::new() });
    for (to, there) in [
        ("5.7.1-7", "trixie now: 5.7.1 (another revision of 5.7.1 is used if apt-get"),
        ("6.1.0-1", "trixie now: 6.1.0; use a mirror"),
    ] {
        let (stack, events) = moved(to, none);
        let error = in_full(&stack.unwrap_err());
        assert!(
            error.starts_with("libamdhip64-5 5.7.1-6 of debian:5.7.1 is not on file:"),
            "{error}"
        );
        assert!(error.contains(there), "{error}");
        assert_eq!(events, ["Download", "Moved"]);
    }
}

/// The index is compressed and on a server, as on real mirrors. The server still has another release.
#[test]
fn the_nearest_release_that_is_there_is_offered() {
    let mut world = World::new("5.7.1-6");
    let index = b"Package: libamdhip64-7\nVersion: 7.3.0-1\n";
    let mut xz =
        lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0)).unwrap();
    std::io::Write::write_all(&mut xz, index).unwrap();
    let mut site = Site::default();
    site.file("/debian/dists/trixie/main/binary-amd64/Packages.xz", xz.finish().unwrap());
    let all = |site: &mut Site, release: &str| {
        let release = RELEASES.iter().find(|r| r.version == release).unwrap();
        for package in
            ReleaseLock::for_release(release).plan(&release.standard.iter().copied().collect())
        {
            site.file(&format!("/debian/{}", package.path), b"x".to_vec());
        }
    };
    all(&mut site, "7.2.4");
    world.trust = || Err(FetchError::NoKeyring { looked: String::new() });
    let server = site.serve();
    world.mirrors = vec![server.url("/debian")];
    let error = in_full(&world.fetch(&[], &[]).0.unwrap_err());
    let offer = "trixie now: 7.3.0; run `rocrepro stack fetch debian:7.2.4`, the nearest available release, or use a mirror";
    assert!(error.contains(offer), "{error}");
}

#[test]
fn the_first_mirror_that_has_a_package_gives_it() {
    let mut world = World::new("5.7.1-6");
    let mut portal = Site::default();
    portal.file(PACKAGE, b"<html>log in</html>".to_vec());
    let (empty, portal, whole) = (Site::default().serve(), portal.serve(), world.site().serve());
    let dead = "http://127.0.0.1:1/debian".to_owned();
    world.mirrors = vec![dead, empty.url("/debian"), portal.url("/debian"), whole.url("/debian/")];
    let stack = world.fetch(&[], &[]).0.unwrap();
    assert_eq!(stack.manifest.unwrap().mirror, whole.url("/debian/"));
    for server in [empty, portal, whole] {
        assert_eq!(runtime(&server), [format!("GET {PACKAGE}")]);
    }
}

#[test]
fn resumes_a_cut_download_and_one_of_a_killed_process() {
    let mut world = World::new("5.7.1-6");
    let mut site = world.site();
    site.trouble(PACKAGE, &[Trouble::Cut(70)]);
    let server = site.serve();
    world.mirrors = vec![server.url("/debian")];
    let whole = fs::read(world.mirror().join("libamdhip64-5_5.7.1-6_amd64.deb")).unwrap();
    let archives = world.store.apt(world.release).join("archives");
    fs::create_dir_all(&archives).unwrap();
    let part = archives.join("libamdhip64-5_5.7.1-6_amd64.deb.part");
    fs::write(&part, &whole[..30]).unwrap();
    world.fetch(&[], &[]).0.unwrap();
    let expected = [format!("GET {PACKAGE} bytes=30-"), format!("GET {PACKAGE} bytes=100-")];
    assert_eq!(runtime(&server), expected);

    // The partial file of an earlier process may have any content and any length.
    for left in [vec![0; 30], vec![0; whole.len()], vec![0; whole.len() + 1]] {
        world.forget_stack();
        fs::remove_dir_all(&archives).unwrap();
        fs::create_dir_all(&archives).unwrap();
        fs::write(&part, &left).unwrap();
        world.fetch(&[], &[]).0.unwrap();
        assert_eq!(fs::read(world.archive("libamdhip64-5")).unwrap(), whole, "{}", left.len());
    }
}

#[test]
fn stops_an_endless_package_at_its_locked_size() {
    let mut world = World::new("5.7.1-6");
    let (mut endless, whole) = (world.site(), world.site().serve());
    endless.ill("/debian", Trouble::Endless);
    let endless = endless.serve();
    world.mirrors = vec![endless.url("/debian")];
    let error = world.fetch(&[], &[]).0.unwrap_err().to_string();
    assert!(error.contains("that is the size of the package that is wanted"), "{error}");
    let archives = world.store.apt(world.release).join("archives");
    let left = fs::read_dir(&archives).unwrap().flatten();
    let left: u64 = left.map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(left < 10_000, "{left} bytes are left");
    assert!(endless.sent() < 64 << 20, "{}", endless.sent());
    world.mirrors.push(whole.url("/debian"));
    world.fetch(&[], &[]).0.unwrap();
}

#[test]
fn copies_no_more_of_a_local_mirror_than_the_locked_size() {
    let world = World::new("5.7.1-6");
    let file = world.mirror().join("libamdhip64-5_5.7.1-6_amd64.deb");
    let file = fs::File::options().write(true).open(&file).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(32 << 20).unwrap();
    let error = world.fetch(&[], &[]).0.unwrap_err().to_string();
    assert!(error.contains(&format!("{} bytes instead of {size}", size + 1)), "{error}");
}

#[test]
fn refuses_a_fetch_larger_than_the_free_space_before_the_first_request() {
    let mut world = World::new("5.7.1-6");
    let server = world.site().serve();
    world.mirrors = vec![server.url("/debian")];
    for package in &mut world.lock.packages {
        package.size = 1 << 60;
    }
    let error = world.fetch(&[], &[]).0.unwrap_err();
    assert!(matches!(error, FetchError::DiskFull { .. }), "{error}");
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn mirrors_that_do_not_answer_are_told_with_their_reasons() {
    let mut world = World::new("5.7.1-6");
    world.mirrors = vec!["file:/nonexistent/debian".into()];
    let error = world.fetch(&[], &[]).0.unwrap_err();
    let FetchError::Mirror { mirror, detail } = &error else { panic!("{error}") };
    assert_eq!(mirror, "file:/nonexistent/debian");
    assert!(detail.contains("No such file"), "{detail}");
}

#[test]
fn two_fetches_at_once_share_the_work() {
    let world = World::new("5.7.1-6");
    let roots: Vec<_> = std::thread::scope(|scope| {
        let fetches = [(); 3].map(|()| scope.spawn(|| world.fetch(&[], &[]).0.unwrap().root));
        fetches.into_iter().map(|fetch| fetch.join().unwrap()).collect()
    });
    assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
}

#[test]
fn only_locates_a_directory() {
    let store = StackCache::at("/nonexistent".into());
    let spec = Spec::Directory("/nonexistent/rocm".into());
    let error = fetch(&spec, &FetchOptions::default(), &store, &|_| ()).unwrap_err();
    assert!(matches!(error, FetchError::Locate(LocateError::File(_))), "{error}");
}

#[test]
fn cancels_a_fetch_at_once() {
    let mut world = World::new("5.7.1-6");
    let mut site = world.site();
    site.trouble(PACKAGE, &[Trouble::Stall(40)]);
    let server = site.serve();
    world.mirrors = vec![server.url("/debian")];
    world.assert_cancels(|| server.requests().iter().any(|request| request.contains(PACKAGE)));
    world.stop.store(false, Ordering::Relaxed);
    assert!(world.fetch(&[], &[]).0.is_ok());
    let ranges = server.requests();
    assert!(ranges.iter().any(|r| r.contains(PACKAGE) && r.contains("bytes=40-")), "{ranges:?}");
}

/// If a package is gone, apt reads an index. apt waits two minutes for an index whose host does not respond.
#[test]
fn cancels_a_search_for_a_successor_at_once() {
    if std::process::Command::new("apt-get").arg("--version").output().is_err() {
        println!("not tried: this machine has no apt-get");
        return;
    }
    let mut world = World::new("5.7.1-6");
    let mut site = Site::default();
    site.ill("/debian/dists", Trouble::Silent);
    let server = site.serve();
    world.mirrors = vec![server.url("/debian")];
    world.assert_cancels(|| server.requests().iter().any(|request| request.contains("dists")));
}

#[test]
fn cancels_a_wait_for_another_fetch_at_once() {
    let world = World::new("5.7.1-6");
    let held = world.store.lock(world.release, &world.stop, &|_| ()).unwrap();
    world.stop.store(true, Ordering::Relaxed);
    let (got, events) = world.fetch(&[], &[]);
    assert!(matches!(got, Err(FetchError::Cancelled)), "{events:?}");
    drop(held);
}
