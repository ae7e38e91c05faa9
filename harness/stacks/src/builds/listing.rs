//! Reads the lists of builds that the sources publish, in all their formats, and returns the builds that match a query.

mod index;
mod runs;
mod s3;
mod wheels;

use download::{DownloadError, Http, SizeLimit};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::names;
use crate::{Archive, Build, BuildLocation, BuildQuery, BuildSource, Date, SourceKind};

pub(crate) use runs::components;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    name: String,
    url: String,
    /// Size in bytes.
    size: Option<u64>,
    /// Day of the upload.
    day: Option<Date>,
}

/// Hint for a host that returned an HTML page in place of a listing: a portal or proxy may require a login.
const PORTAL: &str = "a portal or proxy may require a login";

/// Maximum number of days between a nightly build and the last push that it contains. Around Christmas there are few
/// pushes.
const MAX_PUSH_AGE_DAYS: i64 = 10;

#[derive(Default)]
pub(crate) struct SourceListing {
    pub(crate) builds: Vec<Build>,
    /// Error messages for requested parts that the source does not have, for example the page of a family under its old
    /// name.
    pub(crate) absent: Vec<String>,
    /// Error messages for requested parts that could not be read, so that builds may be missing.
    pub(crate) troubles: Vec<String>,
}

impl From<Vec<Build>> for SourceListing {
    fn from(builds: Vec<Build>) -> Self {
        Self { builds, ..Self::default() }
    }
}

pub(crate) fn offered(
    source: &BuildSource,
    families: &[String],
    wanted: &BuildQuery,
    http: &ListingClient<'_>,
) -> Result<SourceListing, String> {
    // The query is restricted to the days for which the source is used.
    let later = |a: Option<Date>, b: Option<Date>| a.max(b);
    let earlier = |a: Option<Date>, b: Option<Date>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let (from, to) = (later(source.from, wanted.from), earlier(source.to, wanted.to));
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Ok(SourceListing::default());
    }
    let mut offered: SourceListing = match source.kind {
        SourceKind::S3Xml => tarballs(source, families, s3::list(source, http)?).into(),
        SourceKind::IndexHtml => tarballs(source, families, index::list(source, http)?).into(),
        SourceKind::SimpleIndex => wheels::list(source, families, &wanted.gfx, http)?,
        SourceKind::Shards => {
            // The last push that a nightly build contains may be several days older than the build.
            let from =
                from.map(
                    |from| if source.runs.is_some() { from.plus(-MAX_PUSH_AGE_DAYS) } else { from },
                );
            return runs::list(source, families, from, to, http).map(SourceListing::from);
        }
        SourceKind::Dir => directory(Path::new(&source.url))?.into(),
        SourceKind::Debian => debian().into(),
    };
    let within = |build: &Build| match build.date {
        Some(date) => from.is_none_or(|from| date >= from) && to.is_none_or(|to| date <= to),
        None => true,
    };
    offered.builds.retain(within);
    Ok(offered)
}

/// Returns one build for each version: the tarball for the family that comes first in `families`.
fn tarballs(source: &BuildSource, families: &[String], entries: Vec<Entry>) -> Vec<Build> {
    let mut best: BTreeMap<String, (usize, Build)> = BTreeMap::new();
    for entry in entries {
        let Some(tarball) = names::tarball(&entry.name) else { continue };
        let Some(rank) = families.iter().position(|f| f == tarball.family) else { continue };
        let version = tarball.version.to_owned();
        if best.get(&version).is_some_and(|(known, _)| *known < rank) {
            continue;
        }
        let build = Build {
            date: names::day(&version).or(entry.day),
            family: tarball.family.to_owned(),
            places: vec![BuildLocation::Archives {
                source: source.name.clone(),
                archives: vec![Archive {
                    url: entry.url,
                    size: entry.size,
                    name: entry.name.clone(),
                    sha256: None,
                    sha256_url: None,
                }],
            }],
            ..Build::named(version.clone(), version.clone())
        };
        best.insert(version, (rank, build));
    }
    best.into_values().map(|(_, build)| build).collect()
}

/// Returns the subfolders of a folder as builds. Version and day are read from the name of each subfolder.
fn directory(at: &Path) -> Result<Vec<Build>, String> {
    let entries = fs::read_dir(at).map_err(|e| format!("cannot read {}: {e}", at.display()))?;
    let build = |path: PathBuf| {
        let id = path.file_name()?.to_str()?.to_owned();
        (path.is_dir() && !id.starts_with('.')).then(|| Build {
            date: names::day(&id),
            places: vec![BuildLocation::Directory(path)],
            ..Build::named(id.clone(), id)
        })
    };
    Ok(entries.filter_map(|entry| build(entry.ok()?.path())).collect())
}

fn debian() -> Vec<Build> {
    let build = |release: &crate::Release| Build {
        places: vec![BuildLocation::Debian(release.to_string())],
        ..Build::named(release.to_string(), release.version.to_owned())
    };
    crate::RELEASES.iter().map(build).collect()
}

/// HTTP client that gives up waiting when `stop` becomes true.
pub(crate) struct ListingClient<'a> {
    pub(crate) http: Http,
    pub(crate) stop: &'a AtomicBool,
}

/// Maximum size of one page of a listing. A page of the largest known listing has 1 MB.
const PAGE: SizeLimit = SizeLimit::new(64 << 20, "no page of a listing is longer");

impl ListingClient<'_> {
    fn get(&self, url: &str, accept: &str) -> Result<(String, String), DownloadError> {
        self.http.text(url, accept, PAGE, self.stop)
    }

    fn text(&self, url: &str, accept: &str) -> Result<(String, String), String> {
        self.get(url, accept).map_err(|failure| failure.to_string())
    }
}

/// Characters that must be escaped in a URL's path: all except the slash and the unreserved characters of RFC 3986. An
/// unescaped `+` would mean a space.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Escapes a key or file name so that it can be part of a URL's path.
fn escaped(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// Resolves a link on the page whose address is `base` to an absolute address. On a page that came over HTTPS, plain HTTP
/// becomes HTTPS, so that the connection protects the linked file, too.
fn joined(base: &str, link: &str) -> String {
    let site = base.find("://").and_then(|at| Some(at + 3 + base[at + 3..].find('/')?));
    if let Some(plain) = link.strip_prefix("http://").filter(|_| base.starts_with("https:")) {
        format!("https://{plain}")
    } else if link.contains("://") {
        link.to_owned()
    } else if let Some(path) = link.strip_prefix('/') {
        format!("{}/{path}", &base[..site.unwrap_or(base.len())])
    } else {
        let (mut base, mut link) = (base.trim_end_matches('/'), link);
        while let Some(rest) = link.strip_prefix("../") {
            base = base.rsplit_once('/').map_or(base, |(up, _)| up);
            link = rest;
        }
        format!("{base}/{}", link.trim_start_matches("./"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved() {
        let check = |link: &str, expected: &str| {
            assert_eq!(joined("http://h:1/v2/gfx1151/core/", link), expected);
        };
        check("a.whl", "http://h:1/v2/gfx1151/core/a.whl");
        check("./a.whl", "http://h:1/v2/gfx1151/core/a.whl");
        check("../../a.whl", "http://h:1/v2/a.whl");
        check("/x/a.whl", "http://h:1/x/a.whl");
        check("https://other/a.whl", "https://other/a.whl");
        check("http://other/a.whl", "http://other/a.whl");
        assert_eq!(joined("https://h/x/", "http://other/a.whl"), "https://other/a.whl");
    }

    #[test]
    fn escapes_a_plus_in_a_name() {
        assert_eq!(escaped("v4/x-7.10.0.dev0+ab~1.tar.gz"), "v4/x-7.10.0.dev0%2Bab~1.tar.gz");
    }

    #[test]
    fn the_preferred_family_wins_and_old_names_serve() {
        let entries = |names: &[&str]| {
            let entry = |name: &&str| Entry {
                name: format!("therock-dist-linux-{name}.tar.gz"),
                url: "http://h/x".into(),
                size: None,
                day: None,
            };
            names.iter().map(entry).collect::<Vec<_>>()
        };
        let families: Vec<String> =
            ["gfx110X-all", "gfx110X-dgpu", "multiarch"].map(str::to_owned).into();
        let source = crate::Sources { sources: vec![], families: BTreeMap::new() }
            .select(&["index-html=http://h/".into()])
            .unwrap()
            .sources
            .remove(0);
        let builds = tarballs(
            &source,
            &families,
            entries(&[
                "multiarch-7.15.0a20260702",
                "gfx110X-all-7.15.0a20260702",
                "gfx110X-dgpu-7.9.0rc20251001",
                "gfx1151-7.15.0a20260703",
                "multiarch-10.1.0a20260831",
            ]),
        );
        let got: Vec<_> = builds.iter().map(|b| format!("{} {}", b.family, b.version)).collect();
        assert_eq!(
            got,
            [
                "multiarch 10.1.0a20260831",
                "gfx110X-all 7.15.0a20260702",
                "gfx110X-dgpu 7.9.0rc20251001"
            ]
        );
    }
}
