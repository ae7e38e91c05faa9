//! What programs say by which they check, carried in the command.

/// The module for Python, with the name of its file.
pub(crate) const PYTHON: (&str, &str) =
    ("rocrepro.py", include_str!("../../cli/program/rocrepro.py"));

/// The header for C++, with the name of its file.
pub(crate) const CPP: (&str, &str) = ("rocrepro.h", include_str!("../../cli/program/rocrepro.h"));
