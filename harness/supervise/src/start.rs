//! Starts a process with an exactly defined environment, even through a launcher.
//!
//! A launcher (`srun`, `podman run`) passes on the arguments of a command. It may drop the environment, limits, working
//! directory and personality of its caller, or start its child from a daemon that never had them. Therefore none of
//! these properties is inherited. They are arguments of a *starter*, a program that parses them, applies them and then
//! executes the actual program.

use std::{
    collections::BTreeMap,
    error::Error,
    ffi::{OsStr, OsString},
    fmt,
    io::{self, Write as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    Limit, Resource, View,
    calls::try_system_calls,
    view::{TRY_VIEW, ViewError},
};

/// Exit status of a starter that could not execute the program. Shells use the same status.
const NOT_STARTED: u8 = 127;

/// Variables that every shell sets for itself. If the launcher is a shell script, they are not meant for the program.
const SHELL_VARIABLES: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

/// Argument that says that all arguments after it are encoded by [`encoded`].
const ENCODED: &str = "--encoded";

const DIRECTORY: &str = "--directory";
const FIXED_ADDRESSES: &str = "--fixed-addresses";
const LIMIT: &str = "--limit";
const NOT_FROM: &str = "--not-from";
const PRELOAD: &str = "--preload";
const TELL_END: &str = "--tell-end";
const THROUGH: &str = "--through";
const VIEW: &str = "--view";
const END: &str = "--";

/// A program to start, and the environment in which it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Path of the program.
    pub program: PathBuf,
    /// Dynamic loader, with its options, that starts the program; may be empty. Not used with a view.
    pub through: Vec<OsString>,
    /// View of the file system for the program and its children, which replaces folders of the machine.
    pub view: Option<View>,
    /// Libraries to load before all others, and before those in `LD_PRELOAD`. Not used with a view.
    pub preload: Vec<OsString>,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Environment of the program. It contains only these variables and those that a launcher sets itself.
    pub environment: BTreeMap<OsString, OsString>,
    /// Working directory. `None` means the working directory of the launcher.
    pub directory: Option<PathBuf>,
    /// Resource limits of the program. Resources that are not listed keep the limits of the machine.
    pub limits: BTreeMap<Resource, Limit>,
    /// True to disable address space randomisation, if Linux permits it.
    pub fixed_addresses: bool,
    /// True if the starter must report on standard output how the program ended. It does so only if a launcher is used.
    pub tell_end: bool,
    /// True if the program applies its resource limits itself, from additional arguments; see [`Start::apply_limits`].
    pub settles: bool,
}

impl Start {
    /// Returns the command that starts the program through a starter, and through a launcher if `launcher` is not
    /// empty. `starter` contains the program and the first arguments of the starter's command line.
    ///
    /// The launcher is a tool of the user. It gets the environment of this process, but the starter does not pass that
    /// environment on to the program. A program that applies its limits itself (`settles`) needs no starter if nothing
    /// must be set before it is loaded. This saves a process, which would cost 5 % of a short trial.
    pub fn command(&self, starter: &[OsString], launcher: &[String]) -> Command {
        if launcher.is_empty() && self.settles && !self.is_set_before_loading() {
            return self.direct_command();
        }
        let mut words = launcher.iter().map(OsString::from).chain(starter.iter().cloned());
        // If the command is empty, starting it fails with an error.
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        if launcher.is_empty() {
            command.env_clear().args(self.words());
            return command;
        }
        let mut inherited = OsString::from(NOT_FROM);
        inherited.push("=");
        std::env::vars_os().for_each(|(name, value)| inherited.push(mark(&name, &value)));
        let tell = self.tell_end.then(|| TELL_END.into());
        let words = tell.into_iter().chain([inherited]).chain(self.words());
        command.arg(ENCODED).args(words.map(|word| encoded(&word)));
        command
    }

    /// Returns true if something must be set before Linux or the dynamic loader starts the program.
    fn is_set_before_loading(&self) -> bool {
        let later = [Resource::Core, Resource::Files];
        let mut limits = self.limits.iter().filter(|(resource, _)| !later.contains(resource));
        let changes = limits.any(|(resource, limit)| resource.current_limit() != *limit);
        changes || self.fixed_addresses || self.view.is_some()
    }

    fn direct_command(&self) -> Command {
        let mut words = self.through.iter().cloned().chain([self.program.clone().into()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(&self.arguments).args(self.limit_arguments());
        command.env_clear().envs(&self.environment).envs(self.preloading());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Applies the resource limits `words`, which [`command`](Self::command) appended to this program's arguments.
    ///
    /// # Errors
    /// If an argument is unknown or a limit cannot be set, prints an error and returns the exit status to end with.
    pub fn apply_limits(words: impl IntoIterator<Item = OsString>) -> Result<(), ExitCode> {
        let mut words = words.into_iter();
        let mut settle = || {
            while let Some(word) = words.next() {
                let value = words.next().filter(|_| word == LIMIT);
                let (resource, limit) = parse_limit(&value.ok_or_else(|| StartError::new(&word))?)?;
                resource.set(limit)?;
            }
            try_system_calls()?;
            Ok::<(), Box<dyn Error>>(())
        };
        settle().map_err(|error| not_started(&*error))
    }

    /// Returns the variable `LD_PRELOAD` and its value if libraries are preloaded.
    fn preloading(&self) -> Option<(OsString, OsString)> {
        let name = OsString::from("LD_PRELOAD");
        let given = self.environment.get(&name);
        let all: Vec<_> = self.preload.iter().chain(given).map(OsString::as_os_str).collect();
        (!self.preload.is_empty()).then(|| (name, all.join(OsStr::new(":"))))
    }

    fn limit_arguments(&self) -> impl Iterator<Item = OsString> {
        let limits = self.limits.iter();
        limits.flat_map(|(resource, limit)| [LIMIT.into(), format!("{resource}={limit}").into()])
    }

    fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(directory) = &self.directory {
            words.extend([OsString::from(DIRECTORY), directory.into()]);
        }
        if self.fixed_addresses {
            words.push(FIXED_ADDRESSES.into());
        }
        words.extend(self.limit_arguments());
        if let Some(view) = &self.view {
            words.extend([VIEW.into(), view.to_word().into()]);
        }
        words.extend(self.preload.iter().flat_map(|word| [PRELOAD.into(), word.clone()]));
        words.extend(self.through.iter().flat_map(|word| [THROUGH.into(), word.clone()]));
        words.extend(self.environment.iter().map(|(name, value)| assignment(name, value)));
        words.extend([OsString::from(END), self.program.clone().into()]);
        words.extend(self.arguments.iter().cloned());
        words
    }

    /// Parses the arguments that [`command`](Self::command) appends to those of the starter. The second value contains
    /// options that exist only if a launcher has started the starter.
    fn read(words: impl IntoIterator<Item = OsString>) -> Result<(Start, LaunchInfo), StartError> {
        let mut words = words.into_iter();
        let mut start = Start {
            program: PathBuf::new(),
            through: Vec::new(),
            view: None,
            preload: Vec::new(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            limits: BTreeMap::new(),
            fixed_addresses: false,
            tell_end: false,
            settles: false,
        };
        let mut launched = LaunchInfo::default();
        loop {
            let word = words.next().ok_or_else(|| StartError("no program given".to_owned()))?;
            let bad = || StartError::new(&word);
            if word == END {
                break;
            } else if word == DIRECTORY {
                start.directory = Some(words.next().ok_or_else(bad)?.into());
            } else if word == FIXED_ADDRESSES {
                start.fixed_addresses = true;
            } else if word == LIMIT {
                start.limits.extend([parse_limit(&words.next().ok_or_else(bad)?)?]);
            } else if word == VIEW {
                let view = words.next().ok_or_else(bad)?;
                start.view = Some(View::from_word(&view).map_err(StartError)?);
            } else if word == PRELOAD {
                start.preload.push(words.next().ok_or_else(bad)?);
            } else if word == THROUGH {
                start.through.push(words.next().ok_or_else(bad)?);
            } else if let Some(marks) = word.as_bytes().strip_prefix(b"--not-from=") {
                launched.inherited = marks.to_vec();
            } else if word == TELL_END {
                launched.tell = true;
            } else {
                let bytes = word.as_bytes();
                let at = bytes.iter().position(|&b| b == b'=').filter(|at| *at > 0);
                let at = at.ok_or_else(bad)?;
                let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
                start.environment.insert(part(&bytes[..at]), part(&bytes[at + 1..]));
            }
        }
        let program = words.next().ok_or_else(|| StartError("no program given".to_owned()))?;
        start.program = program.into();
        start.arguments = words.collect();
        Ok((start, launched))
    }

    /// Acts as a starter: executes the program that the arguments `words` describe.
    ///
    /// The exit status of a launcher may differ from the program's. Therefore a starter that a launcher has started
    /// starts the program as a child, waits for it, and reports its end on standard output:
    /// `{"event":"ended","exited":0}` or `{"event":"ended","signal":11}`.
    ///
    /// The process must have only one thread. `starter` contains the program and the first arguments of this process's
    /// command line, which make it a starter.
    pub fn enter(starter: &[OsString], words: impl IntoIterator<Item = OsString>) -> ExitCode {
        let mut words = words.into_iter().peekable();
        if words.next_if(|word| word == TRY_VIEW).is_some() {
            return try_view(words.next());
        }
        let handed_on = words.next_if(|word| word == ENCODED).is_some();
        let words = words.map(|word| if handed_on { decoded(&word) } else { word });
        match Start::read(words) {
            Ok((start, launched)) => {
                start.exec(starter, &launched).unwrap_or_else(|error| not_started(&error))
            }
            Err(error) => not_started(&error),
        }
    }

    fn exec(mut self, starter: &[OsString], launched: &LaunchInfo) -> io::Result<ExitCode> {
        if let Some(view) = self.view.take() {
            let inside = view.try_enter(starter).and_then(|()| view.enter());
            match (inside, &view.otherwise) {
                (Ok(()), _) => {
                    self.through.clear();
                    self.preload.clear();
                    let set =
                        view.environment.iter().map(|(name, value)| (name.into(), value.into()));
                    self.environment.extend(set);
                }
                (Err(why), Some(otherwise)) => print_error(&format!("{otherwise}: {why}")),
                (Err(why), None) => return Err(io::Error::other(why.to_string())),
            }
        }
        self.environment.extend(self.preloading());
        let inherited = launched.inherited.chunks(MARK);
        let launchers = std::env::vars_os().filter(|(name, value)| {
            // Variables of the dynamic loader that a launcher sets are only for the launcher's own programs.
            let own = SHELL_VARIABLES.iter().any(|shells| name == shells)
                || name.as_bytes().starts_with(b"LD_");
            !own && !inherited.clone().any(|marked| marked == mark(name, value).as_bytes())
        });
        let environment: BTreeMap<OsString, OsString> = launchers.chain(self.environment).collect();
        for (resource, limit) in self.limits {
            resource.set(limit)?;
        }
        if self.fixed_addresses {
            fix_addresses();
        }
        try_system_calls().map_err(io::Error::other)?;
        let mut words = self.through.into_iter().chain([self.program.clone().into()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(self.arguments).env_clear().envs(environment);
        if let Some(directory) = &self.directory
            && let Err(error) = std::env::set_current_dir(directory)
        {
            let why = cannot("enter", directory, &error);
            return Err(match (launched.tell, error.kind()) {
                (true, io::ErrorKind::PermissionDenied) => io::Error::other(format!(
                    "{why}; if a launcher changes the user, run the whole command as that user instead"
                )),
                _ => why,
            });
        }
        if !launched.tell {
            return Err(cannot("start", &self.program, &command.exec()));
        }
        let status = command.status().map_err(|error| cannot("start", &self.program, &error))?;
        let (how, number) = match (status.code(), status.signal()) {
            (Some(code), _) => ("exited", code),
            (None, signal) => ("signal", signal.unwrap_or(0)),
        };
        let line = format!("{{\"event\":\"ended\",\"{how}\":{number}}}\n");
        // If the reader has closed the pipe, it does not need the report about the end.
        let _ = io::stdout().write_all(line.as_bytes()).and_then(|()| io::stdout().flush());
        let code = status.code().unwrap_or(128 + number);
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(NOT_STARTED)))
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct LaunchInfo {
    /// Hashes of the environment variables that existed before the launcher started. A variable with one of these
    /// hashes was not set by the launcher.
    inherited: Vec<u8>,
    tell: bool,
}

fn parse_limit(word: &OsStr) -> Result<(Resource, Limit), StartError> {
    let parts = word.to_str().and_then(|text| text.split_once('='));
    let (name, limit) = parts.ok_or_else(|| StartError::new(word))?;
    let resource = name.parse().map_err(StartError)?;
    Ok((resource, Limit::parse(resource, limit).map_err(StartError)?))
}

/// Tests whether a view of the file system can be entered, by entering it. Returns exit status 0 if that succeeds.
fn try_view(word: Option<OsString>) -> ExitCode {
    let view = View::from_word(&word.unwrap_or_default());
    match view.map_err(ViewError::from).and_then(|view| view.enter()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            print_error(&why.to_string());
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn not_started(why: &dyn Error) -> ExitCode {
    print_error(&format!("starter: {why}"));
    ExitCode::from(NOT_STARTED)
}

/// Writes a line to standard error and ignores errors, for example if standard error is closed.
fn print_error(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} `{}`: {error}", path.display()))
}

fn assignment(name: &OsStr, value: &OsStr) -> OsString {
    let mut word = name.to_os_string();
    word.push("=");
    word.push(value);
    word
}

/// Encodes an argument so that no shell changes it. For example, `ssh` joins arguments with spaces, and a shell at the
/// other end splits them. Every character that may be special to a shell becomes `%` and two hexadecimal digits for
/// each byte. An empty argument becomes `%`.
fn encoded(word: &OsStr) -> OsString {
    if word.is_empty() {
        return "%".into();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:,+@".contains(&byte);
    let bytes = word.as_bytes().iter().map(|&byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    });
    bytes.collect::<String>().into()
}

/// Decodes the output of [`encoded`]. Text that has not been encoded is kept as far as possible.
fn decoded(word: &OsStr) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%');
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.extend((word != "%").then_some(first));
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Length of a variable's [`mark`] in bytes.
const MARK: usize = 8;

/// Returns a hash of an environment variable's name and value, 32 bits of FNV-1a. It does not reveal the value.
fn mark(name: &OsStr, value: &OsStr) -> OsString {
    let hash = assignment(name, value)
        .as_bytes()
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}").into()
}

/// Disables address space randomisation for the programs that this process starts or executes. Some containers forbid
/// that.
fn fix_addresses() {
    // SAFETY: neither call reads or writes memory of this process.
    unsafe {
        let now = libc::personality(0xffff_ffff);
        if now >= 0 {
            libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        }
    }
}

/// Error for arguments that do not describe a [`Start`], because a launcher has changed them.
#[derive(Debug, PartialEq, Eq)]
struct StartError(String);

impl StartError {
    fn new(word: &OsStr) -> Self {
        StartError(format!("the word `{}`", word.display()))
    }
}

impl Error for StartError {}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the launcher changed the command: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overlay, ViewEntry};

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn words_round_trip() {
        let odd = OsString::from_vec(b"a b\n\xff='\"$x".to_vec());
        let view = View {
            place: "/a place".into(),
            made: [
                ("a/b".into(), ViewEntry::Text("text\n".into())),
                ("c".into(), ViewEntry::Link("/d".into())),
            ]
            .into(),
            laid: vec![Overlay { folder: "/e".into(), over: vec!["f".into()], under: Vec::new() }],
            environment: [("G".to_owned(), "h".to_owned())].into(),
            otherwise: Some("without".to_owned()),
        };
        let start = Start {
            program: "/bin/a program".into(),
            through: words(&["/lib/ld.so", "--library-path", "a:b"]),
            view: Some(view),
            preload: words(&["/a folder/x.so", "y.so"]),
            arguments: words(&["", "--", "A=B", "--limit"]),
            environment: [("A".into(), odd), ("B".into(), "".into()), ("C".into(), "--".into())]
                .into(),
            directory: Some("/a folder=".into()),
            limits: [
                (Resource::Stack, Limit::NONE),
                (Resource::Core, Limit(0)),
                (Resource::Files, Limit(7)),
            ]
            .into(),
            fixed_addresses: true,
            tell_end: false,
            settles: false,
        };
        assert_eq!(Start::read(start.words()), Ok((start, LaunchInfo::default())));
        let least = Start {
            program: "p".into(),
            through: Vec::new(),
            view: None,
            preload: Vec::new(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            limits: BTreeMap::new(),
            fixed_addresses: false,
            tell_end: false,
            settles: false,
        };
        assert_eq!(least.words(), words(&["--", "p"]));
        assert_eq!(Start::read(least.words()), Ok((least, LaunchInfo::default())));
    }

    #[test]
    fn starter_is_used_only_if_needed() {
        let own = |resource: Resource| (resource, resource.current_limit());
        let at_once = Start {
            program: "p".into(),
            through: words(&["ld.so"]),
            view: None,
            preload: Vec::new(),
            arguments: words(&["work"]),
            environment: [("A".into(), "B".into())].into(),
            directory: Some("/".into()),
            limits: [own(Resource::Stack), (Resource::Core, Limit(0)), (Resource::Files, Limit(7))]
                .into(),
            fixed_addresses: false,
            tell_end: true,
            settles: true,
        };
        let Limit(stack) = Resource::Stack.current_limit();
        let check = |change: fn(&mut Start), launcher: &[&str], expected: &[&str]| {
            let mut start = at_once.clone();
            change(&mut start);
            let launcher: Vec<String> = launcher.iter().map(|word| (*word).to_owned()).collect();
            let command = start.command(&words(&["starter", "enter"]), &launcher);
            let line = std::iter::once(command.get_program()).chain(command.get_args());
            let line: Vec<_> = line.take(expected.len()).map(OsStr::to_os_string).collect();
            assert_eq!(line, words(expected));
        };
        let stack_word = format!("stack={}", Limit(stack));
        let settled = ["ld.so", "p", "work", "--limit", &stack_word, "--limit", "core=0"];
        check(|_| (), &[], &settled);
        let starter = ["starter", "enter"];
        check(|start| start.settles = false, &[], &starter);
        check(|start| start.fixed_addresses = true, &[], &starter);
        check(|start| start.view = Some(View::default()), &[], &starter);
        check(|start| start.limits.extend([(Resource::Stack, Limit(12345))]), &[], &starter);
        check(|start| start.limits.extend([(Resource::Memory, Limit(1 << 40))]), &[], &starter);
        check(|_| (), &["srun", "-n1"], &["srun", "-n1", "starter", "enter"]);

        let command = at_once.command(&starter.map(OsString::from), &[]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/")));
        let set: Vec<_> = command.get_envs().collect();
        assert_eq!(set, [(OsStr::new("A"), Some(OsStr::new("B")))]);
        let mut preloaded = Start { preload: words(&["/d/x.so"]), ..at_once };
        let name = OsString::from("LD_PRELOAD");
        assert_eq!(preloaded.preloading(), Some((name.clone(), "/d/x.so".into())));
        preloaded.environment.insert(name.clone(), "own.so".into());
        assert_eq!(preloaded.preloading(), Some((name, "/d/x.so:own.so".into())));
        assert_eq!(Start::apply_limits(words(&["--limit", &stack_word])), Ok(()));
        for bad in [&["limit"][..], &["--limit"], &["--limit", "stack"], &["--limit", "heap=1"]] {
            assert!(Start::apply_limits(words(bad)).is_err(), "{bad:?}");
        }
    }

    /// `ssh` joins encoded arguments into a line. A shell that splits this line returns the same arguments, whatever
    /// bytes they contain.
    #[test]
    fn encoded_words_survive_a_shell() {
        let all: Vec<u8> = (1..=255).collect();
        let odd =
            ["", "%", "%41", "a b", "{\"arch\":\"gfx1151\"}", "$HOME", "~", "=ls", "*", "a;b"];
        let mut given: Vec<OsString> = words(&odd);
        given.push(OsString::from_vec(all));
        let joined =
            given.iter().map(|word| encoded(word)).collect::<Vec<_>>().join(OsStr::new(" "));
        let mut line = OsString::from("printf '%s\\n' ");
        line.push(joined);
        let printed = Command::new("sh").arg("-c").arg(line).output().unwrap().stdout;
        let found: Vec<OsString> = printed
            .strip_suffix(b"\n")
            .unwrap()
            .split(|&byte| byte == b'\n')
            .map(|word| decoded(OsStr::from_bytes(word)))
            .collect();
        assert_eq!(found, given);
    }

    #[test]
    fn rejects_changed_words() {
        let refused = |text: &[&str], because: &str| {
            let error = Start::read(words(text)).unwrap_err().to_string();
            assert!(error.contains(because), "{text:?}: {error}");
        };
        refused(&[], "no program");
        refused(&["A=B"], "no program");
        refused(&["A=B", "--"], "no program");
        // A launcher that splits arguments again makes these arguments from `A=one two`, and from JSON text.
        refused(&["A=one", "two", "--", "p"], "`two`");
        refused(&["=", "--", "p"], "`=`");
        refused(&["--limit", "stack", "--", "p"], "`stack`");
        refused(&["--limit", "heap=1", "--", "p"], "`heap`");
        refused(&["--limit", "stack=-1", "--", "p"], "`stack=-1`");
        refused(&["--directory"], "`--directory`");
        refused(&["--through"], "`--through`");
        refused(&["--view", "{", "--", "p"], "the namespace");
    }

    #[test]
    fn marks_distinguish_values_without_revealing_them() {
        let marked = |name: &str, value: &str| mark(OsStr::new(name), OsStr::new(value));
        assert_eq!(marked("A", "B").len(), MARK);
        assert_eq!(marked("A", "B"), marked("A", "B"));
        assert_ne!(marked("A", "B"), marked("A", "C"));
        assert_ne!(marked("A", "B"), marked("B", "B"));
    }
}
