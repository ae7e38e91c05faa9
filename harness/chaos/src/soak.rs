//! Runs one command after another in the same folders for a given time: whole families of cases, failures, hangs, and
//! runs that are interrupted or killed and then resumed. At the end, counts the processes, files and folders that
//! remain, and compares the durations of the same work in the first and the second half.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{mixture::RandomNumbers, processes};

const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

struct CommandKind {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Signal that is sent to the command after some time, and the additional exit code that the command may then have;
    /// `None` to send no signal.
    signal: Option<(Signal, Option<i32>)>,
    code: i32,
}

const TRIAL: &str = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";

const KINDS: &[CommandKind] = &[
    kind("copies", &["run", "copies", "--exclude", "copies/odd-sizes"], 0),
    kind("graphs", &["run", "graphs"], 0),
    kind("capture", &["run", "capture"], 0),
    kind("errors", &["run", "errors", "streams"], 0),
    kind("kernels", &["run", "kernels"], 0),
    kind("wrong data", &["run", TRIAL, "--fault", "copy.zero", "--repeat", "4"], 1),
    kind("hang", &["run", TRIAL, "--fault", "signal.stuck", "--quiet-timeout", "1"], 1),
    kind("programs", &["run", "programs/ctypes-*"], 0),
    CommandKind {
        signal: Some((Signal::KILL, None)),
        ..kind("killed", &["run", "copies/odd-sizes"], 0)
    },
    CommandKind {
        signal: Some((Signal::INT, Some(3))),
        ..kind("interrupted", &["run", "copies/odd-sizes"], 0)
    },
    kind("report", &["run", "capture/unjoined-fork"], 0),
];

const fn kind(name: &'static str, arguments: &'static [&'static str], code: i32) -> CommandKind {
    CommandKind { name, arguments, signal: None, code }
}

struct Soak {
    program: PathBuf,
    folder: PathBuf,
}

/// Runs commands for `time`.
///
/// # Errors
/// Returns a description of what went wrong.
pub(crate) fn soak(program: PathBuf, time: Duration) -> Result<(), String> {
    let base = tempfile::Builder::new().prefix("soak-").tempdir().expect("a temporary folder");
    let folder = fs::canonicalize(base.path()).expect("the folder exists");
    let soak = Soak { program, folder };
    for name in ["tmp", "cache", "home", "here"] {
        fs::create_dir(soak.folder.join(name)).expect("the folder is writable");
    }
    // The first runs create files that stay: the stack, the emulated device and compiled kernels.
    for kind in KINDS.iter().filter(|kind| kind.signal.is_none()) {
        soak.check(kind, soak.start(kind, &[]))?;
    }
    let before = files(&soak.folder);
    let (mut numbers, mut ran) = (RandomNumbers(7919), BTreeMap::<&str, u32>::new());
    let mut copies = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let kind = &KINDS[numbers.next(KINDS.len())];
        *ran.entry(kind.name).or_default() += 1;
        let started = Instant::now();
        match kind.signal {
            None => soak.check(kind, soak.start(kind, &[]))?,
            Some((signal, code)) => {
                let record = soak.folder.join("here/record.jsonl");
                let on = ["--record", record.to_str().expect("a name"), "--resume"];
                let mut child = soak.start(kind, &on);
                sleep(Duration::from_millis(50 + numbers.next(1500) as u64));
                let _ = kill_process(Pid::from_child(&child), signal);
                let status = child.wait().map_err(|e| e.to_string())?;
                // The command may have ended before the signal was sent, or the signal may have arrived before its
                // handler was installed.
                let by_signal = status.code().is_none();
                if !by_signal && status.code() != Some(kind.code) && status.code() != code {
                    return Err(format!("{}: it ended with {status}", kind.name));
                }
                soak.check(kind, soak.start(kind, &on))?;
                fs::remove_file(record).map_err(|e| e.to_string())?;
            }
        }
        if kind.name == "copies" {
            copies.push(started.elapsed());
        }
    }
    // This run must remove the temporary folders of the killed runs.
    soak.check(&KINDS[0], soak.start(&KINDS[0], &[]))?;
    let after = files(&soak.folder);
    let commands: u32 = ran.values().sum();
    println!("{commands} commands in {} min: {ran:?}", time.as_secs() / 60);
    println!("files and folders by place: {before:?} before, {after:?} after");
    let half = copies.len() / 2;
    let mean = |part: &[Duration]| part.iter().sum::<Duration>() / part.len().max(1) as u32;
    println!(
        "mean time of `run copies`: {:.1?} in the first half, {:.1?} in the second half",
        mean(&copies[..half]),
        mean(&copies[half..])
    );
    let left = processes::kill_leftovers(&soak.folder);
    if !left.is_empty() {
        return Err(format!("left behind: {}", left.join("\n")));
    }
    match after.iter().find(|(place, count)| before.get(*place) != Some(count)) {
        Some((place, _)) => Err(format!("`{place}` has more or fewer files than at the start")),
        None => Ok(()),
    }
}

impl Soak {
    fn start(&self, kind: &CommandKind, more: &[&str]) -> Child {
        let at = |name: &str| self.folder.join(name);
        let mut command = Command::new(&self.program);
        command.args(kind.arguments).args(more).args(["--rocm", "debian:7.2.4"]);
        command.args(["--device", "emulated", "--gfx", "gfx1151"]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("XDG_CACHE_HOME", at("cache")).env("TMPDIR", at("tmp")).env("HOME", at("home"));
        command.current_dir(at("here")).stdin(Stdio::null());
        let said = fs::File::create(at("said")).expect("the folder is writable");
        command.stdout(said.try_clone().expect("a descriptor")).stderr(said);
        command.spawn().expect("the command starts")
    }

    fn check(&self, kind: &CommandKind, mut child: Child) -> Result<(), String> {
        let until = Instant::now() + COMMAND_TIMEOUT;
        let status = loop {
            match child.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None if Instant::now() > until => {
                    let _ = child.kill();
                    return Err(format!(
                        "{}: it ran for {} s",
                        kind.name,
                        COMMAND_TIMEOUT.as_secs()
                    ));
                }
                None => sleep(Duration::from_millis(10)),
            }
        };
        if status.code() == Some(kind.code) {
            return Ok(());
        }
        let said = fs::read_to_string(self.folder.join("said")).unwrap_or_default();
        Err(format!("{}: it ended with {status}\n{said}", kind.name))
    }
}

/// Returns the number of files and folders in each place, without the contents of comgr's cache.
fn files(folder: &Path) -> BTreeMap<String, usize> {
    let count = |path: &str| count(&folder.join(path));
    let places = ["tmp", "home", "here", "cache/rocrepro/stacks", "cache/rocrepro/code/tmp"];
    let mut found: BTreeMap<String, usize> =
        places.iter().map(|place| ((*place).to_owned(), count(place))).collect();
    let all = count("cache");
    found.insert("cache".to_owned(), all - count("cache/rocrepro/code"));
    found
}

fn count(path: &Path) -> usize {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => 1 + count(&entry.path()),
        _ => 1,
    };
    entries.map(of).sum()
}
