/// Calls `work` on `threads` threads, and returns when all calls have returned. If threads cannot be started, the
/// calling thread does their work, which is only slower.
pub fn run_on_threads(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            if std::thread::Builder::new().spawn_scoped(scope, &work).is_err() {
                work();
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::run_on_threads;

    #[test]
    fn runs_the_work_once_on_each_thread() {
        let done = AtomicUsize::new(0);
        run_on_threads(7, || {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 7);
    }
}
