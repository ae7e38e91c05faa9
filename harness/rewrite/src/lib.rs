//! Plans turned into other plans: smaller ones, and ones that may avoid a bug. Pure.

mod lean;
pub mod mitigations;
pub mod reduce;
pub mod stated;
mod uses;

pub use lean::{Leaner, apply_leaner, lean, leaner, unmade};
pub use uses::{launches_own, related};
