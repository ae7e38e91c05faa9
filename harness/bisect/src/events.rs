//! Events that a search reports while it runs.

use ::search::bisect::State;
use stacks::ListingGap;

use crate::observation::PointObservation;

/// An event of a running search.
#[non_exhaustive]
pub enum BisectEvent<'a> {
    /// The driver does not report the architecture of the GPU. The search assumes an architecture and uses builds for
    /// it.
    ArchitectureAssumed {
        /// Name of the assumed architecture.
        gfx: &'a str,
    },
    /// A note about the list of builds that is searched.
    HistoryNote(&'a str),
    /// A download source may have had builds that it does not list.
    BuildsMissing(&'a ListingGap),
    /// The search continues an earlier one, whose journal was read.
    Resumed {
        /// Number of runs that the earlier search made.
        runs: u32,
        /// Number of builds that the earlier search installed.
        builds: u32,
    },
    /// A build that the earlier search tested has left the list of builds, so its runs are ignored.
    PointGone {
        /// Name of the point.
        label: &'a str,
    },
    /// An earlier command of this search excluded a point and the current one does not. The point remains excluded.
    StaysLeftOut {
        /// Name of the point.
        label: &'a str,
    },
    /// A point was installed or run, or cannot be tested.
    Observed {
        /// State of the search after this observation.
        state: &'a State,
        /// All observations, of which this is the last.
        seen: &'a [PointObservation],
        /// The new observation.
        observation: &'a PointObservation,
        /// Function that returns the name of the point with a given index.
        name: &'a dyn Fn(usize) -> String,
    },
    /// The run time at one end was measured. The times at both ends determine which runs count as slow.
    EndMeasured {
        /// Name of the end.
        label: &'a str,
        /// Median time of the runs, in seconds.
        seconds: f64,
        /// Number of runs that were measured.
        runs: u32,
    },
}

/// A receiver of the events of a search.
pub type Reporter<'a> = &'a dyn Fn(BisectEvent<'_>);
