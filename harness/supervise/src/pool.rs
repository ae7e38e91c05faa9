//! Runs many jobs on a few threads, and stops when the run is cancelled.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, mpsc};

use crate::Cancel;

/// Runs `work` on each job, on `threads` threads. For each finished job, calls `done` in the calling thread with the
/// index and the result of the job, in the order in which the jobs finish. [`in_order`] sorts the results into the
/// order of the jobs. Jobs start in order. The iterator is asked for a job only when a thread is free to run it.
///
/// After a cancellation no further job starts, so the jobs that were not run are the last ones. Returns the number of
/// finished jobs.
///
/// # Panics
/// Panics if `work`, `done` or the iterator panics. The jobs that have started end first.
pub fn for_each<J, R, I>(
    jobs: I,
    threads: NonZeroUsize,
    cancel: &Cancel,
    work: impl Fn(usize, J) -> R + Sync,
    mut done: impl FnMut(usize, R),
) -> usize
where
    I: IntoIterator<Item = J>,
    I::IntoIter: Send,
    R: Send,
{
    let jobs = Mutex::new(jobs.into_iter().enumerate());
    let (sender, results) = mpsc::channel();
    let next = || {
        // If the iterator has panicked, the lock is poisoned, and no further job starts.
        let mut jobs = jobs.lock().ok()?;
        if cancel.is_cancelled() { None } else { jobs.next() }
    };
    std::thread::scope(|scope| {
        let started = (0..threads.get()).take_while(|_| {
            let (sender, next, work) = (sender.clone(), &next, &work);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                while let Some((index, job)) = next() {
                    if sender.send((index, work(index, job))).is_err() {
                        // The receiver was dropped because `done` panicked.
                        break;
                    }
                }
            });
            thread.is_ok()
        });
        let started = started.count();
        drop(sender);
        let mut count = 0;
        // If the machine cannot start a single thread, this thread runs the jobs.
        while started == 0
            && let Some((index, job)) = next()
        {
            done(index, work(index, job));
            count += 1;
        }
        for (index, result) in results {
            done(index, result);
            count += 1;
        }
        count
    })
}

/// Converts `done`, which needs results in the order of the jobs, into a function for [`for_each`], which passes them
/// in any order. Results that arrive early are stored.
pub fn in_order<R>(mut done: impl FnMut(usize, R)) -> impl FnMut(usize, R) {
    let mut early = BTreeMap::new();
    let mut next = 0;
    move |index, result| {
        early.insert(index, result);
        while let Some(result) = early.remove(&next) {
            done(next, result);
            next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    fn check(jobs: usize, on: usize) {
        let cancel = Cancel::new().unwrap();
        let mut ordered = Vec::new();
        let collect = in_order(|index, square| ordered.push((index, square)));
        let done = for_each(0..jobs, threads(on), &cancel, |_, job| job * job, collect);
        assert_eq!(done, jobs, "{jobs} on {on}");
        let expected: Vec<_> = (0..jobs).map(|job| (job, job * job)).collect();
        assert_eq!(ordered, expected, "{jobs} on {on}");
    }

    #[test]
    fn every_job_is_done_once_and_delivered_in_order() {
        for (jobs, on) in [(0, 1), (1, 1), (1, 8), (100, 1), (1000, 3), (50, 200)] {
            check(jobs, on);
        }
    }

    #[test]
    fn in_order_sorts_results_that_finish_early() {
        let mut seen = Vec::new();
        let mut deliver = in_order(|index, letter| seen.push((index, letter)));
        for (index, letter) in [(2, 'c'), (0, 'a'), (3, 'd'), (1, 'b')] {
            deliver(index, letter);
        }
        drop(deliver);
        assert_eq!(seen, [(0, 'a'), (1, 'b'), (2, 'c'), (3, 'd')]);
    }

    #[test]
    fn jobs_run_at_the_same_time() {
        // Each of the four jobs waits for the other three, so they end only if they run on four threads.
        let (barrier, cancel) = (Barrier::new(4), Cancel::new().unwrap());
        let done = for_each(0..4, threads(4), &cancel, |_, _| barrier.wait(), |_, _| {});
        assert_eq!(done, 4);
    }

    #[test]
    fn cancel_prevents_further_jobs() {
        let (started, cancel) = (AtomicUsize::new(0), Cancel::new().unwrap());
        let work = |index, _| {
            started.fetch_add(1, Ordering::SeqCst);
            if index == 10 {
                cancel.cancel();
            }
        };
        let mut delivered = Vec::new();
        let done = for_each(0..1000, threads(2), &cancel, work, |index, ()| delivered.push(index));
        assert!(done < 1000, "{done}");
        assert_eq!(done, started.into_inner(), "each job that started is delivered");
        delivered.sort_unstable();
        assert_eq!(delivered, (0..done).collect::<Vec<_>>(), "the jobs not done are the last ones");
    }

    #[test]
    fn panic_of_a_job_is_passed_on() {
        let cancel = Cancel::new().unwrap();
        let result = std::panic::catch_unwind(|| {
            for_each(0..3, threads(2), &cancel, |_, job| assert_ne!(job, 1), |_, ()| {})
        });
        assert!(result.is_err());
    }
}
