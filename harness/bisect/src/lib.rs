//! Bisects: searches along an axis for the point at which a trial or a command breaks.
//!
//! [`Bisection::prepare`] reads [`BisectOptions`]: the subject, the [`Axis`] with its points, and the folder for the
//! answer. [`Bisection::run`] installs and runs points in the order that the crate `search` decides. Each observation
//! is written to a journal before it counts, so that an interrupted search can be resumed and replayed. A search
//! reports [`BisectEvent`]s and stops when a `Cancel` is cancelled.
//!
//! Modules depend on each other in one direction. At the bottom are axes, runs and verdicts. Above them are the journal
//! and the subject, then the workbench, the answer and the search.

mod answer;
mod axis;
mod command_spec;
mod cross;
mod error;
mod events;
mod identity;
mod journal;
mod kind;
mod nights;
mod observation;
mod options;
mod outlook;
mod packages;
mod prefetch;
mod replay;
mod run;
mod search;
pub mod sentences;
mod signature;
mod subject;
mod verdict;
mod workbench;

pub use self::search::{BisectResult, Bisection, RerunCommand};
pub use answer::exit_code;
pub use axis::Axis;
pub use events::{BisectEvent, Reporter};
pub use journal::{BisectHeader, JournalBudget};
pub use kind::AxisKind;
pub use nights::{NightlyBuild, NightlyPair};
pub use observation::PointObservation;
pub use options::{BisectOptions, FailureFilter, INSTALL_COST};
pub use outlook::dry_run;
pub use packages::PREFIX as PACKAGE_PREFIX;
pub use replay::replay;
