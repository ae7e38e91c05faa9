//! Transforms plans: makes them smaller, and replaces calls to avoid a bug. Pure.

// No wildcard arms over calls: the compiler must list every match that a new call concerns.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod mitigations;
pub mod reduce;
mod shorten;
pub mod statements;
mod uses;

pub use shorten::{ShortenEdit, apply_shorten_edit, shorten, shorten_edits, used_before_creation};
pub use uses::{launches_own, related};
