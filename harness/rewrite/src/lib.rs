//! Plans turned into other plans: smaller ones, and ones that may avoid a bug. Pure.

// A new call must be seen wherever calls are told apart; what all calls have is asked of their declarations.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod lean;
pub mod mitigations;
pub mod reduce;
pub mod stated;
mod uses;

pub use lean::{Leaner, apply_leaner, lean, leaner, unmade};
pub use uses::{launches_own, related};
