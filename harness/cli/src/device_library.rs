//! The emulated device's library file, found and installed under the name that HIP looks for.

use std::path::{Path, PathBuf};

use crate::{Stop, stop::chain};

/// The file that cargo builds.
const BUILT: &str = "libhsa_runtime64.so";

/// Installs the device library below the cache folder and returns the folder that holds it as
/// `libhsa-runtime64.so.1`. Each build of it has a folder of its own, so that nothing that runs is disturbed.
pub(crate) fn install(cache: &Path) -> Result<PathBuf, Stop> {
    let source = find()?;
    let failed = |e: &dyn std::error::Error| {
        Stop::no_verdict(format!("error: cannot install the emulated device: {}", chain(e)))
    };
    let build = build_of(&source).map_err(|e| failed(&e))?;
    let folder = cache.join("device").join(build);
    // ld.so(8): two of these characters separate the folders of a library path, one begins a name that is replaced, and there is
    // no escape.
    if folder.to_string_lossy().contains([':', ';', '$']) {
        return Err(Stop::usage(format!(
            "error: the dynamic loader cannot be told of `{}`, as its path has a colon, semicolon or dollar; name \
             another cache in XDG_CACHE_HOME",
            folder.display()
        )));
    }
    if !folder.join(hsa_runtime64::install::FILE_NAME).is_file() {
        hsa_runtime64::install::install(&source, &folder).map_err(|e| failed(&e))?;
    }
    Ok(folder)
}

/// A name for one build of the library: reading 40 MB at every start to digest them would cost more than a trial.
fn build_of(source: &Path) -> std::io::Result<String> {
    let data = source.metadata()?;
    let changed =
        data.modified()?.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let identity = format!("{}\n{}\n{changed}", source.display(), data.len());
    Ok(plan::digest(identity.as_bytes()))
}

/// Looks beside this program, where cargo puts the library (`target/<profile>` for the command, `deps` for its
/// tests), and where a package does (`../lib/rocrepro`).
fn find() -> Result<PathBuf, Stop> {
    if let Some(path) = std::env::var_os("ROCREPRO_DEVICE_LIBRARY") {
        return Ok(PathBuf::from(path));
    }
    let program = std::env::current_exe().map_err(|e| {
        Stop::no_verdict(format!("error: cannot find this program's own file: {e}"))
    })?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = ["deps", ".", "../lib/rocrepro"].map(|place| folder.join(place).join(BUILT));
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|p| format!("  {}", p.display())).collect();
        Stop::no_verdict(format!(
            "error: the emulated device's library is missing; looked for\n{}\nrun `cargo build`, or name it in \
             ROCREPRO_DEVICE_LIBRARY",
            looked.join("\n")
        ))
    })
}
