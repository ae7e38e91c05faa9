//! Cases. A case is one YAML file that describes the calls to make, the checks, the requirements on stack and device,
//! and the upstream issues that it reproduces.
//!
//! [`Case::parse`] reads a file, and [`mistakes`] reports all mistakes of a file at once. [`Case::trials`] expands the
//! matrix. [`lower`] turns one trial, optionally with an injected fault, into a [`plan::Plan`] or a [`plan::Program`].
//! This crate is pure: the caller provides the text of cases and kernels.

// Matches over calls must not have a wildcard arm. If a call is added, the compiler then lists every match that has to
// be extended. Properties that every call has are declared in the crate `plan`.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod added_buffers;
mod buffers;
mod call_pattern;
mod calls;
mod case_keys;
mod diagnostic;
mod draft;
mod expectation;
mod expression;
mod for_each;
mod header;
mod hints;
mod interposer;
mod issue_link;
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
mod uncalled;
mod unused;
mod write;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most events of the parser are mistakes in a case"
)]
mod yaml;

pub use added_buffers::BACK;
pub use call_pattern::{ArgumentPattern, CallPattern, EXIT, StatusPattern, Times};
pub use diagnostic::{Diagnostic, SourceSpan};
pub use draft::{Language, doubts, draft};
pub use expectation::{Expectation, ExpectationKind, is_document};
pub use header::{Case, FaultEntry, Known, RecordedStep};
pub use interposer::interposer;
pub use kernels::{FILE_ENDINGS, Kernels};
pub use lower::{Body, Lowered, analyse, lower};
pub use matrix::{Selector, Trial};
pub use mistakes::{mistakes, mistakes_of};
pub use needs::Needs;
pub use plant::inject_fault;
pub use program::{GROUPS, injection_refusal, injection_refusal_in_steps};
pub use trust::{forbidden_construct, forbidden_parts};
pub use write::{Header, write};
