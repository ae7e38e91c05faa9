//! Makes a program record its HIP calls.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use flate2::read::ZlibDecoder;
use recorder::{FILE_NAME, FOLDER_VARIABLE};
use supervise::Start;

use crate::{Session, Stop, home};

/// Digest, length in bytes and compressed content of the library that records.
const BUILT: (&str, usize, &[u8]) = embed::file!("ROCREPRO_BUILT_RECORDER");

/// Variable that names the libraries that the dynamic loader asks about bindings, see rtld-audit(7).
const AUDIT: &str = "LD_AUDIT";

/// Makes a program and its children write their HIP calls into a folder, which must exist.
///
/// # Errors
/// Returns an error if the library cannot be written, or if the dynamic loader cannot load it from the cache folder.
pub fn record(start: &mut Start, session: &Session, folder: &Path) -> Result<(), Stop> {
    let stop = |why: String| Stop::no_verdict(format!("error: cannot record calls: {why}"));
    let library = library(&session.folders.cache).map_err(stop)?;
    // ld.so(8): colons separate the libraries of the list and cannot be escaped.
    if library.to_string_lossy().contains(':') {
        let why = format!(
            "the dynamic loader cannot load `{}`, because its path contains a colon",
            library.display()
        );
        return Err(stop(format!("{why}\nhint: choose another cache folder with XDG_CACHE_HOME")));
    }
    let mut libraries = library.into_os_string();
    if let Some(given) = start.environment.get(AUDIT.as_ref() as &std::ffi::OsStr) {
        libraries.push(":");
        libraries.push(given);
    }
    let folder = std::path::absolute(folder).map_err(|error| stop(error.to_string()))?;
    start.environment.insert(AUDIT.into(), libraries);
    start.environment.insert(FOLDER_VARIABLE.into(), folder.into());
    Ok(())
}

fn library(cache: &Path) -> Result<PathBuf, String> {
    let (_, length, packed) = BUILT;
    let mut library = Vec::with_capacity(length);
    ZlibDecoder::new(packed).read_to_end(&mut library).map_err(|error| error.to_string())?;
    home::cached_file(cache, "recorder", FILE_NAME, &library)
}

/// Creates the folder of a recording.
///
/// # Errors
/// Returns an error if the folder has files, or cannot be created.
pub fn create_folder(folder: &Path) -> Result<(), Stop> {
    let is_used = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        let shown = folder.display();
        return Err(Stop::usage(format!(
            "error: `{shown}` is not empty\nhint: name another folder with --out"
        )));
    }
    let made = fs::create_dir_all(folder);
    made.map_err(|error: io::Error| {
        Stop::no_verdict(format!("error: cannot create `{}`: {error}", folder.display()))
    })
}
