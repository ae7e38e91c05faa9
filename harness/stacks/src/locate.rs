//! Stacks on this machine: their names, their folders, their identity, and the start of programs in them.

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
