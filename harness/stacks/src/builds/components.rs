//! Sources of a build: the commits in `therock_manifest.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The commits of a build. The schema is that of TheRock's `generate_therock_manifest.py`; tarballs hold the
/// file since 2025-10-20.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Components {
    /// TheRock's own commit.
    pub therock: String,
    /// The CI run that made the build, where the manifest names it (since 2026-03-13).
    pub run: Option<String>,
    /// Commit and repository address of each submodule, by name: `rocm-systems`, `rocm-libraries`, `amd-llvm`.
    /// A submodule without a known commit is left out.
    pub pins: BTreeMap<String, ComponentPin>,
}

/// Where one submodule stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentPin {
    /// Commit.
    pub commit: String,
    /// Address of the repository, for example `https://github.com/ROCm/rocm-systems`.
    pub repository: String,
}

/// One component that differs between two builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentChange {
    /// `TheRock`, or the name of a submodule.
    pub component: String,
    /// The commit of the older build, if it had the component.
    pub from: Option<String>,
    /// The commit of the newer build, if it has the component.
    pub to: Option<String>,
    /// Where to read what lies between: a comparison on the repository's site.
    pub compare: Option<String>,
}

/// Where a prefix keeps the file.
const IN_PREFIX: &str = "share/therock/therock_manifest.json";

const THEROCK: &str = "https://github.com/ROCm/TheRock";

#[derive(Deserialize)]
struct Raw {
    the_rock_commit: Option<String>,
    github_run_id: Option<serde_json::Value>,
    #[serde(default)]
    submodules: Vec<RawModule>,
}

#[derive(Deserialize)]
struct RawModule {
    submodule_name: String,
    #[serde(default)]
    submodule_url: String,
    pin_sha: Option<String>,
}

impl Components {
    /// Reads the text of a `therock_manifest.json`; `None` where it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let raw: Raw = serde_json::from_str(text).ok()?;
        let pin = |module: RawModule| {
            let repository = module.submodule_url.trim_end_matches(".git").to_owned();
            Some((module.submodule_name, ComponentPin { commit: module.pin_sha?, repository }))
        };
        Some(Self {
            therock: raw.the_rock_commit?,
            // A number in some releases of the generator, a string in others.
            run: raw.github_run_id.and_then(|id| match id {
                serde_json::Value::String(text) => Some(text),
                serde_json::Value::Number(number) => Some(number.to_string()),
                _ => None,
            }),
            pins: raw.submodules.into_iter().filter_map(pin).collect(),
        })
    }

    /// Reads the manifest of an unpacked build.
    pub(crate) fn of_prefix(prefix: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(prefix.join(IN_PREFIX)).ok()?)
    }

    /// Returns the components whose commits differ in a newer build, TheRock first.
    pub fn moved(&self, newer: &Self) -> Vec<ComponentChange> {
        let moved = |component: &str, from: Option<&ComponentPin>, to: Option<&ComponentPin>| {
            let commit = |pin: Option<&ComponentPin>| pin.map(|pin| pin.commit.clone());
            if commit(from) == commit(to) {
                return None;
            }
            let compare = from.zip(to).filter(|(_, to)| to.repository.starts_with("https://"));
            Some(ComponentChange {
                component: component.to_owned(),
                from: commit(from),
                to: commit(to),
                compare: compare.map(|(from, to)| {
                    format!("{}/compare/{}...{}", to.repository, from.commit, to.commit)
                }),
            })
        };
        let therock =
            |of: &Self| ComponentPin { commit: of.therock.clone(), repository: THEROCK.into() };
        let mut names: Vec<_> = self.pins.keys().chain(newer.pins.keys()).collect();
        names.sort();
        names.dedup();
        let own = moved("TheRock", Some(&therock(self)), Some(&therock(newer)));
        let modules = names.into_iter();
        own.into_iter()
            .chain(modules.filter_map(|n| moved(n, self.pins.get(n), newer.pins.get(n))))
            .collect()
    }

    /// Returns true if two builds have the same source, so that testing both shows nothing new.
    pub fn same_source(&self, other: &Self) -> bool {
        self.therock == other.therock && self.pins == other.pins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(therock: &str, pins: &[(&str, &str)]) -> Components {
        let modules: Vec<String> = pins
            .iter()
            .map(|(name, pin)| {
                format!(
                    r#"{{"submodule_name":"{name}","submodule_path":"x","submodule_url":"https://github.com/ROCm/{name}.git","pin_sha":{pin},"patches":[]}}"#
                )
            })
            .collect();
        let text = format!(
            r#"{{"the_rock_commit":"{therock}","github_run_id":17,"submodules":[{}],"flags":{{}}}}"#,
            modules.join(",")
        );
        Components::parse(&text).unwrap()
    }

    #[test]
    fn lists_changed_components_with_a_comparison() {
        let old = manifest("a", &[("rocm-systems", "\"1\""), ("amd-llvm", "\"5\"")]);
        let new = manifest("b", &[("rocm-systems", "\"2\""), ("amd-llvm", "\"5\"")]);
        assert_eq!(old.run.as_deref(), Some("17"));
        let moved = old.moved(&new);
        let names: Vec<_> = moved.iter().map(|m| m.component.as_str()).collect();
        assert_eq!(names, ["TheRock", "rocm-systems"]);
        let compare = moved[1].compare.as_deref();
        assert_eq!(compare, Some("https://github.com/ROCm/rocm-systems/compare/1...2"));
        assert!(!old.same_source(&new) && old.same_source(&old));
    }

    #[test]
    fn unknown_commits_are_not_commits() {
        let old = manifest("a", &[("rocm-systems", "null")]);
        let new = manifest("a", &[("rocm-systems", "\"2\"")]);
        assert!(old.pins.is_empty());
        let moved = old.moved(&new);
        assert_eq!((moved.len(), &moved[0].from, &moved[0].compare), (1, &None, &None));
    }

    #[test]
    fn other_files_are_no_manifest() {
        for text in ["", "[]", "{}", "{\"the_rock_commit\":null}", "<html>"] {
            assert_eq!(Components::parse(text), None, "{text:?}");
        }
    }
}
