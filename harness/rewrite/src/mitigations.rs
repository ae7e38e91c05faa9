//! Changes that may make a failure go away: variables of the environment, and other calls.

mod calls;

use serde::Deserialize;

pub use calls::{Rewrite, rewrites};

/// The variables, as `cases/mitigations.toml` has them.
const VARIABLES: &str = include_str!("../../../cases/mitigations.toml");

/// A variable that has made failures go away.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Values worth trying; none for one that is only told about.
    pub values: Vec<String>,
    /// Who reads it.
    pub read_by: Reader,
    /// Releases whose libraries, or versions of the framework that, were seen to have it.
    #[serde(rename = "in")]
    pub releases: Vec<String>,
    /// What it changes, in one or two sentences.
    pub meaning: String,
    /// The component that it points to when it helps.
    pub component: String,
}

/// Who reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reader {
    /// libamdhip64.
    Hip,
    /// libhsa-runtime64, or libhsakmt below it.
    Hsa,
    /// libhipblaslt.
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
    /// A framework: its name in prose, and how the names of its packages on PyPI begin.
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
    /// The releases in words: `5.7.1 and later`, or a list where it came and went; none where it was not looked for.
    pub fn since(&self) -> Option<String> {
        let first = self.releases.first()?;
        Some(format!(
            "seen in {}{}",
            first,
            match self.releases.len() {
                1 => String::new(),
                _ => format!(", {}", self.releases[1..].join(", ")),
            }
        ))
    }
}

/// All variables, in the order in which they are worth trying.
///
/// # Errors
/// A mistake in the file, which a test of this crate rules out.
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
    fn the_file_is_in_order() {
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
