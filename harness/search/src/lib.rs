//! Searches over an injected predicate that may be flaky: bisection, minimisation, mitigation. Pure: nothing is run here.

pub mod bisect;
pub mod lines;
pub mod mitigate;
pub mod reduce;
pub mod sequential;
