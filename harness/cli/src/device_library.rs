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
const BUILT: (&str, usize, &[u8]) = packed::file!("ROCREPRO_BUILT_DEVICE");

fn unpacked() -> io::Result<Vec<u8>> {
    let (_, length, packed) = BUILT;
    let mut library = Vec::with_capacity(length);
    ZlibDecoder::new(packed).read_to_end(&mut library)?;
    Ok(library)
}

/// Unpacks the device library below the cache folder, where it is not yet, and returns the folder that holds it as
/// `libhsa-runtime64.so.1`. Each build of it has a folder of its own, so that nothing that runs is disturbed.
pub(crate) fn install(cache: &Path) -> Result<PathBuf, Stop> {
    let failed = |e: &dyn std::error::Error| {
        Stop::no_verdict(format!("error: cannot install the emulated device: {}", chain(e)))
    };
    let given = std::env::var_os("ROCREPRO_DEVICE_LIBRARY");
    let given = given.map(|path| read(Path::new(&path))).transpose().map_err(|e| failed(&e))?;
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
    // It appears in one step; what is not whole is what a full disk, another program or another version of this one left.
    if hsa_runtime64::install::is_whole(&folder.join(FILE_NAME)) {
        return Ok(folder);
    }
    let library = given.map_or_else(unpacked, Ok).map_err(|e| failed(&e))?;
    hsa_runtime64::install::install(&library, &folder).map_err(|e| failed(&e))?;
    Ok(folder)
}

/// The file of the device library below the cache folder of this user, unpacked where it is not yet.
pub(crate) fn file() -> Result<PathBuf, Stop> {
    Ok(install(&cache::folder()?)?.join(FILE_NAME))
}

/// A library that somebody names instead of the one that is built in.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
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
}
