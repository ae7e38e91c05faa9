//! Combines a good build with one component of a bad build, so that a run shows whether that component causes the
//! failure.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::share::{Shared, share};
use crate::{BuildStore, ObtainError, ObtainedBuild};

/// A part of ROCm that is built from its own source code, and whose files can be exchanged between builds if their ABIs
/// are compatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The HIP runtime and hipRTC, which are built from CLR.
    Hip,
    /// The HSA runtime, which is built from ROCr.
    Rocr,
    /// The compiler, comgr and the device libraries.
    Compiler,
    /// The math libraries and their kernels.
    Libraries,
}

impl Component {
    /// All components, from the libraries, which are used by programs, down to the HSA runtime.
    pub const ALL: [Self; 4] = [Self::Libraries, Self::Hip, Self::Compiler, Self::Rocr];

    /// Returns the component's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hip => "hip",
            Self::Rocr => "rocr",
            Self::Compiler => "compiler",
            Self::Libraries => "libraries",
        }
    }

    /// Returns the submodule of TheRock that contains the component's source code.
    pub fn submodule(self) -> &'static str {
        match self {
            Self::Hip | Self::Rocr => "rocm-systems",
            Self::Compiler => "amd-llvm",
            Self::Libraries => "rocm-libraries",
        }
    }

    /// Returns the beginnings of the component's file names.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Hip => &["libamdhip64.so", "libhiprtc.so", "libhiprtc-builtins.so"],
            Self::Rocr => &["libhsa-runtime64.so", "libhsa-amd-aqlprofile64.so", "libhsakmt.so"],
            Self::Compiler => &["libamd_comgr", "libLLVM", "libclang"],
            Self::Libraries => &[
                "librocblas.so",
                "libhipblas",
                "librocsolver.so",
                "libhipsolver.so",
                "librocsparse.so",
                "libhipsparse",
                "librocfft.so",
                "libhipfft.so",
                "librocrand.so",
                "libhiprand.so",
                "libMIOpen.so",
                "libhipdnn",
                "librocroller.so",
            ],
        }
    }

    /// Returns the names of folders whose files all belong to the component.
    fn folders(self) -> &'static [&'static str] {
        match self {
            Self::Hip | Self::Rocr => &[],
            Self::Compiler => &["llvm", "amdgcn"],
            Self::Libraries => {
                &["rocblas", "hipblaslt", "hipsparselt", "rocfft", "miopen", ".kpack"]
            }
        }
    }

    /// Returns true if a file belongs to the component. `path` is relative to the prefix of the build.
    pub fn owns(self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let inside = |folder: &&str| path.parent().is_some_and(|p| p.iter().any(|c| c == *folder));
        self.folders().iter().any(inside) || self.files().iter().any(|f| name.starts_with(f))
    }
}

impl BuildStore {
    /// Creates a build from the files of the good build, except that the files of one component come from the bad
    /// build.
    ///
    /// # Errors
    /// [`ObtainError::NotFound`] if one of the builds has no file of the component. The other errors are those of
    /// [`BuildStore::obtain`].
    pub fn cross(
        &self,
        good: &ObtainedBuild,
        bad: &ObtainedBuild,
        component: Component,
    ) -> Result<ObtainedBuild, ObtainError> {
        let id = format!("cross-{}-{}-{}", good.id, bad.id, component.name());
        self.assembled(&id, |prefix| {
            let left_out = take(&good.prefix, prefix, &|path| !component.owns(path))?.left;
            let brought = take(&bad.prefix, prefix, &|path| component.owns(path))?.taken;
            for (count, from) in [(left_out, good), (brought, bad)] {
                if count == 0 {
                    let url = format!("{} of {}", component.name(), from.id);
                    return Err(ObtainError::NotFound { url });
                }
            }
            Ok(())
        })
    }
}

/// Links the wanted files of the folder `from` into the folder `to`, and creates the wanted symbolic links.
fn take(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Shared, ObtainError> {
    let shared = share(from, to, wanted)?;
    for (path, target) in &shared.links {
        let at = to.join(path);
        symlink(target, &at).map_err(ObtainError::io("create", &at))?;
    }
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_submodule_of_each_component() {
        let submodules = Component::ALL.map(|component| component.submodule());
        assert_eq!(submodules, ["rocm-libraries", "rocm-systems", "amd-llvm", "rocm-systems"]);
        let names = Component::ALL.map(|component| component.name());
        assert_eq!(names, ["libraries", "hip", "compiler", "rocr"]);
    }

    #[test]
    fn files_have_one_owner() {
        let check = |path: &str, expected: Option<Component>| {
            let owners: Vec<_> =
                Component::ALL.into_iter().filter(|c| c.owns(Path::new(path))).collect();
            assert_eq!(owners, Vec::from_iter(expected), "{path}");
        };
        check("lib/libamdhip64.so.7.2", Some(Component::Hip));
        check("usr/lib/x86_64-linux-gnu/libhiprtc.so.7", Some(Component::Hip));
        check("_rocm_sdk_core/lib/libhsa-runtime64.so.1", Some(Component::Rocr));
        check("lib/llvm/bin/clang-22", Some(Component::Compiler));
        check("lib/libamd_comgr.so.3", Some(Component::Compiler));
        check("lib/rocblas/library/Kernels_gfx1151.co", Some(Component::Libraries));
        check(".kpack/blas_gfx1151.kpack", Some(Component::Libraries));
        check("lib/libhipblaslt.so.1", Some(Component::Libraries));
        check("lib/rocm_sysdeps/lib/libnuma.so", None);
        check(".info/version", None);
    }
}
