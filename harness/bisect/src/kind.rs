//! The kinds of axes.

/// The kind of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisKind {
    /// Builds of a history.
    Builds,
    /// Stacks that a user names.
    Stacks,
    /// A variable of the trials' environment.
    Environment(String),
    /// An axis of the case's matrix, or a name of the user for a command.
    Parameter(String),
    /// Versions of a Python package, each in an environment of its own.
    Package {
        /// The package.
        name: String,
        /// Further packages of each environment.
        beside: Vec<String>,
    },
}

/// Axis whose values are folders of virtual environments. A command runs in each as under `rocrepro exec`.
const VENV: &str = "venv";

impl AxisKind {
    /// Returns true if commands run as under `rocrepro exec` even without `--program`.
    pub fn runs_on_device(&self) -> bool {
        self.is_venv() || matches!(self, AxisKind::Package { .. })
    }

    pub(crate) fn is_venv(&self) -> bool {
        matches!(self, AxisKind::Parameter(name) if name == VENV)
    }

    pub(crate) fn package(name: &str) -> AxisKind {
        AxisKind::Package { name: name.to_owned(), beside: Vec::new() }
    }
}
