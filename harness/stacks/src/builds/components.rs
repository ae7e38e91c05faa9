//! Reads the commits of a build's components from `therock_manifest.json`, and compares them with those of another
//! build.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Commits of the components of a build, as in the `therock_manifest.json` that TheRock's
/// `generate_therock_manifest.py` writes. Tarballs contain this file since 2025-10-20.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Components {
    /// Commit of TheRock.
    pub therock: String,
    /// CI run that made the build. Manifests contain it since 2026-03-13.
    pub run: Option<String>,
    /// Commit and repository of each submodule, by its name, for example `rocm-systems`, `rocm-libraries` or
    /// `amd-llvm`. Submodules without a known commit are left out.
    pub pins: BTreeMap<String, ComponentPin>,
}

/// Commit and repository of one submodule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentPin {
    /// Commit hash.
    pub commit: String,
    /// Address of the repository, for example `https://github.com/ROCm/rocm-systems`.
    pub repository: String,
}

/// A component whose commit differs between two builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentChange {
    /// `TheRock`, or the name of a submodule.
    pub component: String,
    /// Commit in the older build; `None` if that build does not have the component.
    pub from: Option<String>,
    /// Commit in the newer build; `None` if that build does not have the component.
    pub to: Option<String>,
    /// Address of a web page that compares the two commits, if the repository's host has such pages.
    pub compare: Option<String>,
}

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
    /// Parses the text of a `therock_manifest.json`. Returns `None` if the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let raw: Raw = serde_json::from_str(text).ok()?;
        let pin = |module: RawModule| {
            let repository = module.submodule_url.trim_end_matches(".git").to_owned();
            Some((module.submodule_name, ComponentPin { commit: module.pin_sha?, repository }))
        };
        Some(Self {
            therock: raw.the_rock_commit?,
            // Some versions of the generator write a number, others a string.
            run: raw.github_run_id.and_then(|id| match id {
                serde_json::Value::String(text) => Some(text),
                serde_json::Value::Number(number) => Some(number.to_string()),
                _ => None,
            }),
            pins: raw.submodules.into_iter().filter_map(pin).collect(),
        })
    }

    pub(crate) fn of_prefix(prefix: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(prefix.join(IN_PREFIX)).ok()?)
    }

    /// Returns the components whose commits in `newer` differ from those in this build. TheRock comes first.
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

    /// Returns true if two builds were made from the same source code. Testing both builds then adds no information.
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
    fn compares_all_commits_of_two_builds() {
        let old = manifest("a", &[("rocm-systems", "\"1\"")]);
        assert!(old.same_source(&manifest("a", &[("rocm-systems", "\"1\"")])));
        assert!(!old.same_source(&manifest("b", &[("rocm-systems", "\"1\"")])));
        assert!(!old.same_source(&manifest("a", &[("rocm-systems", "\"2\"")])));
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
