//! Prerequisites of trials on this machine, apart from the stack. Each is checked before a trial, so that its absence
//! is not reported as a failure of ROCm.
//!
//! | prerequisite | of | checked in |
//! | --- | --- | --- |
//! | basic system calls | every trial | `supervise::try_system_calls` here, and again by each worker and starter |
//! | a GPU | trials on a GPU | here |
//! | a C compiler, Python's headers | programs that compile code at run time, such as those of Triton | here |
//! | an interpreter, an environment, a command, package groups of the stack | programs | `program/packages.rs` |
//! | a view of the stack | programs that are not compiled | `program.rs` |

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{Error, ErrorKind},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use parking_lot::Mutex;
use plan::program::Packages;
use supervise::{Cancel, ChildEnd, ForbiddenCall, Limits, Observed};

use crate::{DeviceChoice, FailedOperation, FailureClass, SessionOptions, which};

/// A missing prerequisite that every trial needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrerequisiteError {
    #[error("{0}")]
    SystemCall(ForbiddenCall),
    #[error(
        "no GPU for HIP: `/dev/kfd` is missing, because the driver amdgpu is not loaded or the container was started \
         without it"
    )]
    NoGpu,
    #[error(
        "`/dev/kfd` cannot be used: {0}; if permission is missing, add your user to the group that owns it, `render` \
         or `video`"
    )]
    UnusableGpu(String),
}

impl FailedOperation for PrerequisiteError {
    fn class(&self) -> FailureClass {
        FailureClass::NoVerdict
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::SystemCall(_) => None,
            _ => Some("`--device emulated` needs no GPU".to_owned()),
        }
    }
}

/// Device files of AMD GPUs, relative to the root folder: that of the driver amdkfd, and that of the paravirtual GPU of
/// WSL.
const GPUS: [&str; 2] = ["dev/kfd", "dev/dxg"];

const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn check_every_trial(options: &SessionOptions) -> Result<(), PrerequisiteError> {
    supervise::try_system_calls().map_err(PrerequisiteError::SystemCall)?;
    // With a launcher, workers may run on another machine. A worker of the user may not need a GPU.
    let here = options.launcher.is_empty() && options.worker.is_none();
    match options.device == DeviceChoice::Gpu && here {
        true => gpu(Path::new("/")),
        false => Ok(()),
    }
}

fn gpu(root: &Path) -> Result<(), PrerequisiteError> {
    let open = |name: &&str| File::options().read(true).write(true).open(root.join(name));
    let errors: Vec<Error> = GPUS.iter().map(open).filter_map(Result::err).collect();
    if errors.len() < GPUS.len() {
        return Ok(());
    }
    Err(match errors.iter().find(|error| error.kind() != ErrorKind::NotFound) {
        None => PrerequisiteError::NoGpu,
        Some(error) => PrerequisiteError::UnusableGpu(error.to_string()),
    })
}

/// Returns true if a Python program compiles C code at run time, as Triton and PyTorch's compiler do.
pub fn compiles_at_run_time(packages: &Packages, text: &str) -> bool {
    let is_triton = |package: &String| {
        matches!(package.split("==").next(), Some("triton" | "pytorch-triton-rocm"))
    };
    let listed = matches!(packages, Packages::These(all) if all.iter().any(is_triton));
    let imports = |line: &str| {
        let line = line.trim_start();
        line.starts_with("import triton") || line.starts_with("from triton")
    };
    listed || text.lines().any(|line| imports(line) || line.contains("torch.compile("))
}

/// Checks the prerequisites of a program that compiles C code: a compiler on `path` (the one named `compiler`, if
/// given) and Python's headers. To check both, compiles a small C file in `folder`. Describes what is missing; `None`
/// if nothing is.
pub fn compiler_for(
    python: &Path,
    compiler: Option<&str>,
    path: &OsStr,
    folder: &Path,
) -> Option<String> {
    type Key = (PathBuf, Option<String>, OsString);
    static KNOWN: Mutex<BTreeMap<Key, Option<String>>> = Mutex::new(BTreeMap::new());
    let key = (python.to_owned(), compiler.map(str::to_owned), path.to_owned());
    // Other threads wait until the first thread knows the result.
    let mut known = KNOWN.lock();
    known.entry(key).or_insert_with(|| missing_compiler(python, compiler, path, folder)).clone()
}

fn missing_compiler(
    python: &Path,
    compiler: Option<&str>,
    path: &OsStr,
    folder: &Path,
) -> Option<String> {
    // Triton looks for compilers with these names.
    let names = compiler.map_or(vec!["gcc", "clang"], |named| vec![named]);
    let find = |name: &&str| match which::program(Path::new(name), path) {
        Ok(which::ProgramLocation::Here(file)) => Some(file),
        _ => None,
    };
    let Some(file) = names.iter().find_map(find) else {
        let names = names.join("` and no `");
        return Some(format!(
            "the program compiles C as it runs, and PATH has no `{names}`; install a C compiler"
        ));
    };
    const WHERE: &str = "import sys, sysconfig as s; d = s.get_default_scheme()\n\
        sys.stderr.write(s.get_paths('posix_prefix' if d == 'posix_local' else d)['include'])";
    let mut asked = Command::new(python);
    asked.args(["-I", "-c", WHERE]).env("PATH", path);
    let headers = match run_query(asked)? {
        seen if matches!(seen.ended, ChildEnd::Exited(0)) => PathBuf::from(seen.stderr.to_text()),
        // A Python interpreter that does not work is reported when it runs the program.
        _ => return None,
    };
    if !headers.join("Python.h").is_file() {
        let at = headers.display();
        return Some(format!(
            "the program compiles C as it runs, and `{at}/Python.h` is missing; install Python's headers (`python3-dev`)"
        ));
    }
    let source = folder.join("prerequisite.c");
    let text =
        "#include <Python.h>\n#include <stdio.h>\nint prerequisite(void) { return puts(\"\"); }\n";
    fs::write(&source, text).ok()?;
    let mut compile = Command::new(&file);
    compile.arg("-I").arg(&headers).args(["-shared", "-fPIC", "-o"]);
    compile.arg(folder.join("prerequisite.so")).arg(&source).env("PATH", path);
    let seen = run_query(compile)?;
    let text = seen.stderr.to_text();
    let error = || text.lines().find(|line| line.contains("error")).or(text.lines().next());
    (!matches!(seen.ended, ChildEnd::Exited(0))).then(|| {
        format!(
            "the program compiles C as it runs, and `{}` cannot compile against Python's headers: {}",
            file.display(),
            error().unwrap_or("it gives no reason")
        )
    })
}

fn run_query(command: Command) -> Option<Observed> {
    let limits = Limits { total: QUERY_TIMEOUT, quiet: QUERY_TIMEOUT, ..Limits::default() };
    Some(supervise::run(command, b"", &limits, &Cancel::new().ok()?, &mut |_| {}))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn finds_gpus_by_device_file() {
        let root = tempfile::tempdir().unwrap();
        let said = gpu(root.path()).unwrap_err().to_string();
        assert!(said.contains("`/dev/kfd` is missing"), "{said}");
        fs::create_dir_all(root.path().join("dev/kfd")).unwrap();
        let said = gpu(root.path()).unwrap_err().to_string();
        assert!(said.contains("`/dev/kfd` cannot be used: "), "{said}");
        fs::write(root.path().join("dev/dxg"), "").unwrap();
        assert!(gpu(root.path()).is_ok());
    }

    #[test]
    fn recognises_programs_that_compile_at_run_time() {
        let these = |names: &[&str]| Packages::These(names.iter().map(|n| (*n).into()).collect());
        assert!(compiles_at_run_time(&these(&["triton==3.9.0", "numpy"]), ""));
        assert!(compiles_at_run_time(&these(&["torch"]), "import torch\nf = torch.compile(g)\n"));
        assert!(compiles_at_run_time(&Packages::None, "    import triton.language as tl\n"));
        assert!(!compiles_at_run_time(&these(&["torch"]), "import torch\n# triton is not used\n"));
    }

    fn tools(scripts: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in scripts {
            let file = folder.path().join(name);
            fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        }
        folder
    }

    #[test]
    fn names_a_missing_compiler_and_missing_headers() {
        let headers = tempfile::tempdir().unwrap();
        let ask = format!("echo -n '{}' >&2", headers.path().display());
        let check = |scripts: &[(&str, &str)], compiler: Option<&str>, expected: Option<&str>| {
            let all = [scripts, &[("python3", ask.as_str())]].concat();
            let (tools, folder) = (tools(&all), tempfile::tempdir().unwrap());
            let python = tools.path().join("python3");
            let found = compiler_for(&python, compiler, tools.path().as_ref(), folder.path());
            match expected {
                Some(text) => {
                    assert!(found.as_ref().is_some_and(|f| f.contains(text)), "{found:?}")
                }
                None => assert_eq!(found, None),
            }
        };
        let works = ("clang", "exit 0");
        check(&[], None, Some("PATH has no `gcc` and no `clang`;"));
        check(&[works], Some("cc"), Some("PATH has no `cc`;"));
        check(&[works], None, Some("/Python.h` is missing; install Python's headers"));
        fs::write(headers.path().join("Python.h"), "").unwrap();
        check(&[works], None, None);
        let fails = ("gcc", "echo 'a.c:2: fatal error: stdio.h: none' >&2; exit 1");
        check(&[fails, works], None, Some("cannot compile against Python's headers: a.c:2: fatal"));
    }
}
