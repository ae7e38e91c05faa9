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
    CANCEL_INTERVAL, DownloadError, DownloadEvent, DownloadProgress, Http, LONGEST_WAIT, TRIES,
    network, text_header,
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
pub(crate) struct Trouble {
    reason: String,
    /// Time for which the host asked the client to wait; `None` if it did not ask.
    after: Option<Duration>,
    from: Origin,
}

/// Origin of the failure of an attempt.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Origin {
    /// The network or the connection failed.
    Network,
    /// The host refused to send this file.
    Host,
    /// The host limits the rate of requests.
    Limit,
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self { reason, after: None, from: Origin::Network }
    }
}

impl Trouble {
    /// Returns the error for a download whose last attempt failed in this way.
    pub(crate) fn failure(&self, url: &str) -> DownloadError {
        let (url, status, after) = (url.to_owned(), self.reason.clone(), self.after);
        match self.from {
            Origin::Network => network(&url, &format!("{status} after {TRIES} attempts")),
            Origin::Host => DownloadError::Refused { url, status },
            Origin::Limit => DownloadError::Limited { url, status, after },
        }
    }
}

pub(crate) struct Attempts<'a> {
    /// Number of attempts since the last one that returned a new byte.
    pub(crate) failed: u32,
    backoff: Duration,
    cancel: &'a AtomicBool,
    progress: &'a DownloadProgress<'a>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(
        http: &Http,
        cancel: &'a AtomicBool,
        progress: &'a DownloadProgress<'a>,
    ) -> Self {
        Self { failed: 0, backoff: http.backoff, cancel, progress }
    }

    /// Waits until the next attempt may be made.
    ///
    /// # Errors
    /// All attempts have been made, the host asks for a longer wait than [`LONGEST_WAIT`], or the download was
    /// cancelled.
    pub(crate) fn wait(&mut self, trouble: &Trouble) -> Result<(), ()> {
        self.failed += 1;
        // If the host asks for a long wait, for example one hour, no further attempt is made.
        let too_long = trouble.after.is_some_and(|after| after > LONGEST_WAIT);
        if self.failed >= TRIES || too_long {
            return Err(());
        }
        let own = self.backoff * 2u32.pow(self.failed - 1);
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

/// Returns a description of the failure if a response is a failure that may be temporary. `None` for any other
/// response.
pub(crate) fn retryable_failure(response: &Response<Body>) -> Option<Trouble> {
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
    Some(Trouble { reason: status.to_string(), after, from: origin })
}

/// Returns true if the status means that the file is missing. S3 responds with 403 if the key is missing and listing is
/// not allowed.
pub(crate) fn is_missing(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::GONE)
}
