//! Reads the list of the files in an S3 bucket, page by page. The format is that of
//! [ListObjectsV2](https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html).

use quick_xml::Reader;
use quick_xml::events::Event;

use super::{Entry, ListingClient, PORTAL, escaped};
use crate::{BuildSource, Date};

/// Maximum number of pages to read. A page contains 1000 keys, and two years of builds for all families fill fewer than
/// 40 pages.
const MAX_PAGES: usize = 1000;

pub(super) fn list(source: &BuildSource, http: &ListingClient<'_>) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let mut url = format!("{}?list-type=2&prefix={}", source.url, query(&source.prefix));
        if !token.is_empty() {
            url.push_str(&format!("&continuation-token={}", query(&token)));
        }
        let page = page(&http.text(&url, "application/xml")?.0)
            .map_err(|reason| format!("{url}: not a listing: {reason}"))?;
        for object in page.objects {
            let Some(name) = object.key.rsplit('/').next().filter(|name| !name.is_empty()) else {
                continue;
            };
            entries.push(Entry {
                name: name.to_owned(),
                url: format!("{}{}", source.url, escaped(&object.key)),
                size: object.size,
                day: object.day,
            });
        }
        match page.next {
            // A repeated token would result in an endless loop.
            Some(next) if next != token => token = next,
            _ => return Ok(entries),
        }
    }
    Err(format!("{}: more than {MAX_PAGES} pages", source.url))
}

/// Escapes a string for use in a URL's query, in which slashes must be escaped too.
fn query(text: &str) -> String {
    escaped(text).replace('/', "%2F")
}

#[derive(Debug, Default)]
struct Page {
    objects: Vec<Object>,
    next: Option<String>,
}

#[derive(Debug, Default)]
struct Object {
    key: String,
    size: Option<u64>,
    day: Option<Date>,
}

fn page(xml: &str) -> Result<Page, String> {
    let html = xml.get(..15).is_some_and(|begin| begin.eq_ignore_ascii_case("<!doctype html>"));
    if html {
        return Err(format!("a page in HTML; {PORTAL}"));
    }
    let mut reader = Reader::from_str(xml);
    let mut page = Page::default();
    let mut path: Vec<String> = Vec::new();
    let mut value = String::new();
    let mut truncated = false;
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                path.push(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
                value.clear();
                if path.last().is_some_and(|name| name == "Contents") {
                    page.objects.push(Object::default());
                }
            }
            Event::Text(text) => {
                value.push_str(&text.decode().map_err(|error| error.to_string())?);
            }
            Event::GeneralRef(entity) => {
                let name = entity.decode().map_err(|error| error.to_string())?;
                let character = entity.resolve_char_ref().map_err(|error| error.to_string())?;
                match character {
                    Some(character) => value.push(character),
                    None => value.push_str(
                        quick_xml::escape::resolve_predefined_entity(&name)
                            .ok_or_else(|| format!("unknown entity {name}"))?,
                    ),
                }
            }
            Event::End(_) => {
                let names: Vec<_> = path.iter().map(String::as_str).collect();
                let object = page.objects.last_mut();
                match (names.as_slice(), object) {
                    ([_, "Contents", "Key"], Some(object)) => object.key = value.clone(),
                    ([_, "Contents", "Size"], Some(object)) => object.size = value.parse().ok(),
                    ([_, "Contents", "LastModified"], Some(object)) => {
                        object.day = value.parse().ok();
                    }
                    ([_, "IsTruncated"], _) => truncated = value == "true",
                    ([_, "NextContinuationToken"], _) => page.next = Some(value.clone()),
                    _ => {}
                }
                path.pop();
                value.clear();
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if !path.is_empty() {
        return Err(format!("it ends inside <{}>", path.join("><")));
    }
    if !xml.contains("<ListBucketResult") {
        return Err(format!("no ListBucketResult; {PORTAL}"));
    }
    page.next = page.next.filter(|_| truncated);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><IsTruncated>true</IsTruncated>
<Contents><Key>v4/a+b&amp;c&#x41;.tar.gz</Key><LastModified>2026-07-02T03:04:05.000Z</LastModified><Size>1713449440</Size></Contents>
<Contents><Key>v4/</Key><Size>0</Size></Contents>
<NextContinuationToken>x/y=</NextContinuationToken></ListBucketResult>"#;
        let page = page(xml).unwrap();
        assert_eq!(page.objects[0].key, "v4/a+b&cA.tar.gz");
        assert_eq!(page.objects[0].size, Some(1_713_449_440));
        assert_eq!(page.objects[0].day.unwrap().to_string(), "2026-07-02");
        assert_eq!((page.objects.len(), page.next.as_deref()), (2, Some("x/y=")));
    }

    #[test]
    fn other_texts_are_refused() {
        let check = |xml: &str, expected: &str| {
            let error = page(xml).unwrap_err();
            assert!(error.contains(expected), "{xml}: {error}");
        };
        check("", "no ListBucketResult");
        check("<html></html>", "no ListBucketResult");
        check("<ListBucketResult><Contents><Key>a", "ends inside");
        check("<ListBucketResult></Contents>", "");
    }
}
