//! Noisy bisection: which step of an ordered history changed the failure rate.
