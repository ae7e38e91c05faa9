//! A reducer of somebody else's that makes a program smaller by its syntax: it asks the search about each text, through a script that
//! it starts and a socket behind that.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::args::Reducer;
use engine::{Stop, own_program, rerun::quoted, which};

/// The first argument that makes this program ask for a verdict on the file that stands in the folder that it is started in.
pub(crate) const ASK_ARGUMENT: &str = "__still";

/// One that is on this machine.
pub(super) struct Found {
    pub(super) name: &'static str,
    file: PathBuf,
}

/// What a reducer came to.
pub(super) struct Reduced {
    pub(super) text: String,
    /// Whether it came to its own end, well.
    pub(super) whole: bool,
}

impl Reducer {
    /// The one that is meant, where there is one.
    pub(super) fn find(self, is_cpp: bool) -> Result<Option<Found>, Stop> {
        let found =
            |name: &'static str| which::file(Path::new(name)).map(|file| Found { name, file });
        match self {
            Reducer::None => Ok(None),
            Reducer::Cvise => Ok(Some(found("cvise")?)),
            Reducer::Shrinkray => Ok(Some(found("shrinkray")?)),
            Reducer::Auto => {
                let [first, second] =
                    if is_cpp { ["cvise", "shrinkray"] } else { ["shrinkray", "cvise"] };
                Ok(found(first).or_else(|_| found(second)).ok())
            }
        }
    }
}

impl Found {
    /// Starts it on a file and answers what it asks, until it ends or nothing more shall be tried. Of the texts that were found to be
    /// what is looked for it is the shortest, whatever the reducer leaves behind.
    pub(super) fn reduce(
        &self,
        name: &str,
        text: &str,
        still: &mut dyn FnMut(&str) -> Option<bool>,
    ) -> Result<Reduced, Stop> {
        let trouble = |what: &str, error: std::io::Error| {
            Stop::no_verdict(format!("error: {what} for {}: {error}", self.name))
        };
        let folder = tempfile::tempdir().map_err(|e| trouble("no folder", e))?;
        let (file, script) = (folder.path().join(name), folder.path().join("still.sh"));
        let socket = folder.path().join("socket");
        fs::write(&file, text).map_err(|e| trouble("cannot write the program", e))?;
        let own = own_program::held().map_err(|e| trouble("cannot find this program", e))?;
        let words = [own, Path::new(ASK_ARGUMENT), &socket, Path::new(name)];
        let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        fs::write(&script, format!("#!/bin/sh\nexec {}\n", words.join(" ")))
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
            .map_err(|e| trouble("cannot write a script", e))?;
        let listener =
            UnixListener::bind(&socket).and_then(|it| it.set_nonblocking(true).map(|()| it));
        let listener = listener.map_err(|e| trouble("no socket", e))?;
        let mut child =
            self.start(name, &script, folder.path()).map_err(|e| trouble("no start", e))?;
        let mut best = text.to_owned();
        let mut judged = |text: &str| {
            let verdict = still(text)?;
            if verdict && text.len() < best.len() {
                text.clone_into(&mut best);
            }
            Some(verdict)
        };
        let whole = loop {
            if let Some(status) = child.try_wait().map_err(|e| trouble("nothing is known", e))? {
                break status.success();
            }
            let Ok((mut asks, _)) = listener.accept() else {
                sleep(Duration::from_millis(2));
                continue;
            };
            match answer(&mut asks, &mut judged) {
                Some(()) => {}
                None => {
                    end(&mut child);
                    break false;
                }
            }
        };
        Ok(Reduced { text: best, whole })
    }

    /// One question at a time: a run is judged by what is silent for how long, and several at once would disturb each other.
    fn start(&self, name: &str, script: &Path, folder: &Path) -> std::io::Result<Child> {
        let mut command = Command::new(&self.file);
        match self.name {
            "cvise" => {
                command.args(["--n", "1", "--tidy", "--timeout", "86400"]);
                if !name.ends_with(".cpp") {
                    command.arg("--not-c");
                }
            }
            _ => _ = command.args(["--parallelism", "1", "--timeout", "86400", "--ui", "basic"]),
        }
        command.arg(script).arg(name).current_dir(folder);
        // A group of its own, so that it ends with all that it started.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn()
    }
}

/// Reads a path from the one who asks, and says `y` or `n` of the text there. None where no more shall be tried.
fn answer(asks: &mut UnixStream, still: &mut dyn FnMut(&str) -> Option<bool>) -> Option<()> {
    let mut path = Vec::new();
    let _ = asks.set_nonblocking(false);
    let read = asks.read_to_end(&mut path);
    let path = Path::new(std::ffi::OsStr::from_bytes(&path));
    // Somebody who went away, or a text that is none, is not what is looked for.
    let text = read.ok().and_then(|_| fs::read_to_string(path).ok());
    let verdict = match text {
        Some(text) => still(&text)?,
        None => false,
    };
    let _ = asks.write_all(if verdict { b"y" } else { b"n" });
    Some(())
}

/// Ends it with all that it started.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    for _ in 0..100 {
        if child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// The other side: 0 where the file of this name in this folder is still what is looked for, 1 where it is not.
pub(crate) fn ask(mut words: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let mut asked = || {
        let (socket, name) = (words.next()?, words.next()?);
        let path = std::env::current_dir().ok()?.join(name);
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.write_all(path.as_os_str().as_bytes()).ok()?;
        stream.shutdown(std::net::Shutdown::Write).ok()?;
        let mut verdict = [0];
        stream.read_exact(&mut verdict).ok()?;
        Some(verdict == *b"y")
    };
    ExitCode::from(u8::from(asked() != Some(true)))
}
