//! Turns a command line of the user into a case with one trial, so that every rocrepro command for cases also works on
//! the user's program.

use std::{
    ffi::OsString,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::Command,
};

use device::FaultSpec;
use plan::program::Packages;
use report::Record;
use serde_json::json;
use stacks::Hint;
use supervise::{Cancel, ChildEnd, Limits, Line};
use thiserror::Error;

use crate::{
    CaseLibrary, DeviceChoice, Session, SessionOptions, Stop, prerequisites,
    program_text::{ProgramText, read_text},
    rerun::{Rerun, RerunSubject},
    stop::explained,
    which,
};

/// The reason why the user's command line cannot be run, or why its run could not be judged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CommandLineError {
    /// The device is a GPU, which does not report which programs use it.
    #[error(
        "the run of a program can be judged only on the emulated device, because a GPU does not report which program \
         used it"
    )]
    OnGpu,
    /// The user asked for a run outside of a namespace.
    #[error("a program can be judged only in a namespace")]
    OutsideNamespace,
    /// An argument of the command line is not valid UTF-8.
    #[error("`{0}` is not UTF-8 text, so a report cannot print it")]
    NotText(String),
    /// The source file of the program cannot be read or shown in a report.
    #[error("`{0}` is not a text file of at most 64 KiB")]
    Source(String),
    /// The program compiles code when it runs, but cannot use a compiler. The text gives the reason.
    #[error("not run: {0}")]
    NoCompiler(String),
    /// A folder cannot be created or found.
    #[error("{folder}: {error}")]
    Folder {
        /// The purpose of the folder, for messages.
        folder: &'static str,
        /// The cause.
        error: std::io::Error,
    },
}

impl Hint for CommandLineError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            CommandLineError::OnGpu => "use `--device emulated`",
            CommandLineError::OutsideNamespace => "omit `--home loader`",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<CommandLineError> for Stop {
    fn from(error: CommandLineError) -> Stop {
        let message = format!("error: {}", explained(&error));
        match error {
            CommandLineError::NoCompiler(_) | CommandLineError::Folder { .. } => {
                Stop::no_verdict(message)
            }
            _ => Stop::usage(message),
        }
    }
}

/// A command line as typed, and the conditions under which its run passes.
#[derive(Clone, Debug)]
pub struct CommandOptions {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Name or folder of the Python environment in which the program is looked up.
    pub environment: Option<String>,
    /// True if the user asked for a run outside of a namespace, which is refused.
    pub outside_namespace: bool,
    /// The exit status that the program must have.
    pub exit: u32,
    /// Texts that the output must contain.
    pub says: Vec<String>,
    /// Texts that the output must not contain.
    pub never: Vec<String>,
    /// The expected behaviour, as one sentence.
    pub title: Option<String>,
    /// The file with the source of the program. By default, the first argument of the command line that names a text
    /// file.
    pub source: Option<PathBuf>,
}

/// A command line that can be run and judged like a case.
pub struct CommandLine {
    options: CommandOptions,
    words: Vec<String>,
    text: Option<ProgramText>,
    name: String,
    library: CaseLibrary,
    /// Libraries that the stack needs, as typed after `--with`.
    with: Vec<String>,
}

impl CommandLine {
    /// Checks a command line and makes a case from it.
    ///
    /// # Errors
    /// Options that are not valid, or a missing compiler that the program needs at run time.
    pub fn read(options: CommandOptions, session: &SessionOptions) -> Result<CommandLine, Stop> {
        let given =
            Stop::both(words(&options).map_err(Stop::from), check_possible(&options, session));
        let text = which::refuse_text(&options.program).map_err(Stop::from);
        let ((words, ()), ()) = Stop::both(given, text)?;
        let text = source(&options, &words)?;
        if let Some(text) = &text
            && text.language == "python"
            && prerequisites::compiles_at_run_time(&Packages::None, &text.text)
        {
            find_compiler(&options.program)?;
        }
        let name = name(text.as_ref().map_or(&options.program, |text| &text.file));
        let library = CaseLibrary::of_text(&name, &case(&options, &name, &words))?;
        let with = session.with.clone();
        Ok(CommandLine { options, words, text, name, library, with })
    }

    /// Returns the options of a session that runs the program in the current folder.
    ///
    /// # Errors
    /// The current folder cannot be found.
    pub fn in_session(&self, options: SessionOptions) -> Result<SessionOptions, Stop> {
        let here = std::env::current_dir().map_err(|error| CommandLineError::Folder {
            folder: "cannot determine the current folder",
            error,
        })?;
        // All runs use the current folder, so only one may run at a time.
        Ok(SessionOptions { programs_in: Some(here), jobs: Some(NonZeroUsize::MIN), ..options })
    }

    /// Returns a library with one case, which runs the command line.
    pub(crate) fn library(&self) -> &CaseLibrary {
        &self.library
    }

    /// Returns the program and its arguments.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the name of the program: the file name without its extension.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the source of the program, if the source file was found.
    pub(crate) fn text(&self) -> Option<&ProgramText> {
        self.text.as_ref()
    }

    /// Returns the index of the argument that names the program's source file; `None` if no argument does.
    pub(crate) fn source_argument_index(&self) -> Option<usize> {
        let file = &self.text.as_ref()?.file;
        self.words.iter().position(|word| Path::new(word) == file)
    }

    /// Returns the command line with another file in place of the program's source file; `None` if no argument names
    /// the source file.
    ///
    /// # Errors
    /// Those of [`CommandLine::read`].
    pub(crate) fn with_file(
        &self,
        file: &Path,
        session: &SessionOptions,
    ) -> Result<Option<CommandLine>, Stop> {
        let Some(at) = self.source_argument_index() else { return Ok(None) };
        let mut words: Vec<OsString> = self.words.iter().map(OsString::from).collect();
        words[at] = file.as_os_str().to_owned();
        let program = PathBuf::from(words.remove(0));
        let title = Some(self.title());
        let options = CommandOptions {
            program,
            arguments: words,
            title,
            source: Some(file.to_owned()),
            ..self.options.clone()
        };
        CommandLine::read(options, session).map(Some)
    }

    /// Returns the expected behaviour, as one sentence.
    fn title(&self) -> String {
        self.options.title.clone().unwrap_or_else(|| expectation(&self.options, &self.name))
    }

    /// Adds to each record the command that repeats the run, and the Python packages that the program can import.
    pub(crate) fn describe(
        &self,
        records: &mut [Record],
        session: &Session,
        faults: &[FaultSpec],
        cancel: &Cancel,
    ) {
        let again = self.rerun("exec", Vec::new(), session, faults);
        let mut found = None;
        for record in records {
            record.again.clone_from(&again);
            if let Some(program) = record.program.as_mut().filter(|it| it.packages.is_empty()) {
                let packages = found.get_or_insert_with(|| packages(&self.options.program, cancel));
                program.packages.clone_from(packages);
            }
        }
    }

    /// Returns the rocrepro command line that runs the subcommand `command` on this program, with the options `more`
    /// and with the options that affect every run.
    pub(crate) fn rerun(
        &self,
        command: &'static str,
        more: Vec<(&'static str, String)>,
        session: &Session,
        faults: &[FaultSpec],
    ) -> String {
        let with = (!self.with.is_empty()).then(|| ("--with", self.with.join(",")));
        // The option `--in` may also come from the session, whose options are added to every command line.
        let is_given = session.given().iter().any(|(option, _)| *option == "--in");
        let environment = self.options.environment.iter().filter(|_| !is_given);
        let environment = environment.map(|name| ("--in", name.clone()));
        let options: Vec<_> = with.into_iter().chain(environment).chain(more).collect();
        let what = RerunSubject::Program(&self.words, &options);
        Rerun { command, what, late: None, faults }.command_line(session)
    }

    /// Returns the options that state when a run passes, in the form in which a user types them, for example `--exit
    /// 1`. Leaves out `--title`. The text is empty if no other option states it.
    pub(crate) fn stated_result(&self) -> String {
        let options = self.requirements().into_iter().filter(|(option, _)| *option != "--title");
        let options = options.map(|(option, value)| format!("{option} {}", shell::quote(&value)));
        options.collect::<Vec<_>>().join(" ")
    }

    /// Returns the options that state when a run passes, for example `--exit` and `--says`.
    pub(crate) fn requirements(&self) -> Vec<(&'static str, String)> {
        let CommandOptions { exit, says, never, title, .. } = &self.options;
        let mut options = Vec::new();
        if *exit != 0 {
            options.push(("--exit", exit.to_string()));
        }
        options.extend(says.iter().map(|text| ("--says", text.clone())));
        options.extend(never.iter().map(|text| ("--never", text.clone())));
        options.extend(title.iter().map(|text| ("--title", text.clone())));
        options
    }
}

/// Returns an error if the options ask for a run that rocrepro cannot judge.
fn check_possible(options: &CommandOptions, session: &SessionOptions) -> Result<(), Stop> {
    let on_gpu = session.device == DeviceChoice::Gpu;
    let on_gpu = if on_gpu { Err(CommandLineError::OnGpu.into()) } else { Ok(()) };
    let outside = options.outside_namespace;
    let outside = if outside { Err(CommandLineError::OutsideNamespace.into()) } else { Ok(()) };
    Stop::both(on_gpu, outside).map(|_| ())
}

/// Checks that the compiler that a Python program needs at run time exists.
fn find_compiler(program: &Path) -> Result<(), CommandLineError> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with("python") {
        return Ok(());
    }
    let folder = tempfile::tempdir().map_err(|error| CommandLineError::Folder {
        folder: "cannot create a temporary folder",
        error,
    })?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    match prerequisites::compiler_for(program, None, &path, folder.path()) {
        Some(why) => Err(CommandLineError::NoCompiler(why)),
        None => Ok(()),
    }
}

/// Returns the program and its arguments as text.
fn words(options: &CommandOptions) -> Result<Vec<String>, CommandLineError> {
    let all = std::iter::once(options.program.clone().into_os_string());
    let all = all.chain(options.arguments.iter().cloned()).map(OsString::into_string);
    all.collect::<Result<_, _>>()
        .map_err(|word| CommandLineError::NotText(word.to_string_lossy().into_owned()))
}

/// Returns the program's source: the file that the user named, or the first argument that names a text file. `None` if
/// the user named no file and no argument names one.
fn source(
    options: &CommandOptions,
    words: &[String],
) -> Result<Option<ProgramText>, CommandLineError> {
    match &options.source {
        Some(file) => read_text(file)
            .map(Some)
            .ok_or_else(|| CommandLineError::Source(file.display().to_string())),
        None => Ok(words.iter().find_map(|word| read_text(Path::new(word)))),
    }
}

/// Returns the name of the program: the file name without its extension, with only those characters that every file
/// system accepts.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    if name.is_empty() { "program".to_owned() } else { name }
}

/// Returns the YAML of a case that runs the command line, so that the command line is run and judged like any other
/// case. A case must declare a fault, so this case declares one, which is not injected.
fn case(options: &CommandOptions, name: &str, words: &[String]) -> String {
    let title = options.title.clone().unwrap_or_else(|| expectation(options, name));
    // In a case, a dollar sign refers to an axis of the matrix.
    let plain =
        |texts: &[String]| texts.iter().map(|text| text.replace('$', "$$")).collect::<Vec<_>>();
    let mut program = json!({"command": plain(words), "exit": options.exit});
    for (key, texts) in [("says", &options.says), ("never", &options.never)] {
        if !texts.is_empty() {
            program[key] = json!(plain(texts));
        }
    }
    if let Some(environment) = &options.environment {
        program["env"] = json!(environment);
    }
    // Every JSON document is also a YAML document.
    json!({
        "title": title,
        "source": ["a command line"],
        "program": program,
        "faults": ["copy.zero"],
    })
    .to_string()
}

/// Returns the default title of the case, for a user who gave none.
fn expectation(options: &CommandOptions, name: &str) -> String {
    let mut text = format!("{name} ends with exit status {}", options.exit);
    if !options.says.is_empty() || !options.never.is_empty() {
        text.push_str(" and prints the required output");
    }
    text
}

/// Lists the Python packages that the program can import. The list is empty for a program that is not Python, and for
/// the machine's own Python, because the user's packages are private.
fn packages(program: &Path, cancel: &Cancel) -> Vec<String> {
    const LIST_PACKAGES: &str = "\
import importlib.metadata as m, os, sys
if sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, 'conda-meta')):
    for d in m.distributions(): print(d.metadata['Name'] + '==' + d.version)";
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with("python") {
        return Vec::new();
    }
    let mut command = Command::new(program);
    command.args(["-c", LIST_PACKAGES]);
    let seen = supervise::run(command, b"", &Limits::default(), cancel, &mut |_| {});
    if !matches!(seen.ended, ChildEnd::Exited(0)) {
        return Vec::new();
    }
    let text = |line: &Line| String::from_utf8_lossy(&line.text).into_owned();
    let mut packages: Vec<String> = seen.lines.iter().map(text).collect();
    packages.sort();
    packages.dedup();
    packages
}
