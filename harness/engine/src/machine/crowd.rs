//! Detects that the limits of this machine allow too few further threads for a worker. The HIP runtime crashes if it
//! cannot start its threads.

use std::{fs, path::Path};

use rustix::process::{Resource, getrlimit, getuid};

/// Number of threads that a worker may need.
const WANTED: u64 = 64;

pub(super) fn trouble() -> Option<String> {
    let own = getuid();
    // The limit on processes does not apply to root.
    let limit = getrlimit(Resource::Nproc).current.filter(|_| !own.is_root());
    let of_user = || too_few_left(limit?, threads(Path::new("/proc"), own.as_raw()), "this user");
    let group = || {
        let group = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = group.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        let number = |file: &str| {
            let text =
                fs::read_to_string(Path::new("/sys/fs/cgroup").join(&path).join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        // Without a limit, the file contains `max`, which is not a number.
        too_few_left(number("pids.max")?, number("pids.current")?, "this control group")
    };
    of_user().or_else(group)
}

fn too_few_left(limit: u64, used: u64, whose: &str) -> Option<String> {
    (used.saturating_add(WANTED) > limit).then(|| {
        format!(
            "{whose} has {used} of at most {limit} processes and threads, and a worker needs up to {WANTED} more; \
             raise the limit (`ulimit -u`, or pids.max)"
        )
    })
}

fn threads(proc: &Path, user: u32) -> u64 {
    let of = |status: String| {
        let value = |name: &str| {
            let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().next()?.parse::<u64>().ok()
        };
        value("Uid:").filter(|own| *own == u64::from(user)).and(value("Threads:"))
    };
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| of(fs::read_to_string(entry.path().join("status")).ok()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_threads_by_user() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, user, threads) in [(1, 0, 9), (20, 1000, 3), (21, 1000, 4)] {
            let folder = proc.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            let text = format!("Name:\tx\nUid:\t{user}\t7\t7\t7\nThreads:\t{threads}\n");
            fs::write(folder.join("status"), text).unwrap();
        }
        fs::write(proc.path().join("uptime"), "1 2").unwrap();
        assert_eq!(threads(proc.path(), 1000), 7);
        assert_eq!(threads(proc.path(), 5), 0);
        assert!(threads(Path::new("/proc"), getuid().as_raw()) >= 2);
    }

    #[test]
    fn reports_limits_that_a_worker_may_reach() {
        assert_eq!(too_few_left(96_551, 800, "this user"), None);
        assert_eq!(too_few_left(100, 36, "this user"), None);
        let why = too_few_left(100, 37, "this user").unwrap();
        assert!(why.starts_with("this user has 37 of at most 100 processes and threads"), "{why}");
    }
}
