//! Fetches from a repository that the tests make. Where there is no apt, only its absence can be tested.

use std::fs;
use std::sync::Mutex;

use super::*;
use crate::archive::{Item, deb, repository};

const LIBRARIES: &str = "./usr/lib/x86_64-linux-gnu";

struct World {
    directory: tempfile::TempDir,
    store: Store,
    release: &'static Release,
    events: Mutex<Vec<String>>,
}

impl World {
    /// A mirror of Debian 13 with a runtime of this version; `None` where apt is missing.
    fn new(version: &str) -> Option<Self> {
        std::process::Command::new("apt-get").arg("--version").output().ok()?;
        let directory = tempfile::tempdir().unwrap();
        let world = Self {
            store: Store::at(directory.path().join("cache")),
            release: RELEASES.iter().find(|r| r.version == "5.7.1")?,
            events: Mutex::new(Vec::new()),
            directory,
        };
        let file = |name: &str| format!("{LIBRARIES}/{name}");
        let kernel = |name: &str| file(&format!("rocblas/2.47.0/library/{name}"));
        repository(
            &world.mirror(),
            "trixie",
            &[
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
            ],
        );
        Some(world)
    }

    fn mirror(&self) -> PathBuf {
        self.directory.path().join("mirror")
    }

    /// Fetches and tells what happened in between, in words.
    fn fetch(&self, with: &[Extra], architectures: &[&str]) -> (Result<Stack, Error>, Vec<String>) {
        let options = FetchOptions {
            mirror: None,
            with: with.to_vec(),
            architectures: architectures.iter().map(|a| (*a).to_owned()).collect(),
        };
        let progress = |event: Event<'_>| {
            let text = format!("{event:?}");
            let word = text.split(' ').next().unwrap_or_default().to_owned();
            let mut events = self.events.lock().unwrap();
            if events.last() != Some(&word) {
                events.push(word);
            }
        };
        let source = || Ok((format!("file:{}", self.mirror().display()), Trust::Nobody));
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

#[test]
fn a_fetched_stack_is_complete_and_costs_nothing_the_second_time() {
    let Some(world) = World::new("5.7.1-6") else { return };
    let (stack, events) = world.fetch(&[], &[]);
    let stack = stack.unwrap();
    assert_eq!(events, ["Index", "Download", "Unpack"]);
    assert_eq!(stack.rocm.as_ref().unwrap().to_string(), "5.7.1");
    assert!(stack.library("libamdhip64.so").is_some());
    let manifest = stack.manifest.unwrap();
    assert_eq!(manifest.spec, "debian:5.7.1");
    let package = manifest.package("libamdhip64-5").unwrap();
    assert_eq!((package.version.as_str(), package.sha256.len()), ("5.7.1-6", 64));

    let (again, events) = world.fetch(&[], &[]);
    assert_eq!((again.unwrap().root, events.len()), (stack.root, 0));
    assert_eq!(crate::list(&world.store).debian.iter().filter(|f| f.stack.is_some()).count(), 1);
}

#[test]
fn libraries_add_up() {
    let Some(world) = World::new("5.7.1-6") else { return };
    world.fetch(&[Extra::Rocblas], &["gfx90a"]).0.unwrap();
    let stack = world.fetch(&[Extra::Hiprand], &["gfx1030"]).0.unwrap();
    let manifest = stack.manifest.as_ref().unwrap();
    assert_eq!(manifest.with, [Extra::Hiprand, Extra::Rocblas]);
    assert_eq!(manifest.architectures, ["gfx1030", "gfx90a"]);
    assert_eq!(manifest.package("librocblas0").unwrap().architectures, ["gfx1030", "gfx90a"]);
    let kernels = fs::read_dir(stack.libraries[0].join("rocblas/2.47.0/library")).unwrap();
    assert_eq!(kernels.count(), 2);
    let (_, events) = world.fetch(&[Extra::Rocblas], &["gfx1030"]);
    assert!(events.is_empty(), "it was all there: {events:?}");
    let error = world.fetch(&[Extra::Hipblaslt], &[]).0.unwrap_err().to_string();
    assert!(error.contains("debian:7.2.4"), "{error}");
    let error = world.fetch(&[Extra::Rocblas], &["1030"]).0.unwrap_err();
    assert!(matches!(error, Error::Architecture { .. }), "{error}");
}

#[test]
fn damaged_packages_are_downloaded_again() {
    let Some(world) = World::new("5.7.1-6") else { return };
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
        assert_eq!(events, ["Index", "Download", "Unpack"]);
        assert_eq!(fs::read(&package).unwrap(), whole);
    }
}

#[test]
fn packages_of_an_earlier_fetch_serve_without_the_mirror() {
    let Some(world) = World::new("5.7.1-6") else { return };
    world.fetch(&[], &[]).0.unwrap();
    fs::rename(world.mirror(), world.directory.path().join("gone")).unwrap();
    world.forget_stack();
    let (stack, events) = world.fetch(&[], &[]);
    stack.unwrap();
    assert_eq!(events, ["Index", "Offline", "Unpack"]);

    world.forget_stack();
    fs::remove_file(world.archive("libamdhip64-5")).unwrap();
    let error = world.fetch(&[], &[]).0.unwrap_err();
    assert!(matches!(error, Error::Mirror { .. }), "{error}");
    assert!(!world.store.path().join("stacks/debian-5.7.1").exists());
}

#[test]
fn a_release_that_has_gone_says_what_there_is() {
    let Some(world) = World::new("6.1.0-1") else { return };
    let error = world.fetch(&[], &[]).0.unwrap_err();
    assert!(matches!(error, Error::Gone { .. }), "{error}");
    let error = error.to_string();
    for part in ["libamdhip64-5 5.7.1*", "trixie", "offers ROCm 6.1.0", "--mirror"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn two_fetches_at_once_share_the_work() {
    let Some(world) = World::new("5.7.1-6") else { return };
    let roots: Vec<_> = std::thread::scope(|scope| {
        let fetches = [(); 3].map(|()| scope.spawn(|| world.fetch(&[], &[]).0.unwrap().root));
        fetches.into_iter().map(|fetch| fetch.join().unwrap()).collect()
    });
    assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
}

#[test]
fn what_is_no_release_is_only_located() {
    let store = Store::at("/nonexistent".into());
    let spec = Spec::Directory("/nonexistent/rocm".into());
    let error = fetch(&spec, &FetchOptions::default(), &store, &|_| ()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}
