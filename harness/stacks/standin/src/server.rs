//! Serves files and listings over HTTP/1.1 on the loopback interface, with configurable failures. Each connection
//! serves one request.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::sha256;

/// The files that a server publishes, their listings, and the failures of its responses.
#[derive(Debug, Default)]
pub struct Site {
    files: BTreeMap<String, File>,
    listings: BTreeMap<String, Listing>,
    /// Paths below which every response fails, each with the failure.
    ill: Vec<(String, Trouble)>,
    /// Maximum number of body bytes per second in a response; `None` means no limit.
    speed: Option<usize>,
    sent: usize,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// True if the file exists but the listings do not contain it.
    unlisted: bool,
    /// True if the listings contain the file but it does not exist.
    ghost: bool,
    /// True if the server ignores ranges and always sends the whole file.
    whole: bool,
    troubles: VecDeque<Trouble>,
}

/// Format in which the files below a path are listed.
#[derive(Clone, Copy, Debug)]
pub enum Listing {
    /// S3's ListObjectsV2, with this number of keys per page.
    S3(usize),
    /// Index page of TheRock.
    Index,
    /// HTML page of PEP 503.
    SimpleHtml,
    /// JSON of PEP 691.
    SimpleJson,
}

/// Failure of one response. If a file has several failures, each request consumes one of them. After the last one, the
/// file is served.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// Sends this number of bytes of the body, and closes the connection.
    Cut(usize),
    /// Responds with 503, and optionally with Retry-After in seconds.
    Busy(Option<u64>),
    /// Responds with this status, and optionally with an additional header.
    Status(&'static str, Option<(&'static str, &'static str)>),
    /// Responds with 200 and the login page of a captive portal.
    Portal,
    /// Sends this number of bytes of the body and then nothing. The connection stays open.
    Stall(usize),
    /// Accepts the request and sends nothing. The connection stays open.
    Silent,
    /// Responds with 200, without a length, and sends more bytes than any file of a test has.
    Endless,
    /// Responds with 301 and this other path.
    MovedTo(String),
    /// Sends this number of bytes of the old content, and closes the connection. From then on, the file has this new
    /// content.
    ChangesAfter(usize, Vec<u8>),
}

/// Number of bytes of an endless response. A client that reads them all does not limit the size of a response.
const ENDLESS: usize = 96 << 20;

impl Site {
    /// Publishes a file with this content.
    pub fn file(&mut self, path: &str, bytes: Vec<u8>) -> &mut Self {
        self.files.insert(path.to_owned(), File { bytes, ..File::default() });
        self
    }

    /// Adds a file that does not exist on the server to the listings.
    pub fn ghost(&mut self, path: &str) -> &mut Self {
        self.files.insert(path.to_owned(), File { ghost: true, ..File::default() });
        self
    }

    /// Leaves a published file out of the listings.
    pub fn unlist(&mut self, path: &str) -> &mut Self {
        self.known(path).unlisted = true;
        self
    }

    /// Makes the server ignore ranges for a file.
    pub fn without_ranges(&mut self, path: &str) -> &mut Self {
        self.known(path).whole = true;
        self
    }

    /// Makes the next responses for a file fail.
    pub fn trouble(&mut self, path: &str, troubles: &[Trouble]) -> &mut Self {
        self.known(path).troubles.extend(troubles.iter().cloned());
        self
    }

    /// Makes every response below a path fail, including listings.
    pub fn ill(&mut self, path: &str, trouble: Trouble) -> &mut Self {
        self.ill.push((path.to_owned(), trouble));
        self
    }

    /// Limits the speed of each response, in bytes per second.
    pub fn slow(&mut self, speed: usize) -> &mut Self {
        self.speed = Some(speed);
        self
    }

    /// Sets the format in which the files below `path` are listed. `path` ends with a slash.
    pub fn listing(&mut self, path: &str, listing: Listing) -> &mut Self {
        self.listings.insert(path.to_owned(), listing);
        self
    }

    fn known(&mut self, path: &str) -> &mut File {
        self.files.get_mut(path).unwrap_or_else(|| panic!("{path} is not published"))
    }

    /// Serves the site on a free port of the loopback interface until the process ends.
    pub fn serve(self) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback interface");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = Server {
            base: format!("http://{address}"),
            site: Arc::new(Mutex::new(self)),
            requests: Arc::default(),
        };
        let of_thread = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = of_thread.clone();
                // A client may close its connection at any time, so errors are ignored.
                thread::spawn(move || server.answer(stream));
            }
        });
        server
    }
}

/// A server that is running on the loopback interface.
#[derive(Clone, Debug)]
pub struct Server {
    base: String,
    site: Arc<Mutex<Site>>,
    requests: Arc<Mutex<Vec<String>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Returns the URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Changes the published files.
    pub fn change(&self, change: impl FnOnce(&mut Site)) {
        change(&mut locked(&self.site));
    }

    /// Returns all requests so far, in the form `GET /path`. For a range request, ` bytes=N-` follows.
    pub fn requests(&self) -> Vec<String> {
        locked(&self.requests).clone()
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let (method, target) =
            (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        let range = headers.get("range");
        let mut request = format!("{method} {target}");
        if let Some(range) = range {
            request = format!("{request} {range}");
        }
        locked(&self.requests).push(request);
        let start = range.and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let (head, body, stalls) = self.response(&target, start, headers.get("if-range"));
        stream.write_all(head.as_bytes())?;
        if method != "HEAD" {
            self.send(&mut stream, &body)?;
        }
        stream.flush()?;
        if stalls {
            // Waits until the client closes the connection.
            while reader.read(&mut [0])? > 0 {}
        }
        Ok(())
    }

    /// Sends the body of a response at the configured speed.
    fn send(&self, stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
        let speed = locked(&self.site).speed;
        // If the speed is limited, the body is sent in twenty pieces per second.
        for piece in body.chunks(speed.map_or(1 << 20, |speed| speed.div_ceil(20))) {
            stream.write_all(piece)?;
            locked(&self.site).sent += piece.len();
            if speed.is_some() {
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns the total number of bytes of all bodies that have been sent.
    pub fn sent(&self) -> usize {
        locked(&self.site).sent
    }

    fn response(
        &self,
        target: &str,
        start: Option<usize>,
        if_range: Option<&String>,
    ) -> (String, Vec<u8>, bool) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decoded(path);
        let mut site = locked(&self.site);
        let ill = site.ill.iter().find(|(below, _)| path.starts_with(below.as_str()));
        let ill = ill.map(|(_, trouble)| trouble.clone());
        let file = site.files.get_mut(&path);
        let trouble = ill.or_else(|| file.and_then(|file| file.troubles.pop_front()));
        let (head, body) = Self::instead(trouble.as_ref())
            .unwrap_or_else(|| Self::healthy(&mut site, &path, query, start, if_range));
        let stalls = matches!(trouble, Some(Trouble::Stall(_) | Trouble::Silent));
        let mut body = body;
        match trouble {
            Some(Trouble::Cut(after) | Trouble::Stall(after)) => body.truncate(after),
            Some(Trouble::ChangesAfter(after, bytes)) => {
                body.truncate(after);
                if let Some(file) = site.files.get_mut(&path) {
                    file.bytes = bytes;
                }
            }
            _ => {}
        }
        (head, body, stalls)
    }

    /// Returns the response that is sent because of a failure. `None` if the file is sent, completely or in part.
    fn instead(trouble: Option<&Trouble>) -> Option<(String, Vec<u8>)> {
        Some(match trouble? {
            Trouble::Busy(after) => {
                let after = after.map(|seconds| seconds.to_string());
                let headers: Vec<_> = after.iter().map(|a| ("Retry-After", a.as_str())).collect();
                head("503 Service Unavailable", &headers, b"busy".to_vec())
            }
            Trouble::Status(status, header) => {
                let headers: Vec<_> = header.iter().copied().collect();
                head(status, &headers, b"no".to_vec())
            }
            Trouble::Portal => {
                let page = "<!doctype html><title>Welcome</title>Please log in to the network.";
                head("200 OK", &[("Content-Type", "text/html; charset=utf-8")], page.into())
            }
            Trouble::Endless => {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned();
                (head, vec![b'x'; ENDLESS])
            }
            Trouble::Silent => (String::new(), Vec::new()),
            Trouble::MovedTo(other) => {
                head("301 Moved Permanently", &[("Location", other)], Vec::new())
            }
            _ => return None,
        })
    }

    fn healthy(
        site: &mut Site,
        path: &str,
        query: &str,
        start: Option<usize>,
        if_range: Option<&String>,
    ) -> (String, Vec<u8>) {
        if let Some(listing) = site.listings.get(path).copied() {
            let (kind, text) = site.list(path, listing, query);
            return head("200 OK", &[("Content-Type", kind)], text.into_bytes());
        }
        let Some(file) = site.files.get(path).filter(|file| !file.ghost) else {
            let text = "<Error><Code>NoSuchKey</Code></Error>";
            return head("404 Not Found", &[], text.into());
        };
        let etag = format!("\"{}\"", &sha256(&file.bytes)[..16]);
        let same = if_range.is_none_or(|tag| *tag == etag);
        match start {
            Some(start) if same && !file.whole => {
                if start >= file.bytes.len() {
                    return head("416 Range Not Satisfiable", &[], Vec::new());
                }
                let length = file.bytes.len();
                let range = format!("bytes {start}-{}/{length}", length - 1);
                let headers = [("ETag", etag.as_str()), ("Content-Range", &range)];
                head("206 Partial Content", &headers, file.bytes[start..].to_vec())
            }
            _ => head("200 OK", &[("ETag", &etag)], file.bytes.clone()),
        }
    }
}

/// Returns the status line and headers of a response as text, and the body. Content-Length is the length of the whole
/// body.
fn head(status: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (String, Vec<u8>) {
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text.push_str("Connection: close\r\n\r\n");
    (text, body)
}

impl Site {
    /// Returns the content type and the text of a listing.
    fn list(&self, path: &str, listing: Listing, query: &str) -> (&'static str, String) {
        let below: Vec<(&str, &File)> = self
            .files
            .iter()
            .filter(|(_, file)| !file.unlisted)
            .filter_map(|(at, file)| Some((at.strip_prefix(path)?, file)))
            .collect();
        let direct = below.iter().filter(|(name, _)| !name.contains('/'));
        match listing {
            Listing::S3(page) => ("application/xml", s3(&below, page, query)),
            Listing::Index => {
                let files: Vec<_> = direct
                    .filter(|(name, _)| name.ends_with(".tar.gz"))
                    .map(|(name, _)| serde_json::json!({"name": name, "mtime": 1769990000.0}))
                    .collect();
                let files = serde_json::Value::from(files);
                ("text/html", format!("<script>\nconst files = {files};\nfiles.sort();</script>"))
            }
            Listing::SimpleHtml => {
                let links = direct.map(|(name, file)| {
                    let sum = sha256(&file.bytes);
                    format!("<a href=\"{}#sha256={sum}\">{name}</a><br/>", name.replace('+', "%2B"))
                });
                ("text/html", format!("<!DOCTYPE html>{}", links.collect::<String>()))
            }
            Listing::SimpleJson => {
                let files: Vec<_> = direct
                    .map(|(name, file)| {
                        serde_json::json!({"filename": name, "url": name, "size": file.bytes.len(),
                            "hashes": {"sha256": sha256(&file.bytes)}})
                    })
                    .collect();
                let page = serde_json::json!({"meta": {"api-version": "1.1"}, "files": files});
                ("application/vnd.pypi.simple.v1+json", page.to_string())
            }
        }
    }
}

/// Returns one page of keys in S3's format. The continuation token is the index of the first key of the next page, with
/// characters that need escaping.
fn s3(below: &[(&str, &File)], page: usize, query: &str) -> String {
    let parameter = |name: &str| {
        let found = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        decoded(found.unwrap_or_default())
    };
    let prefix = parameter("prefix");
    let token = parameter("continuation-token");
    let start = token.strip_prefix("next/+").and_then(|n| n.parse().ok()).unwrap_or(0);
    let keys: Vec<_> = below.iter().filter(|(key, _)| key.starts_with(&prefix)).collect();
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    );
    for (key, file) in keys.iter().skip(start).take(page) {
        let _ = write!(
            text,
            "<Contents><Key>{key}</Key><LastModified>2026-07-02T03:04:05.000Z</LastModified><Size>{}</Size></Contents>",
            file.bytes.len()
        );
    }
    let more = keys.len() > start + page;
    let _ = write!(text, "<IsTruncated>{more}</IsTruncated>");
    if more {
        let next = start + page;
        let _ = write!(text, "<NextContinuationToken>next/+{next}</NextContinuationToken>");
    }
    text + "</ListBucketResult>"
}

/// Decodes percent-encoded characters. A plus sign is left unchanged, as in the path of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex =
            after.get(..2).and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
        match hex.filter(|_| byte == b'%') {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
