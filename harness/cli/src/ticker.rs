//! Shows the progress of a run of trials: a bar with the remaining time on a terminal, or a line every 30 s in a pipe.

use std::{
    collections::BTreeMap,
    fmt,
    io::IsTerminal,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use parking_lot::Mutex;
use report::{count, format_duration};

use crate::outputs;

/// Time between two progress lines in a pipe.
const PAUSE: Duration = Duration::from_secs(30);

/// Numbers of finished and running trials, and their display.
pub(crate) struct Ticker {
    bar: ProgressBar,
    begun: Instant,
    /// Time limit of one trial (`--timeout`).
    limit: Duration,
    running: Mutex<BTreeMap<u64, (Instant, String)>>,
    /// Thread that prints progress lines. Dropping the sender ends the thread.
    lines: Mutex<Option<(Sender<()>, thread::JoinHandle<()>)>>,
}

impl Ticker {
    fn new(total: u64, limit: Duration) -> Ticker {
        let target = if std::io::stderr().is_terminal() && total > 1 {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let left = |state: &ProgressState, text: &mut dyn fmt::Write| {
            // The remaining time is unknown until the first trial has ended.
            if state.pos() > 0 {
                let _ = write!(text, ", {} left", format_duration(state.eta().as_secs_f64()));
            }
        };
        let style = ProgressStyle::with_template("[{bar:20}] {pos}/{len}{left}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("left", left);
        let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style);
        Ticker {
            bar,
            begun: Instant::now(),
            limit,
            running: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    /// Shows the progress of a run of `total` trials.
    pub(crate) fn start(total: u64, limit: Duration) -> Arc<Ticker> {
        let ticker = Arc::new(Ticker::new(total, limit));
        if std::io::stderr().is_terminal() {
            ticker.bar.enable_steady_tick(Duration::from_secs(1));
            return ticker;
        }
        let (over, wait) = channel::<()>();
        let shown = Arc::clone(&ticker);
        // If no thread can be started, no lines are printed.
        let thread = thread::Builder::new().spawn(move || {
            while wait.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                outputs::note(shown.line(Instant::now()));
            }
        });
        *ticker.lines.lock() = thread.ok().map(|thread| (over, thread));
        ticker
    }

    /// Removes the bar, or ends the thread that prints lines.
    pub(crate) fn finish(&self) {
        if std::io::stderr().is_terminal() {
            self.bar.finish_and_clear();
        }
        if let Some((over, thread)) = self.lines.lock().take() {
            drop(over);
            // If the thread panicked, it has printed a message.
            let _ = thread.join();
        }
    }

    pub(crate) fn begins(&self, number: u64, trial: &str) {
        let mut running = self.running.lock();
        running.insert(number, (Instant::now(), trial.to_owned()));
    }

    pub(crate) fn ends(&self, number: u64) {
        let mut running = self.running.lock();
        running.remove(&number);
    }

    /// Removes the bar from the terminal while `print` prints lines.
    pub(crate) fn suspend_bar(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Counts a trial that has ended or was skipped. Shows the name `trial`, if given, next to the bar.
    pub(crate) fn count_finished(&self, trial: Option<&str>) {
        self.bar.inc(1);
        if let Some(trial) = trial {
            self.bar.set_message(trial.to_owned());
        }
    }

    /// Formats the progress, for example `3 of 12 trials finished after 60 s; programs/x has been running for 41 s of
    /// at most 5 min (--timeout)`.
    fn line(&self, now: Instant) -> String {
        let (over, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let after = format_duration((now - self.begun).as_secs_f64());
        let line = format!("{over} of {} finished after {after}", count(all as usize, "trial"));
        let running = self.running.lock();
        let longest = running.values().min_by_key(|(begun, _)| *begun);
        match longest.filter(|(begun, _)| now - *begun > PAUSE / 2) {
            Some((begun, trial)) => {
                let time = format_duration((now - *begun).as_secs_f64());
                let limit = format_duration(self.limit.as_secs_f64());
                format!(
                    "{line}; {trial} has been running for {time} of at most {limit} (--timeout)"
                )
            }
            None => line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_runs_for_long() {
        let ticker = Ticker::new(3, Duration::from_secs(300));
        let after = |seconds| ticker.begun + Duration::from_secs(seconds);
        assert_eq!(ticker.line(after(30)), "0 of 3 trials finished after 30 s");
        ticker.begins(7, "a[n=1]");
        ticker.begins(8, "b");
        ticker.count_finished(Some("c"));
        assert!(ticker.line(after(5)).ends_with("1 of 3 trials finished after 5 s"));
        assert_eq!(
            ticker.line(after(120)),
            "1 of 3 trials finished after 2 min; a[n=1] has been running for 2 min of at most 5 min (--timeout)"
        );
        ticker.ends(7);
        ticker.ends(8);
        assert_eq!(ticker.line(after(600)), "1 of 3 trials finished after 10 min");
    }
}
