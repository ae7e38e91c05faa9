//! Makes a case from a user's program, or from the calls that `rocrepro record` recorded.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use case::{Language, doubts, draft};
use clap::Parser;
use engine::{CaseLibrary, CasesFrom, Stop, recording, rerun::quoted};

use crate::{
    args::{Cli, ExecutionOptions, New},
    outputs,
};

/// Largest program that becomes a case, in bytes.
const MAX_PROGRAM_BYTES: u64 = 1 << 20;

/// Writes a case for a program or a recording, checks it and runs it.
pub(crate) fn new(args: &New) -> Result<ExitCode, Stop> {
    let path = write_draft(args)?;
    let from = CasesFrom { path: path.clone(), trusted: true };
    let library = CaseLibrary::load(Some(&from))?;
    Stop::both(library.check(library.cases()), library.parse_python(library.cases()))?;
    let words = selection_arguments(args, &path);
    let code = match args.no_run {
        true => ExitCode::SUCCESS,
        false => {
            let words = ["rocrepro", "run"].map(str::to_owned).into_iter().chain(words.clone());
            let cli = Cli::try_parse_from(words).map_err(Stop::usage)?;
            super::run(cli)?
        }
    };
    outputs::print(&next_steps(&path, &words))?;
    Ok(code)
}

/// Writes the draft and returns its path. An existing file is not replaced.
fn write_draft(args: &New) -> Result<PathBuf, Stop> {
    let program = &args.program;
    if program.is_dir() {
        return from_recording(args);
    }
    let shown = program.display();
    let extension = program.extension().and_then(|extension| extension.to_str());
    let Some(language) = extension.and_then(Language::of_extension) else {
        return Err(Stop::usage(format!(
            "error: `{shown}` is neither C++ (.cpp, .hip, .cc, .cxx, .cu) nor Python (.py)"
        )));
    };
    let failed = |error| Stop::usage(format!("error: cannot read `{shown}`: {error}"));
    if fs::metadata(program).map_err(failed)?.len() > MAX_PROGRAM_BYTES {
        return Err(Stop::usage(format!(
            "error: `{shown}` has more than {} MiB",
            MAX_PROGRAM_BYTES >> 20
        )));
    }
    let text = fs::read_to_string(program).map_err(failed)?;
    let path = args.out.clone().unwrap_or_else(|| program.with_extension("yaml"));
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_beside = path.parent() == program.parent();
    write_new(&path, draft(&name, is_beside, language, &text).as_bytes())?;
    for doubt in doubts(&text, language) {
        outputs::note(format!("warning: {doubt}"));
    }
    Ok(path)
}

/// Writes the case of a recording and returns its path.
fn from_recording(args: &New) -> Result<PathBuf, Stop> {
    let converted = recording::case_of(&args.program, &CaseLibrary::shipped_kernels())?;
    let path = args.out.clone().unwrap_or_else(|| args.program.with_extension("yaml"));
    write_new(&path, converted.yaml.as_bytes())?;
    for (name, file) in &converted.files {
        let beside = path.with_file_name(name);
        // The file name contains the hash of the bytes, so an existing file has the same content.
        if !beside.exists() {
            write_new(&beside, file.bytes())?;
        }
    }
    for note in &converted.notes {
        outputs::note(format!("note: {note}"));
    }
    Ok(path)
}

/// Writes a new file. If a file with the same bytes exists, for example from an earlier try, it is used. Any other
/// existing file is an error.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        outputs::note(format!(
            "using the existing file {}, which has the same content",
            path.display()
        ));
        return Ok(());
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; name another file with --out",
            _ => "",
        };
        Stop::usage(format!("error: cannot write `{}`: {error}{hint}", path.display()))
    })?;
    file.write_all(bytes).map_err(|error| {
        Stop::usage(format!("error: cannot write `{}`: {error}", path.display()))
    })?;
    outputs::note(format!("wrote {}", path.display()));
    Ok(())
}

/// Returns the arguments with which other commands, such as `run`, select the new case.
fn selection_arguments(args: &New, path: &Path) -> Vec<String> {
    let mut words = vec![path.display().to_string(), "--trust".to_owned()];
    words.extend(args.target.words());
    if args.timeout != ExecutionOptions::TIMEOUT {
        words.push(format!("--timeout={}", args.timeout));
    }
    words.extend(args.environment.iter().map(|environment| format!("--in={environment}")));
    words
}

fn next_steps(path: &Path, words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quote_argument(word)).collect();
    let words = words.join(" ");
    let file = quoted(&path.display().to_string());
    format!(
        "\nNext:\n  read {file}, and name under `source` what says that the program is right\n  \
         if it fails      rocrepro report {words}\n  \
         its own races    rocrepro run {words} --sanitize\n  \
         if it passes     rocrepro prove {words}\n  \
         elsewhere        rocrepro run {file} --trust --rocm debian:6.4.3\n"
    )
}

/// Quotes an argument for a shell, and writes `--option=value` as two words.
fn quote_argument(word: &str) -> String {
    match word.strip_prefix("--").and_then(|rest| rest.split_once('=')) {
        Some((option, value)) => format!("--{option} {}", quoted(value)),
        None => quoted(word),
    }
}
