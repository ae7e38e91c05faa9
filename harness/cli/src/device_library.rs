//! The emulated device's library file, found and installed under the name that HIP looks for.

use std::path::{Path, PathBuf};

use crate::Stop;

/// The file that cargo builds.
const BUILT: &str = "libhsa_runtime64.so";

/// Installs the device library below the cache folder and returns the folder that holds it as `libhsa-runtime64.so.1`.
pub(crate) fn install(cache: &Path) -> Result<PathBuf, Stop> {
    let source = find()?;
    emulator::install(&source, &cache.join("device")).map_err(|e| {
        Stop::no_verdict(format!("error: cannot install the emulated device: {}", crate::stop::chain(&e)))
    })
}

/// Looks beside this program, where cargo puts the library (`target/<profile>` for the command, `deps` for its
/// tests), and where a package does (`../lib/rocrepro`).
fn find() -> Result<PathBuf, Stop> {
    if let Some(path) = std::env::var_os("ROCREPRO_DEVICE_LIBRARY") {
        return Ok(PathBuf::from(path));
    }
    let program = std::env::current_exe()
        .map_err(|e| Stop::no_verdict(format!("error: cannot find this program's own file: {e}")))?;
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
