//! Getting a stack, with progress on a terminal and plain lines in a pipe.

use std::{
    collections::HashMap,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use stacks::{
    Build, BuildQuery, Extra, FetchEvent, FetchOptions, Sources, Spec, Stack, StackCache, fetch,
};

use crate::{
    Stop, card, interrupt,
    lacks::mb,
    outputs,
    stop::{chain, explained},
};

/// Locates or fetches what a user names.
pub(crate) fn get(
    spec: &str,
    with: &[String],
    architectures: Vec<String>,
    mirrors: Vec<String>,
) -> Result<Stack, Stop> {
    let usage = |error: &dyn stacks::Hint| Stop::usage(format!("error: {}", explained(error)));
    // Packages of a distribution may be for all architectures; a night is for one.
    let one = || architectures.first().cloned().or_else(|| card::first(Path::new("/")));
    if let Some(night) = night(spec, &one)? {
        return obtained(spec, &night);
    }
    let spec: Spec = spec.parse().map_err(|e: stacks::SpecError| usage(&e))?;
    let with = with
        .iter()
        .map(|name| Extra::named(name).map_err(|e| Stop::usage(format!("error: {e}"))))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let store = StackCache::from_environment().map_err(|e| usage(&e))?;
    let view = View::new(spec.to_string());
    let stop = interrupt::wish();
    let options = FetchOptions { mirrors, with, architectures, stop };
    let stack = fetch(&spec, &options, &store, &|event| view.show(event));
    view.bar.finish_and_clear();
    // A folder that cannot be read is the wrong one.
    let fetched = matches!(spec, Spec::Debian(_));
    stack.map_err(|error| match fetched && error.is_environment() {
        true => Stop::no_verdict(format!("error: {}", explained(&error))),
        false => usage(&error),
    })
}

/// Whether a name is of a build of a configured source.
pub(crate) fn is_night(spec: &str) -> bool {
    spec.split_once(':').is_some_and(|(channel, _)| sources_of(spec, channel).is_some())
}

fn sources_of(spec: &str, channel: &str) -> Option<Sources> {
    if ["debian", "dir"].contains(&channel) || Path::new(spec).exists() {
        return None;
    }
    Sources::load(None).ok()?.select(&[channel.to_owned()]).ok()
}

/// The folder of a stack that is there. Nothing is fetched; of a night its source is asked which build is meant.
pub(crate) fn located(spec: &str, gfx: &dyn Fn() -> Option<String>) -> Result<PathBuf, Stop> {
    let usage = |error: &dyn stacks::Hint| Stop::usage(format!("error: {}", explained(error)));
    let store = StackCache::from_environment().map_err(|e| usage(&e))?;
    let Some(night) = night(spec, gfx)? else {
        let spec: Spec = spec.parse().map_err(|e: stacks::SpecError| usage(&e))?;
        return Ok(stacks::locate(&spec, &store).map_err(|e| usage(&e))?.root);
    };
    if !stacks::BuildStore::new(store).has(&night) {
        let gfx = gfx().map_or_else(String::new, |gfx| format!(" --gfx {gfx}"));
        return Err(Stop::usage(format!(
            "error: {} has not been fetched\nhint: run `rocrepro rocm fetch {spec}{gfx}`",
            night.id
        )));
    }
    obtained(spec, &night).map(|stack| stack.root)
}

/// The build that `nightly:2026-07-02` means, of a configured source; none for other names.
fn night(spec: &str, gfx: &dyn Fn() -> Option<String>) -> Result<Option<Build>, Stop> {
    let Some((channel, build)) = spec.split_once(':') else { return Ok(None) };
    let Some(sources) = sources_of(spec, channel) else { return Ok(None) };
    let gfx = gfx().ok_or_else(|| {
        Stop::usage(format!(
            "error: `{spec}` is built for one architecture, and the driver does not tell that of this machine's GPU; fetch it with \
             `rocrepro rocm fetch {spec} --gfx GFX` and name the folder"
        ))
    })?;
    // All of them, so that a day without a build has neighbours to offer.
    let wanted = BuildQuery { from: None, to: None, ..BuildQuery::between(&gfx, build, build) };
    let cancel = interrupt::cancel()?;
    let mut history = stacks::list_builds(&sources, &wanted, cancel.flag()).map_err(unlisted)?;
    let at = history.find(build).map_err(|error| {
        let holes = history.holes.iter().map(|hole| format!("\nbuilds may be missing: {hole}"));
        Stop::usage(format!("error: `{spec}`: {}{}", chain(&error), holes.collect::<String>()))
    })?;
    Ok(Some(history.builds.swap_remove(at)))
}

/// Maps a configuration of sources that cannot be used to an exit code.
pub(crate) fn bad_sources(error: stacks::SourcesError) -> Stop {
    let text = format!("error: {}", explained(&error));
    match error.is_environment() {
        true => Stop::no_verdict(text),
        false => Stop::usage(text),
    }
}

/// Maps a failed listing of builds to an exit code.
pub(crate) fn unlisted(error: stacks::ListError) -> Stop {
    let text = format!("error: {}", explained(&error));
    match error.is_environment() {
        true => Stop::no_verdict(text),
        false => Stop::usage(text),
    }
}

/// The stack of a night, fetched where it is not there yet.
fn obtained(spec: &str, night: &Build) -> Result<Stack, Stop> {
    let stacks = StackCache::from_environment()
        .map_err(|e| Stop::usage(format!("error: {}", explained(&e))))?;
    let fetching = Fetching::default();
    let cancel = interrupt::cancel()?;
    let store = stacks::BuildStore::new(stacks);
    let obtained = store.obtain_unless(night, cancel.flag(), &|event| fetching.tell(event));
    obtained
        .map(|obtained| obtained.stack)
        .map_err(|error| Stop::no_verdict(format!("error: {spec}: {}", explained(&error))))
}

/// Says how far the downloads of builds are: at once, then now and then, and at the end.
#[derive(Default)]
pub(crate) struct Fetching {
    archives: Mutex<HashMap<String, Archive>>,
}

/// One download.
struct Archive {
    begun: Instant,
    /// Bytes that were there at the begin.
    from: u64,
    told: Instant,
}

impl Fetching {
    /// Between two lines of one download.
    const PAUSE: Duration = Duration::from_secs(10);

    pub(crate) fn tell(&self, event: stacks::BuildEvent<'_>) {
        use stacks::BuildEvent;
        match event {
            BuildEvent::Waiting { holder } => {
                outputs::note(format_args!("waiting for {holder}, which is using this build"));
            }
            BuildEvent::Download { name, done, total } => self.download(name, done, total),
            BuildEvent::Retry { reason, after } => {
                outputs::note(format_args!("{reason}; again in {:.0} s", after.as_secs_f64()));
            }
            BuildEvent::Evicted { id } => {
                outputs::note(format_args!("{id} was removed to make room"))
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
        outputs::note(so_far(name, done, total, done.saturating_sub(archive.from), seconds));
        if end {
            archives.remove(name);
        }
    }
}

/// `a.tar.gz: 40 of 1713 MB, 4.0 MB/s, 7 min left`.
fn so_far(name: &str, done: u64, total: Option<u64>, new: u64, seconds: f64) -> String {
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
            text.push_str(&format!(", {} left", how_long(left)));
        }
    }
    text
}

/// `25 s`, `8 min`, `3 h`.
pub(crate) fn how_long(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 90.0 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

struct View {
    spec: String,
    bar: ProgressBar,
    terminal: bool,
    /// The last stage that a plain line was printed for.
    stage: Mutex<&'static str>,
}

impl View {
    fn new(spec: String) -> View {
        let terminal = std::io::stderr().is_terminal();
        // Nothing is drawn before the first event: a stack that is there costs no line.
        View { spec, bar: ProgressBar::hidden(), terminal, stage: Mutex::new("") }
    }

    fn show(&self, event: FetchEvent<'_>) {
        let (stage, text, position) = match event {
            FetchEvent::Waiting { holder } => {
                ("wait", format!("{holder} is fetching it; waiting"), None)
            }
            FetchEvent::Moved { package } => (
                "moved",
                format!("no mirror has {package} any more; looking for its current version"),
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
    use super::{how_long, so_far};

    #[test]
    fn a_download_tells_bytes_speed_and_time() {
        let check = |done, total, new, seconds, expected: &str| {
            assert_eq!(so_far("a", done, total, new, seconds), expected);
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
        assert_eq!([30.0, 300.0, 9000.0].map(how_long), ["30 s", "5 min", "2 h"]);
    }
}
