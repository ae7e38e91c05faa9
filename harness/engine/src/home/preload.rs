//! Makes the dynamic loader load the emulated device's library before all other libraries of a program and its
//! children.
//!
//! Python wheels of frameworks contain their own libhsa-runtime64, and their libraries search their own folder first
//! (`DT_RPATH` or `DT_RUNPATH` with `$ORIGIN`), so a library path does not suffice. However, the dynamic loader does
//! not search for a library whose `DT_SONAME` is already loaded. The emulated device's library has the soname
//! `libhsa-runtime64.so.1`, which packages of AMD, Debian and TheRock need. An empty library that depends on it has the
//! soname `libhsa-runtime64.so`, which PyTorch's wheels need. With both loaded, the copy in a wheel is never mapped.
//!
//! In a view of the file system, `/etc/ld.so.preload` names both libraries, see ld.so(8), and a user's `LD_PRELOAD`
//! cannot override it. Without a view, `LD_PRELOAD` is used.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use hsa_runtime64::install::FILE_NAME;
use supervise::{View, ViewEntry};

use super::{Home, LIBRARIES, cached_file, stub_library::StubLibrary};

const LIST: &str = "ld.so.preload";

const FOLDER: &str = "/etc";

/// Folder of the preloaded libraries below [`FOLDER`]. Its name has no space and no colon, which separate entries in a
/// list of libraries.
const INSIDE: &str = "rocrepro";

/// The HSA runtime under the name that PyTorch's wheels need.
const UNVERSIONED: StubLibrary = StubLibrary {
    soname: "libhsa-runtime64.so",
    version: Some("ROCR_1"),
    needs: Some(FILE_NAME),
    functions: &[],
    texts: &[],
};

/// Allows programs to start that were compiled with GCC's address sanitizer, which by default rejects libraries that
/// are loaded before its own.
///
/// See `AsanCheckDynamicRTPrereqs` and the flag `verify_asan_link_order` in compiler-rt/lib/asan of LLVM.
pub(crate) fn allow_preloading(environment: &mut BTreeMap<OsString, OsString>) {
    let options = environment.entry("ASAN_OPTIONS".into()).or_default();
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
}

impl Home<'_> {
    /// Makes a view preload the emulated device's library, before the libraries that the machine itself preloads.
    pub(super) fn preload(&self, view: &mut View) -> Result<(), String> {
        let Some(device) = self.device else { return Ok(()) };
        let mut link = |name: &str, target: PathBuf| {
            view.made.insert(format!("etc/{INSIDE}/{name}").into(), ViewEntry::Link(target));
            format!("{FOLDER}/{INSIDE}/{name}")
        };
        let unversioned = link(UNVERSIONED.soname, self.unversioned()?);
        // If two paths lead to one library, the dynamic loader must not treat them as two libraries. Therefore the
        // entry uses the path under which programs find the library.
        let device = match self.stack.loader {
            Some(_) => format!("{LIBRARIES}/{FILE_NAME}"),
            None => link(FILE_NAME, device.join(FILE_NAME)),
        };
        let machine = fs::read_to_string(Path::new(FOLDER).join(LIST)).unwrap_or_default();
        let list = format!("{device}\n{unversioned}\n{machine}");
        view.made.insert(format!("etc/{LIST}").into(), ViewEntry::Text(list));
        self.show(view, "etc", Path::new(FOLDER));
        Ok(())
    }

    pub(super) fn preloaded_by_variable(&self) -> Result<Vec<OsString>, String> {
        let Some(device) = self.device else { return Ok(Vec::new()) };
        let device = device.join(FILE_NAME);
        let all = [(device, FILE_NAME), (self.unversioned()?, UNVERSIONED.soname)];
        // An entry of LD_PRELOAD cannot contain a space. For a path with a space only the file name is used, and the
        // loader finds the library on the library path.
        let word = |(path, name): (PathBuf, &str)| match path.to_string_lossy().contains(' ') {
            true => (name == FILE_NAME).then(|| name.into()),
            false => Some(path.into()),
        };
        Ok(all.into_iter().filter_map(word).collect())
    }

    /// Returns the path of the library [`UNVERSIONED`]. Its file name differs from that of an HSA runtime, because the
    /// library does not contain one.
    fn unversioned(&self) -> Result<PathBuf, String> {
        let library = UNVERSIONED.library().map_err(|error| error.to_string())?;
        cached_file(self.cache, "stubs", "hsa-by-its-short-name.so", &library)
    }
}
