//! Cases: one YAML file says what is done, what must be true, what it needs and which upstream issues it stands for.
//!
//! [`Case::parse`] reads a file, of which [`mistakes`] reports all that is wrong at once; [`Case::trials`] expands its matrix; [`lower`]
//! turns one trial, perhaps with a planted fault, into a [`plan::Plan`], or into a [`plan::Program`]. This crate is pure: the text of cases and kernels
//! comes from the caller.

// A new call must be seen wherever calls are told apart; what all calls have is asked of their declarations.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod beside;
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

pub use beside::BACK;
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
