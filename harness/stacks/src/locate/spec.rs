use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::spelling::{known_releases, spellings_in_one_line};
use crate::{Release, SpecError};

/// Name of a stack, as the user writes it: `system`, `debian:7.2.4`, `debian:latest`, or the path of a directory.
#[derive(Clone, Debug)]
pub enum Spec {
    /// The ROCm that is installed on this machine.
    System,
    /// A directory that contains a ROCm user space.
    Directory(PathBuf),
    /// A release that Debian packages.
    Debian(&'static Release),
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text == "system" {
            return Ok(Self::System);
        }
        if let Some(version) = text.strip_prefix("debian:") {
            if version == "latest" {
                return Ok(Self::Debian(Release::latest()));
            }
            return version
                .parse()
                .ok()
                .and_then(|version| Release::find(&version))
                .map(Self::Debian)
                .ok_or_else(|| SpecError::UnknownRelease {
                    wanted: text.into(),
                    known: known_releases(),
                });
        }
        if text.contains('/') || (!text.is_empty() && Path::new(text).is_dir()) {
            return Ok(Self::Directory(text.into()));
        }
        Err(SpecError::Unknown { spec: text.into(), known: spellings_in_one_line() })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Debian(release) => write!(f, "{release}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::in_full;

    #[test]
    fn parses_names_of_stacks() {
        let check = |text: &str, expected: &str| {
            let got = match text.parse::<Spec>() {
                Ok(Spec::Directory(path)) => format!("directory {}", path.display()),
                Ok(spec) => spec.to_string(),
                Err(error) => format!("error {error}"),
            };
            assert!(got.starts_with(expected), "{text:?} gave {got:?}, not {expected:?}");
        };
        check("system", "system");
        check("debian:7.2.4", "debian:7.2.4");
        check("debian:latest", "debian:7.2.4");
        check("/opt/rocm", "directory /opt/rocm");
        check("./roots", "directory ./roots");
        check("src", "directory src");
        check("debian:7.9.9", "error debian:7.9.9 is not a known stack");
        check("debian:", "error debian: is not a known stack");
        check("debain:7.2.4", "error \"debain:7.2.4\" is not a stack");
        check("7.2.4", "error \"7.2.4\" is not a stack");
        check("", "error \"\" is not a stack");
    }

    #[test]
    fn errors_list_what_is_possible() {
        for text in ["debian:9", "nonsense"] {
            let error = in_full(&text.parse::<Spec>().unwrap_err());
            for possible in ["debian:5.2.3", "debian:7.2.4", "debian:latest"] {
                assert!(error.contains(possible), "{error}");
            }
        }
    }
}
