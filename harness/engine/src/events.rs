//! Events by which long operations of this crate report their progress.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use plan::Version;
use report::Record;

/// An event of a running operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineEvent<'a> {
    /// A stack is being fetched from a distribution.
    Fetch {
        /// Name of the stack, as typed.
        spec: &'a str,
        /// The step of the download.
        step: stacks::FetchEvent<'a>,
    },
    /// The download of a stack has ended, successfully or not.
    FetchEnded,
    /// A build of a configured source is being fetched or removed.
    Build(stacks::BuildEvent<'a>),
    /// An incomplete Python environment is being created again.
    EnvironmentRemade {
        /// The folder of the environment.
        folder: &'a Path,
    },
    /// A record file contains trials that began and never ended.
    UnfinishedTrials {
        /// Path of the record file.
        file: &'a Path,
        /// Number of the unfinished trials.
        trials: usize,
        /// Id of the trial that began last.
        last: &'a str,
    },
    /// The files of a stack contradict each other about its release. The file name of libamdhip64 decides.
    ReleaseByName {
        /// The contradiction.
        doubt: &'a str,
        /// The release that is assumed.
        version: &'a Version,
    },
    /// No file of a stack names its release. The version that the HIP runtime reports decides.
    ReleaseByRuntime {
        /// The reason why the files do not name the release.
        doubt: &'a str,
        /// The release that the HIP runtime reports.
        version: &'a Version,
    },
    /// The release of a stack is unknown: neither its files nor its HIP runtime name it.
    ReleaseUnknown {
        /// The reason why the files do not name the release.
        doubt: &'a str,
        /// The reason why the HIP runtime did not report a version; `None` if it was not asked.
        why: Option<&'a str>,
        /// The release that is assumed when programs are exported.
        assumed: Version,
    },
    /// A batch of trials begins.
    BatchBegins {
        /// The number of trials.
        trials: u64,
        /// The longest time of one trial.
        limit: Duration,
    },
    /// A trial of the batch begins.
    TrialBegins {
        /// Number of the trial in the run, counted from 0.
        number: u64,
        /// Id of the trial.
        trial: &'a str,
    },
    /// A trial of the batch has ended. Its final record is not in the journal yet.
    TrialEnds {
        /// Number of the trial in the run, counted from 0.
        number: u64,
    },
    /// A trial of the batch is complete: nothing remains to be done for it.
    TrialOver {
        /// Record of the trial; `None` if it did not run.
        record: Option<&'a Record>,
    },
    /// The batch has ended.
    BatchEnds,
    /// The run continues without one of the GPUs.
    GpuLeftOut {
        /// Name of the GPU.
        name: &'a str,
        /// The reason why the run continues without the GPU.
        why: &'a str,
    },
    /// The health check fails on this stack even before any trial has run, so it cannot show whether a trial broke the
    /// GPU.
    HealthCheckFails {
        /// The reason why the health check fails.
        why: &'a str,
    },
    /// The user's recovery command for a GPU has ended.
    Recovered {
        /// The command as one line.
        command: &'a str,
        /// The way in which the command ended, for example its exit code.
        ended: &'a str,
        /// The command's standard error.
        stderr: &'a str,
    },
}

/// A receiver of events. Several threads of one operation may call it at the same time.
pub trait EventSink: Send + Sync {
    /// Receives an event. The operation continues when this function returns.
    fn event(&self, event: EngineEvent<'_>);
}

/// A handle to a receiver of events; the default handle drops all events.
#[derive(Clone, Default)]
pub struct Reporting(Option<Arc<dyn EventSink>>);

impl Reporting {
    /// Returns a handle to a receiver.
    pub fn to(sink: Arc<dyn EventSink>) -> Reporting {
        Reporting(Some(sink))
    }

    /// Passes an event to the receiver.
    pub fn event(&self, event: EngineEvent<'_>) {
        if let Some(sink) = &self.0 {
            sink.event(event);
        }
    }
}

impl fmt::Debug for Reporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Reporting(to a sink)" } else { "Reporting(to nowhere)" })
    }
}
