//! Downloads files over HTTP, and continues after redirects, rate limits and broken connections.
//!
//! The crate makes no assumptions about the content of the files.

#![forbid(unsafe_code)]

mod attempts;
mod bound;
mod crew;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    mpsc::{Receiver, RecvTimeoutError, sync_channel},
};
use std::time::{Duration, Instant};

use ureq::http::{Response, StatusCode, header};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use attempts::{
    Attempts, FailedAttempt, RequestError, is_missing, retryable_failure, send_request,
};
pub use bound::SizeLimit;
pub use crew::run_on_threads;

/// Maximum number of successive attempts that return no new byte.
const MAX_ATTEMPTS: u32 = 5;

/// Maximum number of attempts on a host that refused every attempt to download another file.
const MAX_ATTEMPTS_AFTER_REFUSAL: u32 = 2;

/// Longest wait that a host may ask for. If the host asks for more, the download fails.
const MAX_REQUESTED_WAIT: Duration = Duration::from_secs(120);

/// Maximum time without a new byte on a connection. After this time, the download continues on a new connection.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum duration of one connection. For comparison, 11 GB at 1 MB/s take three hours.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);

/// Interval between two checks of whether the download was cancelled, while the download waits for bytes.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// An event during a download, for progress displays.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DownloadEvent<'a> {
    /// New bytes have arrived.
    Download {
        /// Name of the file in messages, which the caller chooses.
        name: &'a str,
        /// Number of bytes that have arrived so far.
        done: u64,
        /// Size of the file in bytes; `None` if it is unknown.
        total: Option<u64>,
    },
    /// The connection broke, or the host asked the client to wait. The download will continue where it stopped.
    Retry {
        /// Description of the failure that interrupted the download.
        reason: &'a str,
        /// Time until the next attempt.
        after: Duration,
    },
}

/// Callback that receives the events of a download.
pub type DownloadProgress<'a> = dyn Fn(DownloadEvent<'_>) + Sync + 'a;

/// Reason why a download failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The host does not have the file.
    #[error("{url}: not found")]
    Missing {
        /// Address of the file.
        url: String,
    },
    /// No attempt succeeded, because the host or the network did not respond correctly.
    #[error("{url}: {reason}")]
    Network {
        /// Address of the file.
        url: String,
        /// Description of the failure.
        reason: String,
    },
    /// The host refused every attempt to download the file.
    #[error("{url}: {status}")]
    Refused {
        /// Address of the file.
        url: String,
        /// Status of the response and number of attempts, for example `500 Internal Server Error after 5 attempts`, or
        /// a description of the broken connection.
        status: String,
    },
    /// The host limits the rate of requests.
    #[error("{url}: rate-limited ({status}){}", requested_pause(.after))]
    Limited {
        /// Address of the file.
        url: String,
        /// Status of the response, for example `429 Too Many Requests`.
        status: String,
        /// Time for which the host asked the client to wait; `None` if it did not ask.
        after: Option<Duration>,
    },
    /// The host sends more bytes than the maximum.
    #[error("{url}: the response has more than {most} bytes; {why}")]
    TooLong {
        /// Address of the file.
        url: String,
        /// Maximum size in bytes.
        most: u64,
        /// Reason for the maximum, as in [`SizeLimit::new`].
        why: &'static str,
    },
    /// The file is larger than the free space on the disk.
    #[error("{url}: the file is larger than the free disk space of {} MB", .free / 1_000_000)]
    NoSpace {
        /// Address of the file.
        url: String,
        /// Free space on the disk in bytes.
        free: u64,
    },
    /// The host responded with a web page instead of the file, for example with the login page of a hotel or of a
    /// proxy.
    #[error(
        "{url}: received an HTML page instead of the file; a portal or proxy may require a login"
    )]
    Page {
        /// Address of the file.
        url: String,
    },
    /// The host now has another file at this address than when the download began.
    #[error("{name} changed on the host while it was downloaded")]
    Changed {
        /// Name of the file in messages, which the caller chose.
        name: String,
    },
    /// The caller cancelled the download.
    #[error("the download was cancelled")]
    Cancelled,
}

fn requested_pause(after: &Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!("; try again in {} s", after.as_secs()))
}

/// HTTP client that limits how long it waits for a host.
#[derive(Clone, Debug)]
pub struct Http {
    agent: Agent,
    /// Time to wait before the second attempt, unless the host asks for another time. The time doubles before each
    /// further attempt.
    backoff: Duration,
    /// Maximum time without a new byte on a connection.
    stall: Duration,
    /// Hosts that refused every attempt to download a file, and have answered no request since then.
    refusing_hosts: Arc<Mutex<BTreeSet<String>>>,
}

impl Http {
    /// Creates a client that waits for `backoff` before the second attempt, unless the host asks for another time. The
    /// time doubles before each further attempt.
    pub fn new(backoff: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_recv_body(Some(CONNECTION_TIMEOUT))
            .user_agent(concat!("rocrepro/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: Agent::new_with_config(config),
            backoff,
            stall: STALL_TIMEOUT,
            refusing_hosts: Arc::default(),
        }
    }

    /// Sets the maximum time without a new byte on a connection.
    pub fn with_stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Creates a GET request. A redirect from an `https:` address to plain HTTP is refused.
    fn get(&self, url: &str) -> RequestBuilder<WithoutBody> {
        self.agent.get(url).config().https_only(url.starts_with("https:")).build()
    }

    /// Downloads a text file, and returns its content and its content type. `accept` is the content type that is
    /// requested. The file may have at most `bound` bytes. `cancel` cancels the request.
    ///
    /// # Errors
    /// The file cannot be downloaded, even after repeating attempts whose failure may have been temporary.
    pub fn text(
        &self,
        url: &str,
        accept: &str,
        bound: SizeLimit,
        cancel: &AtomicBool,
    ) -> Result<(String, String), DownloadError> {
        let mut attempts = Attempts::new(self, url, cancel, &|_| ());
        loop {
            let request = self.get(url).header(header::ACCEPT, accept);
            let reason = match send_request(request, cancel) {
                Err(RequestError::Cancelled) => return Err(DownloadError::Cancelled),
                Ok(response) if response.status().is_success() => {
                    let kind = text_header(&response, header::CONTENT_TYPE).unwrap_or_default();
                    match self.whole(response, bound, cancel) {
                        Ok(Some(text)) => {
                            attempts.has_answered();
                            return Ok((text, kind));
                        }
                        Ok(None) => return Err(bound.failure(url)),
                        Err(error) => FailedAttempt::from(error.to_string()),
                    }
                }
                Ok(response) => match retryable_failure(&response) {
                    Some(trouble) => trouble,
                    None if is_missing(response.status()) => {
                        return Err(DownloadError::Missing { url: url.to_owned() });
                    }
                    None => return Err(network(url, response.status().as_str())),
                },
                Err(RequestError::Failed(error)) => FailedAttempt::from(error),
            };
            attempts.wait(&reason).map_err(|()| match cancel.load(Ordering::Relaxed) {
                true => DownloadError::Cancelled,
                false => attempts.failure(&reason),
            })?;
        }
    }

    /// Reads a response completely. Returns `None` if the response is longer than the maximum.
    fn whole(
        &self,
        response: Response<Body>,
        bound: SizeLimit,
        cancel: &AtomicBool,
    ) -> io::Result<Option<String>> {
        let mut incoming = Incoming::start(response.into_body().into_reader())?;
        let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            match incoming.read(&mut buffer, self.stall, cancel)? {
                0 => return String::from_utf8(text).map(Some).map_err(io::Error::other),
                n if text.len() as u64 + n as u64 > bound.most => return Ok(None),
                n => text.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Begins a download, and returns the reader of the file's content. `name` is the name of the file in messages. The
    /// file may have at most `bound` bytes.
    ///
    /// # Errors
    /// The host does not have the file, or does not respond in a way that allows a download.
    pub fn open<'a>(
        &'a self,
        url: &'a str,
        name: &'a str,
        bound: SizeLimit,
        cancel: &'a AtomicBool,
        progress: &'a DownloadProgress<'a>,
    ) -> Result<Download<'a>, DownloadError> {
        self.resume(url, name, PartialDownload::default(), bound, cancel, progress)
    }

    /// Continues a download whose first bytes an earlier process has downloaded. The maximum applies to the old and the
    /// new bytes together. If the host sent no entity tag, only a checksum of the whole file can show that the old and
    /// the new bytes belong to the same file.
    ///
    /// # Errors
    /// The errors of [`Http::open`], and [`DownloadError::Changed`] if the host now has another file.
    pub fn resume<'a>(
        &'a self,
        url: &'a str,
        name: &'a str,
        PartialDownload { there: at, size: total, etag }: PartialDownload,
        bound: SizeLimit,
        cancel: &'a AtomicBool,
        progress: &'a DownloadProgress<'a>,
    ) -> Result<Download<'a>, DownloadError> {
        let mut download = Download {
            http: self,
            url,
            name,
            bound,
            progress,
            attempts: Attempts::new(self, url, cancel, progress),
            cancel,
            body: None,
            at,
            total,
            etag,
            failure: None,
            reported: Instant::now(),
        };
        if download.total == Some(download.at) {
            return Ok(download);
        }
        match download.connect() {
            Ok(()) => Ok(download),
            Err(error) => Err(download.failure.take().unwrap_or_else(|| network(url, &error))),
        }
    }
}

/// Description of the bytes of a file that an earlier process has downloaded.
#[derive(Clone, Debug, Default)]
pub struct PartialDownload {
    /// Number of bytes that were downloaded.
    pub there: u64,
    /// Size of the whole file in bytes; `None` if it is unknown.
    pub size: Option<u64>,
    /// Entity tag of the file; `None` if the host sent none.
    pub etag: Option<String>,
}

/// Reader that downloads a file. If the connection breaks, the download continues where it stopped, unless the host now
/// has another file.
///
/// Decoders often drop the error of a failed read. Therefore [`Download::failure`] contains the error.
pub struct Download<'a> {
    http: &'a Http,
    url: &'a str,
    name: &'a str,
    bound: SizeLimit,
    progress: &'a DownloadProgress<'a>,
    attempts: Attempts<'a>,
    cancel: &'a AtomicBool,
    body: Option<Incoming>,
    at: u64,
    total: Option<u64>,
    etag: Option<String>,
    /// Error of the last failed read; `None` if all reads have succeeded.
    pub failure: Option<DownloadError>,
    reported: Instant,
}

/// Reader of the bytes that arrive on one connection. A second thread reads from the network, because a read that waits
/// for the network would detect neither a cancellation nor a stalled connection.
struct Incoming {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Incoming {
    fn start(mut body: impl Read + Send + 'static) -> io::Result<Incoming> {
        let (send, chunks) = sync_channel(4);
        std::thread::Builder::new().name("download".into()).spawn(move || {
            loop {
                let mut chunk = vec![0; 1 << 16];
                let read = body.read(&mut chunk).map(|n| chunk.truncate(n));
                let last = read.is_err() || chunk.is_empty();
                // The receiver no longer exists if the download has ended.
                if send.send(read.map(|()| chunk)).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(Incoming { chunks, chunk: io::Cursor::default() })
    }

    fn read(
        &mut self,
        buffer: &mut [u8],
        stall: Duration,
        cancel: &AtomicBool,
    ) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            match self.chunk.read(buffer)? {
                0 => {}
                n => return Ok(n),
            }
            match self.chunks.recv_timeout(CANCEL_INTERVAL) {
                Ok(Ok(chunk)) if chunk.is_empty() => return Ok(0),
                Ok(chunk) => self.chunk = io::Cursor::new(chunk?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if cancel.load(Ordering::Relaxed) => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() >= stall => {
                    let seconds = stall.as_secs_f64();
                    return Err(io::Error::other(format!("no data received for {seconds:.0} s")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Download<'_> {
    /// Returns the number of bytes that have been downloaded so far, including the bytes of an earlier process.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Returns the size of the file in bytes; `None` if it is unknown.
    pub fn size(&self) -> Option<u64> {
        self.total
    }

    /// Returns the entity tag that the host sent for the file, if any.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    fn fail(&mut self, failure: DownloadError) -> io::Error {
        let error = io::Error::other(failure.to_string());
        self.failure = Some(failure);
        error
    }

    /// Connects to the host. If bytes have been downloaded before, asks for the bytes after them.
    fn connect(&mut self) -> io::Result<()> {
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(self.fail(DownloadError::Cancelled));
            }
            let mut request = self.http.get(self.url);
            if self.at > 0 {
                request = request.header(header::RANGE, format!("bytes={}-", self.at));
                if let Some(etag) = &self.etag {
                    request = request.header(header::IF_RANGE, etag);
                }
            }
            let trouble = match send_request(request, self.cancel) {
                Ok(response) => match retryable_failure(&response) {
                    Some(trouble) => trouble,
                    None => return self.accept(response),
                },
                Err(RequestError::Cancelled) => return Err(self.fail(DownloadError::Cancelled)),
                Err(RequestError::Failed(error)) => FailedAttempt::from(error),
            };
            self.again(&trouble)?;
        }
    }

    fn again(&mut self, trouble: &FailedAttempt) -> io::Result<()> {
        self.attempts.wait(trouble).map_err(|()| {
            let failure = if self.cancel.load(Ordering::Relaxed) {
                DownloadError::Cancelled
            } else {
                self.attempts.failure(trouble)
            };
            self.fail(failure)
        })
    }

    fn accept(&mut self, response: Response<Body>) -> io::Result<()> {
        let status = response.status();
        if is_missing(status) {
            return Err(self.fail(DownloadError::Missing { url: self.url.to_owned() }));
        }
        if status == StatusCode::RANGE_NOT_SATISFIABLE {
            // The host's file is shorter than the bytes that were downloaded earlier.
            let failure = DownloadError::Changed { name: self.name.to_owned() };
            return Err(self.fail(failure));
        }
        if !status.is_success() {
            return Err(self.fail(network(self.url, status.as_str())));
        }
        let kind = text_header(&response, header::CONTENT_TYPE).unwrap_or_default();
        if kind.starts_with("text/html") {
            return Err(self.fail(DownloadError::Page { url: self.url.to_owned() }));
        }
        let length = text_header(&response, header::CONTENT_LENGTH).and_then(|n| n.parse().ok());
        let etag = text_header(&response, header::ETAG);
        let changed = || DownloadError::Changed { name: self.name.to_owned() };
        let mut skip = 0;
        if self.at == 0 {
            self.total = length;
            self.etag = etag;
        } else {
            let same = self.etag.is_none() || self.etag == etag;
            let range = text_header(&response, header::CONTENT_RANGE).unwrap_or_default();
            let start = range.strip_prefix("bytes ").and_then(|range| range.split('-').next());
            let start: Option<u64> = start.and_then(|start| start.parse().ok());
            let size: Option<u64> = range.rsplit('/').next().and_then(|size| size.parse().ok());
            let same_size = size.is_none() || self.total.is_none() || size == self.total;
            match (status, start) {
                (StatusCode::PARTIAL_CONTENT, Some(start))
                    if start == self.at && same && same_size =>
                {
                    self.total = self.total.or(size);
                }
                // The host ignored the requested range and sends the whole file. The bytes that were downloaded earlier
                // are skipped.
                (StatusCode::OK, _) if same && length == self.total => skip = self.at,
                _ => {
                    let failure = changed();
                    return Err(self.fail(failure));
                }
            }
        }
        if self.total.is_some_and(|total| total > self.bound.most) {
            return Err(self.fail(self.bound.failure(self.url)));
        }
        let mut body = Incoming::start(response.into_body().into_reader())?;
        let mut buffer = vec![0; 1 << 16];
        while skip > 0 {
            let wanted = buffer.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
            match body.read(&mut buffer[..wanted], self.http.stall, self.cancel) {
                Ok(0) => return Err(self.fail(network(self.url, "the download was cut short"))),
                Ok(n) => skip -= n as u64,
                Err(_) if self.cancel.load(Ordering::Relaxed) => {
                    return Err(self.fail(DownloadError::Cancelled));
                }
                Err(error) => return Err(self.fail(network(self.url, &error))),
            }
        }
        self.body = Some(body);
        Ok(())
    }

    fn report(&mut self, always: bool) {
        if always || self.reported.elapsed() > Duration::from_millis(200) {
            self.reported = Instant::now();
            let (name, done, total) = (self.name, self.at, self.total);
            (self.progress)(DownloadEvent::Download { name, done, total });
        }
    }
}

impl Read for Download<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(self.fail(DownloadError::Cancelled));
            }
            if self.total == Some(self.at) {
                self.report(true);
                return Ok(0);
            }
            let Some(body) = &mut self.body else {
                self.connect()?;
                continue;
            };
            let reason = match body.read(buffer, self.http.stall, self.cancel) {
                Ok(0) if self.total.is_none() => return Ok(0),
                Ok(0) => "the download was cut short".to_owned(),
                Ok(n) if self.at + n as u64 > self.bound.most => {
                    self.body = None;
                    return Err(self.fail(self.bound.failure(self.url)));
                }
                Ok(n) => {
                    self.at += n as u64;
                    self.attempts.failed = 0;
                    self.attempts.has_answered();
                    self.report(false);
                    return Ok(n);
                }
                // The surrounding loop checks for cancellation.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error.to_string(),
            };
            self.body = None;
            self.again(&FailedAttempt::from(reason))?;
        }
    }
}

fn text_header(response: &Response<Body>, name: header::HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn network(url: &str, reason: &(impl ToString + ?Sized)) -> DownloadError {
    DownloadError::Network { url: url.to_owned(), reason: reason.to_string() }
}
