//! Tests rocrepro without anything else: copied to an empty folder, and run by another user in a minimal root file
//! system.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use stacks::{LockedPackage, RELEASES, ReleaseLock, StackCache};
use standin::{Server, Site, Trouble};

use crate::common::{output_text, write_program};

const TRIAL: &str = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";

/// A copy of rocrepro's executable in a folder of its own.
struct Alone {
    folder: tempfile::TempDir,
}

impl Alone {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_rocrepro"));
        write_program(&folder.path().join("rocrepro"), program);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command that starts the copy with an empty environment, a cache of its own, and an empty PATH.
    fn command(&self) -> Command {
        let mut command = Command::new(self.path("rocrepro"));
        command
            .env_clear()
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("PATH", "/nonexistent")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Returns the path of the unpacked library of the emulated device, of which there must be exactly one.
    fn device(&self) -> PathBuf {
        let builds: Vec<_> = fs::read_dir(self.path("cache/rocrepro/device")).unwrap().collect();
        assert_eq!(builds.len(), 1);
        let folder = builds[0].as_ref().unwrap().path();
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            2,
            "the library, its digest, and no rest"
        );
        folder.join("libhsa-runtime64.so.1")
    }
}

#[track_caller]
fn passes(output: &Output) {
    let text = output_text(output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 trial of 1 case: 1 passed"), "{text}");
}

fn stack() -> PathBuf {
    crate::common::session(|_| ()).stack.root
}

#[test]
fn unpacks_the_device_library_once_and_repairs_a_damaged_copy() {
    let alone = Alone::new();
    let run = || alone.command().args(["run", TRIAL, "--rocm"]).arg(stack()).output().unwrap();
    passes(&run());
    let identity = |file: &Path| file.metadata().map(|data| (data.ino(), data.len())).unwrap();
    let first = identity(&alone.device());
    passes(&run());
    assert_eq!(identity(&alone.device()), first, "it was unpacked a second time");
    fs::write(alone.device(), b"cut").unwrap();
    passes(&run());
    assert_eq!(identity(&alone.device()).1, first.1);
}

/// Returns a package mirror from which an empty cache can fetch the stack of ROCm 7.2.4. The mirror serves the packages
/// in the cache of the tests.
fn mirror() -> Site {
    let _fetched = stack();
    let release = RELEASES.last().unwrap();
    let kept = StackCache::from_environment().unwrap().path().join("apt/debian-7.2.4/archives");
    let lock: ReleaseLock = serde_json::from_str(release.lock).unwrap();
    let mut site = Site::default();
    for package in lock.packages.iter().filter(|package| is_standard(package)) {
        let architecture = package.path.rsplit('_').next().unwrap();
        let version = package.version.replace(':', "%3a");
        let file = kept.join(format!("{}_{version}_{architecture}", package.name));
        let bytes = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        site.file(&format!("/debian/{}", package.path), bytes);
    }
    site
}

/// Returns true if the package belongs to a stack that is fetched without `--with`.
fn is_standard(package: &LockedPackage) -> bool {
    let of = serde_json::to_value(&package.of).unwrap();
    [serde_json::json!([]), serde_json::json!(["hiprand"])]
        .iter()
        .any(|group| of.as_array().unwrap().contains(group))
}

/// Returns the shared libraries that rocrepro's executable needs.
fn libraries() -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(env!("CARGO_BIN_EXE_rocrepro")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

/// Shell script that mounts /proc and /dev in the root file system, and runs rocrepro in it as an unprivileged user.
const ENTER: &str = r#"
root=$1 user=$2; shift 2
mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev" && exec chroot $user "$root" /rocrepro "$@""#;

/// The root file system contains rocrepro, its C library, /proc and /dev, but no apt, dpkg, shell or /etc.
#[test]
fn fetches_its_stack_over_http_in_a_bare_root() {
    let alone = Alone::new();
    let root = alone.folder.path();
    for library in libraries() {
        let at = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        write_program(&at, Path::new(&library));
    }
    for name in ["proc", "dev", "tmp", "cache"] {
        fs::create_dir(alone.path(name)).unwrap();
        fs::set_permissions(alone.path(name), fs::Permissions::from_mode(0o1777)).unwrap();
    }
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    // A user other than root becomes root in a user namespace that contains no other user.
    let superuser = fs::metadata("/proc/self").unwrap().uid() == 0;
    let (own, user): (&[&str], &str) = match superuser {
        true => (&[], "--userspec=65534:65534"),
        false => (&["--user", "--map-root-user"], ""),
    };
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(own).arg("--mount").args(words).stdin(Stdio::null());
        command
    };
    if !unshare(&["true"]).status().is_ok_and(|status| status.success()) {
        println!("not tried: this machine gives no mount namespace");
        return;
    }
    let enter = |server: &Server, words: &[&str]| {
        unshare(&["sh", "-c", ENTER, "sh"])
            .arg(root)
            .arg(user)
            .args(words)
            .env("XDG_CACHE_HOME", "/cache")
            .env("ROCREPRO_MIRROR", server.url("/debian"))
            .env_remove("TMPDIR")
            .env_remove("ROCREPRO_ROCM")
            .output()
            .unwrap()
    };
    let mut site = mirror();
    let lock: ReleaseLock = serde_json::from_str(RELEASES.last().unwrap().lock).unwrap();
    let runtime = lock.packages.iter().find(|package| package.name == "libamdhip64-7").unwrap();
    let runtime = format!("/debian/{}", runtime.path);
    site.trouble(&runtime, &[Trouble::Cut(1_000_000)]);
    let server = site.serve();
    let output = enter(&server, &["rocm", "fetch", "debian:7.2.4"]);
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(server.requests().contains(&format!("GET {runtime} bytes=1000000-")));
    let list = output_text(&enter(&server, &["rocm", "list"]));
    assert!(list.contains("/cache/rocrepro/stacks/.debian-7.2.4.1 +hiprand"), "{list}");
    passes(&enter(&server, &["run", TRIAL, "--device", "emulated"]));
}

/// The error lists the versions that the mirror offers. None of them is fetched, because their checksums are unknown.
#[test]
fn reports_the_releases_that_a_mirror_offers_instead() {
    let alone = Alone::new();
    let mut site = Site::default();
    let index = b"Package: libamdhip64-7\nVersion: 7.3.0-1\n".to_vec();
    site.file("/debian/dists/sid/main/binary-amd64/Packages", index);
    let server = site.serve();
    let fetch = |mirror: &str, status: i32| {
        let output = alone
            .command()
            .args(["rocm", "fetch", "debian:7.2.4", "--mirror", mirror])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", output_text(&output));
        output_text(&output)
    };
    let said = fetch(&server.url("/debian"), 3);
    let offered = "ROCm versions in sid and experimental now: 7.3.0\nhint: use a mirror";
    assert!(said.contains(offered), "{said}");
    assert!(!alone.path("cache/rocrepro/stacks/debian-7.2.4").exists());
    let said = fetch("mirror.example", 2);
    assert!(said.contains("\"mirror.example\" is not the address of a mirror"), "{said}");
}
