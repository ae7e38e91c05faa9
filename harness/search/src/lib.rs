//! Searches over runs that may fail only sometimes: bisection, minimisation and mitigation.
//!
//! The crate is pure: the caller makes the runs and passes their outcomes in.

pub mod bisect;
pub mod fisher;
pub mod mitigate;
pub mod reduce;
pub mod sequential;
pub mod shorten;
