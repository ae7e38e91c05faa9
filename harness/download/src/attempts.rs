//! One request after the other, until one is answered as it should be.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    mpsc::{RecvTimeoutError, sync_channel},
};
use std::time::{Duration, Instant, SystemTime};

use ureq::http::{Response, StatusCode, header};
use ureq::typestate::WithoutBody;
use ureq::{Body, RequestBuilder};

use crate::{Event, Failure, Http, LONGEST_WAIT, LOOK, Progress, TRIES, network, text_header};

/// Why a request has no answer.
pub(crate) enum Call {
    /// The caller called it off.
    Off,
    Failed(String),
}

/// The answer to a request. A thread waits for it, because who waits for a host's first byte hears nothing else.
pub(crate) fn called(
    request: RequestBuilder<WithoutBody>,
    cancel: &AtomicBool,
) -> Result<Response<Body>, Call> {
    let (send, answer) = sync_channel(1);
    let thread = std::thread::Builder::new().name("request".into()).spawn(move || {
        // Nobody listens any more where the request was called off.
        let _ = send.send(request.call());
    });
    thread.map_err(|error| Call::Failed(error.to_string()))?;
    loop {
        match answer.recv_timeout(LOOK) {
            Ok(answer) => return answer.map_err(|error| Call::Failed(error.to_string())),
            Err(RecvTimeoutError::Timeout) if !cancel.load(Ordering::Relaxed) => {}
            Err(RecvTimeoutError::Timeout) => return Err(Call::Off),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Call::Failed("the request ended without an answer".to_owned()));
            }
        }
    }
}

/// A failed attempt that may be repeated.
pub(crate) struct Trouble {
    reason: String,
    /// What the host asked for.
    after: Option<Duration>,
    from: Origin,
}

/// Who made a trouble.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Origin {
    /// The way to the host.
    Network,
    /// The host, for this address.
    Host,
    /// The host, for all who ask too often.
    Limit,
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self { reason, after: None, from: Origin::Network }
    }
}

impl Trouble {
    /// What it is after the last attempt.
    pub(crate) fn failure(&self, url: &str) -> Failure {
        let (url, status, after) = (url.to_owned(), self.reason.clone(), self.after);
        match self.from {
            Origin::Network => network(&url, &format!("{status} after {TRIES} attempts")),
            Origin::Host => Failure::Refused { url, status },
            Origin::Limit => Failure::Limited { url, status, after },
        }
    }
}

pub(crate) struct Attempts<'a> {
    /// Attempts without a new byte.
    pub(crate) failed: u32,
    backoff: Duration,
    cancel: &'a AtomicBool,
    progress: &'a Progress<'a>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(http: &Http, cancel: &'a AtomicBool, progress: &'a Progress<'a>) -> Self {
        Self { failed: 0, backoff: http.backoff, cancel, progress }
    }

    /// Waits before the next attempt; an error after the last or when the fetch was called off.
    pub(crate) fn wait(&mut self, trouble: &Trouble) -> Result<(), ()> {
        self.failed += 1;
        // A host that wants an hour's rest is not asked again within it.
        let too_long = trouble.after.is_some_and(|after| after > LONGEST_WAIT);
        if self.failed >= TRIES || too_long {
            return Err(());
        }
        let own = self.backoff * 2u32.pow(self.failed - 1);
        let after = trouble.after.unwrap_or(own);
        (self.progress)(Event::Retry { reason: &trouble.reason, after });
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

/// Whether an answer asks for another attempt.
pub(crate) fn judge(response: &Response<Body>) -> Option<Trouble> {
    let status = response.status();
    let number = |name| text_header(response, name)?.parse::<u64>().ok();
    let after = number(header::RETRY_AFTER).map(Duration::from_secs);
    // GitHub says 403 to those who asked too often, with what is left of their requests and when there are more:
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

/// S3 answers 403 for a key that is missing where listing is not allowed.
pub(crate) fn missing(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::GONE)
}
