//! Finds what a program needs to run: an interpreter, Python packages, and package groups of the stack.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use plan::program::Packages;
use stacks::{Extra, Spec};
use supervise::{Cancel, ChildEnd, Limits, Start};

use crate::{
    Session, Stop,
    compiled::StartError,
    environments::{Environments, NamedEnvironment, normalize_name},
    missing_libraries, which,
};

const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// A Python environment that contains the packages of a program; `None` if the program imports no packages.
pub(super) struct Environment(Option<NamedEnvironment>);

/// Finds a Python environment with these packages. If the user named an environment or its folder, returns that one,
/// even if it has other versions of the packages.
pub(super) fn find(packages: &Packages, named: Option<&str>) -> Result<Environment, StartError> {
    let missing = |error: Stop| StartError::Missing(error.reason());
    if let (Some(named), Packages::Environment(_) | Packages::These(_)) = (named, packages) {
        let found = Environments::named(named).map_err(missing)?;
        let lock = found.lock().map_err(|error| missing(error.into()))?;
        let lacking = match packages {
            Packages::These(wanted) => {
                let name = |package: &String| package.split("==").next().map(str::to_owned);
                let names: Vec<String> = wanted.iter().filter_map(name).collect();
                names.into_iter().find(|name| !lock_contains(&lock, std::slice::from_ref(name)))
            }
            _ => None,
        };
        return match lacking {
            Some(name) => {
                Err(StartError::Missing(format!("{name} is not installed in `{named}` (--in)")))
            }
            None => Ok(Environment(Some(found))),
        };
    }
    match packages {
        Packages::None => Ok(Environment(None)),
        Packages::Environment(name) => {
            let found = Environments::named(name);
            found.map(|found| Environment(Some(found))).map_err(|error| {
                let why = error.reason();
                StartError::Missing(format!(
                    "{why}; create it with `rocrepro stack env create {name} PACKAGE...`"
                ))
            })
        }
        Packages::These(wanted) => {
            let all = Environments::open().map_err(missing)?.all();
            let found = all
                .into_iter()
                .find(|one| one.mark.is_whole() && lock_contains(&one.lock(), wanted));
            found.map(|found| Environment(Some(NamedEnvironment::Kept(found)))).ok_or_else(|| {
                let name = wanted[0].split("==").next().unwrap_or("packages");
                let (all, words) = (wanted.join(" and "), wanted.join(" "));
                StartError::Missing(match name {
                    // No command is suggested, because `stack env create` would install PyTorch for CUDA, on which the
                    // cases do not run.
                    "torch" => format!(
                        "no environment contains {all}; name the folder of one with PyTorch for ROCm (--in FOLDER): PyPI \
                         has PyTorch only for CUDA"
                    ),
                    _ => format!(
                        "no environment contains {all}; create one with `rocrepro stack env create {name} {words}`"
                    ),
                })
            })
        }
    }
}

fn lock_contains(lock: &str, wanted: &[String]) -> bool {
    let there: Vec<(String, &str)> = lock
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(|word| word.split_once("==").unwrap_or((word, "")))
        .map(|(name, version)| (normalize_name(name), version))
        .collect();
    wanted.iter().all(|package| {
        let (name, version) = package.split_once("==").unwrap_or((package, ""));
        let name = normalize_name(name);
        there.iter().any(|(other, its)| *other == name && (version.is_empty() || version == *its))
    })
}

/// Returns the real interpreter behind `python3`, because `python3` may be a slow script of pyenv or asdf. `None` if
/// PATH has no `python3`.
fn machine_python() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let named = which::file(Path::new("python3")).ok()?;
        let asked = is_script(&named).then(|| resolved_interpreter(&named)).flatten();
        Some(asked.filter(|file| which::is_executable(file)).unwrap_or(named))
    });
    found.as_ref()
}

fn is_script(file: &Path) -> bool {
    let mut begin = [0; 2];
    File::open(file).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"#!"
}

/// Asks an interpreter for its path. Returns `None` if the interpreter fails.
fn resolved_interpreter(named: &Path) -> Option<PathBuf> {
    let mut command = Command::new(named);
    // The supervisor reads events from standard output, so the path is written to standard error.
    command.args(["-I", "-c", "import sys; sys.stderr.write(sys.executable)"]);
    let limits = Limits { total: QUERY_TIMEOUT, quiet: QUERY_TIMEOUT, ..Limits::default() };
    let seen = supervise::run(command, b"", &limits, &Cancel::new().ok()?, &mut |_| {});
    matches!(seen.ended, ChildEnd::Exited(0)).then(|| seen.stderr.to_text().into())
}

impl Environment {
    pub(super) fn python(&self) -> Result<PathBuf, StartError> {
        match &self.0 {
            Some(found) => Ok(found.venv().join("bin/python")),
            None => machine_python().cloned().ok_or_else(|| {
                StartError::Missing("PATH has no `python3`; install Python 3".to_owned())
            }),
        }
    }

    /// Finds a program in the Python environment, otherwise on PATH, and otherwise in the stack.
    pub(super) fn program(&self, session: &Session, name: &str) -> Result<PathBuf, StartError> {
        let own = self.0.as_ref().map(|found| found.venv().join("bin").join(name));
        if let Some(own) = own.filter(|file| file.is_file()) {
            return Ok(own);
        }
        let of_stack = session.stack.root.join("usr/bin").join(name);
        match which::file(Path::new(name)) {
            Ok(file) => Ok(file),
            Err(_) if of_stack.is_file() => Ok(of_stack),
            Err(_) => Err(StartError::Missing(format!(
                "program `{name}` found neither on this machine nor in the stack"
            ))),
        }
    }

    pub(super) fn enter(&self, start: &mut Start) {
        let Some(found) = &self.0 else { return };
        for (name, value) in found.variables() {
            start.environment.entry(name.into()).or_insert(value.into());
        }
        let mut path: OsString = found.venv().join("bin").into();
        if let Some(rest) = start.environment.get(OsStr::new("PATH")) {
            path.push(":");
            path.push(rest);
        }
        start.environment.insert("PATH".into(), path);
    }

    pub(super) fn name(&self) -> Option<String> {
        self.0.as_ref().map(|found| found.name())
    }

    pub(super) fn packages(&self) -> Vec<String> {
        let lock = self.lock().unwrap_or_default();
        let first = |line: &str| line.split(" --hash").next().unwrap_or_default().to_owned();
        lock.lines().map(first).collect()
    }

    pub(super) fn lock_digest(&self) -> Option<String> {
        self.lock().map(|lock| plan::digest(lock.as_bytes()))
    }

    fn lock(&self) -> Option<String> {
        self.0.as_ref().and_then(|found| found.lock().ok())
    }
}

/// Returns the skip reason if a fetched stack does not have all package groups. An installed ROCm is not checked.
pub(super) fn missing_groups_reason(session: &Session, groups: &[String]) -> Option<String> {
    let manifest = session.stack.manifest.as_ref()?;
    missing_groups(&session.stack.spec, &manifest.with, groups)
}

/// Returns the skip reason if a stack was fetched without some of the package groups.
fn missing_groups(spec: &str, with: &[Extra], groups: &[String]) -> Option<String> {
    let wanted = groups.iter().flat_map(|name| Extra::named(name).unwrap_or_default());
    let missing: Vec<Extra> = wanted.filter(|extra| !with.contains(extra)).collect();
    let Ok(Spec::Debian(release)) = spec.parse() else { return None };
    if let Some(absent) = missing.iter().find(|extra| release.extra(**extra).is_none()) {
        return Some(format!("`{spec}` does not contain {absent}"));
    }
    if missing.is_empty() {
        return None;
    }
    let bytes = missing.iter().map(|extra| release.size_of(*extra)).sum();
    let (names, size) = (groups.join(","), missing_libraries::mb(bytes));
    Some(format!(
        "the stack lacks some of the packages for {names}; `rocrepro stack fetch {spec} --with {names}` adds them \
         (at most {size})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_interpreter_behind_a_script() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let shim = folder.path().join("python3");
        std::fs::write(&shim, "#!/bin/sh\nexec python3 \"$@\"\n").unwrap();
        std::fs::set_permissions(&shim, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(is_script(&shim));
        let python = resolved_interpreter(&shim).unwrap();
        assert!(
            which::is_executable(&python) && python != shim && !is_script(&python),
            "{python:?}"
        );
    }

    #[test]
    fn missing_groups_come_with_advice() {
        let reason = |with: &[Extra], group: &str| {
            missing_groups("debian:7.2.4", with, &[group.to_owned()]).unwrap_or_default()
        };
        let all = Extra::named("jax").expect("a group");
        let said = reason(&all[1..], "jax");
        assert!(
            said.contains("`rocrepro stack fetch debian:7.2.4 --with jax` adds them ("),
            "{said}"
        );
        assert_eq!(reason(&all, "jax"), "");
        assert_eq!(reason(&[], "llama"), "`debian:7.2.4` does not contain llama");
    }

    #[test]
    fn compares_locks_with_requested_packages() {
        let lock = "numpy==2.3.1 --hash=sha256:aa\ntriton==3.9.0 --hash=sha256:bb\n\
                    Cupy_ROCm-7.0==14.2.0 --hash=sha256:cc\nlocal @ file:///x --hash=sha256:dd\n";
        let check = |wanted: &[&str], expected: bool| {
            let wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
            assert_eq!(lock_contains(lock, &wanted), expected, "{wanted:?}");
        };
        check(&["triton==3.9.0", "numpy"], true);
        check(&["triton==3.9"], false);
        check(&["cupy-rocm-7-0==14.2.0"], true);
        check(&["local"], true);
        check(&["torch"], false);
    }

    #[test]
    fn groups_of_cases_and_stacks_agree() {
        for name in case::GROUPS {
            assert!(Extra::named(name).is_ok(), "{name}");
        }
        for extra in Extra::ALL {
            assert!(case::GROUPS.contains(&extra.to_string().as_str()), "{extra}");
        }
    }
}
