//! Every effect that a call can have is drawn, or it is said here why not. A new one does not compile here without its name.

use std::{cell::RefCell, collections::BTreeSet};

use plan::{Call, OnCaptures, OnMemory, OnOrder, WorkStream};

use crate::each;

/// The name of each variant.
macro_rules! kinds {
    ($function:ident $names:ident $type:ident $($variant:ident)*) => {
        fn $function(effect: &$type<'_>) -> &'static str {
            match effect { $($type::$variant { .. } => concat!(stringify!($type), " ", stringify!($variant)),)* }
        }

        const $names: &[&str] = &[$(concat!(stringify!($type), " ", stringify!($variant))),*];
    };
}

kinds! { on_memory ON_MEMORY OnMemory
    Nothing Alloc Free Poison Fill FillNumbers Copy Rows Boxes SetBox Set CountUp Generate Foreign Product Launch Replay Check
    Compare Guards
}
kinds! { on_captures ON_CAPTURES OnCaptures
    Nothing Begin End EmptyGraph AddChild Clone LookAt Instantiate Update EndExec EndGraph RandStream NewGenerator NewEvent
    Allocated
}
kinds! { on_order ON_ORDER OnOrder
    Nothing InTurn Alloc Free Record WaitEvent SyncEvent NewEvent Sync SyncDevice EndStream Replay
}
kinds! { work_stream WORKS_IN WorkStream NoStream NullStream Stream Library Generator Mark Pool NearestTo }

/// What is not drawn.
const NOT_DRAWN: [(&str, &str); 4] = [
    ("OnMemory Foreign", "what it writes nobody knows; it is tried in the examples of steps"),
    ("OnMemory Guards", "the buffers have none"),
    (
        "OnCaptures AddChild",
        "a child with branches is refused here, and the documentation knows no such rule",
    ),
    ("OnCaptures Clone", "a clone is tried in the examples of steps, and by cases"),
];

#[test]
fn every_effect_is_drawn() {
    let drawn = RefCell::new(BTreeSet::new());
    each(|plan| {
        for step in plan.steps() {
            for call in [&step.call, step.call.work()] {
                let mut drawn = drawn.borrow_mut();
                drawn.insert(on_memory(&call.on_memory()));
                drawn.insert(on_captures(&call.on_captures()));
                drawn.insert(on_order(&call.on_order()));
                drawn.insert(work_stream(&call.work_stream()));
            }
        }
        Ok(())
    });
    let all = [ON_MEMORY, ON_CAPTURES, ON_ORDER, WORKS_IN].into_iter().flatten().copied();
    let missing: BTreeSet<&str> = all.filter(|name| !drawn.borrow().contains(name)).collect();
    assert_eq!(missing, NOT_DRAWN.map(|(name, _)| name).into());
}

/// The forms of a call that say the same of it.
#[test]
fn what_a_call_works_in_is_a_stream_that_it_names() {
    each(|plan| {
        for step in plan.steps() {
            let call: &Call = step.call.work();
            if let WorkStream::Stream(stream)
            | WorkStream::Library(stream)
            | WorkStream::Mark(stream) = call.work_stream()
            {
                proptest::prop_assert_eq!(call.stream(), Some(stream));
            }
        }
        Ok(())
    });
}
