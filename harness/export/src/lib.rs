//! Prints a plan as one self-contained C++17 program, and compares what two programs called.
//!
//! The printed program is the lowered plan and nothing else: the calls of the trial in their order with their arguments, the
//! host work between them, and the expectations. What a buffer must hold is computed on the host beside the calls, so that
//! whoever reads the program sees where each expected byte comes from.
//!
//! This crate is pure: it writes no file and starts nothing.

// A new call must be seen wherever calls are told apart; what all calls have is asked of their declarations.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types and operators are told apart here, and no calls"
)]
mod arguments;
mod calls;
mod checks;
mod declare;
mod expected;
mod foreign;
mod form;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types and operators are told apart here, and no calls"
)]
mod formula;
mod header;
mod lean;
mod libraries;
pub mod lines;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types of numbers are told apart here, and no calls"
)]
mod literal;
mod math;
mod memory;
mod names;
mod nodes;
mod print_lean;
mod printer;
mod support;
mod trace;
mod wanted;

pub use form::Form;
pub use header::Header;
pub use print_lean::print_lean;
pub use printer::print;
pub use trace::{Difference, Trace, differences, trace};
