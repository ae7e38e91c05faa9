//! Checks that this machine can run trials and that trials can write files, and locks the machine's GPUs.

mod crowd;

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use judge::RocmEvidence;
use parking_lot::Mutex;
use rustix::fs::{Access, FlockOperation, StatVfs, StatVfsMountFlags, access, flock, statvfs};
use supervise::Cancel;

use crate::DeviceChoice;

/// Minimum of free space in bytes, and minimum number of free files. If less of either is left, a failure has no
/// verdict. HIP's compiler writes some hundred KiB for each GPU kernel.
const LEAST_BYTES: u64 = 4 << 20;
const LEAST_FILES: u64 = 64;

/// Time between two attempts to take a lock.
pub(crate) const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns a problem of this machine that may explain a failed trial: a folder that cannot be written to, or a lack of
/// threads. `None` if it finds none.
pub(crate) fn trouble(folders: &[PathBuf]) -> Option<MachineTrouble> {
    let of_folders = folders.iter().find_map(|folder| {
        let at = folder.display();
        if !folder.is_dir() {
            return Some(format!("the worker cannot write to `{at}`: the folder no longer exists"));
        }
        if let Err(error) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
            let error = std::io::Error::from(error);
            return Some(format!("the worker cannot write to `{at}`: {error}"));
        }
        let left = low_space(&statvfs(folder).ok()?)?;
        Some(format!("no space left in `{at}` ({left}); free some space or use another folder"))
    });
    let of_folders = of_folders.map(|why| MachineTrouble { signature: "no-verdict:disk", why });
    of_folders.or_else(|| {
        crowd::trouble().map(|why| MachineTrouble { signature: "no-verdict:threads", why })
    })
}

/// Returns true if the file system of a folder is mounted `noexec`.
pub(crate) fn is_noexec(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

#[derive(Debug, PartialEq)]
pub(crate) struct MachineTrouble {
    /// Signature of a trial that fails because of the problem.
    pub(crate) signature: &'static str,
    pub(crate) why: String,
}

/// Describes the free space or the number of free files if it is too low; otherwise returns `None`. File systems
/// without a limit on the number of files report 0 files in total.
fn low_space(system: &StatVfs) -> Option<String> {
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if free < LEAST_BYTES {
        return Some(format!("{} KiB free", free >> 10));
    }
    (system.f_files > 0 && system.f_favail < LEAST_FILES)
        .then(|| format!("{} free inodes", system.f_favail))
}

/// Stacks whose HIP runtime has started in this process. The flag is true for a start on a GPU, and false for a start
/// on the emulated device.
static STARTED: Mutex<BTreeSet<(bool, PathBuf)>> = Mutex::new(BTreeSet::new());

pub(crate) fn has_started(root: &Path, device: &DeviceChoice) {
    let key = (*device == DeviceChoice::Gpu, root.to_owned());
    STARTED.lock().insert(key);
}

/// Returns the evidence that ROCm works on this machine: whether the HIP runtime has started, with this kind of device,
/// on this stack or only on another one.
pub(crate) fn able(root: &Path, device: &DeviceChoice) -> RocmEvidence {
    let gpu = *device == DeviceChoice::Gpu;
    let started = STARTED.lock();
    if started.contains(&(gpu, root.to_owned())) {
        RocmEvidence::ThisStack
    } else if started.iter().any(|(other, _)| *other == gpu) {
        RocmEvidence::AnotherStack
    } else {
        RocmEvidence::Unknown
    }
}

/// Returns the Linux kernel's boot id, which changes when the machine restarts.
pub fn boot() -> String {
    // The boot id cannot change while this process runs.
    static BOOT: OnceLock<String> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BOOT.get_or_init(|| read().trim().to_owned()).clone()
}

/// Shared or exclusive locks on files. The Linux kernel releases them when the process ends.
pub(crate) struct Locks(
    #[allow(dead_code, reason = "that they are open is what counts")] Vec<File>,
);

/// Locks the files in the given order, exclusively if `alone` is true. While another process or thread has a
/// conflicting lock, waits for it. Returns `None` if `wait` is cancelled meanwhile. Without `wait`, returns `None`
/// instead of waiting.
pub(crate) fn lock(
    files: &[PathBuf],
    alone: bool,
    wait: Option<&Cancel>,
) -> std::io::Result<Option<Locks>> {
    let operation = match alone {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let mut locks = Vec::new();
    for file in files {
        let lock = File::options().create(true).truncate(false).write(true).open(file)?;
        loop {
            match flock(&lock, operation) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if wait.is_none_or(Cancel::is_cancelled) {
                return Ok(None);
            }
            std::thread::sleep(LOCK_POLL_INTERVAL);
        }
        locks.push(lock);
    }
    Ok(Some(Locks(locks)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::Arch;

    #[test]
    fn reports_folders_that_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().to_owned();
        assert_eq!(trouble(std::slice::from_ref(&there)), None);
        let gone = folder.path().join("gone");
        let why = trouble(&[there, gone]).unwrap().why;
        assert!(why.contains("gone`: the folder no longer exists"), "{why}");
        // Not even root can write to this folder.
        let why = trouble(&["/proc/self/task".into()]).unwrap().why;
        assert!(why.contains("/proc/self/task"), "{why}");
    }

    #[test]
    fn reports_too_little_space() {
        let of = |bytes: u64, files: u64, free: u64| {
            let mut system = statvfs("/").unwrap();
            (system.f_frsize, system.f_bavail) = (1, bytes);
            (system.f_files, system.f_favail) = (files, free);
            low_space(&system)
        };
        assert_eq!(of(1 << 30, 1000, 900), None);
        assert_eq!(of(1 << 30, 0, 0), None);
        assert_eq!(of(2048, 1000, 900).as_deref(), Some("2 KiB free"));
        assert_eq!(of(1 << 30, 1000, 3).as_deref(), Some("3 free inodes"));
    }

    #[test]
    fn started_runtimes_are_kept_per_kind_of_device() {
        let emulated = DeviceChoice::Emulated(Arch::Gfx1151);
        let (a, b) = (Path::new("/a stack of this test"), Path::new("/another stack"));
        has_started(a, &emulated);
        assert_eq!(able(a, &emulated), RocmEvidence::ThisStack);
        assert_eq!(able(a, &DeviceChoice::Emulated(Arch::Gfx90a)), RocmEvidence::ThisStack);
        assert_eq!(able(b, &emulated), RocmEvidence::AnotherStack);
        assert_eq!(able(a, &DeviceChoice::Gpu), RocmEvidence::Unknown);
    }

    #[test]
    fn exclusive_lock_waits_for_shared_ones() {
        let folder = tempfile::tempdir().unwrap();
        let file = [folder.path().join("turn")];
        let cancel = Cancel::new().unwrap();
        let others = [(); 2].map(|()| lock(&file, false, Some(&cancel)).unwrap());
        assert!(others.iter().all(Option::is_some));
        let mut others = others.into_iter();
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| lock(&file, true, Some(&cancel)).unwrap());
            for other in others.by_ref() {
                std::thread::sleep(Duration::from_millis(50));
                assert!(!alone.is_finished());
                drop(other);
            }
            let alone = alone.join().unwrap();
            assert!(alone.is_some());
            let other = scope.spawn(|| lock(&file, false, Some(&cancel)).unwrap().is_some());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!other.is_finished());
            drop(alone);
            assert!(other.join().unwrap());
        });
    }

    #[test]
    fn exclusive_locks_are_taken_in_turn() {
        let folder = tempfile::tempdir().unwrap();
        let file = [folder.path().join("turn")];
        let cancel = Cancel::new().unwrap();
        let first = lock(&file, true, Some(&cancel)).unwrap();
        assert!(first.is_some());
        // Without `wait`, `lock` returns immediately.
        assert!(lock(&file, true, None).unwrap().is_none());
        let second = std::thread::scope(|scope| {
            let second = scope.spawn(|| lock(&file, true, Some(&cancel)).unwrap().is_some());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap()
        });
        assert!(second);
        let held = lock(&file, true, Some(&cancel)).unwrap();
        cancel.cancel();
        assert!(lock(&file, true, Some(&cancel)).unwrap().is_none());
        drop(held);
    }

    /// A thread that waits for a lock keeps the locks that it already has, so that other threads cannot overtake it.
    #[test]
    fn exclusive_waiter_is_not_overtaken() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| folder.path().join(name));
        let cancel = Cancel::new().unwrap();
        let b = lock(&files[1..], true, None).unwrap();
        assert!(b.is_some());
        std::thread::scope(|scope| {
            let both = scope.spawn(|| lock(&files, true, Some(&cancel)).unwrap());
            while lock(&files[..1], true, None).unwrap().is_some() {}
            assert!(!both.is_finished());
            drop(b);
            let both = both.join().unwrap();
            assert!(both.is_some() && lock(&files[1..], true, None).unwrap().is_none());
        });
    }
}
