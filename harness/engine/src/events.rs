//! Events that operations report while they run.

use std::{fmt, path::Path, sync::Arc};

use plan::Version;

/// An event of a running operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineEvent<'a> {
    /// A stack of a distribution is being fetched.
    Fetch {
        /// The stack, as typed.
        spec: &'a str,
        /// The step.
        step: stacks::FetchEvent<'a>,
    },
    /// The fetch of a stack has ended, with or without success.
    FetchEnded,
    /// A build of a configured source is being fetched or removed.
    Build(stacks::BuildEvent<'a>),
    /// An incomplete environment is created again.
    EnvironmentRemade {
        /// The folder of the environment.
        folder: &'a Path,
    },
    /// A record file has trials that never ended.
    UnfinishedTrials {
        /// The record file.
        file: &'a Path,
        /// The number of these trials.
        trials: usize,
        /// The last of these trials.
        last: &'a str,
    },
    /// The files of a stack contradict each other; the name of libamdhip64 decides.
    ReleaseByName {
        /// The contradiction.
        doubt: &'a str,
        /// The release that is assumed.
        version: &'a Version,
    },
    /// No file of a stack names its release; the HIP runtime decides.
    ReleaseByRuntime {
        /// The reason why no file does.
        doubt: &'a str,
        /// The release that the HIP runtime reports.
        version: &'a Version,
    },
    /// Neither the files of a stack nor its HIP runtime name its release.
    ReleaseUnknown {
        /// The reason why no file does.
        doubt: &'a str,
        /// The reason why the runtime did not report its version; none if it was not asked.
        why: Option<&'a str>,
        /// The release that programs are exported for.
        assumed: Version,
    },
    /// A batch of trials begins.
    BatchBegins {
        /// The number of trials.
        trials: u64,
    },
    /// A trial of the batch begins.
    TrialBegins {
        /// Number of the trial in the run.
        number: u64,
        /// Id of the trial.
        trial: &'a str,
    },
    /// A trial of the batch has ended.
    TrialEnds {
        /// The number of the trial in the run.
        number: u64,
    },
    /// A trial of the batch needs no further work.
    TrialOver {
        /// Id of the trial; none if it did not run.
        trial: Option<&'a str>,
    },
    /// The batch is over.
    BatchEnds,
    /// The run continues without a GPU.
    GpuLeftOut {
        /// The GPU.
        name: &'a str,
        /// Reason.
        why: &'a str,
    },
    /// The health check does not pass on this stack.
    HealthCheckFails {
        /// Reason.
        why: &'a str,
    },
    /// The recovery command has ended.
    Recovered {
        /// The command as one line.
        command: &'a str,
        /// The end, for example an exit code.
        ended: &'a str,
        /// The standard error.
        stderr: &'a str,
    },
}

/// A receiver of events. Threads of one operation call it at the same time.
pub trait EventSink: Send + Sync {
    /// Receives an event, while the operation waits.
    fn event(&self, event: EngineEvent<'_>);
}

/// A handle of the receiver; the default handle drops events.
#[derive(Clone, Default)]
pub struct Reporting(Option<Arc<dyn EventSink>>);

impl Reporting {
    /// Returns the handle of a receiver.
    pub fn to(sink: Arc<dyn EventSink>) -> Reporting {
        Reporting(Some(sink))
    }

    /// Reports an event.
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
