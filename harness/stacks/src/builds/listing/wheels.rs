//! Reads Python package indexes: HTML pages of links (PEP 503), or JSON (PEP 691).

use download::DownloadError;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ListingClient, SourceListing, joined};
use crate::builds::names;
use crate::{Archive, Build, BuildLocation, BuildSource, Date};

const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.1";

/// Returns one build for each version in which the index has a wheel of every package in the source's `parts`.
pub(super) fn list(
    source: &BuildSource,
    families: &[String],
    gfx: &str,
    http: &ListingClient<'_>,
) -> Result<SourceListing, String> {
    let per_family = source.url.contains("{family}")
        || source.parts.iter().any(|part| part.contains("{family}"));
    let mut offered = SourceListing::default();
    let mut builds: BTreeMap<String, Build> = BTreeMap::new();
    let tried = if per_family { families } else { &families[..families.len().min(1)] };
    for family in tried.iter().filter(|family| !per_family || *family != "multiarch") {
        match of_family(source, family, gfx, http) {
            Ok(found) => {
                for build in found {
                    builds.entry(build.id.clone()).or_insert(build);
                }
            }
            Err(Trouble::Absent(reason)) => offered.absent.push(reason),
            Err(Trouble::Other(reason)) => offered.troubles.push(reason),
        }
    }
    if builds.is_empty() && offered.absent.len() + offered.troubles.len() > 0 {
        let reasons: Vec<_> = offered.troubles.into_iter().chain(offered.absent).collect();
        return Err(reasons.join("; "));
    }
    offered.builds = builds.into_values().collect();
    Ok(offered)
}

/// Reason why the builds of a family could not be listed.
enum Trouble {
    /// The host does not have the page.
    Absent(String),
    Other(String),
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

fn of_family(
    source: &BuildSource,
    family: &str,
    gfx: &str,
    http: &ListingClient<'_>,
) -> Result<Vec<Build>, Trouble> {
    let filled = |template: &str| template.replace("{family}", family).replace("{gfx}", gfx);
    let mut complete: BTreeMap<String, (Option<Date>, Vec<Archive>)> = BTreeMap::new();
    for (at, part) in source.parts.iter().enumerate() {
        let package = names::normalised(&filled(part));
        let page_url = format!("{}{package}/", filled(&source.url));
        let (page, kind) = http.get(&page_url, ACCEPT).map_err(|failure| match failure {
            DownloadError::Missing { .. } => Trouble::Absent(failure.to_string()),
            other => Trouble::Other(other.to_string()),
        })?;
        let files = if kind.contains("json") { json(&page)? } else { html(&page) };
        let mut of_version: BTreeMap<String, (Option<Date>, Archive)> = BTreeMap::new();
        for file in files {
            let Some(wheel) = names::wheel(&file.name).filter(|w| w.package == package) else {
                continue;
            };
            let archive = Archive {
                url: joined(&page_url, &file.url),
                name: file.name,
                size: file.size,
                sha256: file.sha256,
                sha256_url: None,
            };
            of_version.insert(wheel.version, (file.day, archive));
        }
        if at == 0 {
            complete = of_version.into_iter().map(|(v, (day, a))| (v, (day, vec![a]))).collect();
        } else {
            complete.retain(|version, (_, archives)| match of_version.remove(version) {
                Some((_, archive)) => {
                    archives.push(archive);
                    true
                }
                None => false,
            });
        }
    }
    let build = |(version, (day, archives)): (String, (Option<Date>, Vec<Archive>))| Build {
        date: names::day(&version).or(day),
        family: family.to_owned(),
        places: vec![BuildLocation::Archives { source: source.name.clone(), archives }],
        ..Build::named(version.clone(), version)
    };
    Ok(complete.into_iter().map(build).collect())
}

struct File {
    name: String,
    url: String,
    size: Option<u64>,
    day: Option<Date>,
    sha256: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    files: Vec<PageFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PageFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    size: Option<u64>,
    upload_time: Option<String>,
    #[serde(default)]
    yanked: serde_json::Value,
}

fn json(page: &str) -> Result<Vec<File>, String> {
    let page: Page =
        serde_json::from_str(page).map_err(|error| format!("not a package page: {error}"))?;
    let file = |mut file: PageFile| File {
        name: file.filename,
        url: file.url,
        size: file.size,
        day: file.upload_time.and_then(|time| time.parse().ok()),
        sha256: file.hashes.remove("sha256"),
    };
    // The field `yanked` is false or missing for usable files. Otherwise it is true, or a string that contains the
    // reason.
    let kept = |file: &PageFile| {
        matches!(file.yanked, serde_json::Value::Null | serde_json::Value::Bool(false))
    };
    Ok(page.files.into_iter().filter(kept).map(file).collect())
}

/// Returns the links on a PEP 503 page. The page is searched as plain text instead of being parsed as HTML, because
/// indexes are generated and have a simple form.
fn html(page: &str) -> Vec<File> {
    let link = |tag: &str| {
        let tag = tag.split_once('>')?.0;
        let value = tag.split_once("href=")?.1.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let target = value[1..].split(quote).next()?.replace("&amp;", "&");
        if tag.contains("data-yanked") {
            return None;
        }
        let (url, fragment) = target.split_once('#').unwrap_or((&target, ""));
        let name = url.rsplit('/').next()?;
        Some(File {
            name: percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned(),
            url: url.to_owned(),
            size: None,
            day: None,
            sha256: fragment.strip_prefix("sha256=").map(str::to_owned),
        })
    };
    page.split("<a ").skip(1).filter_map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_page_formats_alike() {
        let hash = "ab".repeat(32);
        let from_html = html(&format!(
            "<!DOCTYPE html><body><a href=\"../../f/rocm_sdk_core-1.0.0%2Bx-py3-none-linux_x86_64.whl#sha256={hash}\">w</a><br/>\
             <a data-requires-python='&gt;=3' href='old.whl' data-yanked=''>old</a></body>"
        ));
        let from_json = json(&format!(
            r#"{{"meta":{{"api-version":"1.0"}},"files":[
                {{"filename":"rocm_sdk_core-1.0.0+x-py3-none-linux_x86_64.whl","url":"../../f/rocm_sdk_core-1.0.0%2Bx-py3-none-linux_x86_64.whl",
                  "hashes":{{"sha256":"{hash}"}},"yanked":false}},
                {{"filename":"old.whl","url":"old.whl","hashes":{{}},"yanked":"broken"}}]}}"#
        ))
        .unwrap();
        for files in [from_html, from_json] {
            assert_eq!(files.len(), 1);
            assert_eq!(files[0].name, "rocm_sdk_core-1.0.0+x-py3-none-linux_x86_64.whl");
            assert_eq!(files[0].sha256.as_deref(), Some(hash.as_str()));
            assert!(files[0].url.ends_with("%2Bx-py3-none-linux_x86_64.whl"));
        }
        assert!(json("[]").is_err());
    }
}
