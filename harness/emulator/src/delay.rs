//! Delays of injected faults. A test detects such a fault because the host continues before the delay ends. On a loaded
//! machine, the delay could end first, because the threads of the process do not get a processor. Therefore the delay
//! is extended by the time for which a thread waits for a processor.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

/// Name of threads that only sleep in [`sleep`]. Waits of these threads for a processor do not extend a delay.
pub(crate) const THREAD: &str = "device fault";

/// Times of the threads of this process. The key is the thread id.
type Threads = BTreeMap<String, Times>;

/// State and processor times of one thread, as Linux reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    runnable: bool,
    /// Nanoseconds that the thread spent on a processor.
    ran: u64,
    queued: u64,
}

/// Maximum factor by which a delay is extended. Without a maximum, a thread that never gets a processor would extend
/// the delay forever.
const MAX_EXTENSION: u32 = 20;

/// Sleeps for `length` plus the longest time that another thread waited for a processor in the meantime, but at most
/// for [`MAX_EXTENSION`] times `length`.
pub(crate) fn sleep(length: Duration) {
    let look = (length / 16).clamp(Duration::from_millis(1), Duration::from_millis(50));
    let begun = Instant::now();
    let first = others();
    let mut before = first.clone();
    loop {
        std::thread::sleep(look);
        let now = others();
        let passed = begun.elapsed();
        let is_over = passed >= length + queued(&first, &now) && !is_queued(&before, &now);
        if is_over || passed >= length * MAX_EXTENSION {
            return;
        }
        before = now;
    }
}

/// Returns the longest time that any single thread waited for a processor between the measurements `first` and `now`.
fn queued(first: &Threads, now: &Threads) -> Duration {
    let of = |(thread, times): (&String, &Times)| {
        times.queued.saturating_sub(first.get(thread).map_or(0, |first| first.queued))
    };
    Duration::from_nanos(now.iter().map(of).max().unwrap_or(0))
}

/// Returns true if a thread is still waiting for a processor: it can run, but its times have not changed between the
/// measurements `before` and `now`. Linux adds the time of such a wait to the counter only when the wait ends, so the
/// wait must be detected separately.
fn is_queued(before: &Threads, now: &Threads) -> bool {
    now.iter().any(|(thread, times)| times.runnable && before.get(thread) == Some(times))
}

/// Returns the times of all other threads of this process; an empty map if Linux does not report these times.
fn others() -> Threads {
    // SAFETY: the call has no preconditions.
    let own = unsafe { libc::gettid() }.to_string();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| task.file_name().into_string().ok());
    names
        .filter(|thread| *thread != own)
        .filter_map(|thread| {
            let read = |file| fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).ok();
            let times = times(&read("stat")?, &read("schedstat")?)?;
            Some((thread, times))
        })
        .collect()
}

/// Parses a line of `stat` (proc(5)) and a line of `schedstat` (Documentation/scheduler/sched-stats.rst). Returns
/// `None` if `schedstat` contains only zeros, which means that Linux does not measure these times.
fn times(stat: &str, schedstat: &str) -> Option<Times> {
    let (name, state) = stat.rsplit_once(") ")?;
    let mut numbers = schedstat.split_ascii_whitespace().map(str::parse);
    let (ran, queued) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let counts = (ran, queued) != (0, 0) && !name.ends_with(&format!("({THREAD}"));
    counts.then(|| Times { runnable: state.starts_with('R'), ran, queued })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_stat_and_schedstat() {
        let read = Times { runnable: true, ran: 5, queued: 70 };
        assert_eq!(times("12 (a) b) R 1 2", "5 70 2\n"), Some(read));
        assert_eq!(times("12 (a) S 1 2", "5 70 2"), Some(Times { runnable: false, ..read }));
        assert_eq!(times("12 (a) R 1 2", "0 0 0"), None, "Linux does not measure these times");
        assert_eq!(times("12 (device fault) R 1 2", "5 70 2"), None);
    }

    #[test]
    fn waiting_threads_extend_the_delay() {
        let thread = |runnable, ran, queued| {
            Threads::from([("7".to_owned(), Times { runnable, ran, queued })])
        };
        let first = thread(true, 5, 70);
        assert_eq!(queued(&first, &thread(true, 5, 90)), Duration::from_nanos(20));
        assert_eq!(queued(&Threads::new(), &first), Duration::from_nanos(70), "a new one");
        assert!(
            is_queued(&first, &thread(true, 5, 70)),
            "the thread has not run since the first measurement"
        );
        assert!(!is_queued(&first, &thread(true, 6, 70)), "it runs");
        assert!(!is_queued(&thread(false, 5, 70), &thread(false, 5, 70)), "it sleeps");
    }

    #[test]
    fn delay_is_never_shorter_than_requested() {
        let (begun, length) = (Instant::now(), Duration::from_millis(20));
        sleep(length);
        assert!(begun.elapsed() >= length);
    }
}
