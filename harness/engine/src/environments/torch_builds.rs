//! Known sources of PyTorch builds for ROCm.

use std::str::FromStr;

use super::PackageSources;

/// A source of PyTorch builds for ROCm: an index, and the package to install from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TorchBuilds {
    /// Releases of PyTorch, whose wheels contain this release of ROCm. Source: <https://pytorch.org/get-started/locally/>
    Release(String),
    /// Nightly builds of PyTorch, whose wheels contain this release of ROCm.
    Nightly(String),
    /// Nightly builds of TheRock for this architecture: a host package, device packages, and ROCm as packages of its
    /// own. Source: <https://github.com/ROCm/TheRock/issues/5954>, the comment of 2026-06-18.
    TheRock(String),
}

/// The text is not the name of a known source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a known source of PyTorch; known are rocmX.Y, such as rocm7.2 (releases of PyTorch), nightly-rocmX.Y (its \
     nightly builds) and therock-ARCHITECTURE, such as therock-gfx1151 (AMD's nightly builds)"
)]
pub struct UnknownTorchBuilds(String);

impl FromStr for TorchBuilds {
    type Err = UnknownTorchBuilds;

    fn from_str(text: &str) -> Result<TorchBuilds, UnknownTorchBuilds> {
        let unknown = || UnknownTorchBuilds(text.to_owned());
        let rocm = |text: &str| {
            let number = text.strip_prefix("rocm").and_then(|number| number.split_once('.'));
            let is_number =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            match number {
                Some((major, minor)) if is_number(major) && minor.split('.').all(is_number) => {
                    Ok(format!("{major}.{minor}"))
                }
                _ => Err(unknown()),
            }
        };
        if let Some(gfx) = text.strip_prefix("therock-") {
            let is_plain =
                gfx.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            return match gfx.starts_with("gfx") && is_plain {
                true => Ok(TorchBuilds::TheRock(gfx.to_owned())),
                false => Err(unknown()),
            };
        }
        match text.strip_prefix("nightly-") {
            Some(release) => rocm(release).map(TorchBuilds::Nightly),
            None => rocm(text).map(TorchBuilds::Release),
        }
    }
}

impl TorchBuilds {
    /// Returns the index and, for nightly builds, the permission to install development versions.
    pub fn sources(&self) -> PackageSources {
        let (index, pre) = match self {
            TorchBuilds::Release(rocm) => {
                (format!("https://download.pytorch.org/whl/rocm{rocm}"), false)
            }
            TorchBuilds::Nightly(rocm) => {
                (format!("https://download.pytorch.org/whl/nightly/rocm{rocm}"), true)
            }
            TorchBuilds::TheRock(_) => {
                ("https://rocm.nightlies.amd.com/whl-multi-arch/".to_owned(), true)
            }
        };
        PackageSources { index_url: Some(index), pre, ..PackageSources::default() }
    }

    /// Returns the requested packages with what this source needs: torch if no version of it is requested, and the
    /// device packages of the architecture.
    pub fn packages(&self, requested: &[String]) -> Vec<String> {
        let is_torch =
            |package: &String| torch_version(package).is_some() || package.starts_with("torch[");
        let mut packages = requested.to_vec();
        if !packages.iter().any(is_torch) {
            packages.insert(0, "torch".to_owned());
        }
        let TorchBuilds::TheRock(gfx) = self else { return packages };
        let with_device = |package: String| match torch_version(&package) {
            Some(version) => format!("torch[device-{gfx}]{version}"),
            None => package,
        };
        packages.into_iter().map(with_device).collect()
    }
}

/// Returns the version part of a requirement for torch, such as `==2.9.1`; `None` for other packages.
fn torch_version(package: &str) -> Option<&str> {
    let rest = package.trim().strip_prefix("torch")?;
    (rest.is_empty() || rest.starts_with(['=', '<', '>', '~', '!', ' '])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_its_index_and_packages() {
        let check = |text: &str, index: &str, pre: bool, requested: &[&str], packages: &[&str]| {
            let builds: TorchBuilds = text.parse().expect(text);
            let sources = builds.sources();
            assert_eq!((sources.index_url.as_deref(), sources.pre), (Some(index), pre), "{text}");
            let requested: Vec<String> = requested.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(builds.packages(&requested), packages, "{text}");
        };
        let release = "https://download.pytorch.org/whl/rocm7.2";
        check("rocm7.2", release, false, &[], &["torch"]);
        check("rocm7.2", release, false, &["torch==2.11.0", "numpy"], &["torch==2.11.0", "numpy"]);
        check("rocm7.2", release, false, &["torchvision"], &["torch", "torchvision"]);
        let nightly = "https://download.pytorch.org/whl/nightly/rocm7.2";
        check("nightly-rocm7.2", nightly, true, &["torch"], &["torch"]);
        let therock = "https://rocm.nightlies.amd.com/whl-multi-arch/";
        check("therock-gfx1151", therock, true, &[], &["torch[device-gfx1151]"]);
        check(
            "therock-gfx1151",
            therock,
            true,
            &["torch==2.13.0"],
            &["torch[device-gfx1151]==2.13.0"],
        );
        check(
            "therock-gfx1151",
            therock,
            true,
            &["torch[device-all]", "torchaudio"],
            &["torch[device-all]", "torchaudio"],
        );
    }

    #[test]
    fn unknown_sources_are_refused() {
        for text in [
            "",
            "cu130",
            "rocm",
            "rocm7",
            "nightly",
            "nightly-cpu",
            "therock",
            "therock-",
            "therock-gfx1151/..",
        ] {
            let error = text.parse::<TorchBuilds>().expect_err(text).to_string();
            assert!(error.contains("rocm7.2") && error.contains("therock-gfx1151"), "{error}");
        }
    }
}
