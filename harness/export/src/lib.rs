//! Prints a plan as one self-contained C++17 program, and compares the calls that two programs made.
//!
//! The printed program contains only the lowered plan: the calls of the trial with their arguments, in order, the work
//! on the host between them, and the expectations. The program computes the expected bytes of buffers on the host, next
//! to the calls, so that a reader sees where each expected byte comes from.
//!
//! The crate is pure: it writes no files and starts no processes.

// No match on calls has a wildcard arm, so that a new call does not compile before each match handles it. Code that is
// the same for all calls uses the declarations of the calls instead.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

#[expect(clippy::wildcard_enum_match_arm, reason = "matches types and operators, not calls")]
mod arguments;
mod calls;
mod checks;
mod declarations;
mod expected_bytes;
mod expected_names;
mod form;
#[expect(clippy::wildcard_enum_match_arm, reason = "matches types and operators, not calls")]
mod formula;
mod header;
mod helpers;
mod hip_calls;
mod libraries;
pub mod line_removal;
#[expect(clippy::wildcard_enum_match_arm, reason = "matches number types, not calls")]
mod literal;
mod matrix_products;
mod memory;
mod names;
mod nodes;
mod print_short;
mod printer;
mod short_program;
mod trace;

pub use form::Form;
pub use header::Header;
pub use print_short::{print_short, without_injected};
pub use printer::print;
pub use trace::{LoggedCall, Trace, TraceDifference, first_difference, logged_calls, parse_trace};
