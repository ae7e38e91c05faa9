//! Bisects versions of a Python package. At each point, the subject runs in an environment with one version.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use report::evidence::Component;

use crate::{error::AxisError, kind::AxisKind, run::PreparationError};
use engine::{
    Stop,
    environments::{Environments, PackageSources, normalize_name},
    events::Reporting,
};

/// Prefix of a package's name in the options `--axis` and `--source`.
pub const PREFIX: &str = "pypi:";

const PYTHON: &str = "python3";

/// Returns the versions of a package that pip lists for this machine's Python, the oldest first.
pub(crate) fn versions(package: &str) -> Result<Vec<String>, AxisError> {
    let mut pip = Command::new(PYTHON);
    pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "index", "versions"]);
    let output = pip.arg("--").arg(package).output();
    let output = output.map_err(|error| AxisError::PythonNotStarted(PYTHON, error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let listed = text.lines().find_map(|line| line.strip_prefix("Available versions: "));
    let Some(listed) = listed.filter(|_| output.status.success()) else {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().find(|line| line.starts_with("ERROR")).unwrap_or("pip lists none");
        return Err(AxisError::NoVersions(package.to_owned(), PYTHON, why.to_owned()));
    };
    let mut versions: Vec<_> = listed.split(", ").map(|word| word.trim().to_owned()).collect();
    versions.reverse();
    Ok(versions)
}

/// Returns the packages of an environment: the searched package in this version, those that the program of a case
/// imports, and those of `--packages`.
pub(crate) fn required_packages(kind: &AxisKind, version: &str, imports: &[String]) -> Vec<String> {
    let AxisKind::Package { name: package, beside } = kind else { return Vec::new() };
    let name = |text: &str| normalize_name(text.split("==").next().unwrap_or(text));
    let mut all = vec![format!("{package}=={version}")];
    for other in imports.iter().filter(|other| name(other) != name(package)).chain(beside) {
        if !all.contains(other) {
            all.push(other.clone());
        }
    }
    all
}

pub(crate) fn is_unrelated(package: &str, imports: &[String]) -> bool {
    let name = |text: &str| normalize_name(text.split("==").next().unwrap_or(text));
    !imports.iter().any(|import| name(import) == normalize_name(package))
}

/// Returns the name of a Python environment that was made for exactly these packages. Creates it if necessary.
pub(crate) fn environment(
    wanted: &[String],
    reporting: &Reporting,
) -> Result<String, PreparationError> {
    let trouble = |stop: Stop| PreparationError::Trouble(stop.reason());
    let all = Environments::open().map_err(trouble)?;
    let there = all.all().into_iter().find(|it| it.mark.is_whole() && it.mark.packages == wanted);
    if let Some(there) = there {
        return Ok(there.name);
    }
    let digest = plan::digest(wanted.join(" ").as_bytes());
    let first = wanted[0].replace("==", "-");
    let name = format!("{first}-{}", digest.get(..8).unwrap_or(&digest));
    // An interrupted search has left the environment incomplete.
    if all.all().iter().any(|it| it.name == name && !it.mark.is_whole()) {
        all.remove(&name).map_err(|error| trouble(error.into()))?;
    }
    match all.create(&name, Path::new(PYTHON), wanted, &PackageSources::default(), reporting) {
        Ok(made) => Ok(made.name),
        Err(stop) => {
            let why =
                format!("cannot create the environment of {}: {}", wanted.join(" "), stop.reason());
            // If pip can list the versions of the package, the network works and only this version cannot be installed.
            let package = wanted[0].split("==").next().unwrap_or_default();
            Err(match versions(package) {
                Ok(_) => PreparationError::Unusable(why),
                Err(_) => PreparationError::Trouble(why),
            })
        }
    }
}

/// Returns all packages whose versions differ between the environments of two points, including dependencies. `good`
/// and `bad` are the packages that the two environments were requested with. Returns an empty list if one of the
/// environments does not exist.
pub(crate) fn changed_packages(good: &[String], bad: &[String]) -> Vec<Component> {
    let locks = || {
        let all = Environments::open().ok()?.all();
        let lock = |wanted: &[String]| {
            let made = all.iter().find(|it| it.mark.is_whole() && it.mark.packages == wanted)?;
            Some(made.lock())
        };
        Some((lock(good)?, lock(bad)?))
    };
    let Some((good, bad)) = locks() else { return Vec::new() };
    changed_versions(&good, &bad)
}

fn changed_versions(good: &str, bad: &str) -> Vec<Component> {
    let read = |lock: &str| -> BTreeMap<String, String> {
        let words = lock.lines().filter_map(|line| line.split_whitespace().next());
        words
            .map(|word| word.split_once("==").unwrap_or((word, "")))
            .map(|(name, version)| (normalize_name(name), version.to_owned()))
            .collect()
    };
    let (good, bad) = (read(good), read(bad));
    let names: BTreeSet<&String> = good.keys().chain(bad.keys()).collect();
    let of = |all: &BTreeMap<String, String>, name: &str| {
        all.get(name).cloned().unwrap_or_else(|| "none".to_owned())
    };
    let moved = names.into_iter().filter(|name| good.get(*name) != bad.get(*name));
    moved
        .map(|name| Component {
            name: name.clone(),
            good: of(&good, name),
            bad: of(&bad, name),
            compare_url: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_has_version_imports_and_packages() {
        let kind =
            AxisKind::Package { name: "Some_Thing".to_owned(), beside: vec!["b==2".to_owned()] };
        let imports = ["some-thing==1".to_owned(), "numpy".to_owned(), "b==2".to_owned()];
        assert_eq!(required_packages(&kind, "3", &imports), ["Some_Thing==3", "numpy", "b==2"]);
        assert!(!is_unrelated("Some_Thing", &imports) && is_unrelated("other", &imports));
    }

    #[test]
    fn lists_differences_of_two_locks() {
        let good = "a==1 --hash=sha256:aa\nb==2 --hash=sha256:bb\ngone==1 --hash=sha256:cc\n";
        let bad = "A==1 --hash=sha256:aa\nb==3 --hash=sha256:dd\nnew==1 --hash=sha256:ee\n";
        let moved: Vec<_> =
            changed_versions(good, bad).into_iter().map(|it| [it.name, it.good, it.bad]).collect();
        assert_eq!(
            moved,
            [["b", "2", "3"], ["gone", "1", "none"], ["new", "none", "1"]]
                .map(|it| it.map(str::to_owned))
        );
    }
}
