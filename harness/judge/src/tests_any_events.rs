//! Tests of outcomes from any events, bytes and ends.

use std::time::Duration;

use plan::Event;
use proptest::prelude::*;

use crate::{
    End, Kind, Limit,
    fixture::HEAD,
    tests::{QUIET, healthy},
};

fn any_end() -> impl Strategy<Value = End> {
    prop_oneof![
        any::<i32>().prop_map(End::Exited),
        any::<i32>().prop_map(|signal| End::Signalled { signal }),
        Just(QUIET),
        Just(End::TimedOut { limit: Limit::Total }),
        Just(End::CouldNotBeKilled),
        Just(End::NotStarted(String::new())),
        Just(End::Lost(String::new())),
    ]
}

/// Returns the event with its `nth` number replaced by `number`, or by the largest 32-bit value if `number` does not
/// fit.
fn with_number(event: &Event, nth: usize, number: u64) -> Event {
    fn numbers(value: &mut serde_json::Value) -> Vec<&mut serde_json::Number> {
        match value {
            serde_json::Value::Number(one) => vec![one],
            serde_json::Value::Array(all) => all.iter_mut().flat_map(numbers).collect(),
            serde_json::Value::Object(all) => all.values_mut().flat_map(numbers).collect(),
            _ => Vec::new(),
        }
    }
    let changed = |number: u64| {
        let mut value = serde_json::to_value(event).ok()?;
        let mut numbers = numbers(&mut value);
        let count = numbers.len();
        **numbers.get_mut(nth.checked_rem(count)?)? = number.into();
        serde_json::from_value(value).ok()
    };
    let small = number.min(u64::from(u32::MAX));
    changed(number).or_else(|| changed(small)).unwrap_or_else(|| event.clone())
}

proptest! {
    /// Whichever events a broken worker sends, in any order, the judge returns an outcome, and never a pass without
    /// proof.
    #[test]
    fn every_order_of_events_has_an_outcome(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        keep_head in any::<bool>(),
        end in any_end(),
        got in prop::collection::vec(any::<u8>(), 0..200),
        wall in any::<u64>(),
        number in prop::option::of(prop::sample::select(vec![0, 1, u64::from(u32::MAX), u64::MAX])),
        nth in 0_usize..12,
    ) {
        let mut run = healthy().read(4, 1, |bytes| *bytes = got);
        let events = run.seen.events.clone();
        let head = if keep_head { &events[..HEAD] } else { &[] };
        let rest = picks.iter().map(|pick| match number {
            Some(number) => with_number(pick.get(&events), nth, number),
            None => pick.get(&events).clone(),
        });
        run.seen.events = head.iter().cloned().chain(rest).collect();
        run.seen.end = end;
        run.seen.wall = Duration::from_nanos(wall);
        let outcome = run.judge();
        prop_assert!(!outcome.signature.is_empty() && !outcome.signature.contains(' '));
        if outcome.kind == Kind::Pass {
            prop_assert!(run.seen.events.iter().any(|e| matches!(e, Event::Done)));
            prop_assert_eq!(run.seen.end, End::Exited(plan::WORKER_DONE));
        }
    }

    #[test]
    fn any_wrong_bytes_are_wrong_data(got in prop::collection::vec(any::<u8>(), 0..200)) {
        let run = healthy().read(4, 1, |bytes| *bytes = got);
        let outcome = run.judge();
        prop_assert_eq!(outcome.kind, Kind::WrongData);
        prop_assert!(outcome.signature.starts_with("wrong-data:back:"));
    }
}
