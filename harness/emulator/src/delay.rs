//! Delays of planted faults. Such a fault shows to a host that goes on meanwhile, so a machine that lets no thread of the
//! process go on must not hide it: the time counts in which nobody waited for a processor.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

/// The name of threads that do nothing but wait here; nobody waits for them.
pub(crate) const THREAD: &str = "device fault";

/// Times of the threads of a process, by their numbers.
type Threads = BTreeMap<String, Times>;

/// What the kernel tells of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    runnable: bool,
    /// Nanoseconds on a processor, and in a queue for one.
    ran: u64,
    queued: u64,
}

/// A thread that never comes on must not hold a delay for ever.
const MOST: u32 = 20;

/// Sleeps so long, and as much longer as one of the other threads has waited for a processor meanwhile, up to [`MOST`] times.
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
        if is_over || passed >= length * MOST {
            return;
        }
        before = now;
    }
}

/// The longest time that one thread was in a queue between the two.
fn queued(first: &Threads, now: &Threads) -> Duration {
    let of = |(thread, times): (&String, &Times)| {
        times.queued.saturating_sub(first.get(thread).map_or(0, |first| first.queued))
    };
    Duration::from_nanos(now.iter().map(of).max().unwrap_or(0))
}

/// Whether some thread is in a queue still: the kernel counts that time at its end.
fn is_queued(before: &Threads, now: &Threads) -> bool {
    now.iter().any(|(thread, times)| times.runnable && before.get(thread) == Some(times))
}

/// The other threads of this process; none where the kernel does not tell.
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

/// From a line of `stat` (proc(5)) and one of `schedstat` (Documentation/scheduler/sched-stats.rst), which is zeros where
/// the kernel does not count.
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
    fn what_the_kernel_tells_is_read() {
        let read = Times { runnable: true, ran: 5, queued: 70 };
        assert_eq!(times("12 (a) b) R 1 2", "5 70 2\n"), Some(read));
        assert_eq!(times("12 (a) S 1 2", "5 70 2"), Some(Times { runnable: false, ..read }));
        assert_eq!(times("12 (a) R 1 2", "0 0 0"), None, "the kernel does not count");
        assert_eq!(times("12 (device fault) R 1 2", "5 70 2"), None);
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_makes_the_delay_longer() {
        let thread = |runnable, ran, queued| {
            Threads::from([("7".to_owned(), Times { runnable, ran, queued })])
        };
        let first = thread(true, 5, 70);
        assert_eq!(queued(&first, &thread(true, 5, 90)), Duration::from_nanos(20));
        assert_eq!(queued(&Threads::new(), &first), Duration::from_nanos(70), "a new one");
        assert!(is_queued(&first, &thread(true, 5, 70)), "it has had nothing since");
        assert!(!is_queued(&first, &thread(true, 6, 70)), "it runs");
        assert!(!is_queued(&thread(false, 5, 70), &thread(false, 5, 70)), "it sleeps");
    }

    #[test]
    fn no_delay_is_shorter_than_was_asked() {
        let (begun, length) = (Instant::now(), Duration::from_millis(20));
        sleep(length);
        assert!(begun.elapsed() >= length);
    }
}
