//! Cases: one YAML file describes what is done, what must be true, what is needed, and which upstream issues it
//! reproduces.
//!
//! [`Case::parse`] reads a file; [`mistakes`] reports everything that is wrong with a file at once. [`Case::trials`]
//! expands its matrix. [`lower`] turns one trial, perhaps with an injected fault, into a [`plan::Plan`] or a
//! [`plan::Program`]. This crate is pure: the text of cases and kernels comes from the caller.

// A new call must be handled in every match over calls. Properties of all calls are in their declarations.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod added_buffers;
mod buffers;
mod calls;
mod diagnostic;
mod expectation;
mod expression;
mod for_each;
mod header;
mod kernels;
mod lower;
mod matrix;
mod mistakes;
mod names;
mod needs;
mod plant;
mod program;
mod read;
mod scope;
mod signature;
mod trust;
mod write;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most events of the parser are mistakes in a case"
)]
mod yaml;

pub use added_buffers::BACK;
pub use diagnostic::{At, Diagnostic};
pub use expectation::{Expectation, ExpectationKind, is_document};
pub use header::{Case, FaultEntry, Known};
pub use kernels::Kernels;
pub use lower::{Body, Lowered, analyse, lower};
pub use matrix::{Selector, Trial};
pub use mistakes::mistakes;
pub use needs::Needs;
pub use plant::{plant, stand_in};
pub use program::{GROUPS, refuses};
pub use trust::{foreign, foreign_kernel};
pub use write::{Header, write};
