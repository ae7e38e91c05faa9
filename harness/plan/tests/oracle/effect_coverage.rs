//! Checks that the random plans exercise every effect that a call can have, except for those in a list of exceptions
//! with reasons. The matches have no wildcard arm, so a new effect does not compile before it is added here.

use std::{cell::RefCell, collections::BTreeSet};

use plan::{Call, CaptureEffect, MemoryEffect, OrderEffect, WorkStream};

use crate::for_each_plan;

/// Defines a function that returns the name of an effect's variant, and a list of the names of all variants.
macro_rules! kinds {
    ($function:ident $names:ident $type:ident $($variant:ident)*) => {
        fn $function(effect: &$type<'_>) -> &'static str {
            match effect { $($type::$variant { .. } => concat!(stringify!($type), " ", stringify!($variant)),)* }
        }

        const $names: &[&str] = &[$(concat!(stringify!($type), " ", stringify!($variant))),*];
    };
}

kinds! { memory_effect ON_MEMORY MemoryEffect
    Nothing Alloc Free Poison Fill FillNumbers FillFile Copy Rows Boxes SetBox Set CountUp Generate Foreign Product Launch Replay Check
    Compare Read Guards
}
kinds! { capture_effect ON_CAPTURES CaptureEffect
    Nothing Begin End EmptyGraph AddChild Clone InspectGraph Instantiate Update DestroyExec DestroyGraph RandStream NewGenerator NewEvent
    Allocated
}
kinds! { order_effect ON_ORDER OrderEffect
    Nothing ProgramOrder Alloc Free Record WaitEvent SyncEvent NewEvent Sync SyncDevice DestroyStream Replay
}
kinds! { work_stream WORK_STREAM WorkStream NoStream NullStream Stream Library Generator Mark Pool NearestTo }

/// Effects that the random plans do not contain, with reasons.
const MISSING_EFFECTS: [(&str, &str); 5] = [
    ("MemoryEffect FillFile", "the plans have no files; examples test it"),
    ("MemoryEffect Foreign", "its result is unknown; examples test it"),
    ("MemoryEffect Guards", "the buffers have no guards"),
    (
        "CaptureEffect AddChild",
        "`plan` rejects a child with branches, which the documentation allows",
    ),
    ("CaptureEffect Clone", "examples and cases test it"),
];

#[test]
fn random_plans_contain_every_effect() {
    let drawn = RefCell::new(BTreeSet::new());
    for_each_plan(|plan| {
        for step in plan.steps() {
            for call in [&step.call, step.call.work()] {
                let mut drawn = drawn.borrow_mut();
                drawn.insert(memory_effect(&call.memory_effect()));
                drawn.insert(capture_effect(&call.capture_effect()));
                drawn.insert(order_effect(&call.order_effect()));
                drawn.insert(work_stream(&call.work_stream()));
            }
        }
        Ok(())
    });
    let all = [ON_MEMORY, ON_CAPTURES, ON_ORDER, WORK_STREAM].into_iter().flatten().copied();
    let missing: BTreeSet<&str> = all.filter(|name| !drawn.borrow().contains(name)).collect();
    assert_eq!(missing, MISSING_EFFECTS.map(|(name, _)| name).into());
}

#[test]
fn work_stream_is_the_named_stream() {
    for_each_plan(|plan| {
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
