//! Where builds are published: configuration, with dated defaults.

use serde::{Deserialize, Serialize};

use crate::Error;

/// What is asked for builds, in order: of a build that several offer, the later source wins.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The sources.
    pub sources: Vec<Source>,
    /// Names of families per architecture.
    pub families: Families,
}

/// For each architecture the names of the families that it is in, the preferred first. Families were renamed.
pub type Families = std::collections::BTreeMap<String, Vec<String>>;

/// One place that publishes builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Source {
    /// Names it in messages and in `--source`.
    pub name: String,
    /// What it is part of: `nightly`, `stable`, `commits`. `--source` takes a channel as well.
    #[serde(default)]
    pub channel: String,
    /// How it lists.
    pub kind: Kind,
    /// Its address, or its folder.
    #[serde(default)]
    pub url: String,
}

/// How a source lists its builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Folders in a folder.
    Dir,
    /// The releases that Debian packages.
    Debian,
}

impl Sources {
    /// Keeps the sources that a person names: a name, a channel, `debian`, `dir:FOLDER`.
    ///
    /// # Errors
    /// [`Error::UnknownSource`] with all names that are none.
    pub fn select(&self, names: &[String]) -> Result<Self, Error> {
        let mut unknown = Vec::new();
        let mut sources = Vec::new();
        for name in names {
            let found: Vec<_> =
                self.sources.iter().filter(|s| s.name == *name || s.channel == *name).collect();
            let given = |kind, url: &str| Source {
                name: name.clone(),
                channel: String::new(),
                kind,
                url: url.to_owned(),
            };
            match (name.strip_prefix("dir:"), name.as_str()) {
                _ if !found.is_empty() => sources.extend(found.into_iter().cloned()),
                (Some(path), _) => sources.push(given(Kind::Dir, path)),
                (None, "debian") => sources.push(given(Kind::Debian, "")),
                _ => unknown.push(name.clone()),
            }
        }
        if unknown.is_empty() {
            return Ok(Self { sources, families: self.families.clone() });
        }
        let mut known: Vec<&str> =
            self.sources.iter().flat_map(|s| [s.channel.as_str(), s.name.as_str()]).collect();
        known.retain(|name| !name.is_empty());
        known.dedup();
        Err(Error::UnknownSource { wanted: unknown, known: known.join(", ") })
    }
}
