//! Reads the configuration of the hosts and folders that publish builds. Each default entry in `sources.toml` states
//! from which document or build tool of TheRock it was taken, with the date.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Date, PathError, SourcesError};

const DEFAULTS: &str = include_str!("sources.toml");

/// Places that publish builds, in order. If several of them offer the same build, the last one is preferred.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The sources, the least preferred one first.
    pub sources: Vec<BuildSource>,
    /// Names of the families to which each architecture belongs.
    pub families: Families,
}

/// For each architecture, the names of the families to which it belongs, the preferred one first. There may be several
/// names, because families have been renamed.
pub type Families = BTreeMap<String, Vec<String>>;

/// A host or folder that publishes builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BuildSource {
    /// Name of the source in messages and in `--source`.
    pub name: String,
    /// Channel to which the source belongs, for example `nightly`, `stable` or `commits`. `--source` also accepts a
    /// channel.
    #[serde(default)]
    pub channel: String,
    /// Format in which the source lists its builds.
    pub kind: SourceKind,
    /// Address of the host, or path of the folder.
    #[serde(default)]
    pub url: String,
    /// Prefix of the keys in the bucket, for [`SourceKind::S3Xml`].
    #[serde(default)]
    pub prefix: String,
    /// First day from which the source's builds are used; `None` means no limit.
    pub from: Option<Date>,
    /// Last day until which the source's builds are used; `None` means no limit. The limit is needed because a bucket
    /// that receives no more builds still lists the old ones.
    pub to: Option<Date>,
    /// Address of the status file of the nightly build of day `{date}`. The file contains the id of the build's CI run.
    pub status: Option<String>,
    /// Address at which GitHub lists the CI runs between the days `{from}` and `{to}`. Each run made one build.
    pub runs: Option<String>,
    /// Address of the manifest of the build that CI run `{run}` made.
    pub manifest: Option<String>,
    /// Names of the archives ([`SourceKind::Shards`]) or packages ([`SourceKind::SimpleIndex`]) that together contain a
    /// whole installation of ROCm.
    #[serde(default)]
    pub parts: Vec<String>,
}

/// Format in which a source lists its builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// Pages of S3's ListObjectsV2.
    S3Xml,
    /// An HTML page that contains `const files = [...]`, as TheRock's `index_generation_s3_tar.py` writes it.
    IndexHtml,
    /// A Python package index (PEP 503 and PEP 691).
    SimpleIndex,
    /// Archives that CI runs published, for example `core-hip_lib_generic.tar.zst`. Their addresses are derived from
    /// the id of the run.
    Shards,
    /// A folder on this machine. Each of its subfolders contains an installation of ROCm.
    Dir,
    /// The releases that Debian packages.
    Debian,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    source: Vec<toml::Table>,
    #[serde(default)]
    families: Families,
}

impl Sources {
    /// Returns the default sources, with the changes from a configuration file: `given`, or else
    /// `rocrepro/sources.toml` in the user's configuration folder, if that exists.
    ///
    /// # Errors
    /// [`SourcesError::File`] if the file cannot be read, [`SourcesError::Config`] with all mistakes in the file.
    pub fn load(given: Option<&Path>) -> Result<Self, SourcesError> {
        let mut sources = Self::parse(DEFAULTS, Path::new("sources.toml"))?;
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let user = absolute("XDG_CONFIG_HOME")
            .or_else(|| Some(absolute("HOME")?.join(".config")))
            .map(|folder| folder.join("rocrepro/sources.toml"))
            .filter(|path| path.is_file());
        let Some(path) = given.map(Path::to_owned).or(user) else { return Ok(sources) };
        let text = fs::read_to_string(&path).map_err(PathError::io("read", &path))?;
        let changes = Self::parse(&text, &path)?;
        sources.families.extend(changes.families);
        for source in changes.sources {
            match sources.sources.iter_mut().find(|known| known.name == source.name) {
                Some(known) => *known = source,
                None => sources.sources.push(source),
            }
        }
        Ok(sources)
    }

    /// Parses the text of a configuration file, without adding the defaults. `path` is the name of the file in
    /// messages.
    ///
    /// # Errors
    /// [`SourcesError::Config`] with all mistakes.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SourcesError> {
        let mistakes = |problems| SourcesError::Config { path: path.to_owned(), problems };
        let file: File = toml::from_str(text)
            .map_err(|error| mistakes(vec![error.to_string().trim().replace('\n', " ")]))?;
        let mut problems = Vec::new();
        let mut sources: Vec<BuildSource> = Vec::new();
        for (at, table) in file.source.into_iter().enumerate() {
            let called = table.get("name").and_then(|name| name.as_str()).map(str::to_owned);
            let called = called.unwrap_or_else(|| format!("number {}", at + 1));
            match table.try_into::<BuildSource>() {
                Ok(source) => {
                    problems.extend(source.mistakes());
                    if sources.iter().any(|other| other.name == source.name) {
                        problems.push(format!("source {called} is defined twice"));
                    }
                    sources.push(source);
                }
                Err(error) => {
                    let text = error.to_string();
                    problems.push(format!("source {called}: {}", text.trim().replace('\n', " ")));
                }
            }
        }
        if problems.is_empty() {
            Ok(Self { sources, families: file.families })
        } else {
            Err(mistakes(problems))
        }
    }

    /// Selects sources. Each name is that of a source or of a channel, `debian`, `dir:FOLDER`, or `KIND=ADDRESS`.
    ///
    /// # Errors
    /// [`SourcesError::UnknownSource`] with all unknown names.
    pub fn select(&self, names: &[String]) -> Result<Self, SourcesError> {
        let mut unknown = Vec::new();
        let mut sources = Vec::new();
        for name in names {
            let found: Vec<_> =
                self.sources.iter().filter(|s| s.name == *name || s.channel == *name).collect();
            let given = name.split_once('=').and_then(|(kind, url)| {
                Some((SourceKind::deserialize(toml::Value::String(kind.to_owned())).ok()?, url))
            });
            let given = given.or_else(|| Some((SourceKind::Dir, name.strip_prefix("dir:")?)));
            let source = given.map(|(kind, url)| BuildSource::at(name, kind, url));
            match source.filter(|source| source.mistakes().is_empty()) {
                _ if !found.is_empty() => sources.extend(found.into_iter().cloned()),
                Some(source) => sources.push(source),
                None => unknown.push(name.clone()),
            }
        }
        if unknown.is_empty() {
            return Ok(Self { sources, families: self.families.clone() });
        }
        let mut known: Vec<&str> =
            self.sources.iter().flat_map(|s| [s.channel.as_str(), s.name.as_str()]).collect();
        known.retain(|name| !name.is_empty());
        known.dedup();
        Err(SourcesError::UnknownSource { wanted: unknown, known: known.join(", ") })
    }

    /// Returns the names of the channels, without duplicates, which can begin the name of a stack: `CHANNEL:BUILD`. A
    /// source without a channel is listed by its own name. Debian is left out, because its stacks are written as
    /// `debian:VERSION`.
    pub fn channels(&self) -> Vec<String> {
        let builds = self.sources.iter().filter(|source| source.kind != SourceKind::Debian);
        let mut channels: Vec<String> = Vec::new();
        for source in builds {
            let name = if source.channel.is_empty() { &source.name } else { &source.channel };
            if !channels.contains(name) {
                channels.push(name.clone());
            }
        }
        channels
    }

    pub(crate) fn built_in_channels() -> Vec<String> {
        let built_in = Self::parse(DEFAULTS, Path::new("sources.toml"));
        built_in.map(|sources| sources.channels()).unwrap_or_default()
    }

    /// Returns the names of the families to which an architecture belongs. For an unknown architecture, returns the
    /// architecture's own name and `multiarch`.
    pub(crate) fn families_of(&self, gfx: &str) -> Vec<String> {
        self.families.get(gfx).cloned().unwrap_or_else(|| vec![gfx.into(), "multiarch".into()])
    }
}

impl BuildSource {
    fn at(name: &str, kind: SourceKind, url: &str) -> Self {
        Self {
            name: name.to_owned(),
            channel: String::new(),
            kind,
            url: url.to_owned(),
            prefix: String::new(),
            from: None,
            to: None,
            status: None,
            runs: None,
            manifest: None,
            parts: match kind {
                SourceKind::SimpleIndex => vec!["rocm-sdk-core".into()],
                _ => Vec::new(),
            },
        }
    }

    fn mistakes(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut problem = |text: String| problems.push(format!("source {}: {text}", self.name));
        let network = !matches!(self.kind, SourceKind::Dir | SourceKind::Debian);
        let web = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        if network && !web(&self.url) {
            problem(format!("url is {:?}, not an http address", self.url));
        }
        if network && !self.url.ends_with('/') {
            problem(format!("url {:?} does not end with a slash", self.url));
        }
        if self.kind == SourceKind::Dir && self.url.is_empty() {
            problem("url contains no folder".into());
        }
        if self.from.zip(self.to).is_some_and(|(from, to)| from > to) {
            problem("`from` is later than `to`".into());
        }
        if self.kind == SourceKind::Shards {
            if self.status.is_none() && self.runs.is_none() {
                problem("shards need `status` or `runs`, from which the runs are read".into());
            }
            if !self.url.contains("{run}") {
                problem("url does not contain {run}".into());
            }
        }
        if matches!(self.kind, SourceKind::Shards | SourceKind::SimpleIndex)
            && self.parts.is_empty()
        {
            problem("parts is empty".into());
        }
        let needs = [
            ("status", &self.status, &["{date}"][..]),
            ("runs", &self.runs, &["{from}", "{to}"]),
            ("manifest", &self.manifest, &["{run}"]),
        ];
        for (field, template, placeholders) in needs {
            let Some(template) = template else { continue };
            for placeholder in placeholders.iter().filter(|p| !template.contains(**p)) {
                problem(format!("{field} does not contain {placeholder}"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::in_full;

    fn parse(text: &str) -> Result<Sources, SourcesError> {
        Sources::parse(text, Path::new("mine.toml"))
    }

    #[test]
    fn the_defaults_are_sound() {
        let sources = parse(DEFAULTS).unwrap();
        let nightly = sources.select(&["nightly".into()]).unwrap();
        assert_eq!(nightly.sources.len(), 3);
        for (gfx, families) in &sources.families {
            assert_eq!(families.last().map(String::as_str), Some("multiarch"), "{gfx}");
        }
        assert_eq!(sources.families_of("gfx9999"), ["gfx9999", "multiarch"]);
    }

    #[test]
    fn channels_are_listed_once_and_without_debian() {
        let channels = ["nightly", "nightly-shards", "nightly-wheels", "stable", "commits"];
        assert_eq!(Sources::built_in_channels(), channels);
        let own = parse("[[source]]\nname = 'own'\nkind = 'dir'\nurl = '/x'\n").unwrap();
        assert_eq!(own.channels(), ["own"]);
    }

    #[test]
    fn all_mistakes_are_shown_at_once() {
        let error = parse(
            "[[source]]\nname = 'a'\nkind = 's3-xml'\nurl = 'ftp://x'\n\
             [[source]]\nname = 'b'\nkind = 'zip'\n\
             [[source]]\nname = 'c'\nkind = 'shards'\nurl = 'http://x/'\ncolour = 1\n\
             [[source]]\nname = 'd'\nkind = 'shards'\nurl = 'http://x/'\nstatus = 'http://y'\n\
             [[source]]\nname = 'a'\nkind = 'debian'\nfrom = '2026-02-01'\nto = '2026-01-01'\n",
        )
        .unwrap_err();
        let SourcesError::Config { problems, .. } = &error else { panic!("{error}") };
        let text = problems.join("\n");
        for part in [
            "source a: url is \"ftp://x\"",
            "does not end with a slash",
            "source b: unknown variant `zip`",
            "source c: unknown field `colour`",
            "source d: url does not contain {run}",
            "source d: parts is empty",
            "source d: status does not contain {date}",
            "source a is defined twice",
            "source a: `from` is later than `to`",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn sources_are_named() {
        let sources = parse(DEFAULTS).unwrap();
        let check = |names: &[&str], expected: &str| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let got = match sources.select(&names) {
                Ok(selected) => {
                    let kinds: Vec<_> = selected
                        .sources
                        .iter()
                        .map(|s| format!("{:?} {}", s.kind, s.url))
                        .collect();
                    kinds.join(", ")
                }
                Err(error) => in_full(&error),
            };
            assert!(got.starts_with(expected), "{names:?} gave {got:?}");
        };
        check(&["debian"], "Debian ");
        check(&["dir:/tmp/x"], "Dir /tmp/x");
        check(&["index-html=http://127.0.0.1:1/x/"], "IndexHtml http://127.0.0.1:1/x/");
        check(&["s3-xml=file:/x"], "not a source: s3-xml=file:/x");
        check(&["nightyl", "dir:", "stable"], "not a source: nightyl, dir:; use one of nightly, ");
    }

    /// The expected values are from RELEASES.md of TheRock, 2026-08-22.
    #[test]
    fn the_built_in_sources_are_those_of_the_documents() {
        let all = Sources::load(None).unwrap();
        let urls = |channel: &str| {
            let selected = all.select(&[channel.to_owned()]).unwrap().sources;
            selected.into_iter().map(|source| source.url).collect::<Vec<_>>()
        };
        let stable = [
            "https://repo.amd.com/rocm/tarball-multi-arch/",
            "https://stable.repo.amd.com/rocm/core/tarball/",
        ];
        assert_eq!(urls("stable"), stable);
        assert_eq!(
            urls("nightly").last().unwrap(),
            "https://nightly.repo.amd.com/rocm/core/tarball/"
        );
        assert_eq!(
            urls("nightly-wheels").last().unwrap(),
            "https://nightly.repo.amd.com/rocm/whl-next/"
        );
        assert!(all.families_of("gfx1035").contains(&"gfx103X-igpu".to_owned()));
    }

    #[test]
    fn changes_the_defaults_by_the_users_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        let text = "[[source]]\nname = 'stable'\nkind = 'dir'\nurl = '/builds'\n\
                    [[source]]\nname = 'own'\nkind = 'dir'\nurl = '/own'\n\
                    [families]\ngfx1151 = ['mine']\n";
        fs::write(&path, text).unwrap();
        let sources = Sources::load(Some(&path)).unwrap();
        let kind = |name: &str| sources.sources.iter().find(|s| s.name == name).map(|s| s.kind);
        assert_eq!(kind("stable"), Some(SourceKind::Dir));
        assert_eq!(kind("own"), Some(SourceKind::Dir));
        assert_eq!(kind("commits"), Some(SourceKind::Shards));
        assert_eq!(sources.families_of("gfx1151"), ["mine"]);
        assert!(Sources::load(Some(Path::new("/nowhere/x.toml"))).is_err());
    }

    #[test]
    fn wheels_of_an_index_have_the_runtime_as_their_part() {
        let sources = parse(DEFAULTS).unwrap();
        let of = |kind: &str| sources.select(&[format!("{kind}=http://host/")]).unwrap();
        assert_eq!(of("simple-index").sources[0].parts, ["rocm-sdk-core"]);
        assert!(of("index-html").sources[0].parts.is_empty());
    }
}
