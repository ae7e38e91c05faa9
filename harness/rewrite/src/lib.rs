//! Edits plans: makes them smaller, or replaces calls to avoid a bug. The crate is pure: it writes no files and starts
//! no processes.

// Matches on calls have no wildcard arms, so that the compiler lists every match that a new call affects.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod last_writes;
pub mod mitigations;
pub mod premise;
pub mod reduce;
mod shorten;
pub mod statements;
mod uses;

pub use last_writes::{has_steps, last_writes};
pub use shorten::{ShortenEdit, apply_shorten_edit, shorten, shorten_edits, used_before_creation};
pub use uses::{launches_own, related};
