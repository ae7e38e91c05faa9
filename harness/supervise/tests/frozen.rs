//! Tests children in a frozen cgroup. Batch systems suspend jobs in this way. The tests need root and a cgroup freezer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use supervise::{Cancel, ChildEnd, Limits, Observed, StopReason, Suspension, run};

struct Freezer {
    folder: PathBuf,
    file: &'static str,
    frozen: &'static str,
    thawed: &'static str,
}

impl Freezer {
    /// Creates a cgroup for each cgroup version that this machine supports.
    fn all() -> Vec<Freezer> {
        let name = format!("rocrepro-test-{}", std::process::id());
        let version_1 = ("freezer.state", "FROZEN", "THAWED");
        let version_2 = ("cgroup.freeze", "1", "0");
        let places = [
            ("/sys/fs/cgroup/freezer", version_1),
            ("/sys/fs/cgroup/unified", version_2),
            ("/sys/fs/cgroup", version_2),
        ];
        let make = |(place, (file, frozen, thawed)): (&str, _)| {
            let folder = Path::new(place).join(&name);
            fs::create_dir(&folder).ok()?;
            let made = Freezer { folder, file, frozen, thawed };
            made.folder.join(file).exists().then_some(made)
        };
        places.into_iter().filter_map(make).collect()
    }

    fn set(&self, state: &str) {
        fs::write(self.folder.join(self.file), state).unwrap();
    }

    /// Runs a child that enters the cgroup, is frozen when it prints its first line, and ends soon after the thaw.
    /// `thaws` is the time until the thaw, or `None` for no thaw.
    fn watch(&self, quiet: Duration, thaws: Option<Duration>) -> Observed {
        let procs = self.folder.join("cgroup.procs");
        let script = format!("echo $$ > {}; echo ready; sleep 0.05; echo over", procs.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let ms = Duration::from_millis;
        let limits = Limits { quiet, grace: ms(50), reap: ms(50), ..Limits::default() };
        std::thread::scope(|scope| {
            let mut froze = false;
            let seen = run(command, b"", &limits, &Cancel::new().unwrap(), &mut |_| {
                if std::mem::replace(&mut froze, true) {
                    return;
                }
                self.set(self.frozen);
                if let Some(after) = thaws {
                    scope.spawn(move || {
                        std::thread::sleep(after);
                        self.set(self.thawed);
                    });
                }
            });
            self.set(self.thawed);
            seen
        })
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join(self.file), self.thawed);
        // The last process leaves the cgroup only a moment after it has ended.
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn frozen_children_are_suspended_and_not_hung() {
    let freezers = Freezer::all();
    if freezers.is_empty() {
        eprintln!("skipped: this user cannot create a cgroup that can be frozen");
        return;
    }
    for freezer in freezers {
        // The child is frozen for longer than its limit. In the second run it is thawed in time.
        let limit = Duration::from_millis(400);
        let seen = freezer.watch(limit, None);
        let cause = match seen.ended {
            ChildEnd::Stopped { reason: StopReason::Suspended(cause), .. }
            | ChildEnd::CouldNotBeKilled { reason: StopReason::Suspended(cause) } => cause,
            _ => panic!("{}: {seen:?}", freezer.file),
        };
        assert_eq!(cause, Suspension::Frozen, "{}", freezer.file);
        let seen = freezer.watch(Duration::from_secs(20), Some(Duration::from_millis(300)));
        assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{}: {seen:?}", freezer.file);
    }
}
