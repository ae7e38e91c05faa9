//! Downloads that survive what hosts do: redirects, requests to wait, cut connections.
//!
//! It knows nothing of what is downloaded.

#![forbid(unsafe_code)]

mod attempts;
mod bound;
mod crew;

use std::io::{self, Read};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    mpsc::{Receiver, RecvTimeoutError, sync_channel},
};
use std::time::{Duration, Instant};

use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

use attempts::{Attempts, Call, Trouble, called, judge, missing};
pub use bound::Bound;
pub use crew::crew;

/// Attempts without a single new byte.
const TRIES: u32 = 5;

/// The longest that a host is waited for, whatever it asks.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// A connection over which no byte came for so long is given up, and the download goes on with the next.
const STALL: Duration = Duration::from_secs(60);

/// The same for one that drips: 11 GB at 1 MB/s take three hours.
const ATTEMPT: Duration = Duration::from_secs(4 * 60 * 60);

/// How often somebody who waits for bytes looks whether the download was called off.
const LOOK: Duration = Duration::from_millis(50);

/// What a download is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Bytes arrive.
    Download {
        /// What is downloaded, in the caller's words.
        name: &'a str,
        /// Bytes there.
        done: u64,
        /// Bytes in all, if known.
        total: Option<u64>,
    },
    /// The connection broke or the host asked to wait; the download goes on where it stopped.
    Retry {
        /// What happened.
        reason: &'a str,
        /// When it goes on.
        after: Duration,
    },
}

/// Gets the events.
pub type Progress<'a> = dyn Fn(Event<'_>) + Sync + 'a;

/// Why something could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The host says that it is not there.
    #[error("{url} is not there")]
    Missing {
        /// Its address.
        url: String,
    },
    /// The host does not answer, or not with it, after all attempts.
    #[error("{url}: {reason}")]
    Network {
        /// Its address.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The host is there and says that it cannot give this, after all attempts.
    #[error("{url}: {status} after {TRIES} attempts")]
    Refused {
        /// Its address.
        url: String,
        /// What it answered, such as `500 Internal Server Error`.
        status: String,
    },
    /// The host limits how many requests it answers.
    #[error("{url}: the host limits its answers ({status}){}", asked(.after))]
    Limited {
        /// Its address.
        url: String,
        /// What it answered, such as `429 Too Many Requests`.
        status: String,
        /// What it asks to wait.
        after: Option<Duration>,
    },
    /// The host sends more than the download may have.
    #[error("{url}: an answer of more than {most} bytes; {why}")]
    TooLong {
        /// Its address.
        url: String,
        /// The bound.
        most: u64,
        /// Why it is the bound.
        why: &'static str,
    },
    /// The disk has less space than the host sends.
    #[error("{url}: it is larger than the {} MB that the disk has free", .free / 1_000_000)]
    NoSpace {
        /// Its address.
        url: String,
        /// Bytes.
        free: u64,
    },
    /// A page for people in place of a file: a hotel's portal, a proxy.
    #[error("{url}: a page in HTML came in its place; does a portal or a proxy want a login?")]
    Page {
        /// Its address.
        url: String,
    },
    /// The host has other bytes than at the download's start.
    #[error("{name} changed on the host while it was downloaded")]
    Changed {
        /// What was downloaded, in the caller's words.
        name: String,
    },
    /// The caller called it off.
    #[error("the download was called off")]
    Cancelled,
}

fn asked(after: &Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(" and asks to wait {} s", after.as_secs()))
}

/// A client.
#[derive(Clone, Debug)]
pub struct Http {
    agent: Agent,
    /// What is waited before the first new attempt where the host does not say; it doubles.
    backoff: Duration,
    /// A connection that is silent for so long is given up.
    stall: Duration,
}

impl Http {
    /// A client that waits so long before the second attempt, where the host does not say; it doubles.
    pub fn new(backoff: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_recv_body(Some(ATTEMPT))
            .user_agent(concat!("rocrepro/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: Agent::new_with_config(config), backoff, stall: STALL }
    }

    /// The same client that gives a silent connection up after another time.
    pub fn with_stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Returns a whole text within the bound, with the content type that the host gave it. The flag cancels the request.
    ///
    /// # Errors
    /// [`Failure`], after several attempts where they may help.
    pub fn text(
        &self,
        url: &str,
        accept: &str,
        bound: Bound,
        cancel: &AtomicBool,
    ) -> Result<(String, String), Failure> {
        let mut attempts = Attempts::new(self, cancel, &|_| ());
        loop {
            let request = self.agent.get(url).header(header::ACCEPT, accept);
            let reason = match called(request, cancel) {
                Err(Call::Off) => return Err(Failure::Cancelled),
                Ok(response) if response.status().is_success() => {
                    let kind = text_header(&response, header::CONTENT_TYPE).unwrap_or_default();
                    match self.whole(response, bound, cancel) {
                        Ok(Some(text)) => return Ok((text, kind)),
                        Ok(None) => return Err(bound.failure(url)),
                        Err(error) => Trouble::from(error.to_string()),
                    }
                }
                Ok(response) => match judge(&response) {
                    Some(trouble) => trouble,
                    None if missing(response.status()) => {
                        return Err(Failure::Missing { url: url.to_owned() });
                    }
                    None => return Err(network(url, response.status().as_str())),
                },
                Err(Call::Failed(error)) => Trouble::from(error),
            };
            attempts.wait(&reason).map_err(|()| match cancel.load(Ordering::Relaxed) {
                true => Failure::Cancelled,
                false => reason.failure(url),
            })?;
        }
    }

    /// Reads a whole answer; none where it is longer than the bound.
    fn whole(
        &self,
        response: Response<Body>,
        bound: Bound,
        cancel: &AtomicBool,
    ) -> io::Result<Option<String>> {
        let mut incoming = Incoming::of(response.into_body().into_reader())?;
        let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            match incoming.read(&mut buffer, self.stall, cancel)? {
                0 => return String::from_utf8(text).map(Some).map_err(io::Error::other),
                n if text.len() as u64 + n as u64 > bound.most => return Ok(None),
                n => text.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Begins a download within the bound; see [`Download`].
    ///
    /// # Errors
    /// [`Failure`], where the host has no answer that a download could begin with.
    pub fn open<'a>(
        &'a self,
        url: &'a str,
        name: &'a str,
        bound: Bound,
        cancel: &'a AtomicBool,
        progress: &'a Progress<'a>,
    ) -> Result<Download<'a>, Failure> {
        self.resume(url, name, Part::default(), bound, cancel, progress)
    }

    /// Goes on with a download of which an earlier process has the first bytes, which count for the bound. Without an entity tag only a checksum of the whole
    /// tells whether they are those of the same file.
    ///
    /// # Errors
    /// Those of [`Http::open`], and [`Failure::Changed`] where it is another file by now.
    pub fn resume<'a>(
        &'a self,
        url: &'a str,
        name: &'a str,
        Part { there: at, size: total, etag }: Part,
        bound: Bound,
        cancel: &'a AtomicBool,
        progress: &'a Progress<'a>,
    ) -> Result<Download<'a>, Failure> {
        let mut download = Download {
            http: self,
            url,
            name,
            bound,
            progress,
            attempts: Attempts::new(self, cancel, progress),
            cancel,
            body: None,
            at,
            total,
            etag,
            failure: None,
            told: Instant::now(),
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

/// What an earlier process has of a file.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// How many bytes, from the first one on.
    pub there: u64,
    /// How many there are in all, if known.
    pub size: Option<u64>,
    /// The host's name for the file's content, if known.
    pub etag: Option<String>,
}

/// The bytes of a file. A connection that breaks is opened again where it stopped, if the file is still the same.
///
/// Decoders hide why a read failed, so the reason is kept in [`Download::failure`].
pub struct Download<'a> {
    http: &'a Http,
    url: &'a str,
    name: &'a str,
    bound: Bound,
    progress: &'a Progress<'a>,
    attempts: Attempts<'a>,
    cancel: &'a AtomicBool,
    body: Option<Incoming>,
    at: u64,
    total: Option<u64>,
    etag: Option<String>,
    /// Why a read failed.
    pub failure: Option<Failure>,
    told: Instant,
}

/// The bytes of one connection. They are read by a thread, because a read that waits for the network hears neither that the
/// download was called off nor that nothing comes any more.
struct Incoming {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Incoming {
    fn of(mut body: impl Read + Send + 'static) -> io::Result<Incoming> {
        let (send, chunks) = sync_channel(4);
        std::thread::Builder::new().name("download".into()).spawn(move || {
            loop {
                let mut chunk = vec![0; 1 << 16];
                let read = body.read(&mut chunk).map(|n| chunk.truncate(n));
                let last = read.is_err() || chunk.is_empty();
                // Nobody listens any more where the download has ended.
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
            match self.chunks.recv_timeout(LOOK) {
                Ok(Ok(chunk)) if chunk.is_empty() => return Ok(0),
                Ok(chunk) => self.chunk = io::Cursor::new(chunk?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if cancel.load(Ordering::Relaxed) => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() >= stall => {
                    let seconds = stall.as_secs_f64();
                    return Err(io::Error::other(format!("nothing came for {seconds:.0} s")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Download<'_> {
    /// Bytes so far, those of an earlier process included.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Bytes in all, if known.
    pub fn size(&self) -> Option<u64> {
        self.total
    }

    /// The host's name for the content, if it gives one.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    fn fail(&mut self, failure: Failure) -> io::Error {
        let error = io::Error::other(failure.to_string());
        self.failure = Some(failure);
        error
    }

    /// Connects, or connects again at the byte that comes next.
    fn connect(&mut self) -> io::Result<()> {
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(self.fail(Failure::Cancelled));
            }
            let mut request = self.http.agent.get(self.url);
            if self.at > 0 {
                request = request.header(header::RANGE, format!("bytes={}-", self.at));
                if let Some(etag) = &self.etag {
                    request = request.header(header::IF_RANGE, etag);
                }
            }
            let trouble = match called(request, self.cancel) {
                Ok(response) => match judge(&response) {
                    Some(trouble) => trouble,
                    None => return self.accept(response),
                },
                Err(Call::Off) => return Err(self.fail(Failure::Cancelled)),
                Err(Call::Failed(error)) => Trouble::from(error),
            };
            self.again(&trouble)?;
        }
    }

    fn again(&mut self, trouble: &Trouble) -> io::Result<()> {
        self.attempts.wait(trouble).map_err(|()| {
            let failure = if self.cancel.load(Ordering::Relaxed) {
                Failure::Cancelled
            } else {
                trouble.failure(self.url)
            };
            self.fail(failure)
        })
    }

    fn accept(&mut self, response: Response<Body>) -> io::Result<()> {
        let status = response.status();
        if missing(status) {
            return Err(self.fail(Failure::Missing { url: self.url.to_owned() }));
        }
        if status == StatusCode::RANGE_NOT_SATISFIABLE {
            // It ends before what is there does.
            let failure = Failure::Changed { name: self.name.to_owned() };
            return Err(self.fail(failure));
        }
        if !status.is_success() {
            return Err(self.fail(network(self.url, status.as_str())));
        }
        let kind = text_header(&response, header::CONTENT_TYPE).unwrap_or_default();
        if kind.starts_with("text/html") {
            return Err(self.fail(Failure::Page { url: self.url.to_owned() }));
        }
        let length = text_header(&response, header::CONTENT_LENGTH).and_then(|n| n.parse().ok());
        let etag = text_header(&response, header::ETAG);
        let changed = || Failure::Changed { name: self.name.to_owned() };
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
                // The host ignores ranges: what is known already is read once more.
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
        let mut body = Incoming::of(response.into_body().into_reader())?;
        let mut buffer = vec![0; 1 << 16];
        while skip > 0 {
            let wanted = buffer.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
            match body.read(&mut buffer[..wanted], self.http.stall, self.cancel) {
                Ok(0) => return Err(self.fail(network(self.url, "the connection ended early"))),
                Ok(n) => skip -= n as u64,
                Err(_) if self.cancel.load(Ordering::Relaxed) => {
                    return Err(self.fail(Failure::Cancelled));
                }
                Err(error) => return Err(self.fail(network(self.url, &error))),
            }
        }
        self.body = Some(body);
        Ok(())
    }

    fn tell(&mut self, always: bool) {
        if always || self.told.elapsed() > Duration::from_millis(200) {
            self.told = Instant::now();
            let (name, done, total) = (self.name, self.at, self.total);
            (self.progress)(Event::Download { name, done, total });
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
                return Err(self.fail(Failure::Cancelled));
            }
            if self.total == Some(self.at) {
                self.tell(true);
                return Ok(0);
            }
            let Some(body) = &mut self.body else {
                self.connect()?;
                continue;
            };
            let reason = match body.read(buffer, self.http.stall, self.cancel) {
                Ok(0) if self.total.is_none() => return Ok(0),
                Ok(0) => "the connection ended early".to_owned(),
                Ok(n) if self.at + n as u64 > self.bound.most => {
                    self.body = None;
                    return Err(self.fail(self.bound.failure(self.url)));
                }
                Ok(n) => {
                    self.at += n as u64;
                    self.attempts.failed = 0;
                    self.tell(false);
                    return Ok(n);
                }
                // Looked at above.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error.to_string(),
            };
            self.body = None;
            self.again(&Trouble::from(reason))?;
        }
    }
}

fn text_header(response: &Response<Body>, name: header::HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn network(url: &str, reason: &(impl ToString + ?Sized)) -> Failure {
    Failure::Network { url: url.to_owned(), reason: reason.to_string() }
}
