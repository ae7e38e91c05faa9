//! Parses the output lines of a worker as events. Native code of an untrusted case may send any lines, so the size of
//! what is kept is limited.

use std::fmt;

use plan::Event;
use supervise::Line;

/// Largest size, in bytes, of all events that are kept, except those about steps. A worker sends each kind of event at
/// most a few times, about 100 KB altogether. In memory, short texts in a list need up to ten times as much.
const MAX_BYTES: usize = 4 << 20;

/// Largest number of items in all lists of one event, for example mapped libraries. A worker usually sends some
/// hundred.
const MAX_ITEMS: usize = 10_000;

/// Largest size, in bytes, of lines that are not events. The first of these lines are shown to the user.
const MAX_OTHER_BYTES: usize = 1 << 20;

/// The events that exceeded the limits and were not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DroppedEvents {
    /// Number of events that were not kept.
    pub(super) events: usize,
    /// Total size of the events that were not kept, in bytes.
    pub(super) bytes: usize,
}

impl fmt::Display for DroppedEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DroppedEvents { events, bytes } = self;
        write!(
            f,
            "the worker wrote too many events to its pipe: {events} events of {bytes} bytes were dropped"
        )
    }
}

/// The parsed lines of a worker.
#[derive(Debug, Default)]
pub(super) struct KeptEvents {
    /// Events that were kept, in the order in which they arrived.
    pub(super) events: Vec<Event>,
    /// Lines before the first event or after the worker's last one, for example from a launcher. Together with
    /// `garbage`, at most [`MAX_OTHER_BYTES`] are kept, but at least one line.
    pub(super) noise: Vec<String>,
    /// Lines between the events that are not events themselves. Together with `noise`, at most [`MAX_OTHER_BYTES`] are
    /// kept, but at least one line.
    pub(super) garbage: Vec<String>,
    /// Events that exceeded the limits.
    pub(super) left_out: DroppedEvents,
}

impl KeptEvents {
    /// Parses lines, and frees the memory of each line after it was parsed.
    pub(super) fn parse(lines: Vec<Line>) -> KeptEvents {
        let mut kept = KeptEvents::default();
        let (mut bytes, mut other) = (0, 0);
        for Line { text, .. } in lines {
            let Ok(event) = serde_json::from_slice::<Event>(&text) else {
                let at_the_edge = matches!(kept.events.last(), None | Some(Event::Ended { .. }));
                let to = if at_the_edge { &mut kept.noise } else { &mut kept.garbage };
                other += text.len() + size_of::<String>();
                // One line is enough to show that there were such lines.
                if other <= MAX_OTHER_BYTES || to.is_empty() {
                    to.push(String::from_utf8_lossy(&text).into_owned());
                }
                continue;
            };
            if !is_of_a_step(&event) {
                bytes += text.len();
                // The event about the end of a worker that a launcher started is always needed.
                let is_end = matches!(event, Event::Ended { .. });
                if (bytes > MAX_BYTES && !is_end) || items(&event) > MAX_ITEMS {
                    kept.left_out.events += 1;
                    kept.left_out.bytes += text.len();
                    continue;
                }
            }
            if matches!(
                (kept.events.last(), &event),
                (Some(Event::Ended { .. }), Event::Ended { .. })
            ) {
                kept.events.pop();
            }
            kept.events.push(event);
        }
        kept
    }
}

/// Returns true for an event that a worker sends each time it executes a step. Such an event contains no lists, and
/// does not count against [`MAX_BYTES`].
fn is_of_a_step(event: &Event) -> bool {
    match event {
        Event::Begin { .. } | Event::End { .. } | Event::Data { .. } => true,
        Event::Hello { .. }
        | Event::Confined { .. }
        | Event::Phase { .. }
        | Event::Missing { .. }
        | Event::Broken { .. }
        | Event::Mistaken { .. }
        | Event::Loaded { .. }
        | Event::Device { .. }
        | Event::FreeAtRest { .. }
        | Event::Stopped { .. }
        | Event::Acted { .. }
        | Event::Delayed { .. }
        | Event::Done
        | Event::Bye
        | Event::Ended { .. } => false,
    }
}

/// Returns the number of items in all lists of an event.
fn items(event: &Event) -> usize {
    match event {
        Event::Hello { environment, limits, .. } => environment.len() + limits.len(),
        Event::Confined { devices, .. } => devices.len(),
        Event::Mistaken { why, .. } => why.len(),
        Event::Loaded { libraries } => libraries.len(),
        Event::Device { nodes, .. } => nodes.len(),
        Event::FreeAtRest { bytes } => bytes.len(),
        Event::Acted { acts } => acts.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lines(texts: impl IntoIterator<Item = String>) -> Vec<Line> {
        let line = |text: String| Line { at: Duration::ZERO, text: text.into_bytes() };
        texts.into_iter().map(line).collect()
    }

    #[test]
    fn keeps_all_events_of_a_usual_worker() {
        let begin = r#"{"event":"begin","step":1,"occurrence":0}"#.to_owned();
        let many = vec![begin; 200_000];
        let ends = ["x", r#"{"event":"done"}"#, r#"{"event":"bye"}"#].map(str::to_owned);
        let kept = KeptEvents::parse(lines(many.into_iter().chain(ends)));
        assert_eq!((kept.events.len(), kept.garbage.len()), (200_002, 1));
        assert_eq!(kept.left_out, DroppedEvents::default());
    }

    #[test]
    fn bounds_events_of_each_kind_that_a_worker_may_repeat() {
        let texts = "x".repeat(1000);
        for event in [
            Event::Mistaken { step: 1, why: vec![texts.clone()] },
            Event::Missing { what: texts.clone(), why: String::new(), there: false },
            Event::Broken { why: texts.clone() },
            Event::Confined { complete: true, devices: Vec::new(), why: texts },
            Event::FreeAtRest { bytes: vec![u64::MAX; 50] },
            Event::Acted { acts: Vec::new() },
            Event::Delayed { times: 1 },
            Event::Stopped { step: 1 },
            Event::Done,
        ] {
            let text = serde_json::to_string(&event).unwrap();
            let sent = (5 << 20) / text.len();
            let size = text.len();
            let kept = KeptEvents::parse(lines(vec![text; sent]));
            assert!(kept.events.len() * size <= MAX_BYTES, "{event:?}");
            let left = kept.left_out;
            assert_eq!(
                left,
                DroppedEvents { events: sent - kept.events.len(), bytes: left.events * size }
            );
            assert!(left.to_string().contains("events of"), "{left}");
        }
        let ended = r#"{"event":"ended","exited":85}"#.to_owned();
        assert_eq!(KeptEvents::parse(lines(vec![ended; 100_000])).events.len(), 1);
    }

    #[test]
    fn leaves_out_events_with_many_items() {
        let why = vec![String::new(); MAX_ITEMS + 1];
        let text = serde_json::to_string(&Event::Mistaken { step: 1, why }).unwrap();
        let kept = KeptEvents::parse(lines([text]));
        assert!(kept.events.is_empty());
        assert_eq!(kept.left_out.events, 1);
    }

    #[test]
    fn keeps_the_first_of_other_lines() {
        let hello = r#"{"event":"done"}"#.to_owned();
        let sent = std::iter::once(hello).chain(vec!["y".repeat(1000); 5000]);
        let kept = KeptEvents::parse(lines(sent));
        assert!((1000..1100).contains(&kept.garbage.len()), "{}", kept.garbage.len());
    }
}
