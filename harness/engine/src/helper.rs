//! The helpers by which programs report their checks, embedded in the command.

/// File name and text of the Python module.
pub(crate) const PYTHON: (&str, &str) =
    ("rocrepro.py", include_str!("../../cli/program/rocrepro.py"));

/// File name and text of the C++ header.
pub(crate) const CPP: (&str, &str) = ("rocrepro.h", include_str!("../../cli/program/rocrepro.h"));
