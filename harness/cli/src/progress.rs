//! Shows the progress of downloading a stack: a bar on a terminal, plain lines in a pipe.

use std::{
    collections::HashMap,
    io::IsTerminal,
    sync::Mutex,
    time::{Duration, Instant},
};

use engine::missing_libraries::mb;
use indicatif::{ProgressBar, ProgressStyle};
use report::format_duration;
use stacks::FetchEvent;

use crate::outputs;

/// Prints the progress of each build download: at the start, then every 10 s, and at the end.
#[derive(Default)]
pub(crate) struct Fetching {
    archives: Mutex<HashMap<String, Archive>>,
}

struct Archive {
    begun: Instant,
    /// Number of bytes that were already on disk, from an earlier, interrupted download.
    from: u64,
    told: Instant,
}

impl Fetching {
    /// Minimum time between two lines about one download.
    const PAUSE: Duration = Duration::from_secs(10);

    pub(crate) fn show_event(&self, event: stacks::BuildEvent<'_>) {
        use stacks::BuildEvent;
        match event {
            BuildEvent::Waiting { holder } => {
                outputs::note(format_args!("waiting for {holder}, which is using this build"));
            }
            BuildEvent::WaitingForPrefetch { id } => {
                outputs::note(format_args!(
                    "{id} is being downloaded already; waiting for the rest"
                ));
            }
            BuildEvent::Download { name, done, total } => self.download(name, done, total),
            BuildEvent::Retry { reason, after } => {
                outputs::note(format_args!(
                    "{reason}; trying again in {:.0} s",
                    after.as_secs_f64()
                ));
            }
            BuildEvent::Evicted { id } => {
                outputs::note(format_args!("removed {id} to free disk space"))
            }
            _ => {}
        }
    }

    fn download(&self, name: &str, done: u64, total: Option<u64>) {
        // A poisoned lock only means that another thread's line was lost.
        let Ok(mut archives) = self.archives.lock() else { return };
        let now = Instant::now();
        let end = total == Some(done);
        let known = archives.get_mut(name);
        if !end && known.as_ref().is_some_and(|archive| now - archive.told < Self::PAUSE) {
            return;
        }
        match known {
            Some(archive) => archive.told = now,
            None => {
                let archive = Archive { begun: now, from: done, told: now };
                archives.insert(name.to_owned(), archive);
            }
        }
        let archive = &archives[name];
        let seconds = (now - archive.begun).as_secs_f64();
        outputs::note(format_progress(
            name,
            done,
            total,
            done.saturating_sub(archive.from),
            seconds,
        ));
        if end {
            archives.remove(name);
        }
    }
}

/// Formats the progress of a download, for example `a.tar.gz: 40 of 1713 MB, 4.0 MB/s, 7 min left`. `new` is the number
/// of bytes that this process downloaded in `seconds`.
fn format_progress(name: &str, done: u64, total: Option<u64>, new: u64, seconds: f64) -> String {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let mut text = match total {
        Some(total) if total > done => format!("{name}: {:.0} of {:.0} MB", mb(done), mb(total)),
        _ => format!("{name}: {:.1} MB", mb(done)),
    };
    if new > 0 && seconds > 1.0 {
        let speed = new as f64 / seconds;
        text.push_str(&format!(", {:.1} MB/s", speed / 1e6));
        if let Some(total) = total.filter(|total| *total > done) {
            let left = (total - done) as f64 / speed;
            text.push_str(&format!(", {} left", format_duration(left)));
        }
    }
    text
}

/// Progress display for the download of one stack.
pub(crate) struct StackProgress {
    spec: String,
    bar: ProgressBar,
    terminal: bool,
    /// Name of the stage of the last event that was shown.
    stage: Mutex<&'static str>,
}

impl StackProgress {
    pub(crate) fn new(spec: String) -> StackProgress {
        let terminal = std::io::stderr().is_terminal();
        // The bar stays hidden until the first event. A stack that is already on the machine prints nothing.
        StackProgress { spec, bar: ProgressBar::hidden(), terminal, stage: Mutex::new("") }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    pub(crate) fn show(&self, event: FetchEvent<'_>) {
        let (stage, text, position) = match event {
            FetchEvent::Waiting { holder } => {
                ("wait", format!("waiting for {holder}, which is fetching it"), None)
            }
            FetchEvent::Moved { package } => (
                "moved",
                format!("no mirror has {package} any more; searching for its current version"),
                None,
            ),
            FetchEvent::Download { done, total } => {
                ("download", format!("downloading {}", mb(total)), Some((done, total)))
            }
            FetchEvent::Unpack { done, total } => {
                ("unpack", format!("unpacking {}", mb(total)), Some((done, total)))
            }
            _ => return,
        };
        // A poisoned lock only means that another thread's line was lost.
        let Ok(mut last) = self.stage.lock() else { return };
        if *last != stage {
            *last = stage;
            if !self.terminal {
                outputs::note(format!("{}: {text}", self.spec));
            } else {
                self.bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
                self.bar.set_style(style(position.is_some()));
                self.bar.enable_steady_tick(Duration::from_millis(120));
                self.bar.set_message(report::terminal(&format!("{}: {text}", self.spec)));
            }
        }
        if let Some((done, total)) = position {
            self.bar.set_length(total);
            self.bar.set_position(done);
        }
    }
}

fn style(bar: bool) -> ProgressStyle {
    let template = if bar {
        "{spinner} {msg} [{wide_bar}] {bytes}/{total_bytes} {eta}"
    } else {
        "{spinner} {msg}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::format_progress;

    #[test]
    fn a_download_tells_bytes_speed_and_time() {
        let check = |done, total, new, seconds, expected: &str| {
            assert_eq!(format_progress("a", done, total, new, seconds), expected);
        };
        check(0, Some(2_000_000_000), 0, 0.0, "a: 0 of 2000 MB");
        check(
            40_000_000,
            Some(2_000_000_000),
            40_000_000,
            10.0,
            "a: 40 of 2000 MB, 4.0 MB/s, 8 min left",
        );
        check(
            1_900_000_000,
            Some(2_000_000_000),
            40_000_000,
            10.0,
            "a: 1900 of 2000 MB, 4.0 MB/s, 25 s left",
        );
        check(2_000_000_000, Some(2_000_000_000), 40_000_000, 10.0, "a: 2000.0 MB, 4.0 MB/s");
        check(40_000_000, None, 40_000_000, 10.0, "a: 40.0 MB, 4.0 MB/s");
    }
}
