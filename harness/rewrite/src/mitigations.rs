//! Mitigations: environment variables and changed calls that may make a failure disappear.

mod calls;

use serde::Deserialize;

pub use calls::{Rewrite, rewrites};

/// The file that lists the environment variables to try.
const VARIABLES: &str = include_str!("../../../cases/mitigations.toml");

/// An environment variable that has made failures disappear.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Values to try. If the list is empty, rocrepro never tries the variable, and only mentions it in its reports.
    pub values: Vec<String>,
    /// Component that reads the variable.
    pub read_by: Reader,
    /// Releases of the library, or versions of the framework, in which the variable was found.
    #[serde(rename = "in")]
    pub releases: Vec<String>,
    /// Effect of the variable, in one or two sentences.
    pub meaning: String,
    /// Component that is suspect if the variable helps.
    pub component: String,
}

/// Component that reads an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reader {
    /// The HIP runtime, libamdhip64.
    Hip,
    /// The HSA runtime: libhsa-runtime64, or libhsakmt below it.
    Hsa,
    /// hipBLASLt (libhipblaslt).
    Hipblaslt,
    /// PyTorch.
    Torch,
    /// CuPy.
    Cupy,
    /// JAX, or XLA below it.
    Jax,
    /// Triton.
    Triton,
}

impl Reader {
    /// Returns the name of the framework that reads the variable, and the beginning of the names of its packages on
    /// PyPI. Returns `None` for ROCm libraries.
    pub fn framework(self) -> Option<(&'static str, &'static str)> {
        match self {
            Reader::Hip | Reader::Hsa | Reader::Hipblaslt => None,
            Reader::Torch => Some(("PyTorch", "torch")),
            Reader::Cupy => Some(("CuPy", "cupy")),
            Reader::Jax => Some(("JAX", "jax")),
            Reader::Triton => Some(("Triton", "triton")),
        }
    }
}

impl Variable {
    /// Returns a text with the releases in which the variable was found, for example `found in 5.7.1, 6.4.3`; `None` if
    /// no releases are listed.
    pub fn since(&self) -> Option<String> {
        let first = self.releases.first()?;
        Some(format!(
            "found in {}{}",
            first,
            match self.releases.len() {
                1 => String::new(),
                _ => format!(", {}", self.releases[1..].join(", ")),
            }
        ))
    }
}

/// Returns all environment variables to try, in order.
///
/// # Errors
/// Returns a message if `cases/mitigations.toml` is malformed. A test of this crate checks that the file is
/// well-formed.
pub fn variables() -> Result<Vec<Variable>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        variable: Vec<Variable>,
    }
    toml::from_str::<File>(VARIABLES)
        .map(|file| file.variable)
        .map_err(|error| format!("cases/mitigations.toml: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mitigations_file_is_consistent() {
        let variables = variables().unwrap();
        let mut names: Vec<_> = variables.iter().map(|v| v.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), variables.len(), "a variable twice");
        for v in &variables {
            assert!(v.meaning.ends_with('.') && !v.component.ends_with('.'), "{}", v.name);
            assert_eq!(v.since().is_none(), v.read_by == Reader::Torch, "{}", v.name);
        }
        for name in ["HSA_ENABLE_SDMA", "HIP_LAUNCH_BLOCKING", "TORCH_BLAS_PREFER_HIPBLASLT"] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
