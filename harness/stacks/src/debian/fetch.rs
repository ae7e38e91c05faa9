//! Fetches a Debian release: downloads the packages that its lock file lists, verifies them, unpacks them into a new
//! root folder, and publishes this folder as the stack.

mod previous;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use self::previous::{Goal, Previous, Step};
use super::{mirror, successor};
use crate::debian::apt::{Apt, Trust};
use crate::debian::lock::{ExtraGroup, ReleaseLock};
use crate::debian::packages::Mirrors;
use crate::debian::planned::{Absent, Planned, verify};
use crate::keep::folder::remove_folder;
use crate::unpack::deb;
use crate::watch::CleanupLimit;
use crate::{
    Extra, FetchError, FetchEvent, FetchProgress, LockReleaseError, Manifest, Package, RELEASES,
    Release, Spec, Stack, StackCache, locate,
};

/// Files into which Debian's package debian-archive-keyring installs Debian's signing keys. The paths differ between
/// versions of the package.
const KEYRINGS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// Options for fetching a Debian release.
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    /// Addresses of mirrors, as in apt's sources, the preferred one first. If empty, the mirror of this machine's apt
    /// and Debian's own mirrors are used.
    pub mirrors: Vec<String>,
    /// Extras to add to the stack. Extras that the fetched stack already contains are kept.
    pub with: Vec<Extra>,
    /// GPU architectures whose kernel files are unpacked, for example `gfx1151`. An empty list means all architectures,
    /// whose files need up to 4 GB.
    pub architectures: Vec<String>,
    /// Flag that the caller sets to cancel the fetch.
    pub stop: Arc<AtomicBool>,
}

/// Returns a stack. If the stack is a Debian release that is not complete on this machine, downloads it first.
///
/// If the stack is complete, the network is not used. A killed fetch leaves no incomplete stack, and the next fetch
/// reuses the packages that were already downloaded.
///
/// # Errors
/// [`FetchError`].
pub fn fetch(
    spec: &Spec,
    options: &FetchOptions,
    store: &StackCache,
    progress: &FetchProgress<'_>,
) -> Result<Stack, FetchError> {
    let Spec::Debian(release) = spec else {
        return Ok(locate(spec, store)?);
    };
    if let Some(other) = options.mirrors.iter().find(|mirror| !mirror::is_address(mirror)) {
        return Err(FetchError::BadMirror { mirror: other.clone() });
    }
    let source = || {
        let lock = ReleaseLock::for_release(release);
        let mirrors = match options.mirrors.as_slice() {
            [] => mirror::usual(Path::new("/etc"), &lock.read),
            named => named.to_vec(),
        };
        Source { lock, mirrors, trust: keyring }
    };
    fetch_release(release, options, store, progress, source)
}

/// Reads the indexes of a release, and returns a lock file with the packages that the release consists of at present.
/// `mirror` is the address of the mirror to read; `None` means the mirror that this machine's apt uses. `now` is the
/// current time in the format of [`ReleaseLock::read`]. Needs apt, and downloads indexes but no packages.
///
/// # Errors
/// [`LockReleaseError`].
pub fn lock_release(
    release: &'static Release,
    store: &StackCache,
    mirror: Option<&str>,
    now: String,
) -> Result<ReleaseLock, LockReleaseError> {
    let nobody = AtomicBool::new(false);
    let held = store.lock(release, &nobody, &|_| ())?;
    let mirror = match mirror {
        Some(mirror) => mirror.to_owned(),
        None => mirror::host_mirror(Path::new("/etc"))?,
    };
    let spec = release.to_string();
    let no_lock = |absent| match absent {
        Absent::Gone { package } => {
            LockReleaseError::Conflict { detail: format!("{mirror} has no {package}") }
        }
        Absent::Error(error) => error.into(),
    };
    let mut groups = Vec::new();
    for group in ExtraGroup::all(release) {
        let (suites, packages) = wanted_packages(release, group.extras());
        let apt =
            Apt::new(store.apt(release), &spec, &mirror, &suites, &keyring()?, &held, &nobody)?;
        apt.update()?;
        groups.push((group, apt.plan(&packages).map_err(no_lock)?));
    }
    ReleaseLock::join(release, now, groups).map_err(|detail| LockReleaseError::Conflict { detail })
}

struct FetchSession<'a> {
    stop: &'a AtomicBool,
    progress: &'a FetchProgress<'a>,
}

/// Lock file of the release to fetch, and the mirrors from which to download its packages.
struct Source {
    lock: ReleaseLock,
    /// Addresses of the mirrors, the preferred one first.
    mirrors: Vec<String>,
    /// Function that finds Debian's signing keys. It is called only if an index must be read because the mirrors no
    /// longer have a version that the lock file lists.
    trust: fn() -> Result<Trust, FetchError>,
}

fn keyring() -> Result<Trust, FetchError> {
    let found = KEYRINGS.iter().map(PathBuf::from).find(|path| path.is_file());
    found.map(Trust::Keyring).ok_or_else(|| FetchError::NoKeyring { looked: KEYRINGS.join(", ") })
}

/// Returns the suites whose indexes are read for a stack with these extras, and the packages to request from apt.
fn wanted_packages(release: &Release, with: &BTreeSet<Extra>) -> (Vec<String>, Vec<String>) {
    let mut suites: Vec<&str> = release.suites.to_vec();
    let mut packages: Vec<&str> = release.packages.to_vec();
    for extra in with.iter().filter_map(|extra| release.extra(*extra)) {
        packages.extend(extra.packages);
        if with.contains(&Extra::Dev) {
            packages.extend(extra.headers);
        }
        if with.contains(&Extra::Tests) {
            packages.extend(extra.tests);
        }
        for suite in extra.suites {
            if !suites.contains(suite) {
                suites.push(suite);
            }
        }
    }
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    (owned(suites), owned(packages))
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestedContent {
    with: BTreeSet<Extra>,
    /// GPU architectures whose kernel files are wanted; empty means all architectures.
    architectures: BTreeSet<String>,
}

impl RequestedContent {
    fn new(release: &Release, options: &FetchOptions) -> Result<Self, FetchError> {
        for extra in &options.with {
            if release.extra(*extra).is_none() {
                return Err(no_extra(release, *extra));
            }
        }
        for name in &options.architectures {
            let digits = name.strip_prefix("gfx").unwrap_or_default();
            if digits.len() < 3 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                return Err(FetchError::Architecture { name: name.clone() });
            }
        }
        Ok(Self {
            with: options.with.iter().copied().collect(),
            architectures: options.architectures.iter().cloned().collect(),
        })
    }

    /// Adds the extras that every new stack contains. Must be called only if the stack is not on this machine yet: a
    /// later fetch does not add these extras again.
    fn for_new_stack(mut self, release: &Release) -> Self {
        self.with.extend(release.standard);
        self
    }

    fn has_kernel_files(&self) -> bool {
        self.with.iter().any(|extra| extra.has_kernel_files())
    }

    /// Returns this request extended by everything that a fetched stack contains; `None` if the stack already contains
    /// everything requested.
    fn extended_by(&self, manifest: &Manifest) -> Option<Self> {
        let had = Self {
            with: manifest.with.iter().copied().collect(),
            architectures: manifest.architectures.iter().cloned().collect(),
        };
        let both = Self {
            with: had.with.union(&self.with).copied().collect(),
            architectures: match (had.has_kernel_files(), self.has_kernel_files()) {
                (_, false) => had.architectures.clone(),
                (false, true) => self.architectures.clone(),
                (true, true) if had.architectures.is_empty() || self.architectures.is_empty() => {
                    BTreeSet::new()
                }
                (true, true) => had.architectures.union(&self.architectures).cloned().collect(),
            },
        };
        (both != had).then_some(both)
    }
}

fn no_extra(release: &Release, extra: Extra) -> FetchError {
    let have: Vec<_> =
        RELEASES.iter().filter(|r| r.extra(extra).is_some()).map(Release::to_string).collect();
    FetchError::NoExtra {
        spec: release.to_string(),
        extra: extra.to_string(),
        have: have.join(", "),
    }
}

fn fetch_release(
    release: &'static Release,
    options: &FetchOptions,
    store: &StackCache,
    progress: &FetchProgress<'_>,
    source: impl FnOnce() -> Source,
) -> Result<Stack, FetchError> {
    let spec = Spec::Debian(release);
    let named = RequestedContent::new(release, options)?;
    let missing = || match store.root(release).and_then(|root| Manifest::read(&root)) {
        Some(manifest) => named.extended_by(&manifest),
        None => Some(named.clone().for_new_stack(release)),
    };
    if missing().is_none() {
        return Ok(locate(&spec, store)?);
    }
    let source = source();
    let waiting = |holder: &str| progress(FetchEvent::Waiting { holder });
    let lock = store.lock(release, &options.stop, &waiting)?;
    // Another process may have fetched the stack while this process waited for the lock.
    let Some(wanted) = missing() else {
        return Ok(locate(&spec, store)?);
    };
    store.clean(release, &lock, &options.stop)?;
    let archives = store.apt(release).join("archives");
    let asked = FetchSession { stop: &options.stop, progress };
    let previous = Previous::open(store.root(release));
    let goal = Goal { wanted: &wanted, previous: previous.as_ref() };
    let (plan, mirror) =
        download_packages(release, &source, &goal, &archives, store, &lock, &asked)?;

    let root = store.new_root(release, &lock)?;
    let architectures: Vec<String> = wanted.architectures.iter().cloned().collect();
    let (steps, previous) = (goal.steps(&plan), goal.taken_over(&plan));
    let built = unpack_all(&steps, previous, &archives, &root, &asked).and_then(|done| {
        let manifest = Manifest {
            spec: release.to_string(),
            rocm: release.version(),
            fetched: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
            mirror,
            suites: wanted_packages(release, &wanted.with).0,
            with: wanted.with.iter().copied().collect(),
            architectures: if wanted.with.is_empty() { Vec::new() } else { architectures.clone() },
            packages: done,
        };
        manifest.write(&root)?;
        store.publish(release, &root, &lock)
    });
    if let Err(error) = built {
        // Removing the incomplete root frees space on a full disk. Errors are ignored, because the next fetch cleans up
        // anyway.
        let _ = remove_folder(&root, &CleanupLimit::new(&*options.stop));
        return Err(error);
    }
    Ok(locate(&spec, store)?)
}

/// Downloads those packages of the stack that have files to unpack and are not yet in the download folder. Returns all
/// packages of the stack, and the mirrors that were used.
fn download_packages(
    release: &'static Release,
    source: &Source,
    goal: &Goal<'_>,
    archives: &Path,
    store: &StackCache,
    lock: &File,
    asked: &FetchSession<'_>,
) -> Result<(Vec<Planned>, String), FetchError> {
    let mirrors = Mirrors::new(&source.mirrors);
    let with = &goal.wanted.with;
    let get = |plan: Vec<Planned>| {
        let steps = goal.steps(&plan).into_iter();
        let missing = steps.filter(|step| step.files.is_some()).map(|step| step.planned);
        let absent = absent(missing.collect(), archives, asked.stop)?;
        let from = if absent.is_empty() {
            Vec::new()
        } else {
            mirrors.download(&absent, archives, asked.stop, asked.progress)?
        };
        Ok((plan, from.join(" and ")))
    };
    let gone = match get(source.lock.plan(with)) {
        Err(Absent::Gone { package }) => package,
        Err(Absent::Error(error)) => return Err(error),
        Ok(done) => return Ok(done),
    };
    // Debian has replaced a package. The new version may be another revision of the same release.
    let mirror = source.mirrors.first().map(String::as_str).unwrap_or_default();
    (asked.progress)(FetchEvent::Moved { package: &gone });
    let (suites, packages) = wanted_packages(release, with);
    let spec = release.to_string();
    let apt = (source.trust)().and_then(|trust| {
        Apt::new(store.apt(release), &spec, mirror, &suites, &trust, lock, asked.stop)
    });
    let plan = match apt {
        Err(FetchError::NoApt { .. } | FetchError::NoKeyring { .. }) => {
            Err(Absent::Gone { package: gone })
        }
        Err(other) => return Err(other),
        Ok(apt) => apt.update().map_err(Absent::from).and_then(|()| apt.plan(&packages)),
    };
    let plan = plan.map_err(|absent| match absent {
        Absent::Gone { package } => {
            let gone = successor::gone(release, package, &suites, &mirrors, asked.stop);
            if asked.stop.load(Ordering::Relaxed) { FetchError::Cancelled } else { gone }
        }
        Absent::Error(error) => error,
    })?;
    get(plan).map_err(|absent| match absent {
        Absent::Gone { package } => FetchError::Mirror {
            mirror: mirror.to_owned(),
            detail: format!(
                "the mirror's index lists {package}, but the mirror does not have the file"
            ),
        },
        Absent::Error(error) => error,
    })
}

/// Returns the packages that still have to be downloaded. Removes downloaded files that are damaged.
fn absent<'a>(
    plan: Vec<&'a Planned>,
    archives: &Path,
    stop: &AtomicBool,
) -> Result<Vec<&'a Planned>, FetchError> {
    let mut absent = Vec::new();
    for package in plan {
        let path = archives.join(package.file());
        match path.exists().then(|| verify(package, &path, stop)) {
            Some(Ok(())) => continue,
            Some(Err(FetchError::Cancelled)) => return Err(FetchError::Cancelled),
            _ => {}
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FetchError::io("remove", &path)(error));
            }
            _ => absent.push(package),
        }
    }
    Ok(absent)
}

/// Shares the files of the previous root with the new root, then verifies and unpacks the packages with missing files,
/// several at the same time. Returns the packages of the new root.
fn unpack_all(
    steps: &[Step<'_>],
    previous: Option<&Previous>,
    archives: &Path,
    root: &Path,
    asked: &FetchSession<'_>,
) -> Result<Vec<Package>, FetchError> {
    deb::prepare(root)?;
    let shared = previous.map(|previous| previous.share(root)).transpose()?;
    let mut order: Vec<_> =
        steps.iter().filter_map(|step| Some((step.planned, step.files.as_ref()?))).collect();
    let total = order.iter().map(|(package, _)| package.size).sum();
    // The largest package is unpacked first, because it takes the longest.
    order.sort_by_key(|(package, _)| std::cmp::Reverse(package.size));
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    let results = Mutex::new(Vec::new());
    let one = |package: &Planned, files| {
        let path = archives.join(package.file());
        if let Err(error) = verify(package, &path, asked.stop) {
            if !matches!(error, FetchError::Cancelled) {
                let _ = fs::remove_file(&path);
            }
            return Err(error);
        }
        deb::unpack(&path, root, files, asked.stop, &|read| {
            let done = done.fetch_add(read, Ordering::Relaxed) + read;
            (asked.progress)(FetchEvent::Unpack { done: done.min(total), total });
        })
    };
    let work = || {
        while !failed.load(Ordering::Relaxed) && !asked.stop.load(Ordering::Relaxed) {
            let Some((package, files)) = order.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let result = one(package, files);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().unwrap_or_else(|e| e.into_inner()).push((*package, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
    download::run_on_threads(threads, work);
    if asked.stop.load(Ordering::Relaxed) {
        return Err(FetchError::Cancelled);
    }
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let mut packages: Vec<Package> = steps.iter().filter_map(|step| step.before.clone()).collect();
    let mut links = vec![(root.to_owned(), shared.unwrap_or_default())];
    for (package, result) in results {
        let unpacked = result?;
        links.push((archives.join(package.file()), unpacked.links));
        // For a package of the previous root, only more kernel files were unpacked, so its entry in the manifest is not
        // changed.
        if packages.iter().any(|before| before.name == package.name) {
            continue;
        }
        packages.push(Package {
            name: package.name.clone(),
            version: package.version.clone(),
            sha256: package.sha256.clone(),
            size: package.size,
            architectures: unpacked.architectures.into_iter().collect(),
            inside: unpacked.inside.into_iter().collect(),
        });
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    deb::link(root, &links, asked.stop)?;
    (asked.progress)(FetchEvent::Unpack { done: total, total });
    Ok(packages)
}

#[cfg(test)]
mod tests;
