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

/// Device options that a case may require, named as in `--device-option`. The number of devices is a separate
/// requirement. The remaining device options only change how the emulated device works, so a GPU cannot have them.
pub(crate) const DEVICE_NEEDS: &[&str] = &["large-bar", "memory", "gtt"];
