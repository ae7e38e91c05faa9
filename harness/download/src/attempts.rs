//! Sends requests to a host, and repeats them after failures that may be temporary.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    mpsc::{RecvTimeoutError, sync_channel},
};
use std::time::{Duration, Instant, SystemTime};

use ureq::http::{Response, StatusCode, header};
use ureq::typestate::WithoutBody;
use ureq::{Body, RequestBuilder};

use crate::{
    CANCEL_INTERVAL, DownloadError, DownloadEvent, DownloadProgress, Http, MAX_ATTEMPTS,
    MAX_ATTEMPTS_AFTER_REFUSAL, MAX_REQUESTED_WAIT, network, text_header,
};

/// Reason why a request has no response.
pub(crate) enum RequestError {
    Cancelled,
    Failed(String),
}

/// Sends a request and returns its response. The request is sent on a second thread, because waiting for the first byte
/// of the response cannot be cancelled.
pub(crate) fn send_request(
    request: RequestBuilder<WithoutBody>,
    cancel: &AtomicBool,
) -> Result<Response<Body>, RequestError> {
    let (send, answer) = sync_channel(1);
    let thread = std::thread::Builder::new().name("request".into()).spawn(move || {
        // The receiver no longer exists if the request was cancelled.
        let _ = send.send(request.call());
    });
    thread.map_err(|error| RequestError::Failed(error.to_string()))?;
    loop {
        match answer.recv_timeout(CANCEL_INTERVAL) {
            Ok(answer) => return answer.map_err(|error| RequestError::Failed(error.to_string())),
            Err(RecvTimeoutError::Timeout) if !cancel.load(Ordering::Relaxed) => {}
            Err(RecvTimeoutError::Timeout) => return Err(RequestError::Cancelled),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(RequestError::Failed(
                    "the request ended without a response".to_owned(),
                ));
            }
        }
    }
}

/// A failed attempt after which another attempt makes sense.
pub(crate) struct FailedAttempt {
    reason: String,
    /// Time for which the host asked the client to wait; `None` if it did not ask.
    after: Option<Duration>,
    from: Origin,
}

/// Party that caused a failed attempt.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Origin {
    /// The network or the connection failed.
    Network,
    /// The host refused to send the requested file.
    Host,
    /// The host limits the rate of requests.
    Limit,
}

impl From<String> for FailedAttempt {
    fn from(reason: String) -> Self {
        Self { reason, after: None, from: Origin::Network }
    }
}

pub(crate) struct Attempts<'a> {
    /// Number of attempts since the last one that returned a new byte.
    pub(crate) failed: u32,
    http: &'a Http,
    url: &'a str,
    cancel: &'a AtomicBool,
    progress: &'a DownloadProgress<'a>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(
        http: &'a Http,
        url: &'a str,
        cancel: &'a AtomicBool,
        progress: &'a DownloadProgress<'a>,
    ) -> Self {
        Self { failed: 0, http, url, cancel, progress }
    }

    /// Remembers that the host sent a requested file. Further downloads from this host then get the usual number of
    /// attempts again.
    pub(crate) fn has_answered(&self) {
        if let Ok(mut refusing) = self.http.refusing_hosts.lock() {
            refusing.remove(host(self.url));
        }
    }

    /// Returns the maximum number of attempts. The number is lower for a host that refused another file, because
    /// otherwise each further download from that host would take as long as the first one.
    fn max_attempts(&self) -> u32 {
        let refuses = self.http.refusing_hosts.lock().is_ok_and(|all| all.contains(host(self.url)));
        if refuses { MAX_ATTEMPTS_AFTER_REFUSAL } else { MAX_ATTEMPTS }
    }

    /// Returns the error for a download that is given up after the failed attempt `trouble`.
    pub(crate) fn failure(&self, trouble: &FailedAttempt) -> DownloadError {
        let (url, status, after) = (self.url.to_owned(), &trouble.reason, trouble.after);
        let tried = format!("{status} after {} attempts", self.failed);
        match trouble.from {
            Origin::Limit => DownloadError::Limited { url, status: status.clone(), after },
            // The network works if the host answers another request.
            Origin::Network if self.answers() => {
                let status = format!("{tried}, although the host answers other requests");
                DownloadError::Refused { url, status }
            }
            Origin::Network => network(&url, &tried),
            Origin::Host => {
                if let Ok(mut refusing) = self.http.refusing_hosts.lock() {
                    refusing.insert(host(&url).to_owned());
                }
                DownloadError::Refused { url, status: tried }
            }
        }
    }

    /// Returns true if the host answers a request for its start page, whatever the answer is.
    fn answers(&self) -> bool {
        send_request(self.http.get(&format!("{}/", host(self.url))), self.cancel).is_ok()
    }

    /// Waits until the next attempt may be made.
    ///
    /// # Errors
    /// All attempts have been made, the host asks for a longer wait than [`MAX_REQUESTED_WAIT`], or the download was
    /// cancelled.
    pub(crate) fn wait(&mut self, trouble: &FailedAttempt) -> Result<(), ()> {
        self.failed += 1;
        // If the host asks for a long wait, for example one hour, no further attempt is made.
        let too_long = trouble.after.is_some_and(|after| after > MAX_REQUESTED_WAIT);
        if self.failed >= self.max_attempts() || too_long {
            return Err(());
        }
        let own = self.http.backoff * 2u32.pow(self.failed - 1);
        let after = trouble.after.unwrap_or(own);
        (self.progress)(DownloadEvent::Retry { reason: &trouble.reason, after });
        let end = Instant::now() + after;
        while Instant::now() < end {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(());
            }
            std::thread::sleep(Duration::from_millis(20).min(end - Instant::now().min(end)));
        }
        Ok(())
    }
}

/// Returns the part of an address that names the host, for example `https://example.org:8080`.
fn host(url: &str) -> &str {
    let from = url.find("://").map_or(0, |at| at + 3);
    let to = url.get(from..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| from + at);
    url.get(..to).unwrap_or(url)
}

/// Returns a description of the failure if a response is a failure that may be temporary. `None` for any other
/// response.
pub(crate) fn retryable_failure(response: &Response<Body>) -> Option<FailedAttempt> {
    let status = response.status();
    let number = |name| text_header(response, name)?.parse::<u64>().ok();
    let after = number(header::RETRY_AFTER).map(Duration::from_secs);
    // If GitHub's rate limit is reached, the status is 403. Headers contain the number of remaining requests and the
    // time at which the limit is reset:
    // https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api.
    let none_left = number(header::HeaderName::from_static("x-ratelimit-remaining")) == Some(0);
    let reset = number(header::HeaderName::from_static("x-ratelimit-reset")).filter(|_| none_left);
    let since_1970 = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
    let until = reset.and_then(|at| Some(at.saturating_sub(since_1970()?.as_secs())));
    let origin = match status {
        StatusCode::TOO_MANY_REQUESTS => Origin::Limit,
        StatusCode::FORBIDDEN if none_left || after.is_some() => Origin::Limit,
        StatusCode::REQUEST_TIMEOUT => Origin::Host,
        _ if status.is_server_error() => Origin::Host,
        _ => return None,
    };
    let after = after.or(until.map(Duration::from_secs));
    Some(FailedAttempt { reason: status.to_string(), after, from: origin })
}

/// Returns true if the status means that the file is missing. S3 responds with 403 if the key is missing and listing is
/// not allowed.
pub(crate) fn is_missing(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::GONE)
}
