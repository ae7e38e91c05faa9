//! Plans turned into other plans: smaller ones, and ones that may avoid a bug. Pure.

pub mod mitigations;
pub mod reduce;
pub mod stated;
mod uses;
