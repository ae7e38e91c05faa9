//! The Python module and the C++ header with which programs report their checks. Both are embedded in rocrepro.

/// File name and text of the Python module.
pub(crate) const PYTHON: (&str, &str) =
    ("rocrepro.py", include_str!("../../cli/program/rocrepro.py"));

/// File name and text of the C++ header.
pub(crate) const CPP: (&str, &str) = ("rocrepro.h", include_str!("../../cli/program/rocrepro.h"));
