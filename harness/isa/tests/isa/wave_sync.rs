//! Tests the barriers and semaphores of global wave sync directly, without executing instructions.

use isa::{
    WaveSync,
    inside::sync::{Action, Action::*, PendingWait},
};

/// Executes an action on resource 3. Returns the condition for which the wave must wait, if any.
fn goes(sync: &WaveSync, action: Action, value: u32) -> Option<PendingWait> {
    sync.act(action, 3, value).1
}

#[test]
fn last_wave_opens_the_barrier_and_sets_the_next_count() {
    let sync = WaveSync::default();
    assert_eq!(goes(&sync, Init, 2), None);
    let first = goes(&sync, Barrier, 1).expect("the first waits");
    let second = goes(&sync, Barrier, 1).expect("the second waits");
    assert!(!sync.may_continue(first) && !sync.may_continue(second));
    assert_eq!(goes(&sync, Barrier, 1), None);
    assert!(sync.may_continue(first) && sync.may_continue(second));
    // The value of the last wave sets the counter for the next use, in which two waves take part.
    let first = goes(&sync, Barrier, 0).expect("the first of two waits");
    assert_eq!(goes(&sync, Barrier, 0), None);
    assert!(sync.may_continue(first));
    // In the next use, one wave takes part.
    assert_eq!(goes(&sync, Barrier, 0), None);
}

#[test]
fn semaphore_units_are_assigned_in_order() {
    let sync = WaveSync::default();
    goes(&sync, Init, 1);
    assert_eq!(goes(&sync, Acquire, 0), None);
    let waiting: Vec<_> = (0..5).map(|_| goes(&sync, Acquire, 0).expect("no unit left")).collect();
    let through =
        |sync: &WaveSync| waiting.iter().take_while(|awaits| sync.may_continue(**awaits)).count();
    assert_eq!(through(&sync), 0);
    goes(&sync, Release, 9);
    assert_eq!(through(&sync), 1);
    goes(&sync, ReleaseSome, 2);
    assert_eq!(through(&sync), 3);
    goes(&sync, ReleaseAll, 0);
    assert_eq!(through(&sync), 5);
    // If no wave waits, the action has no effect.
    goes(&sync, ReleaseAll, 0);
    assert!(goes(&sync, Acquire, 0).is_some());
    // Units that are added when no wave waits stay available.
    goes(&sync, ReleaseSome, 3);
    assert_eq!(goes(&sync, Acquire, 0), None);
    assert_eq!(goes(&sync, Acquire, 0), None);
    assert!(goes(&sync, Acquire, 0).is_some());
}

#[test]
fn init_forgets_waves_of_an_ended_launch() {
    let sync = WaveSync::default();
    goes(&sync, Init, 0);
    assert!(goes(&sync, Acquire, 0).is_some());
    goes(&sync, Init, 0);
    goes(&sync, Release, 0);
    assert_eq!(goes(&sync, Acquire, 0), None);
}

#[test]
fn resources_are_independent() {
    let sync = WaveSync::default();
    sync.act(Init, 5, 1);
    assert!(sync.act(Barrier, 5, 0).1.is_some());
    assert_eq!(sync.act(Barrier, 6, 0).1, None);
    // Resource numbers have six bits and wrap.
    assert_eq!(sync.act(Barrier, 64 + 5, 0).1, None);
}
