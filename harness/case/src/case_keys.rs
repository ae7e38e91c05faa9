//! Names of the keys of a case.

/// Keys of a case, in the order in which the reference lists them.
pub(crate) const KEYS: &[&str] = &[
    "title",
    "about",
    "upstream",
    "related",
    "source",
    "expectation",
    "matrix",
    "exclude",
    "needs",
    "environment",
    "streams",
    "kernels",
    "buffers",
    "steps",
    "program",
    "expect",
    "faults",
    "known",
];
