//! Finds the stacks on this machine by name, reads which libraries they contain, and starts programs with these
//! libraries.

mod bundle;
mod error;
mod identity;
mod listing;
mod loads;
mod spec;
mod spelling;
mod stack;

pub use bundle::{missing_functions, offered_functions, release_of};
pub use error::{LocateError, NoCacheError, SpecError};
pub use identity::{StackIdentity, StackLibrary, build_id};
pub use listing::{FetchableRelease, StackListing, list_stacks};
pub(crate) use loads::check_loads;
pub use spec::Spec;
pub use spelling::{Spelling, spellings};
pub use stack::{Stack, locate, system_stacks};
