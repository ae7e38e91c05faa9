//! The type of a program case's trial: a program, its arguments and its requirements, in place of calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A trial of a program case: the program to run, which takes the place of a list of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Kind of the program, with its source or command.
    pub what: ProgramBody,
    /// Command-line arguments of the program.
    pub arguments: Vec<String>,
    /// Python packages that the program needs.
    pub packages: Packages,
    /// Components that the stack needs in addition to HIP, named as in `stack fetch --with`.
    pub groups: Vec<String>,
    /// Value of each axis of the matrix, by the name of the axis.
    pub parameters: BTreeMap<String, String>,
    /// Requirements on exit status and output, in addition to the program's own checks.
    pub stated: ProgramExpectations,
    /// Line of the case file at which the program is defined.
    pub line: u32,
}

/// Kind of a program, with its source or command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramBody {
    /// A Python program.
    Python(Source),
    /// A C++ program, compiled with the compiler of the stack.
    Cpp {
        /// Source text.
        source: Source,
        /// Architectures to compile for; an empty list means the architecture of the device.
        arch: Vec<String>,
        /// Additional compiler options.
        options: Vec<String>,
    },
    /// An existing executable and its first arguments.
    Command(Vec<String>),
}

/// Source text of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The source text.
    pub text: String,
    /// File in the case's folder that contains the text; `None` if the case contains the text.
    pub file: Option<String>,
    /// Number of the line just above the first line of the text, in the case file.
    pub above: u32,
}

/// Python packages that a program needs, and where they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packages {
    /// The program needs no Python packages.
    #[default]
    None,
    /// The Python environment with this name.
    Environment(String),
    /// Any Python environment that contains these packages.
    These(Vec<String>),
}

/// Requirements on the exit status and output of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramExpectations {
    /// Required exit status; `None` means 0.
    pub exit: Option<i32>,
    /// Texts that the output must contain.
    pub says: Vec<String>,
    /// Texts that the output must not contain.
    pub never: Vec<String>,
}

impl Program {
    /// Returns true if the program reports its checks and its end through the helper `rocrepro`, a Python module or C++
    /// header.
    pub fn reports(&self) -> bool {
        self.source().is_some_and(|source| source.text.contains("rocrepro"))
    }

    /// Returns the source text; `None` if the program is a command.
    pub fn source(&self) -> Option<&Source> {
        match &self.what {
            ProgramBody::Python(source) | ProgramBody::Cpp { source, .. } => Some(source),
            ProgramBody::Command(_) => None,
        }
    }

    /// Returns a copy of the program without line numbers, so that equal programs in different lines of a case compare
    /// equal.
    #[must_use]
    pub fn without_places(&self) -> Program {
        let mut program = Program { line: 0, ..self.clone() };
        if let ProgramBody::Python(source) | ProgramBody::Cpp { source, .. } = &mut program.what {
            source.above = 0;
        }
        program
    }

    /// Returns the key of the program in a case file: `python`, `cpp` or `command`.
    pub fn kind(&self) -> &'static str {
        match self.what {
            ProgramBody::Python(_) => "python",
            ProgramBody::Cpp { .. } => "cpp",
            ProgramBody::Command(_) => "command",
        }
    }
}

impl ProgramExpectations {
    /// Returns true if the case requires nothing of the exit status and the output.
    pub fn is_empty(&self) -> bool {
        *self == ProgramExpectations::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(what: ProgramBody, line: u32) -> Program {
        Program {
            what,
            arguments: Vec::new(),
            packages: Packages::None,
            groups: Vec::new(),
            parameters: Default::default(),
            stated: ProgramExpectations::default(),
            line,
        }
    }

    fn python(text: &str, above: u32) -> ProgramBody {
        ProgramBody::Python(Source { text: text.to_owned(), file: None, above })
    }

    #[test]
    fn without_places_ignores_line_numbers() {
        let at = |line, above| program(python("pass", above), line);
        assert_ne!(at(5, 6), at(7, 8));
        assert_eq!(at(5, 6).without_places(), at(7, 8).without_places());
        assert_eq!(at(5, 6).without_places(), at(0, 0));
    }

    #[test]
    fn default_expectations_are_empty() {
        assert!(ProgramExpectations::default().is_empty());
        assert!(
            !ProgramExpectations {
                says: vec!["ready".to_owned()],
                ..ProgramExpectations::default()
            }
            .is_empty()
        );
    }

    #[test]
    fn programs_with_the_helper_report() {
        assert!(program(python("import rocrepro", 0), 1).reports());
        assert!(!program(python("pass", 0), 1).reports());
        assert!(!program(ProgramBody::Command(vec!["rocrepro".to_owned()]), 1).reports());
    }
}
