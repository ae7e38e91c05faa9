use std::sync::Arc;

use isa::inside::checks::between::clock::{Clock, Entry};

#[test]
fn join_takes_the_later_entries() {
    let entry = |wave, made, come| Entry { wave, made, come };
    let one = Arc::new(Clock::new(vec![entry(7, 5, 2), entry(1, 3, 3), entry(7, 4, 4)]));
    assert_eq!(one.entries(), [entry(1, 3, 3), entry(7, 5, 4)]);
    let other = Arc::new(Clock::new(vec![entry(7, 9, 1), entry(8, 1, 1)]));
    let (both, made) = Clock::join(&one, &other);
    assert_eq!(both.entries(), [entry(1, 3, 3), entry(7, 9, 4), entry(8, 1, 1)]);
    assert_eq!(made, 3);
    // If one clock contains the other, no entries are allocated.
    let (same, made) = Clock::join(&both, &one);
    assert!(Arc::ptr_eq(&same, &both) && made == 0);
    assert!(Arc::ptr_eq(&Clock::join(&one, &both).0, &both));
    assert_eq!(both.entry(2), None);
}
