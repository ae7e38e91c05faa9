//! Events that a search reports while it runs.

use ::search::bisect::State;
use stacks::ListingGap;

use crate::observation::PointObservation;

/// An event of a running search.
#[non_exhaustive]
pub enum BisectEvent<'a> {
    /// The driver does not name the architecture of the GPU, so builds for this one are searched.
    ArchitectureAssumed {
        /// The architecture.
        gfx: &'a str,
    },
    /// A fact about the history that is searched.
    HistoryNote(&'a str),
    /// A source may have builds that it does not list.
    BuildsMissing(&'a ListingGap),
    /// The search continues an earlier one.
    Resumed {
        /// Runs that the earlier one made.
        runs: u32,
        /// Builds that it installed.
        builds: u32,
    },
    /// A point of the earlier search has left the history, and its runs no longer count.
    PointGone {
        /// The name of the point.
        label: &'a str,
    },
    /// A point that an earlier command of this search left out stays so.
    StaysLeftOut {
        /// The name of the point.
        label: &'a str,
    },
    /// A point was installed or run, or cannot be tested.
    Observed {
        /// The search after the observation.
        state: &'a State,
        /// All observations, this one last.
        seen: &'a [PointObservation],
        /// The observation.
        observation: &'a PointObservation,
        /// Returns the name of a point.
        name: &'a dyn Fn(usize) -> String,
    },
    /// The time of an end is known, which separates slow runs from fast ones.
    EndMeasured {
        /// The name of the end.
        label: &'a str,
        /// The median of the runs in seconds.
        seconds: f64,
        /// The number of runs.
        runs: u32,
    },
}

/// A receiver of the events of a search.
pub type Reporter<'a> = &'a dyn Fn(BisectEvent<'_>);
