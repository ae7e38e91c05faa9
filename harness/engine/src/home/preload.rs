//! Loads the emulated device before all other libraries of a program and its children.
//!
//! Wheels of frameworks bring their own libamdhip64 and libhsa-runtime64, and name their own folder as the first to be searched
//! (`DT_RPATH` or `DT_RUNPATH` with `$ORIGIN`), so a device that is only the first by path is never loaded. A library that is
//! loaded already is not searched for: the loader compares the names that a program needs with the `DT_SONAME` of each loaded
//! library. The device has the name `libhsa-runtime64.so.1`, which packages of AMD, of Debian and of TheRock need, and an empty
//! library that depends on the device has `libhsa-runtime64.so`, which PyTorch's wheels need. So the copy of a wheel is not mapped
//! at all, and a function that only the copy has does not bind to it.
//!
//! In a view the file `/etc/ld.so.preload` names both (see ld.so(8)): no `LD_PRELOAD` of a user, a script or a child takes its
//! place, and the environment of the program stays as it was. Without a view it is `LD_PRELOAD`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use hsa_runtime64::install::FILE_NAME;
use supervise::{Made, View};

use super::{Home, LIBRARIES, kept, stand_in::StandIn};

/// The list of the loader.
const LIST: &str = "ld.so.preload";

/// The folder of the machine that holds the list.
const FOLDER: &str = "/etc";

/// The folder in a view, below [`FOLDER`], that holds what is preloaded. Its path has neither a space nor a colon, which separate the
/// words of the list.
const INSIDE: &str = "rocrepro";

/// The name of the HSA runtime by which PyTorch's wheels need it.
const UNVERSIONED: StandIn = StandIn {
    soname: "libhsa-runtime64.so",
    version: Some("ROCR_1"),
    needs: Some(FILE_NAME),
    functions: &[],
    texts: &[],
};

/// Lets programs start that were compiled with the address sanitizer of GCC, which otherwise refuses every library that is loaded
/// before its own. The device replaces no function that the sanitizer intercepts.
///
/// Source: `AsanCheckDynamicRTPrereqs` and the flag `verify_asan_link_order` in compiler-rt/lib/asan of LLVM.
pub(crate) fn allow_preloading(environment: &mut BTreeMap<OsString, OsString>) {
    let options = environment.entry("ASAN_OPTIONS".into()).or_default();
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
}

impl Home<'_> {
    /// Makes the view preload the device, in front of what the machine preloads itself.
    pub(super) fn preload(&self, view: &mut View) -> Result<(), String> {
        let Some(device) = self.device else { return Ok(()) };
        let mut link = |name: &str, target: PathBuf| {
            view.made.insert(format!("etc/{INSIDE}/{name}").into(), Made::Link(target));
            format!("{FOLDER}/{INSIDE}/{name}")
        };
        let unversioned = link(UNVERSIONED.soname, self.unversioned()?);
        // The loader takes a file by two paths for two, unless it is the same inode: the device is named as programs find it.
        let device = match self.stack.loader {
            Some(_) => format!("{LIBRARIES}/{FILE_NAME}"),
            None => link(FILE_NAME, device.join(FILE_NAME)),
        };
        let machine = fs::read_to_string(Path::new(FOLDER).join(LIST)).unwrap_or_default();
        let list = format!("{device}\n{unversioned}\n{machine}");
        view.made.insert(format!("etc/{LIST}").into(), Made::Text(list));
        self.show(view, "etc", Path::new(FOLDER));
        Ok(())
    }

    /// Returns the entries of `LD_PRELOAD` for a program without a view.
    pub(super) fn preloaded_by_variable(&self) -> Result<Vec<OsString>, String> {
        let Some(device) = self.device else { return Ok(Vec::new()) };
        let device = device.join(FILE_NAME);
        let all = [(device, FILE_NAME), (self.unversioned()?, UNVERSIONED.soname)];
        // A path with a space cannot be written there. By its name the loader finds the device where it finds it for HIP.
        let word = |(path, name): (PathBuf, &str)| match path.to_string_lossy().contains(' ') {
            true => (name == FILE_NAME).then(|| name.into()),
            false => Some(path.into()),
        };
        Ok(all.into_iter().filter_map(word).collect())
    }

    /// The file of [`UNVERSIONED`]. Its name is not that of an HSA runtime, which it is not.
    fn unversioned(&self) -> Result<PathBuf, String> {
        let library = UNVERSIONED.library().map_err(|error| error.to_string())?;
        kept(self.cache, "stand-ins", "hsa-by-its-short-name.so", &library)
    }
}
