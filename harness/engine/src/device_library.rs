//! Unpacks the emulated device's library, which is embedded in the program. Its file name is the one that the HIP
//! runtime loads, or, for a device that replaces the thunk library, the one that the HSA runtime loads.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use device::Level;
use flate2::read::ZlibDecoder;
use hsa_runtime64::install::FILE_NAME;

use thiserror::Error;

use crate::{FailedOperation, FailureClass, Stop, cache, stop::chain};

/// Digest, length in bytes and compressed content of a library.
type Embedded = (&'static str, usize, &'static [u8]);

const BUILT: Embedded = embed::file!("ROCREPRO_BUILT_DEVICE");

/// The emulated device's library for `level=thunk`. It replaces the thunk library below a released HSA runtime.
const BUILT_THUNK: Embedded = embed::file!("ROCREPRO_BUILT_THUNK");

/// File name under which the HSA runtime loads the library for `level=thunk`.
const THUNK_NAME: &str = "libdtif.so";

fn built(level: Level) -> Embedded {
    match level {
        Level::Hsa => BUILT,
        Level::Thunk => BUILT_THUNK,
    }
}

/// Returns the file name of the emulated device's library: the name of the HSA runtime or of the thunk library,
/// depending on which of them it replaces.
pub(crate) fn name(level: Level) -> &'static str {
    match level {
        Level::Hsa => FILE_NAME,
        Level::Thunk => THUNK_NAME,
    }
}

fn decompress(level: Level) -> io::Result<Vec<u8>> {
    let (_, length, packed) = built(level);
    let mut library = Vec::with_capacity(length);
    ZlibDecoder::new(packed).read_to_end(&mut library)?;
    Ok(library)
}

/// Name of the file that contains the digest of the installed library.
const DIGEST: &str = "digest";

/// An error that prevents the installation of the emulated device's library.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceLibraryError {
    /// The dynamic loader cannot search the folder, because its path contains a special character.
    #[error(
        "the dynamic loader cannot search `{}`, because its path contains a colon, semicolon or dollar sign",
        folder.display()
    )]
    UnusablePath {
        /// The folder for the library.
        folder: PathBuf,
    },
    /// The library cannot be written to its folder.
    #[error("cannot install the emulated device in {}: {why}", folder.display())]
    NotInstalled {
        /// The folder for the library.
        folder: PathBuf,
        /// The cause.
        why: String,
        /// Advice for the user.
        hint: &'static str,
    },
    /// The library that ROCREPRO_DEVICE_LIBRARY names cannot be read.
    #[error("cannot read the library that ROCREPRO_DEVICE_LIBRARY names, {}: {why}", path.display())]
    Unreadable {
        /// Path of the library.
        path: PathBuf,
        /// The cause.
        why: String,
    },
}

impl FailedOperation for DeviceLibraryError {
    fn class(&self) -> FailureClass {
        match self {
            DeviceLibraryError::UnusablePath { .. } => FailureClass::Usage,
            _ => FailureClass::NoVerdict,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            DeviceLibraryError::UnusablePath { .. } => {
                Some("choose another cache with XDG_CACHE_HOME".to_owned())
            }
            DeviceLibraryError::NotInstalled { hint, .. } => Some((*hint).to_owned()),
            DeviceLibraryError::Unreadable { .. } => None,
        }
    }
}

/// Unpacks the library into the cache folder, unless an undamaged copy is already there, and returns the library's
/// folder. Each build of rocrepro uses another folder, so that running programs are not disturbed.
pub(crate) fn install(cache: &Path, level: Level) -> Result<PathBuf, DeviceLibraryError> {
    // The environment variable names a library that replaces the HSA runtime, so it does not apply to the level
    // `thunk`.
    let given = if level == Level::Hsa { user_library()? } else { None };
    let build = given.as_deref().map_or_else(|| built(level).0.to_owned(), plan::digest);
    let folder = cache.join("device").join(build);
    // ld.so(8): colon and semicolon separate folders, a dollar begins a substitution, and none of the three can be
    // escaped.
    if folder.to_string_lossy().contains([':', ';', '$']) {
        return Err(DeviceLibraryError::UnusablePath { folder });
    }
    if is_as_installed(&folder, level) {
        return Ok(folder);
    }
    let from_variable = given.is_some();
    let library = given.map_or_else(|| decompress(level), Ok).map_err(|e| e.to_string());
    let placed = library.and_then(|library| {
        let file = place(&library, &folder, level)?;
        let digest = plan::digest(&fs::read(file).map_err(|e| e.to_string())?);
        atomic::write(&folder.join(DIGEST), digest).map_err(|e| e.to_string())
    });
    placed.map_err(|why| {
        let what = match from_variable {
            true => "set ROCREPRO_DEVICE_LIBRARY to the library that cargo builds, libhsa_runtime64.so",
            false => "free space in this folder and make it writable, or choose another cache with XDG_CACHE_HOME",
        };
        DeviceLibraryError::NotInstalled { folder: folder.clone(), why, hint: what }
    })?;
    Ok(folder)
}

fn place(library: &[u8], folder: &Path, level: Level) -> Result<PathBuf, String> {
    match level {
        Level::Hsa => hsa_runtime64::install::install(library, folder).map_err(|e| chain(&e)),
        Level::Thunk => {
            let file = folder.join(THUNK_NAME);
            fs::create_dir_all(folder).map_err(|e| e.to_string())?;
            atomic::write(&file, library).map_err(|e| e.to_string())?;
            Ok(file)
        }
    }
}

pub(crate) fn build_id(folder: &Path, level: Level) -> Option<String> {
    stacks::build_id(&folder.join(name(level)))
}

/// Returns true if the folder contains an undamaged copy of the emulated device's library.
fn is_as_installed(folder: &Path, level: Level) -> bool {
    let regular = |name| {
        let file = folder.join(name);
        fs::metadata(&file).is_ok_and(|file| file.is_file()).then(|| fs::read(file).ok()).flatten()
    };
    regular(name(level))
        .zip(regular(DIGEST))
        .is_some_and(|(library, digest)| plan::digest(&library).as_bytes() == digest)
}

/// Returns the content of the library that the user named in place of the embedded one; `None` if the user named none.
fn user_library() -> Result<Option<Vec<u8>>, DeviceLibraryError> {
    let Some(path) = std::env::var_os("ROCREPRO_DEVICE_LIBRARY").filter(|path| !path.is_empty())
    else {
        return Ok(None);
    };
    let read = match fs::metadata(&path) {
        Ok(file) if !file.is_file() => Err("it is not a file".to_owned()),
        Ok(_) => fs::read(&path).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    read.map(Some).map_err(|why| DeviceLibraryError::Unreadable { path: path.into(), why })
}

/// Installs the emulated device's library in this user's cache folder, and returns its path.
pub fn file() -> Result<PathBuf, Stop> {
    Ok(install(&cache::folder()?, Level::Hsa)?.join(FILE_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_device_is_complete() {
        for level in Level::ALL.iter().copied() {
            let (digest, length, packed) = built(level);
            let library = decompress(level).unwrap();
            assert_eq!((library.len(), plan::digest(&library)), (length, digest.to_owned()));
            assert!(packed.len() < length / 2, "{} of {length}", packed.len());
            let folder = tempfile::tempdir().unwrap();
            place(&library, folder.path(), level).unwrap();
            assert!(build_id(folder.path(), level).is_some(), "{level}");
        }
    }

    #[test]
    fn reinstalls_damaged_libraries() {
        let cache = tempfile::tempdir().unwrap();
        let folder = install(cache.path(), Level::Hsa).unwrap_or_else(|stop| panic!("{stop:?}"));
        let (file, digest) = (folder.join(FILE_NAME), folder.join(DIGEST));
        let whole = fs::read(&file).unwrap();
        let middle = whole.len() / 2;
        let mut other = whole.clone();
        other[middle] ^= 1;
        for there in [&[], &whole[..64], &whole[..whole.len() - 1], &other] {
            fs::write(&file, there).unwrap();
            assert!(!is_as_installed(&folder, Level::Hsa));
            assert!(install(cache.path(), Level::Hsa).is_ok());
            assert!(fs::read(&file).unwrap() == whole && is_as_installed(&folder, Level::Hsa));
        }
        fs::remove_file(&digest).unwrap();
        assert!(!is_as_installed(&folder, Level::Hsa) && install(cache.path(), Level::Hsa).is_ok());
        assert!(is_as_installed(&folder, Level::Hsa));
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let Err(stop) = install(cache.path(), Level::Hsa) else {
            panic!("a folder is not a library")
        };
        assert!(format!("{stop:?}").contains("XDG_CACHE_HOME"), "{stop:?}");
    }
}
