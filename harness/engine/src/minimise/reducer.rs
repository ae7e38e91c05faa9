//! Runs external reducers, which make a program smaller by its syntax. The reducer starts a script for each candidate,
//! and the script asks the search over a socket whether the candidate still shows the failure.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use supervise::Cancel;

use super::error::MinimiseError;
use crate::{Stop, own_program, rerun::quoted, which};

/// First argument that makes this program call [`ask`] with the remaining arguments.
pub const ASK_ARGUMENT: &str = "__still";

/// The choice of an external reducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReducerChoice {
    /// An installed reducer: C-Vise first for C++, and Shrink Ray for Python.
    Auto,
    /// C-Vise.
    Cvise,
    /// Shrink Ray.
    Shrinkray,
    /// No reducer.
    None,
}

/// A reducer that is installed on this machine.
pub(super) struct Reducer {
    pub(super) name: &'static str,
    file: PathBuf,
}

/// The result of an external reducer.
pub(super) struct ReducedText {
    pub(super) text: String,
    /// True if the reducer ended by itself, successfully.
    pub(super) whole: bool,
}

impl ReducerChoice {
    /// Finds the chosen reducer. Returns `None` for [`ReducerChoice::None`], and for [`ReducerChoice::Auto`] if no
    /// reducer is installed.
    ///
    /// # Errors
    /// The user named a reducer that is not installed.
    pub(super) fn find(self, is_cpp: bool) -> Result<Option<Reducer>, Stop> {
        let found =
            |name: &'static str| which::file(Path::new(name)).map(|file| Reducer { name, file });
        match self {
            ReducerChoice::None => Ok(None),
            ReducerChoice::Cvise => Ok(Some(found("cvise")?)),
            ReducerChoice::Shrinkray => Ok(Some(found("shrinkray")?)),
            ReducerChoice::Auto => {
                let [first, second] =
                    if is_cpp { ["cvise", "shrinkray"] } else { ["shrinkray", "cvise"] };
                Ok(found(first).or_else(|_| found(second)).ok())
            }
        }
    }
}

impl Reducer {
    /// Runs the reducer on a text, which is written to a file called `name`. `still` answers the reducer's questions:
    /// true if a text still shows the failure, and `None` if the search must end. Then the reducer is ended too.
    /// Returns the shortest text for which `still` returned true, which need not be the last one that the reducer
    /// tried.
    pub(super) fn reduce(
        &self,
        name: &str,
        text: &str,
        cancel: &Cancel,
        still: &mut dyn FnMut(&str) -> Option<bool>,
    ) -> Result<ReducedText, MinimiseError> {
        let reducer = self.name;
        let trouble = |step: &'static str, error: std::io::Error| MinimiseError::Reducer {
            reducer,
            step,
            error,
        };
        let folder = tempfile::tempdir().map_err(|e| trouble("cannot create a folder", e))?;
        let (file, script) = (folder.path().join(name), folder.path().join("still.sh"));
        let socket = folder.path().join("socket");
        fs::write(&file, text).map_err(|e| trouble("cannot write the program", e))?;
        let own = own_program::stable_path()
            .map_err(|e| trouble("cannot find the rocrepro executable", e))?;
        let words = [own, Path::new(ASK_ARGUMENT), &socket, Path::new(name)];
        let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        fs::write(&script, format!("#!/bin/sh\nexec {}\n", words.join(" ")))
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
            .map_err(|e| trouble("cannot write a script", e))?;
        let listener =
            UnixListener::bind(&socket).and_then(|it| it.set_nonblocking(true).map(|()| it));
        let listener = listener.map_err(|e| trouble("cannot listen on a socket", e))?;
        let mut child = self
            .start(name, &script, folder.path())
            .map_err(|e| trouble("cannot start the program", e))?;
        let mut best = text.to_owned();
        let mut judged = |text: &str| {
            let verdict = still(text)?;
            if verdict && text.len() < best.len() {
                text.clone_into(&mut best);
            }
            Some(verdict)
        };
        let whole = loop {
            if let Some(status) =
                child.try_wait().map_err(|e| trouble("cannot wait for the program", e))?
            {
                break status.success();
            }
            // A reducer may compute for long between two questions.
            if cancel.is_cancelled() {
                end(&mut child);
                break false;
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
        Ok(ReducedText { text: best, whole })
    }

    /// Starts the reducer with one job at a time. Concurrent runs would slow each other down, and a slow run without
    /// output would count as a hang.
    fn start(&self, name: &str, script: &Path, folder: &Path) -> std::io::Result<Child> {
        let mut command = Command::new(&self.file);
        match self.name {
            "cvise" => {
                command.args(["--n", "1", "--tidy", "--timeout", "86400"]);
                let is_cpp = [".cpp", ".hip", ".cc", ".cxx"].iter().any(|end| name.ends_with(end));
                if !is_cpp {
                    command.arg("--not-c");
                }
            }
            _ => _ = command.args(["--parallelism", "1", "--timeout", "86400", "--ui", "basic"]),
        }
        command.arg(script).arg(name).current_dir(folder);
        // In a process group of its own, the reducer can be killed together with its children.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn()
    }
}

/// Reads the path of a file from the script, and answers `y` or `n` about the text in the file. Returns `None` if
/// `still` returns `None`.
fn answer(asks: &mut UnixStream, still: &mut dyn FnMut(&str) -> Option<bool>) -> Option<()> {
    let mut path = Vec::new();
    let _ = asks.set_nonblocking(false);
    let read = asks.read_to_end(&mut path);
    let path = Path::new(OsStr::from_bytes(&path));
    // If the script was killed, or if the file is not text, the answer is `n`.
    let text = read.ok().and_then(|_| fs::read_to_string(path).ok());
    let verdict = match text {
        Some(text) => still(&text)?,
        None => false,
    };
    let _ = asks.write_all(if verdict { b"y" } else { b"n" });
    Some(())
}

/// Kills the reducer and its children.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    for _ in 0..25 {
        if child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Entry point of the program that the reducer's script starts. Asks the search whether a candidate still shows the
/// failure, and returns true if it does. The arguments are the path of the socket, and the name of the candidate's file
/// in the current folder.
pub fn ask(mut words: impl Iterator<Item = OsString>) -> bool {
    let mut answered = || {
        let (socket, name) = (words.next()?, words.next()?);
        let path = std::env::current_dir().ok()?.join(name);
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.write_all(path.as_os_str().as_bytes()).ok()?;
        stream.shutdown(std::net::Shutdown::Write).ok()?;
        let mut verdict = [0];
        stream.read_exact(&mut verdict).ok()?;
        Some(verdict == *b"y")
    };
    answered() == Some(true)
}
