//! Reports misspelt names of streams and events.
//!
//! Streams and events need no declaration, so a misspelt name would silently create another stream or event. A stream
//! is reported if no step of any trial creates it or enqueues work to it. An event is reported if no step records it.

use std::collections::BTreeMap;

use crate::{
    SourceSpan,
    diagnostic::suggest,
    matrix::Matrix,
    read::Reader,
    yaml::{Node, Value},
};

/// The names of all streams, or of all events.
#[derive(Default)]
struct Names<'n> {
    /// For each name, a flag and the first position of the name. The flag is true if a step creates or records the
    /// object, or enqueues work to it.
    seen: BTreeMap<&'n str, (bool, SourceSpan)>,
    /// True if some name could not be read. It may be equal to any of the names in `seen`, so no name is reported.
    unknown: bool,
}

impl<'n> Names<'n> {
    fn note(&mut self, node: &'n Node, active: bool, matrix: &'n Matrix) {
        let Value::Scalar(text) = &node.value else { return };
        match text.strip_prefix('$') {
            Some(axis) => match matrix.axes.iter().find(|a| a.name == axis) {
                Some(axis) => {
                    axis.values.iter().for_each(|value| self.add(value, node.at, active));
                }
                None => self.unknown = true,
            },
            None if text.contains('$') => self.unknown = true,
            None => self.add(text, node.at, active),
        }
    }

    fn add(&mut self, name: &'n str, at: SourceSpan, active: bool) {
        self.seen.entry(name).or_insert((false, at)).0 |= active;
    }

    /// Reports each name whose object no step creates or records, and to which no step enqueues work. Names in `known`
    /// are not reported. `what` returns the message for a name. `other` returns a hint, which replaces the usual hint
    /// about similar names.
    fn report(
        &self,
        reader: &mut Reader,
        known: &[&str],
        what: impl Fn(&str) -> String,
        other: impl Fn(&str) -> Option<String>,
    ) {
        if self.unknown {
            return;
        }
        let made = || self.seen.iter().filter(|(_, (active, _))| *active).map(|(name, _)| *name);
        for (name, (active, at)) in &self.seen {
            if !active && !known.contains(name) {
                let help = other(name).or_else(|| suggest(name, made()));
                reader.mistake_with_help(*at, what(name), help);
            }
        }
    }
}

pub(crate) fn check(reader: &mut Reader, root: &Node, matrix: &Matrix) {
    let Value::Map(keys) = &root.value else { return };
    let (mut streams, mut events) = (Names::default(), Names::default());
    for (_, node) in keys.iter().filter(|(key, _)| ["steps", "expect"].contains(&key.text.as_str()))
    {
        walk(node, matrix, &mut streams, &mut events);
    }
    let declared = keys.iter().find(|(key, _)| key.text == "streams").map(|(_, node)| &node.value);
    let mut known = vec![plan::DEFAULT_STREAM, "device"];
    if let Some(Value::Map(entries)) = declared {
        known.extend(entries.iter().map(|(key, _)| key.text.as_str()));
    }
    streams.report(
        reader,
        &known,
        |name| format!("no step gives work to stream `{name}`, and `streams` does not declare it"),
        |name| {
            let help = format!(
                "`{name}` is an event: write `sync_event: {name}` to wait for it, or `query_event: {name}`"
            );
            events.seen.contains_key(name).then_some(help)
        },
    );
    events.report(
        reader,
        &[],
        |name| format!("event `{name}` is never recorded"),
        |name| {
            let is_stream = streams.seen.get(name).is_some_and(|(active, _)| *active);
            let stream = format!("`{name}` is a stream: write `sync: {name}` or `query: {name}`");
            let record = format!("record it before: `record: {{event: {name}, stream: ...}}`");
            let has_other = events.seen.values().any(|(active, _)| *active);
            is_stream.then_some(stream).or_else(|| (!has_other).then_some(record))
        },
    );
}

fn walk<'n>(node: &'n Node, matrix: &'n Matrix, streams: &mut Names<'n>, events: &mut Names<'n>) {
    let Value::List(items) = &node.value else { return };
    for item in items {
        let Value::Map(entries) = &item.value else { continue };
        for (key, value) in entries {
            let verb = key.text.as_str();
            match (verb, &value.value) {
                ("thread", _) => walk(value, matrix, streams, events),
                ("sync" | "query" | "is_capturing" | "destroy_stream", _) => {
                    streams.note(value, false, matrix);
                }
                ("create_stream", _) => streams.note(value, true, matrix),
                ("sync_event" | "query_event", _) => events.note(value, false, matrix),
                (_, Value::Map(fields)) => {
                    for (key, value) in fields {
                        match key.text.as_str() {
                            "steps" => walk(value, matrix, streams, events),
                            "stream" => streams.note(value, true, matrix),
                            "event" => events.note(value, verb == "record", matrix),
                            "start" | "end" if verb == "elapsed" => {
                                events.note(value, false, matrix);
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }
}
