//! Reads the release of the ROCm inside a Python package, and lists the HSA functions that this ROCm needs.
//!
//! PyTorch's wheels contain ROCm in `torch/lib`, TheRock's in `_rocm_sdk_core/lib` and `_rocm_sdk_libraries_*/lib`, and
//! wheels that auditwheel repaired in `NAME.libs`.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use object::{
    Endianness, Object as _, ObjectSymbol as _, ReadCache,
    elf::FileHeader64,
    read::elf::{ElfFile64, FileHeader as _},
};

use super::stack;
use crate::Version;

const HIP: &str = "libamdhip64";

/// Prefix of the file name of an HSA runtime, and prefix of the names of HSA functions.
const HSA: (&str, &str) = ("libhsa-runtime64", "hsa_");

/// Returns the ROCm release of a HIP runtime, given the path of its libamdhip64. The release is taken from the file's
/// name, from `.info/version` next to the file's folder, or from the newest symbol version that the file defines
/// (`hip_7.2`). `None` if none of these contains a release.
pub fn release_of(hip: &Path) -> Option<Version> {
    let folder = hip.parent()?;
    let by_files = stack::version(folder.parent().unwrap_or(folder), folder).0;
    by_files.or_else(|| {
        let versions = Elf::open(hip)?.versions();
        versions.iter().filter_map(|name| name.strip_prefix("hip_")?.parse::<Version>().ok()).max()
    })
}

/// Returns the HSA functions that the ROCm in a virtual environment needs but that `offered` does not contain, each
/// with the path of the library that needs it.
///
/// Only HIP runtimes, and libraries that need both HIP and HSA, are considered. Other libraries in the same folders,
/// for example those of tools, may never be loaded.
pub fn missing_functions(venv: &Path, offered: &BTreeSet<String>) -> Vec<(PathBuf, String)> {
    let mut missing = Vec::new();
    for file in libraries(venv) {
        let Some(elf) = Elf::open(&file) else { continue };
        let needs = elf.needed();
        let needs = |start: &str| needs.iter().any(|name| name.starts_with(start));
        if needs(HSA.0) && (is_hip(&file) || needs(HIP)) {
            let functions = elf.undefined(HSA.1).into_iter().filter(|name| !offered.contains(name));
            missing.extend(functions.map(|name| (file.clone(), name)));
        }
    }
    missing
}

/// Returns the names of the HSA functions that a library exports.
pub fn offered_functions(library: &Path) -> BTreeSet<String> {
    Elf::open(library).map(|elf| elf.defined(HSA.1)).unwrap_or_default()
}

fn is_hip(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(HIP))
}

/// Returns the shared libraries in the package folders of a Python virtual environment; an empty list if none of them
/// is a HIP runtime.
fn libraries(venv: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let mut files = Vec::new();
    for python in below(&venv.join("lib")) {
        for package in below(&python.join("site-packages")) {
            let is_repaired = package.extension().is_some_and(|extension| extension == "libs");
            files.extend(below(&if is_repaired { package } else { package.join("lib") }));
        }
    }
    files.retain(|file| {
        file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"))
            && file.is_file()
    });
    if !files.iter().any(|file| is_hip(file)) {
        return Vec::new();
    }
    // If symbolic links give a file several names, the file is returned only once.
    let mut seen = BTreeSet::new();
    files.sort();
    files.retain(|file| seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
    files
}

/// A shared library in ELF format. Only the needed parts of the file are read.
struct Elf(ReadCache<File>);

impl Elf {
    fn open(path: &Path) -> Option<Elf> {
        Some(Elf(ReadCache::new(File::open(path).ok()?)))
    }

    fn parse(&self) -> Option<ElfFile64<'_, Endianness, &ReadCache<File>>> {
        ElfFile64::parse(&self.0).ok()
    }

    fn needed(&self) -> Vec<String> {
        let read = || {
            let header = FileHeader64::<Endianness>::parse(&self.0).ok()?;
            let endian = header.endian().ok()?;
            let sections = header.sections(endian, &self.0).ok()?;
            let (entries, link) = sections.dynamic(endian, &self.0).ok()??;
            let strings = sections.strings(endian, &self.0, link).ok()?;
            let needed = entries
                .iter()
                .filter(|entry| entry.d_tag.get(endian).0 == object::elf::DT_NEEDED.0);
            let names = needed.filter_map(|entry| {
                let name = strings.get(u32::try_from(entry.d_val.get(endian)).ok()?).ok()?;
                Some(String::from_utf8_lossy(name).into_owned())
            });
            Some(names.collect())
        };
        read().unwrap_or_default()
    }

    fn versions(&self) -> Vec<String> {
        let read = || {
            let header = FileHeader64::<Endianness>::parse(&self.0).ok()?;
            let endian = header.endian().ok()?;
            let sections = header.sections(endian, &self.0).ok()?;
            let (mut definitions, link) = sections.gnu_verdef(endian, &self.0).ok()??;
            let strings = sections.strings(endian, &self.0, link).ok()?;
            let mut names = Vec::new();
            while let Ok(Some((_, mut auxiliary))) = definitions.next() {
                if let Ok(Some(first)) = auxiliary.next()
                    && let Ok(name) = strings.get(first.vda_name.get(endian))
                {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
            }
            Some(names)
        };
        read().unwrap_or_default()
    }

    /// Returns the functions that the library needs and whose names begin with `start`. Weak symbols are left out,
    /// because the library works without them.
    fn undefined(&self, start: &str) -> BTreeSet<String> {
        self.symbols(start, |symbol| symbol.is_undefined() && !symbol.is_weak())
    }

    fn defined(&self, start: &str) -> BTreeSet<String> {
        self.symbols(start, |symbol| symbol.is_definition())
    }

    fn symbols<'a>(
        &'a self,
        start: &str,
        wanted: impl Fn(
            &object::read::elf::ElfSymbol64<'a, '_, Endianness, &'a ReadCache<File>>,
        ) -> bool,
    ) -> BTreeSet<String> {
        let Some(file) = self.parse() else { return BTreeSet::new() };
        let symbols = file.dynamic_symbols().filter(|symbol| wanted(symbol));
        let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
        names.filter(|name| name.starts_with(start)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that a test writes: names of the libraries that it needs, symbol versions that it defines, and names
    /// of its undefined, weak undefined and defined functions.
    #[derive(Default)]
    struct Library<'a> {
        needed: &'a [&'a str],
        versions: &'a [&'a str],
        undefined: &'a [&'a str],
        weak: &'a [&'a str],
        defined: &'a [&'a str],
    }

    impl Library<'_> {
        /// Returns an ELF file that contains the sections which the dynamic loader would read.
        fn elf(&self) -> Vec<u8> {
            let mut strings = vec![0u8];
            let mut string = |text: &str| {
                let at = strings.len() as u32;
                strings.extend(text.bytes().chain([0]));
                at
            };
            let mut symbols = vec![0u8; 24];
            let mut symbol = |name: u32, info: u8, section: u16| {
                symbols.extend(name.to_le_bytes());
                symbols.extend([info, 0]);
                symbols.extend(section.to_le_bytes());
                symbols.extend([0; 16]);
            };
            // 0x12 means STB_GLOBAL and STT_FUNC; 0x22 means STB_WEAK and STT_FUNC.
            self.undefined.iter().for_each(|name| symbol(string(name), 0x12, 0));
            self.weak.iter().for_each(|name| symbol(string(name), 0x22, 0));
            self.defined.iter().for_each(|name| symbol(string(name), 0x12, 1));
            let mut dynamic = Vec::new();
            // The first entry is DT_SONAME, which does not name a needed library. The DT_NEEDED entries follow.
            let soname = (14u64, string("libown.so"));
            let needed: Vec<_> = self.needed.iter().map(|name| (1u64, string(name))).collect();
            for (tag, name) in [soname].into_iter().chain(needed) {
                dynamic.extend(tag.to_le_bytes());
                dynamic.extend(u64::from(name).to_le_bytes());
            }
            dynamic.extend([0; 16]);
            let mut versions = Vec::new();
            for (at, name) in self.versions.iter().enumerate() {
                let next = if at + 1 < self.versions.len() { 28u32 } else { 0 };
                for half in [1u16, 0, at as u16 + 1, 1] {
                    versions.extend(half.to_le_bytes());
                }
                for word in [0, 20, next, string(name), 0] {
                    versions.extend(word.to_le_bytes());
                }
            }
            let name = string(".x");
            // Each tuple describes a section: type, linked section, number of entries, size of an entry in bytes, and
            // content.
            let sections: [(u32, u32, u32, u64, &[u8]); 5] = [
                (0, 0, 0, 0, &[]),
                (3, 0, 0, 0, &strings),
                (11, 1, 1, 24, &symbols),
                (6, 1, 0, 16, &dynamic),
                (0x6fff_fffd, 1, self.versions.len() as u32, 0, &versions),
            ];
            let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
            elf.resize(64, 0);
            let mut headers = Vec::new();
            for (kind, link, info, entry, content) in sections {
                let at = elf.len() as u64;
                elf.extend(content);
                for word in [name, kind] {
                    headers.extend(word.to_le_bytes());
                }
                for word in [0, 0, at, content.len() as u64] {
                    headers.extend(u64::to_le_bytes(word));
                }
                for word in [link, info] {
                    headers.extend(word.to_le_bytes());
                }
                for word in [1, entry] {
                    headers.extend(u64::to_le_bytes(word));
                }
            }
            let table = elf.len() as u64;
            elf.extend(headers);
            let mut put =
                |at: usize, bytes: &[u8]| elf[at..at + bytes.len()].copy_from_slice(bytes);
            put(16, &3u16.to_le_bytes()); // ET_DYN
            put(18, &62u16.to_le_bytes()); // EM_X86_64
            put(20, &1u32.to_le_bytes());
            put(40, &table.to_le_bytes()); // e_shoff
            put(52, &64u16.to_le_bytes());
            put(58, &64u16.to_le_bytes()); // e_shentsize
            put(60, &5u16.to_le_bytes()); // e_shnum
            put(62, &1u16.to_le_bytes()); // e_shstrndx
            elf
        }
    }

    fn write(path: &Path, library: &Library<'_>) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, library.elf()).unwrap();
    }

    #[test]
    fn lists_the_missing_functions_of_loaded_libraries() {
        let venv = tempfile::tempdir().unwrap();
        let site = venv.path().join("lib/python3.11/site-packages");
        let needs_hsa = Library {
            needed: &["libc.so.6", "libhsa-runtime64.so.1"],
            undefined: &["hsa_init", "hsa_new", "memcpy"],
            weak: &["hsa_optional"],
            ..Library::default()
        };
        write(&site.join("torch/lib/libamdhip64.so"), &needs_hsa);
        // This library needs the same HSA functions but not HIP, so it is not considered.
        write(&site.join("torch/lib/libtool.so"), &needs_hsa);
        let both = Library { needed: &["libamdhip64.so.7", "libhsa-runtime64.so.1"], ..needs_hsa };
        write(&site.join("repaired.libs/libboth.so.1"), &both);
        write(&site.join("torch/lib/notes.txt"), &both);
        let offered = BTreeSet::from(["hsa_init".to_owned()]);
        let missing = missing_functions(venv.path(), &offered);
        let expected = ["repaired.libs/libboth.so.1", "torch/lib/libamdhip64.so"];
        assert_eq!(missing, expected.map(|path| (site.join(path), "hsa_new".to_owned())));

        fs::remove_file(site.join("torch/lib/libamdhip64.so")).unwrap();
        assert!(missing_functions(venv.path(), &offered).is_empty(), "it has no HIP runtime");
    }

    #[test]
    fn lists_the_functions_that_a_library_exports() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libhsa-runtime64.so.1");
        let library = Library {
            defined: &["hsa_init", "hsa_shut_down", "other"],
            undefined: &["hsa_needed"],
            ..Library::default()
        };
        write(&path, &library);
        let expected = ["hsa_init", "hsa_shut_down"].map(str::to_owned);
        assert_eq!(offered_functions(&path), BTreeSet::from(expected));
        assert!(offered_functions(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn reads_the_release_from_the_newest_version_of_the_functions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("torch/lib/libamdhip64.so");
        let versions = ["libamdhip64.so", "hip_6.4", "hip_7.2", "hip_4.2"];
        write(&path, &Library { versions: &versions, ..Library::default() });
        assert_eq!(release_of(&path).unwrap().to_string(), "7.2");
        let info = folder.path().join("torch/.info");
        fs::create_dir(&info).unwrap();
        fs::write(info.join("version"), "6.4.3\n").unwrap();
        assert_eq!(release_of(&path).unwrap().to_string(), "6.4.3");
        assert_eq!(release_of(Path::new("/nonexistent/libamdhip64.so")), None);
    }
}
