use std::{fs, path::Path};

use plan::{LoadedLibrary, digest};

/// The libraries that turn source into code, by how their names begin.
const COMPILERS: [&str; 5] = ["libamdhip64", "libhiprtc", "libamd_comgr", "libLLVM", "libclang"];

/// The file name of a compiled kernel: a digest of all that decides its bytes. None where the compiler cannot be identified, so
/// that nothing of another compiler is ever taken.
pub(crate) fn key(source: &str, options: &[String], libraries: &[LoadedLibrary]) -> Option<String> {
    let mut compilers = Vec::new();
    for library in libraries {
        if COMPILERS.iter().any(|name| library.name.starts_with(name)) {
            compilers.push((library.name.as_str(), library.build_id.as_deref()?));
        }
    }
    compilers.sort_unstable();
    compilers.dedup();
    // Without comgr in the process the compiler is not loaded yet.
    compilers.iter().find(|(name, _)| name.starts_with("libamd_comgr"))?;
    // Debug output separates and escapes the parts, so that no two lists look alike.
    let identity = format!("{source:?} {options:?} {compilers:?}");
    Some(format!("{}.co", digest(identity.as_bytes())))
}

/// A compiled kernel, where the cache has it.
pub(crate) fn read(file: &Path) -> Option<Vec<u8>> {
    fs::read(file).ok().filter(|code| !code.is_empty())
}

/// Adds a compiled kernel. Trials that run at the same time may both write it: each to a file of its own, and the last rename wins.
/// Failure only costs the next trial a compilation.
pub(crate) fn write(file: &Path, code: &[u8]) {
    let own = file.with_extension(std::process::id().to_string());
    let written = fs::write(&own, code).and_then(|()| fs::rename(&own, file));
    if let Err(error) = written {
        eprintln!("worker: {} is not cached: {error}", file.display());
        // Nothing else can be done about a full disk.
        let _ = fs::remove_file(&own);
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
    fn the_key_depends_on_all_that_decides_the_code() {
        let hip = library("libamdhip64.so.7", Some("aa"));
        let comgr = library("libamd_comgr.so.3", Some("bb"));
        let options = ["--offload-arch=gfx1151".to_owned(), "-O3".to_owned()];
        let base = key("source", &options, &[hip.clone(), comgr.clone()]).unwrap();

        let same = [
            ("source", &options[..], vec![comgr.clone(), hip.clone()]),
            (
                "source",
                &options[..],
                vec![hip.clone(), comgr.clone(), library("libhiprand.so.1", Some("cc"))],
            ),
        ];
        for (source, options, libraries) in same {
            assert_eq!(key(source, options, &libraries).as_ref(), Some(&base));
        }
        let merged = ["--offload-arch=gfx1151\", \"-O3".to_owned()];
        let different = [
            ("Source", &options[..], vec![hip.clone(), comgr.clone()]),
            ("source", &options[..1], vec![hip.clone(), comgr.clone()]),
            ("source", &merged[..], vec![hip.clone(), comgr]),
            ("source", &options[..], vec![hip.clone(), library("libamd_comgr.so.3", Some("b2"))]),
        ];
        for (source, options, libraries) in different {
            assert_ne!(key(source, options, &libraries), Some(base.clone()));
        }
    }

    #[test]
    fn an_unidentified_compiler_is_not_cached() {
        let hip = library("libamdhip64.so.7", Some("aa"));
        assert_eq!(key("source", &[], std::slice::from_ref(&hip)), None);
        assert_eq!(key("source", &[], &[hip, library("libamd_comgr.so.3", None)]), None);
    }
}
