//! Shows the events of the engine on standard error.

use std::sync::Arc;

use engine::events::{Event, Reporting, Sink};
use parking_lot::Mutex;
use report::count;

use crate::{
    outputs::note,
    progress::{Fetching, View},
    ticker::Ticker,
};

/// Returns a receiver that shows events to the user.
pub(crate) fn reporting() -> Reporting {
    Reporting::to(Arc::new(Console::default()))
}

/// The state of what is shown.
#[derive(Default)]
struct Console {
    stack: Mutex<Option<View>>,
    builds: Fetching,
    batch: Mutex<Option<Arc<Ticker>>>,
}

impl Sink for Console {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Fetch { spec, step } => {
                let mut view = self.stack.lock();
                view.get_or_insert_with(|| View::new(spec.to_owned())).show(step);
            }
            Event::FetchEnded => {
                if let Some(view) = self.stack.lock().take() {
                    view.finish();
                }
            }
            Event::Build(event) => self.builds.tell(event),
            Event::BatchBegins { trials } => *self.batch.lock() = Some(Ticker::start(trials)),
            Event::TrialBegins { number, trial } => self.in_batch(|t| t.begins(number, trial)),
            Event::TrialEnds { number } => self.in_batch(|t| t.ends(number)),
            Event::TrialOver { trial } => self.in_batch(|t| t.over(trial)),
            Event::BatchEnds => {
                if let Some(ticker) = self.batch.lock().take() {
                    ticker.finish();
                }
            }
            event => {
                if let Some(text) = text(&event) {
                    note(text);
                }
            }
        }
    }
}

impl Console {
    fn in_batch(&self, tell: impl FnOnce(&Ticker)) {
        // Events of other trials are not to wait for this one.
        let ticker = self.batch.lock().clone();
        if let Some(ticker) = ticker {
            tell(&ticker);
        }
    }
}

/// Returns the sentence for an event.
fn text(event: &Event<'_>) -> Option<String> {
    Some(match event {
        Event::EnvironmentRemade { folder } => {
            format!("`{}` was never finished and is made again", folder.display())
        }
        Event::UnfinishedTrials { file, trials, last } => {
            let file = file.display();
            format!(
                "warning: `{file}`: {} began in an earlier run and never ended, the last one {last}; `rocrepro unfinished {file}` \
                 tells more",
                count(*trials, "trial")
            )
        }
        Event::ReleaseByName { doubt, version } => {
            format!("warning: {doubt}; ROCm {version} is what the name of its libamdhip64 says")
        }
        Event::ReleaseByRuntime { doubt, version } => {
            format!("warning: {doubt}; ROCm {version} is what its HIP runtime says")
        }
        Event::ReleaseUnknown { doubt, why, assumed } => {
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            format!(
                "warning: the ROCm version is not known: {doubt}, and its HIP runtime does not say it{why}. Of known \
                 windows only those of every version count, no case is skipped for a version that it needs, and \
                 programs are exported as for ROCm {assumed}"
            )
        }
        Event::GpuLeftOut { name, why } => format!("no further trial runs on {name}: {why}"),
        Event::HealthCheckFails { why } => format!(
            "warning: the health check does not pass on this stack ({why}), so a GPU that no longer works after a \
             trial is not told from ROCm's own failures"
        ),
        Event::Recovered { command, ended, stderr } => {
            format!("`{command}` {ended}\n{}", stderr.trim_end()).trim_end().to_owned()
        }
        _ => return None,
    })
}
