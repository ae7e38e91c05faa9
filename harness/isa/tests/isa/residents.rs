//! What time is a sign of a hang.

use std::{thread, time::Duration};

use isa::inside::residents::{PAUSE, Progress, Quiet, processor_time};

/// A sleep stands for a machine that is suspended, or busy with other work.
#[test]
fn time_in_which_the_thread_does_not_run_is_no_sign_of_a_hang() {
    let progress = Progress::new(Duration::from_millis(200));
    let mut quiet = Quiet::begin();
    thread::sleep(Duration::from_millis(400));
    quiet.goes_on(&progress, PAUSE);
    assert!(!progress.is_to_be_told(&quiet), "{:?}", quiet.worked);
    let begun = processor_time();
    while processor_time() - begun < Duration::from_millis(250) {
        std::hint::spin_loop();
    }
    quiet.goes_on(&progress, PAUSE);
    assert!(progress.is_to_be_told(&quiet) && !progress.is_at_an_end(&quiet));
    // Once, until something comes on.
    assert!(!progress.is_to_be_told(&quiet));
    progress.note();
    quiet.goes_on(&progress, PAUSE);
    assert!(!progress.is_to_be_told(&quiet) && quiet.worked.is_zero());
}
