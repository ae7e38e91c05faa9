//! Reads the index page that TheRock's `index_generation_s3_tar.py` writes. Its HTML contains no links: a script
//! creates them from `const files = [{"name": "therock-dist-...tar.gz", "mtime": 1769990000.0}, ...];`.

use serde::Deserialize;

use super::{Entry, ListingClient, PORTAL, escaped};
use crate::{BuildSource, Date};

#[derive(Deserialize)]
struct File {
    name: String,
    mtime: Option<f64>,
}

pub(super) fn list(source: &BuildSource, http: &ListingClient<'_>) -> Result<Vec<Entry>, String> {
    let (page, _) = http.text(&source.url, "text/html")?;
    let files = files(&page).map_err(|reason| format!("{}: {reason}", source.url))?;
    let entry = |file: File| Entry {
        url: format!("{}{}", source.url, escaped(&file.name)),
        name: file.name,
        size: None,
        day: file.mtime.map(|seconds| Date::from_unix(seconds as i64)),
    };
    Ok(files.into_iter().map(entry).collect())
}

fn files(page: &str) -> Result<Vec<File>, String> {
    let after = page.split_once("const files").map(|(_, rest)| rest.trim_start());
    let list = after
        .and_then(|rest| rest.strip_prefix('='))
        .ok_or_else(|| format!("the page has no `const files = [...]`; {PORTAL}"))?;
    // The script continues after the list, so only the first JSON value is parsed.
    let mut values = serde_json::Deserializer::from_str(list).into_iter::<Vec<File>>();
    match values.next() {
        Some(Ok(files)) => Ok(files),
        Some(Err(error)) => Err(format!("its list of files is damaged: {error}")),
        None => Err("its list of files is missing".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_found_in_the_page() {
        let check = |page: &str, expected: &str| {
            let got = match files(page) {
                Ok(files) => files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(" "),
                Err(error) => error,
            };
            assert!(got.starts_with(expected), "{page}: {got}");
        };
        check(
            "<script>\nconst files = [{\"name\": \"a+b.tar.gz\", \"mtime\": 1769990000.0}, {\"name\": \"c\"}];\nfiles.sort()",
            "a+b.tar.gz c",
        );
        check("const files = [];", "");
        check("<a href='a.tar.gz'>a</a>", "the page has no");
        check("const files = [{\"name\": \"a", "its list of files is damaged");
        check("const files = ", "its list of files is missing");
    }
}
