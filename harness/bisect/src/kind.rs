//! The kinds of axes.

/// What the name of an axis means.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisKind {
    /// Builds of a history.
    Builds,
    /// Stacks that a user names.
    Stacks,
    /// A variable of the trials' environment.
    Environment(String),
    /// An axis of the case's matrix, or whatever a command makes of it.
    Parameter(String),
    /// Versions of a Python package, each in an environment with these beside it.
    Package {
        /// The package.
        name: String,
        /// Further packages of each environment.
        beside: Vec<String>,
    },
}

/// The named axis whose values are folders of virtual environments. A command runs in each as under `rocrepro exec`.
const VENV: &str = "venv";

impl AxisKind {
    /// Returns whether a command runs in the stack and on the device, as under `rocrepro exec`, without being named as a program.
    pub fn runs_on_device(&self) -> bool {
        self.is_venv() || matches!(self, AxisKind::Package { .. })
    }

    /// Returns whether the points are folders of virtual environments.
    pub(crate) fn is_venv(&self) -> bool {
        matches!(self, AxisKind::Parameter(name) if name == VENV)
    }

    pub(crate) fn package(name: &str) -> AxisKind {
        AxisKind::Package { name: name.to_owned(), beside: Vec::new() }
    }
}
