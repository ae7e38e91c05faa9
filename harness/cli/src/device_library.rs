//! The emulated device's library: a part of this program, unpacked under the name that HIP looks for.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use flate2::read::ZlibDecoder;
use hsa_runtime64::install::FILE_NAME;

use crate::{Stop, cache, stop::chain};

/// The library as it was built with this program: its digest, its length in bytes, and itself, packed.
const BUILT: (&str, usize, &[u8]) = embed::file!("ROCREPRO_BUILT_DEVICE");

fn unpacked() -> io::Result<Vec<u8>> {
    let (_, length, packed) = BUILT;
    let mut library = Vec::with_capacity(length);
    ZlibDecoder::new(packed).read_to_end(&mut library)?;
    Ok(library)
}

/// Beside the library: the digest of what was installed, by which a file is known that was damaged or replaced.
const DIGEST: &str = "digest";

/// Unpacks the device library below the cache folder, where it is not yet or is not what was installed, and returns the folder that
/// holds it as `libhsa-runtime64.so.1`. Each build of it has a folder of its own, so that nothing that runs is disturbed.
pub(crate) fn install(cache: &Path) -> Result<PathBuf, Stop> {
    let given = given()?;
    let build = given.as_deref().map_or_else(|| BUILT.0.to_owned(), plan::digest);
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
    if is_as_installed(&folder) {
        return Ok(folder);
    }
    let from_variable = given.is_some();
    let placed = given.map_or_else(unpacked, Ok).map_err(|e| e.to_string()).and_then(|library| {
        let file = hsa_runtime64::install::install(&library, &folder).map_err(|e| chain(&e))?;
        let digest = plan::digest(&fs::read(file).map_err(|e| e.to_string())?);
        atomic::write(&folder.join(DIGEST), digest).map_err(|e| e.to_string())
    });
    placed.map_err(|why| {
        let what = match from_variable {
            true => "ROCREPRO_DEVICE_LIBRARY names the library as cargo builds it, libhsa_runtime64.so",
            false => "give this folder room and leave to write there, or name another cache in XDG_CACHE_HOME",
        };
        let folder = folder.display();
        Stop::no_verdict(format!("error: cannot install the emulated device in {folder}: {why}\nhelp: {what}"))
    })?;
    Ok(folder)
}

/// The GNU build id of the library that is installed in a folder.
pub(crate) fn build_id(folder: &Path) -> Option<String> {
    stacks::build_id(&folder.join(FILE_NAME))
}

/// Whether a folder holds what was installed there.
fn is_as_installed(folder: &Path) -> bool {
    let regular = |name| {
        let file = folder.join(name);
        fs::metadata(&file).is_ok_and(|file| file.is_file()).then(|| fs::read(file).ok()).flatten()
    };
    regular(FILE_NAME)
        .zip(regular(DIGEST))
        .is_some_and(|(library, digest)| plan::digest(&library).as_bytes() == digest)
}

/// A library that somebody names instead of the one that is built in.
fn given() -> Result<Option<Vec<u8>>, Stop> {
    let Some(path) = std::env::var_os("ROCREPRO_DEVICE_LIBRARY").filter(|path| !path.is_empty())
    else {
        return Ok(None);
    };
    let read = match fs::metadata(&path) {
        Ok(file) if !file.is_file() => Err("it is no file".to_owned()),
        Ok(_) => fs::read(&path).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    read.map(Some).map_err(|why| {
        let path = Path::new(&path).display();
        Stop::no_verdict(format!(
            "error: cannot read the library that ROCREPRO_DEVICE_LIBRARY names, {path}: {why}"
        ))
    })
}

/// The file of the device library below the cache folder of this user, unpacked where it is not yet.
pub(crate) fn file() -> Result<PathBuf, Stop> {
    Ok(install(&cache::folder()?)?.join(FILE_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_built_in_whole() {
        let (digest, length, packed) = BUILT;
        let library = unpacked().unwrap();
        assert_eq!((library.len(), plan::digest(&library)), (length, digest.to_owned()));
        assert!(packed.len() < length / 2, "{} of {length}", packed.len());
        let folder = tempfile::tempdir().unwrap();
        hsa_runtime64::install::install(&library, folder.path()).unwrap();
    }

    #[test]
    fn a_library_that_is_not_as_it_was_installed_is_placed_anew() {
        let cache = tempfile::tempdir().unwrap();
        let folder = install(cache.path()).unwrap_or_else(|stop| panic!("{stop:?}"));
        let (file, digest) = (folder.join(FILE_NAME), folder.join(DIGEST));
        let whole = fs::read(&file).unwrap();
        let middle = whole.len() / 2;
        let mut other = whole.clone();
        other[middle] ^= 1;
        for there in [&[], &whole[..64], &whole[..whole.len() - 1], &other] {
            fs::write(&file, there).unwrap();
            assert!(!is_as_installed(&folder));
            assert!(install(cache.path()).is_ok());
            assert!(fs::read(&file).unwrap() == whole && is_as_installed(&folder));
        }
        fs::remove_file(&digest).unwrap();
        assert!(!is_as_installed(&folder) && install(cache.path()).is_ok());
        assert!(is_as_installed(&folder));
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let Err(stop) = install(cache.path()) else { panic!("a folder is no library") };
        assert!(format!("{stop:?}").contains("XDG_CACHE_HOME"), "{stop:?}");
    }
}
