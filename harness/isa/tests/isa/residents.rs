//! Tests which periods of time count before a launch is reported as hung.

use std::{thread, time::Duration};

use isa::inside::residents::{PAUSE, Progress, Quiet, processor_time};

/// The test sleeps to imitate a machine that is suspended or busy with other work.
#[test]
fn suspended_time_does_not_count_as_hang() {
    let progress = Progress::new(Duration::from_millis(200));
    let mut quiet = Quiet::begin();
    thread::sleep(Duration::from_millis(400));
    quiet.goes_on(&progress, PAUSE);
    assert!(!progress.should_report_hang(&quiet), "{:?}", quiet.worked);
    let begun = processor_time();
    while processor_time() - begun < Duration::from_millis(250) {
        std::hint::spin_loop();
    }
    quiet.goes_on(&progress, PAUSE);
    assert!(progress.should_report_hang(&quiet) && !progress.is_timed_out(&quiet));
    // The lack of progress is reported once. It is not reported again before there has been progress.
    assert!(!progress.should_report_hang(&quiet));
    progress.note();
    quiet.goes_on(&progress, PAUSE);
    assert!(!progress.should_report_hang(&quiet) && quiet.worked.is_zero());
}
