//! Getting a stack, with progress on a terminal and plain lines in a pipe.

use std::{io::IsTerminal, sync::Mutex, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use rocm::{Event, Extra, FetchOptions, Spec, Stack, Store, fetch};

use crate::{
    Stop,
    session::{DeviceChoice, SessionOptions},
    stop::chain,
};

/// The stack of a session, fetched where it is not there yet.
pub(crate) fn ensure_stack(options: &SessionOptions) -> Result<Stack, Stop> {
    let gfx = match options.device {
        DeviceChoice::Emulated(arch) => vec![arch.name().to_owned()],
        DeviceChoice::Gpu => Vec::new(),
    };
    get(&options.rocm, &options.with, gfx, options.mirror.clone())
}

/// Locates or fetches what a user names.
pub(crate) fn get(
    spec: &str,
    with: &[String],
    architectures: Vec<String>,
    mirror: Option<String>,
) -> Result<Stack, Stop> {
    let usage = |error: &dyn std::error::Error| Stop::usage(format!("error: {}", chain(error)));
    let spec: Spec = spec.parse().map_err(|e: rocm::Error| usage(&e))?;
    let with = with
        .iter()
        .map(|name| name.parse::<Extra>().map_err(|e| Stop::usage(format!("error: {e}"))))
        .collect::<Result<Vec<_>, _>>()?;
    let store = Store::from_environment().map_err(|e| usage(&e))?;
    let view = View::new(spec.to_string());
    let options = FetchOptions { mirror, with, architectures };
    let stack = fetch(&spec, &options, &store, &|event| view.show(event));
    view.bar.finish_and_clear();
    stack.map_err(|e| usage(&e))
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

    fn show(&self, event: Event<'_>) {
        let (stage, text, position) = match event {
            Event::Waiting => ("wait", "waiting for another fetch of it".to_owned(), None),
            Event::Moved { package, mirror } => (
                "moved",
                format!(
                    "no mirror has {package} any more; reading the index of {mirror} for its successor"
                ),
                None,
            ),
            Event::Download { done, total } => {
                ("download", format!("downloading {} MB", total / 1_000_000), Some((done, total)))
            }
            Event::Unpack { done, total } => {
                ("unpack", format!("unpacking {} MB", total / 1_000_000), Some((done, total)))
            }
            _ => return,
        };
        // A poisoned lock only means that another thread's line was lost.
        let Ok(mut last) = self.stage.lock() else { return };
        if *last != stage {
            *last = stage;
            if !self.terminal {
                crate::outputs::note(format!("{}: {text}", self.spec));
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
