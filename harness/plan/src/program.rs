//! A body that is a program of its own instead of calls that a worker makes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A trial whose body is a program of its own instead of calls that a worker makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// What is started.
    pub what: ProgramBody,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The Python packages that it imports.
    pub packages: Packages,
    /// What stacks must have besides HIP, by the names of `rocm fetch --with`.
    pub groups: Vec<String>,
    /// The trial's values, by axis.
    pub parameters: BTreeMap<String, String>,
    /// What must be true of its end besides what it checks itself.
    pub stated: ProgramExpectations,
    /// Line of the case where it stands.
    pub line: u32,
}

/// What a program is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramBody {
    /// A Python program.
    Python(Source),
    /// A C++ program, compiled with the stack's compiler.
    Cpp {
        /// Its text.
        source: Source,
        /// Architectures to compile for; empty for that of the device.
        arch: Vec<String>,
        /// More options of the compiler.
        options: Vec<String>,
    },
    /// A program that is there, with its first arguments.
    Command(Vec<String>),
}

/// The text of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The text.
    pub text: String,
    /// The file beside the case; none where it stands in the case.
    pub file: Option<String>,
    /// Where it stands in the case: the line of the case before its first one.
    pub above: u32,
}

/// Where a program has Python packages from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packages {
    /// It imports none.
    #[default]
    None,
    /// From the environment of this name.
    Environment(String),
    /// From any environment that has these.
    These(Vec<String>),
}

/// What must be true of a program's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramExpectations {
    /// Its exit status; 0 where nothing is said.
    pub exit: Option<i32>,
    /// Texts that its output must have.
    pub says: Vec<String>,
    /// Texts that its output may not have.
    pub never: Vec<String>,
}

impl Program {
    /// Whether it says itself what it checks, and that it came to its end.
    pub fn reports(&self) -> bool {
        self.source().is_some_and(|source| source.text.contains("rocrepro"))
    }

    /// Its text, where it is not a command.
    pub fn source(&self) -> Option<&Source> {
        match &self.what {
            ProgramBody::Python(source) | ProgramBody::Cpp { source, .. } => Some(source),
            ProgramBody::Command(_) => None,
        }
    }

    /// The same, wherever it stands in the file of its case.
    #[must_use]
    pub fn without_places(&self) -> Program {
        let mut program = Program { line: 0, ..self.clone() };
        if let ProgramBody::Python(source) | ProgramBody::Cpp { source, .. } = &mut program.what {
            source.above = 0;
        }
        program
    }

    /// The word for what it is.
    pub fn kind(&self) -> &'static str {
        match self.what {
            ProgramBody::Python(_) => "python",
            ProgramBody::Cpp { .. } => "cpp",
            ProgramBody::Command(_) => "command",
        }
    }
}

impl ProgramExpectations {
    /// Whether nothing is stated.
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
    fn a_program_is_the_same_wherever_it_stands() {
        let at = |line, above| program(python("pass", above), line);
        assert_ne!(at(5, 6), at(7, 8));
        assert_eq!(at(5, 6).without_places(), at(7, 8).without_places());
        assert_eq!(at(5, 6).without_places(), at(0, 0));
    }

    #[test]
    fn what_states_nothing_is_empty() {
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
    fn a_program_that_has_the_helper_reports() {
        assert!(program(python("import rocrepro", 0), 1).reports());
        assert!(!program(python("pass", 0), 1).reports());
        assert!(!program(ProgramBody::Command(vec!["rocrepro".to_owned()]), 1).reports());
    }
}
