//! The emulated device's library: a part of this program, unpacked under the name that HIP looks for.

use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
};

use hsa_runtime64::install::FILE_NAME;
use object::Object;

use crate::{Stop, cache, stop::chain};

// The file is read when this crate is compiled to machine code and not before, so that `cargo check`, which builds no library,
// does without it. When the library is built anew, so is this crate, which depends on it.
std::arch::global_asm!(
    ".pushsection .rodata.rocrepro_built_device,\"a\",@progbits",
    ".globl rocrepro_built_device_begin",
    ".globl rocrepro_built_device_end",
    "rocrepro_built_device_begin:",
    concat!(".incbin \"", env!("ROCREPRO_BUILT_DEVICE"), "\""),
    "rocrepro_built_device_end:",
    ".popsection",
    options(raw)
);

/// The library as it was built with this program.
fn built() -> &'static [u8] {
    unsafe extern "C" {
        #[link_name = "rocrepro_built_device_begin"]
        static BEGIN: u8;
        #[link_name = "rocrepro_built_device_end"]
        static END: u8;
    }
    let (begin, end) = (&raw const BEGIN, &raw const END);
    // SAFETY: the labels above enclose the bytes of one file, in a section that is mapped, never written and never unmapped.
    unsafe { std::slice::from_raw_parts(begin, end.addr() - begin.addr()) }
}

/// Unpacks the device library below the cache folder, where it is not yet, and returns the folder that holds it as
/// `libhsa-runtime64.so.1`. Each build of it has a folder of its own, so that nothing that runs is disturbed.
pub(crate) fn install(cache: &Path) -> Result<PathBuf, Stop> {
    let failed = |e: &dyn std::error::Error| {
        Stop::no_verdict(format!("error: cannot install the emulated device: {}", chain(e)))
    };
    let library = match std::env::var_os("ROCREPRO_DEVICE_LIBRARY") {
        Some(path) => Cow::Owned(read(Path::new(&path)).map_err(|e| failed(&e))?),
        None => Cow::Borrowed(built()),
    };
    let folder = cache.join("device").join(build_of(&library));
    // ld.so(8): two of these characters separate the folders of a library path, one begins a name that is replaced, and there is
    // no escape.
    if folder.to_string_lossy().contains([':', ';', '$']) {
        return Err(Stop::usage(format!(
            "error: the dynamic loader cannot be told of `{}`, as its path has a colon, semicolon or dollar; name \
             another cache in XDG_CACHE_HOME",
            folder.display()
        )));
    }
    // It appears in one step; of another length it is what a full disk, another program or another version of this one left.
    let there = fs::metadata(folder.join(FILE_NAME));
    let len = hsa_runtime64::install::installed_len(&library).map_err(|e| failed(&e))?;
    if there.is_ok_and(|file| file.is_file() && file.len() == len) {
        return Ok(folder);
    }
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

/// A name for one build of the library: its linker's digest of it, since another one at every start would cost more than a
/// trial.
fn build_of(library: &[u8]) -> String {
    let object = object::File::parse(library).ok();
    match object.as_ref().and_then(|object| object.build_id().ok().flatten()) {
        Some(id) => id.iter().map(|byte| format!("{byte:02x}")).collect(),
        None => plan::digest(library),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_built_in_whole_and_says_which_build_it_is() {
        let folder = tempfile::tempdir().unwrap();
        hsa_runtime64::install::install(built(), folder.path()).unwrap();
        let build = build_of(built());
        assert_eq!(build.len(), 40, "{build}: 20 bytes of SHA-1");
        assert_ne!(build_of(b"no library"), build_of(b"another"));
    }
}
