//! Fetching a Debian release: resolve, download, verify, unpack, publish.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::apt::{Apt, Planned, Trust};
use crate::unpack::{self, Architectures};
use crate::{
    Error, Extra, Manifest, Package, RELEASES, Release, Spec, Stack, Store, locate, mirror,
};

/// Where Debian's package debian-archive-keyring puts the keys, old and new.
const KEYRINGS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// How to fetch.
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    /// The mirror's address, as in apt's sources; otherwise the one that this machine's apt uses.
    pub mirror: Option<String>,
    /// Libraries to add. Those that a stack already has stay.
    pub with: Vec<Extra>,
    /// GPU architectures whose kernel files to unpack from the libraries, such as `gfx1151`; none means all,
    /// which takes up to 4 GB.
    pub architectures: Vec<String>,
}

/// What a fetch is doing. Sizes are in bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another process is fetching the same stack; this one goes on when that has ended.
    Waiting,
    /// The mirror's index is being read.
    Index {
        /// The mirror.
        mirror: &'a str,
    },
    /// The mirror does not answer, but everything was downloaded before.
    Offline {
        /// What is wrong with the mirror.
        error: &'a Error,
    },
    /// Packages are being downloaded.
    Download {
        /// Bytes there, of this fetch's.
        done: u64,
        /// Bytes missing at the start.
        total: u64,
    },
    /// Packages are being verified and unpacked.
    Unpack {
        /// Bytes of packages read.
        done: u64,
        /// Bytes of all packages.
        total: u64,
    },
}

/// Gets the events of a fetch, possibly from several threads at once.
pub type Progress<'a> = dyn Fn(Event<'_>) + Sync + 'a;

/// Makes sure that a stack is there, downloading it where that is possible and needed.
///
/// A stack that already has what is asked for costs neither network nor time. A fetch that is killed leaves
/// nothing that counts as a stack, and the next one goes on with the packages that it had downloaded.
///
/// # Errors
/// Those of [`locate`], and everything that can go wrong with a mirror, a package or a disk.
pub fn fetch(
    spec: &Spec,
    options: &FetchOptions,
    store: &Store,
    progress: &Progress<'_>,
) -> Result<Stack, Error> {
    let Spec::Debian(release) = spec else {
        return locate(spec, store);
    };
    let source = || {
        let mirror = match &options.mirror {
            Some(mirror) => mirror.clone(),
            None => mirror::host_mirror(Path::new("/etc"))?,
        };
        let keyring = KEYRINGS.iter().map(PathBuf::from).find(|path| path.is_file());
        let keyring = keyring.ok_or_else(|| Error::NoKeyring { looked: KEYRINGS.join(", ") })?;
        Ok((mirror, Trust::Keyring(keyring)))
    };
    fetch_release(release, options, store, progress, source)
}

/// What a stack is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    with: BTreeSet<Extra>,
    /// None means all.
    architectures: BTreeSet<String>,
}

impl Wanted {
    fn new(release: &Release, options: &FetchOptions) -> Result<Self, Error> {
        for extra in &options.with {
            if release.extra(*extra).is_none() {
                return Err(no_extra(release, *extra));
            }
        }
        for name in &options.architectures {
            let digits = name.strip_prefix("gfx").unwrap_or_default();
            if digits.len() < 3 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                return Err(Error::Architecture { name: name.clone() });
            }
        }
        Ok(Self {
            with: options.with.iter().copied().collect(),
            architectures: options.architectures.iter().cloned().collect(),
        })
    }

    /// Together with what a stack holds already; `None` where that is enough.
    fn beyond(&self, manifest: &Manifest) -> Option<Self> {
        if self.with.is_empty() {
            return None;
        }
        let had = Self {
            with: manifest.with.iter().copied().collect(),
            architectures: manifest.architectures.iter().cloned().collect(),
        };
        if had.with.is_empty() {
            return Some(self.clone());
        }
        let all = had.architectures.is_empty() || self.architectures.is_empty();
        let both = Self {
            with: had.with.union(&self.with).copied().collect(),
            architectures: if all {
                BTreeSet::new()
            } else {
                had.architectures.union(&self.architectures).cloned().collect()
            },
        };
        (both != had).then_some(both)
    }
}

fn no_extra(release: &Release, extra: Extra) -> Error {
    let have: Vec<_> =
        RELEASES.iter().filter(|r| r.extra(extra).is_some()).map(Release::to_string).collect();
    Error::NoExtra {
        spec: release.to_string(),
        extra: extra.to_string(),
        have: format!("use one of {}", have.join(", ")),
    }
}

fn fetch_release(
    release: &'static Release,
    options: &FetchOptions,
    store: &Store,
    progress: &Progress<'_>,
    source: impl FnOnce() -> Result<(String, Trust), Error>,
) -> Result<Stack, Error> {
    let spec = Spec::Debian(release);
    let asked = Wanted::new(release, options)?;
    let missing = || match store.root(release).and_then(|root| Manifest::read(&root)) {
        Some(manifest) => asked.beyond(&manifest),
        None => Some(asked.clone()),
    };
    if missing().is_none() {
        return locate(&spec, store);
    }
    let (mirror, trust) = source()?;
    let lock = store.lock(release, || progress(Event::Waiting))?;
    // The process that held the lock may have fetched it.
    let Some(wanted) = missing() else {
        return locate(&spec, store);
    };
    store.clean(release, &lock)?;

    let mut suites: Vec<String> = release.suites.iter().map(|s| (*s).to_owned()).collect();
    let mut packages: Vec<String> = release.packages.iter().map(|p| (*p).to_owned()).collect();
    for extra in wanted.with.iter().filter_map(|extra| release.extra(*extra)) {
        packages.extend(extra.packages.iter().map(|p| (*p).to_owned()));
        if wanted.with.contains(&Extra::Dev) {
            packages.extend(extra.headers.iter().map(|p| (*p).to_owned()));
        }
        if wanted.with.contains(&Extra::Tests) {
            packages.extend(extra.tests.iter().map(|p| (*p).to_owned()));
        }
        for suite in extra.suites {
            if !suites.iter().any(|known| known == suite) {
                suites.push((*suite).to_owned());
            }
        }
    }
    let apt = Apt::new(store.apt(release), &release.to_string(), &mirror, &suites, &trust, &lock)?;
    let plan = download(release, &apt, &mirror, &packages, progress)?;

    let root = store.new_root(release, &lock)?;
    let architectures: Vec<String> = wanted.architectures.iter().cloned().collect();
    let built =
        unpack_all(&plan, &apt.archives(), &root, &architectures, progress).and_then(|done| {
            let manifest = Manifest {
                spec: release.to_string(),
                rocm: release.version(),
                fetched: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
                mirror,
                suites,
                with: wanted.with.iter().copied().collect(),
                architectures: if wanted.with.is_empty() {
                    Vec::new()
                } else {
                    architectures.clone()
                },
                packages: done,
            };
            manifest.write(&root)?;
            store.publish(release, &root, &lock)
        });
    if let Err(error) = built {
        // Best effort: on a full disk the space is what is needed most, and the next fetch cleans anyway.
        let _ = fs::remove_dir_all(&root);
        return Err(error);
    }
    locate(&spec, store)
}

/// Resolves the packages and downloads those that are not there yet.
fn download(
    release: &Release,
    apt: &Apt,
    mirror: &str,
    packages: &[String],
    progress: &Progress<'_>,
) -> Result<Vec<Planned>, Error> {
    progress(Event::Index { mirror });
    let updated = apt.update();
    let plan = apt.plan(&release.to_string(), release.runtime(), packages);
    let archives = apt.archives();
    let (plan, absent) = match (updated, plan) {
        (Ok(()), plan) => {
            let plan = plan?;
            let absent = absent(&plan, &archives)?;
            (plan, absent)
        }
        // Without the mirror an index of earlier still serves, if all its packages are there.
        (Err(error), Ok(plan)) => {
            let absent = absent(&plan, &archives)?;
            if absent > 0 || plan.is_empty() {
                return Err(error);
            }
            progress(Event::Offline { error: &error });
            (plan, absent)
        }
        (Err(error), Err(_)) => return Err(error),
    };
    if absent > 0 {
        progress(Event::Download { done: 0, total: absent });
        apt.download(packages, |share| {
            let done = (share * absent as f64) as u64;
            progress(Event::Download { done, total: absent });
        })?;
        progress(Event::Download { done: absent, total: absent });
    }
    Ok(plan)
}

/// Bytes of packages that have to be downloaded. A damaged package is removed here, because apt takes any
/// file of the right size for the package.
fn absent(plan: &[Planned], archives: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for package in plan {
        let path = archives.join(&package.file);
        if !path.exists() {
            bytes += package.size;
        } else if verify(package, &path).is_err() {
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
            bytes += package.size;
        }
    }
    Ok(bytes)
}

/// Compares a package with the signed index.
fn verify(package: &Planned, path: &Path) -> Result<(), Error> {
    let damaged = |detail| Error::Damaged { path: path.to_owned(), detail };
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    if size != package.size {
        return Err(damaged(format!("{size} bytes instead of {}", package.size)));
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hash.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path)(error)),
        }
    }
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == package.sha256 {
        Ok(())
    } else {
        Err(damaged(format!("sha256 {found} instead of {}", package.sha256)))
    }
}

/// Verifies and unpacks the packages of a plan, side by side.
fn unpack_all(
    plan: &[Planned],
    archives: &Path,
    root: &Path,
    architectures: &[String],
    progress: &Progress<'_>,
) -> Result<Vec<Package>, Error> {
    unpack::prepare(root)?;
    let total = plan.iter().map(|package| package.size).sum();
    let architectures = Architectures::new(architectures);
    // The largest first: it decides when the last one is done.
    let mut order: Vec<_> = plan.iter().collect();
    order.sort_by_key(|package| std::cmp::Reverse(package.size));
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    let results = Mutex::new(Vec::new());
    let one = |package: &Planned| {
        let path = archives.join(&package.file);
        if let Err(error) = verify(package, &path) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        unpack::unpack(&path, root, &architectures, &|read| {
            let done = done.fetch_add(read, Ordering::Relaxed) + read;
            progress(Event::Unpack { done: done.min(total), total });
        })
    };
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let Some(package) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let result = one(package);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().unwrap_or_else(|e| e.into_inner()).push((*package, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let mut packages = Vec::new();
    let mut links = Vec::new();
    for (package, result) in results {
        let unpacked = result?;
        links.push((archives.join(&package.file), unpacked.links));
        packages.push(Package {
            name: package.name.clone(),
            version: package.version.clone(),
            sha256: package.sha256.clone(),
            size: package.size,
            architectures: unpacked.architectures.into_iter().collect(),
        });
    }
    unpack::link(root, root, &unpack::merged_links())?;
    for (deb, links) in links {
        unpack::link(&deb, root, &links)?;
    }
    progress(Event::Unpack { done: total, total });
    Ok(packages)
}

#[cfg(test)]
mod tests;
