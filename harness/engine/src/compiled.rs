//! Compiles the C++ programs of cases, once per stack, and keeps the executables.

use std::{collections::BTreeMap, fs, io, path::PathBuf, sync::Arc};

use device::FaultSpec;
use parking_lot::Mutex;
use plan::program::Source;
use stacks::Stack;
use supervise::Cancel;

use crate::{Stop, helper, toolchain::Toolchain};

/// The reason why a program cannot be started.
#[derive(Clone, Debug)]
pub(crate) enum StartError {
    /// A prerequisite is missing; the text says how to install it.
    Missing(String),
    /// A problem of this machine prevents the compilation.
    Trouble(String),
    /// The program does not compile; the text is the compiler's output.
    Refused(String),
}

pub(crate) struct Compiler {
    toolchain: Toolchain,
    /// Folder with the C++ header that programs include. The folder is removed with the session.
    headers: PathBuf,
    kept: PathBuf,
    /// One lock per program, so that a trial waits only while its own program is compiled.
    turns: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

impl Compiler {
    /// Finds the stack's compiler, and writes the C++ header that programs include.
    pub(crate) fn find(stack: &Stack, headers: PathBuf, kept: PathBuf) -> Result<Self, StartError> {
        let trouble = |error: io::Error| {
            StartError::Trouble(format!("cannot create a folder for headers: {error}"))
        };
        fs::create_dir_all(&headers).map_err(trouble)?;
        fs::write(headers.join(helper::CPP.0), helper::CPP.1).map_err(trouble)?;
        let absent = |stop: Stop| match stop.is_usage() {
            true => StartError::Missing(stop.reason()),
            false => StartError::Trouble(stop.reason()),
        };
        let toolchain = Toolchain::find(stack, export::Form::Hipcc, &headers);
        let toolchain = toolchain.map_err(|error| absent(error.into()))?;
        Ok(Compiler { toolchain, headers, kept, turns: Mutex::default() })
    }

    pub(crate) fn compiled(
        &self,
        source: &Source,
        arch: &[String],
        options: &[String],
        cancel: &Cancel,
    ) -> Result<PathBuf, StartError> {
        let stack = &self.toolchain.stack;
        let identity = stack.identify();
        let runtime =
            identity.library("libamdhip64").and_then(|library| library.build_id.as_deref());
        let key = format!("{:?}", (&source.text, arch, options, runtime, helper::CPP.1));
        let name = plan::digest(key.as_bytes());
        let program = self.kept.join(&name);
        let mut turns = self.turns.lock();
        let turn = Arc::clone(turns.entry(name).or_default());
        drop(turns);
        let _turn = turn.lock();
        if program.is_file() {
            return Ok(program);
        }
        let trouble = |error: io::Error| {
            StartError::Trouble(format!("cannot cache a compiled program: {error}"))
        };
        fs::create_dir_all(&self.kept).map_err(trouble)?;
        let place = tempfile::tempdir_in(&self.kept).map_err(trouble)?;
        let name = source.file.as_deref().unwrap_or("program.cpp");
        let (text, built) = (place.path().join(name), place.path().join("program"));
        fs::write(&text, &source.text).map_err(trouble)?;
        let mut words = vec!["-I".to_owned(), self.headers.display().to_string()];
        // Compiler messages then show the file name that the case states, not the path of the copy.
        words.push(format!("-ffile-prefix-map={}/=", place.path().display()));
        words.extend(options.iter().flat_map(|option| self.resolve_library(option)));
        let done = self.toolchain.compile_program(&text, &built, arch, &words, cancel);
        match done.map_err(|error| StartError::Trouble(error.to_string()))? {
            Ok(()) => fs::rename(&built, &program).map_err(trouble)?,
            // An old clang expects a folder layout that differs from Debian's, so the program is not the cause of this
            // error.
            Err(log) if log.contains("cannot find HIP runtime") => {
                return Err(StartError::Missing(format!(
                    "the compiler of `{}` does not find its HIP runtime, so it cannot compile C++ programs",
                    stack.spec
                )));
            }
            Err(log) => {
                return Err(match missing_library(&log) {
                    Some(name) => StartError::Missing(format!(
                        "neither `{}` nor this machine has lib{name}; `--with` fetches a package that contains it",
                        stack.spec
                    )),
                    None => StartError::Refused(log),
                });
            }
        }
        Ok(program)
    }

    /// Returns the interposer library that injects faults at calls; `None` if no fault needs it.
    pub(crate) fn interposer(
        &self,
        faults: &[FaultSpec],
        cancel: &Cancel,
    ) -> Result<Option<PathBuf>, StartError> {
        let Some(text) = case::interposer(faults) else { return Ok(None) };
        let source = Source { text, file: Some("interposer.cpp".to_owned()), above: 0 };
        let options = ["-x", "c++", "-shared", "-fPIC"].map(str::to_owned);
        self.compiled(&source, &[], &options, cancel).map(Some)
    }

    /// Replaces an option such as `-lrocblas` by the path of the stack's file, because linkers do not search the stack.
    fn resolve_library(&self, option: &str) -> Vec<String> {
        let file = option.strip_prefix("-l").map(|name| match name.strip_prefix(':') {
            Some(file) => file.to_owned(),
            None => format!("lib{name}.so"),
        });
        match file.and_then(|file| self.toolchain.stack.library(&file)) {
            Some(path) => vec!["-Xlinker".to_owned(), path.display().to_string()],
            None => vec![option.to_owned()],
        }
    }
}

fn missing_library(log: &str) -> Option<&str> {
    log.lines().find_map(|line| {
        let (_, name) = line.split_once(" -l")?;
        let says = ["unable to find library", "cannot find"].iter().any(|text| line.contains(text));
        says.then(|| name.split([':', ' ']).next().unwrap_or(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_missing_library_in_linker_output() {
        let of = |log| missing_library(log);
        assert_eq!(of("ld.lld: error: unable to find library -lrocfft\n"), Some("rocfft"));
        assert_eq!(of("/usr/bin/ld: cannot find -lrocfft: No such file"), Some("rocfft"));
        assert_eq!(of("a.cpp:3: error: expected ';'\nld.lld: error: undefined symbol: f"), None);
    }
}
