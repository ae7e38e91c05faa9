//! The kinds of axes along which a search runs.

/// Kind of the points at which a search runs its subject.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisKind {
    /// Builds in the history of a download source.
    Builds,
    /// Stacks that the user lists.
    Stacks,
    /// Values of the environment variable with this name.
    Environment(String),
    /// Values of the axis with this name in the case's matrix. If the subject is a command line, the user chooses the
    /// name, and the variable `ROCREPRO_VALUE` contains the value.
    Parameter(String),
    /// Versions of a Python package, each in a Python environment of its own.
    Package {
        /// Name of the package.
        name: String,
        /// Further packages that each environment contains.
        beside: Vec<String>,
    },
}

/// Name of the axis whose values are folders of Python virtual environments. At each point, the command runs in one of
/// them, as under `rocrepro exec`.
const VENV: &str = "venv";

impl AxisKind {
    /// Returns true if a command line runs on the device, as under `rocrepro exec`, even without `--program`. This is
    /// so if each point has a Python environment of its own.
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
