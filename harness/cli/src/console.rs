//! Shows the events of the engine on standard error.

use std::sync::Arc;

use engine::events::{EngineEvent, EventSink, Reporting};
use parking_lot::Mutex;
use report::{Record, ResultStream, count};

use crate::{
    outputs::{note, print},
    progress::{Fetching, StackProgress},
    ticker::Ticker,
};

/// Returns a receiver that shows the engine's events to the user.
pub(crate) fn reporting() -> Reporting {
    Reporting::to(Arc::new(Console::default()))
}

/// Returns a receiver that shows the engine's events and also prints the result of each trial to standard output when
/// the trial ends.
pub(crate) fn reporting_results(results: &Arc<Mutex<ResultStream>>) -> Reporting {
    let results = Some(Arc::clone(results));
    Reporting::to(Arc::new(Console { results, ..Console::default() }))
}

/// Progress displays of the current stack download, of build downloads and of the current batch, and the batch's
/// results if they are printed.
#[derive(Default)]
struct Console {
    stack: Mutex<Option<StackProgress>>,
    builds: Fetching,
    batch: Mutex<Option<Arc<Ticker>>>,
    results: Option<Arc<Mutex<ResultStream>>>,
}

impl EventSink for Console {
    fn event(&self, event: EngineEvent<'_>) {
        match event {
            EngineEvent::Fetch { spec, step } => {
                let mut view = self.stack.lock();
                view.get_or_insert_with(|| StackProgress::new(spec.to_owned())).show(step);
            }
            EngineEvent::FetchEnded => {
                if let Some(view) = self.stack.lock().take() {
                    view.finish();
                }
            }
            EngineEvent::Build(event) => self.builds.show_event(event),
            EngineEvent::BatchBegins { trials, limit } => {
                *self.batch.lock() = Some(Ticker::start(trials, limit));
            }
            EngineEvent::TrialBegins { number, trial } => {
                self.in_batch(|t| t.begins(number, trial))
            }
            EngineEvent::TrialEnds { number } => self.in_batch(|t| t.ends(number)),
            EngineEvent::TrialOver { record } => {
                self.print(record);
                self.in_batch(|t| t.count_finished(record.map(|record| record.trial.as_str())));
            }
            EngineEvent::BatchEnds => {
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
    fn print(&self, record: Option<&Record>) {
        let (Some(results), Some(record)) = (&self.results, record) else { return };
        let lines = results.lock().add(record);
        if !lines.is_empty() {
            // If this fails, printing the end of the run also fails, and reports the error.
            self.in_batch(|ticker| ticker.suspend_bar(|| drop(print(&lines))));
        }
    }

    fn in_batch(&self, tell: impl FnOnce(&Ticker)) {
        // The lock is released before the call, so that events of other trials need not wait.
        let ticker = self.batch.lock().clone();
        if let Some(ticker) = ticker {
            tell(&ticker);
        }
    }
}

/// Returns the line that describes an event, or `None` for an event without a line.
fn text(event: &EngineEvent<'_>) -> Option<String> {
    Some(match event {
        EngineEvent::EnvironmentRemade { folder } => {
            format!("`{}` is incomplete; creating it again", folder.display())
        }
        EngineEvent::UnfinishedTrials { file, trials, last } => {
            let file = shell::quote(&file.display().to_string());
            format!(
                "warning: {file}: {} of an earlier run started and never finished (last: {last}); run `rocrepro \
                 records unfinished {file}` for details",
                count(*trials, "trial")
            )
        }
        EngineEvent::ReleaseByName { doubt, version } => {
            format!("warning: {doubt}; assuming ROCm {version}, from the name of its libamdhip64")
        }
        EngineEvent::ReleaseByRuntime { doubt, version } => {
            format!("warning: {doubt}; assuming ROCm {version}, as its HIP runtime reports")
        }
        EngineEvent::ReleaseUnknown { doubt, why, assumed } => {
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            format!(
                "warning: unknown ROCm version: {doubt}, and its HIP runtime does not report it{why}. Expected \
                 failures count only if they apply to every version, no case is skipped because of its required \
                 version, and programs are exported for ROCm {assumed}"
            )
        }
        EngineEvent::GpuLeftOut { name, why } => format!("no further trial runs on {name}: {why}"),
        EngineEvent::HealthCheckFails { why } => format!(
            "warning: the health check does not pass on this stack ({why}), so rocrepro cannot distinguish a GPU that \
             a trial broke from failures of ROCm"
        ),
        EngineEvent::Recovered { command, ended, stderr } => {
            format!("`{command}` {ended}\n{}", stderr.trim_end()).trim_end().to_owned()
        }
        _ => return None,
    })
}
