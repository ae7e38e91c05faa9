//! Lists the ROCm builds that AMD, Debian and local folders offer, and merges them into one history, ordered by time,
//! in which a bisect can search.

mod build;
mod components;
mod date;
mod error;
mod history;
mod listing;
pub(crate) mod names;
mod sources;

pub use build::{Archive, Build, BuildLocation, BuildQuery};
pub use components::{ComponentChange, ComponentPin, Components};
pub use date::Date;
pub use error::{FindError, ListError, SourcesError};
pub use history::{History, ListingGap, list_builds, read_components};
pub use sources::{BuildSource, Families, SourceKind, Sources};
