use std::{collections::BTreeMap, fs, path::Path};

use plan::{LoadedLibrary, digest};

use crate::tell::tell;

/// Prefixes of the names of libraries that take part in compiling source to code.
const COMPILERS: [&str; 5] = ["libamdhip64", "libhiprtc", "libamd_comgr", "libLLVM", "libclang"];

/// Returns the file name of a compiled kernel: a digest of everything that determines its code. Returns `None` if the
/// compiler cannot be identified, because the cache could then return code that another compiler generated.
pub(crate) fn key(
    source: &str,
    options: &[String],
    environment: &BTreeMap<String, String>,
    libraries: &[LoadedLibrary],
) -> Option<String> {
    let mut compilers = Vec::new();
    for library in libraries {
        if COMPILERS.iter().any(|name| library.name.starts_with(name)) {
            compilers.push((library.name.as_str(), library.build_id.as_deref()?));
        }
    }
    compilers.sort_unstable();
    compilers.dedup();
    // Without comgr in the process, the compiler has not been loaded yet.
    compilers.iter().find(|(name, _)| name.starts_with("libamd_comgr"))?;
    // The debug format separates and escapes the elements, so that different lists result in different strings.
    let variables: Vec<_> = environment
        .iter()
        .filter(|(name, _)| !IRRELEVANT_VARIABLES.contains(&name.as_str()))
        .collect();
    let identity = format!("{FORMAT} {source:?} {options:?} {variables:?} {compilers:?}");
    Some(format!("{}.co", digest(identity.as_bytes())))
}

/// Version of the file format. The version is hashed into the file name, so programs with another version never read
/// the file.
const FORMAT: u32 = 2;

/// Environment variables that no GPU kernel compiler reads. Any other variable may change the compiler's options.
const IRRELEVANT_VARIABLES: [&str; 11] = [
    "PATH",
    "HOME",
    "LANG",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "ROCM_PATH",
    "AMD_COMGR_CACHE_DIR",
    "AMD_COMGR_CACHE_POLICY",
    "ROCREPRO_DEVICE",
    "ROCREPRO_TRIAL",
];

/// Reads a compiled GPU kernel from a file of the cache, which contains the code followed by its [`seal`]. Returns
/// `None` if the file is missing or damaged.
pub(crate) fn read(file: &Path) -> Option<Vec<u8>> {
    // Only regular files are read, because a device file may be endless and reading a pipe may block.
    let mut code = fs::symlink_metadata(file)
        .ok()
        .filter(fs::Metadata::is_file)
        .and_then(|_| fs::read(file).ok())?;
    let seal = code.split_off(code.len().checked_sub(SEAL_LENGTH)?);
    if code.is_empty() || seal != self::seal(file, &code).as_bytes() {
        tell(format_args!("{} is damaged and will be compiled again", file.display()));
        return None;
    }
    Some(code)
}

/// Length of a seal: a digest in hexadecimal, in bytes.
const SEAL_LENGTH: usize = 32;

/// Returns a digest of the code and of its file name, so that a copy of another kernel's file is detected.
fn seal(file: &Path, code: &[u8]) -> String {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    digest(&[name, b"\0", code].concat())
}

/// Writes a compiled GPU kernel to a file of the cache. If several trials write the same file at the same time, the
/// last one wins. If writing fails, the next trial only has to compile again.
pub(crate) fn write(file: &Path, code: &[u8]) {
    if let Err(error) = atomic::write(file, [code, seal(file, code).as_bytes()].concat()) {
        tell(format_args!("{} is not cached: {error}", file.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, build_id: Option<&str>) -> LoadedLibrary {
        LoadedLibrary {
            name: name.into(),
            path: format!("/lib/{name}"),
            build_id: build_id.map(str::to_owned),
        }
    }

    #[test]
    fn key_depends_on_everything_that_determines_the_code() {
        let hip = library("libamdhip64.so.7", Some("aa"));
        let comgr = library("libamd_comgr.so.3", Some("bb"));
        let options = ["--offload-arch=gfx1151".to_owned(), "-O3".to_owned()];
        let none = BTreeMap::new();
        let base = key("source", &options, &none, &[hip.clone(), comgr.clone()]).unwrap();

        let same = [
            ("source", &options[..], vec![comgr.clone(), hip.clone()]),
            (
                "source",
                &options[..],
                vec![hip.clone(), comgr.clone(), library("libhiprand.so.1", Some("cc"))],
            ),
        ];
        for (source, options, libraries) in same {
            assert_eq!(key(source, options, &none, &libraries).as_ref(), Some(&base));
        }
        let merged = ["--offload-arch=gfx1151\", \"-O3".to_owned()];
        let different = [
            ("Source", &options[..], vec![hip.clone(), comgr.clone()]),
            ("source", &options[..1], vec![hip.clone(), comgr.clone()]),
            ("source", &merged[..], vec![hip.clone(), comgr]),
            ("source", &options[..], vec![hip.clone(), library("libamd_comgr.so.3", Some("b2"))]),
        ];
        for (source, options, libraries) in different {
            assert_ne!(key(source, options, &none, &libraries), Some(base.clone()));
        }
        let with = |name: &str| -> BTreeMap<String, String> { [(name.into(), "1".into())].into() };
        let libraries = [hip, library("libamd_comgr.so.3", Some("bb"))];
        let same = key("source", &options, &with("TMPDIR"), &libraries);
        assert_eq!(same.as_ref(), Some(&base));
        let adds = key("source", &options, &with("HIPRTC_COMPILE_OPTIONS_APPEND"), &libraries);
        assert_ne!(adds.as_ref(), Some(&base));
    }

    #[test]
    fn unidentified_compiler_is_not_cached() {
        let hip = library("libamdhip64.so.7", Some("aa"));
        assert_eq!(key("source", &[], &BTreeMap::new(), std::slice::from_ref(&hip)), None);
        assert_eq!(
            key("source", &[], &BTreeMap::new(), &[hip, library("libamd_comgr.so.3", None)]),
            None
        );
    }
    #[test]
    fn damaged_kernels_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kernel.co");
        let code: Vec<u8> = (0..100).collect();
        write(&file, &code);
        assert_eq!(read(&file), Some(code.clone()));
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert_eq!(read(&file), None, "file cut off after {cut} bytes");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0x10;
            fs::write(&file, other).unwrap();
            assert_eq!(read(&file), None, "changed bit in byte {at}");
        }
        write(&file, &code);
        let other = folder.path().join("other.co");
        fs::copy(&file, &other).unwrap();
        assert_eq!(read(&other), None, "the code was sealed under another file name");
        fs::remove_file(&other).unwrap();
        assert_eq!(read(&file), Some(code));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("device")).unwrap();
        assert_eq!(read(&folder.path().join("device")), None);
    }
}
